"""Opening a run as a prototype model, with the refusals that belong to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.run import Run, open_run

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from prism_lm.model import PrismForCausalLM


def open_prototype_run(path: str | Path) -> Run:
    """Opens a run that has prototypes.

    Raises:
        UserError: it is no finished run, or a dense twin.
    """
    run = open_run(path)
    if run.is_dense:
        raise UserError(
            f"{run.path} is a dense run, which has no prototypes; give a run trained without --dense"
        )
    return run


def load_model(run: Run, device: Literal["auto", "cpu", "cuda"] = "auto") -> "PrismForCausalLM":
    """The run's model for reading: float32, evaluation mode, on the device."""
    import torch

    from prism_lm.model import PrismForCausalLM

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("the device cuda was asked for and torch finds none; use --device cpu")
    place = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    with _without_bars():
        model = PrismForCausalLM.from_pretrained(run.path, dtype=torch.float32)
    return model.to(place).eval()


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keeps transformers from drawing a bar for a load of a second; the setting is put back."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def load_tokenizer(run: Run, model: "PrismForCausalLM") -> "tuple[PreTrainedTokenizerFast, int]":
    """The run's tokenizer, and the id of the separator that stood between its training documents."""
    from prism_lm.corpus.tokenizer import load_fast

    return load_fast(str(run.path)), int(model.config.eos_token_id)


def sequence_length(run: Run) -> int:
    """Tokens in one training sequence: the context that the model knows."""
    return int(run.configuration["recipe"]["data"]["sequence_length"])
