"""The terms of each step, kept on the device until somebody reads them: no step waits for its own loss."""

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from prism_lm.artifacts.errors import PrismError
from prism_lm.training.batches import Totals
from prism_lm.training.metrics import Figure
from prism_lm.training.objective import Terms
from prism_lm.training.parallel import Ranks


class NotFiniteError(PrismError):
    """The loss or the gradient of a step is not a number. `step` is the first such."""

    def __init__(self, step: int, what: str, value: float) -> None:
        super().__init__(f"the {what} is {value} at step {step}")
        self.step = step


@dataclass(frozen=True, kw_only=True)
class StepTerms:
    """What one step computed, over all processes. Coverage terms are None while the bank takes no part."""

    step: int
    cross_entropy: float
    predicted: int
    states: int
    reconstruction: float | None
    prototype_coverage: float | None
    """Mean of R1 over the step's micro-batches."""
    token_coverage: float | None
    gradient_norm: float
    bank_gradient_norm: float | None


class Ledger:
    """Steps whose terms have not been written to the metrics yet."""

    def __init__(
        self, ranks: Ranks, micro_batch: int, pending: list[dict[str, float | None]] | None = None
    ) -> None:
        self._ranks, self._micro_batch = ranks, micro_batch
        self._unread: list[tuple[int, Totals, bool, Tensor]] = []
        self._read = [StepTerms(**entry) for entry in pending or []]  # type: ignore[arg-type]

    def add(self, step: int, totals: Totals, terms: Terms, norms: tuple[Tensor, Tensor | None]) -> None:
        """Notes a step: its terms on this process, summed over its micro-batches."""
        here = terms.cross_entropy.float()
        clustered = terms.reconstruction is not None
        zero = torch.zeros_like(here)
        # The norms are the same on every process, and the rows are going to be added.
        shared = [zero if norm is None or not self._ranks.is_main else norm.float() for norm in norms]
        sums = [zero if term is None else term.float() for term in terms[1:4]]
        self._unread.append((step, totals, clustered, torch.stack([here, *sums, *shared])))

    def pending(self) -> list[dict[str, float | None]]:
        """What a checkpoint must hold for the next line of metrics to be what it would have been."""
        self.settle()
        return [asdict(entry) for entry in self._read]

    def settle(self) -> None:
        """Adds up over processes and reads what is still on the device.

        Raises:
            NotFiniteError: a loss or gradient norm is not finite.
        """
        if not self._unread:
            return
        rows = self._ranks.sum(torch.stack([row for *_, row in self._unread])).tolist()
        for (step, totals, clustered, _), row in zip(self._unread, rows, strict=True):
            cross_entropy, reconstruction, prototypes, tokens, norm, bank_norm = row
            self._read.append(
                StepTerms(
                    step=step,
                    cross_entropy=cross_entropy,
                    predicted=totals.predicted,
                    states=totals.states,
                    reconstruction=reconstruction if clustered else None,
                    prototype_coverage=prototypes / totals.micro_batches if clustered else None,
                    token_coverage=tokens if clustered else None,
                    gradient_norm=norm,
                    bank_gradient_norm=bank_norm if clustered else None,
                )
            )
        self._unread.clear()
        for entry in self._read:
            _check(entry)

    def take(self) -> dict[str, Figure]:
        """The figures of the steps since the last call."""
        self.settle()
        entries = list(self._read)
        self._read.clear()
        return summarise(entries, self._micro_batch)


def summarise(entries: list[StepTerms], micro_batch: int) -> dict[str, Figure]:
    """Means over the tokens of these steps, each with unit and set."""
    where = _where(entries)
    predicted = sum(entry.predicted for entry in entries)
    loss = sum(entry.cross_entropy for entry in entries) / max(1, predicted)
    norm = sum(entry.gradient_norm for entry in entries) / len(entries)
    figures = {
        "loss": Figure(value=loss, unit="nats per token", set=f"{predicted} predicted tokens of {where}"),
        "gradient_norm": Figure(value=norm, unit="norm before clipping, backbone", set=f"mean over {where}"),
    }
    clustered = [entry for entry in entries if entry.reconstruction is not None]
    return figures | (_coverage(clustered, micro_batch) if clustered else {})


def _coverage(entries: list[StepTerms], micro_batch: int) -> dict[str, Figure]:
    where, states = _where(entries), sum(entry.states for entry in entries)
    tokens = f"{states} tokens of {where}"
    means = {
        name: sum(getattr(entry, name) or 0.0 for entry in entries)
        for name in ("reconstruction", "token_coverage", "prototype_coverage", "bank_gradient_norm")
    }
    return {
        "reconstruction": Figure(
            value=means["reconstruction"] / states, unit="fraction of squared norm, (6)", set=tokens
        ),
        "R1": Figure(
            value=means["prototype_coverage"] / len(entries),
            unit="mean cosine, (7)",
            set=f"mean over single micro-batches of {micro_batch} sequences on one process, {where}",
        ),
        "R2": Figure(value=means["token_coverage"] / states, unit="mean cosine, (8)", set=tokens),
        "bank_gradient_norm": Figure(
            value=means["bank_gradient_norm"] / len(entries),
            unit="norm before clipping, bank",
            set=f"mean over {where}",
        ),
    }


def _where(entries: list[StepTerms]) -> str:
    first, last = entries[0].step + 1, entries[-1].step + 1
    return f"training step {first}" if first == last else f"training steps {first} to {last}"


def _check(entry: StepTerms) -> None:
    for what, value in (
        ("loss", entry.cross_entropy),
        ("reconstruction loss", entry.reconstruction),
        ("gradient norm", entry.gradient_norm),
        ("bank's gradient norm", entry.bank_gradient_norm),
    ):
        if value is not None and not math.isfinite(value):
            raise NotFiniteError(entry.step + 1, what, value)
