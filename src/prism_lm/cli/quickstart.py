"""`prism quickstart`: text, model, index, a traced sentence and a control, with nothing to download."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.manifest import read_manifest, verify_files
from prism_lm.artifacts.units import format_bytes, format_count, format_seconds
from prism_lm.cli import console
from prism_lm.corpus.config import PrepareConfig
from prism_lm.index.config import IndexConfig
from prism_lm.training.config import Recipe, TrainingConfig
from prism_lm.training.recipes import quickstart as quickstart_recipe

INTERRUPTED = 130
VOCABULARY = 2048
HELD_OUT = 0.02
LEAST_BYTES = 20_000  # less holds too few documents to keep one in fifty apart


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """From nothing to a language model that you can look inside, in one command.

    Reads the documentation of the Python packages on this machine, trains a small model on it, finds out
    what each prototype stands for, lets the model write a sentence, shows what made each word, and switches
    the leading prototype off. Run it twice: what is whole is used again, what was interrupted goes on.
    """

    out: Path = Path("prism-quickstart")
    """Folder for the corpus and the run."""
    prompt: str = "Return the"
    """How the sentence begins."""
    seed: int = 0
    """Of the sentence."""
    max_bytes: int = 2_000_000
    """Documentation to read, at most, in bytes of text."""
    steps: int | None = None
    """Training steps. Without it: those of the recipe."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders that a quickstart makes."""

    out: Path

    @property
    def corpus(self) -> Path:
        """The text to train on; what is held out lies beside it."""
        return self.out / "corpus"

    @property
    def held_out(self) -> Path:
        """The text that is only read for figures."""
        return self.out / "corpus-heldout"

    @property
    def run(self) -> Path:
        """The model; its index lies inside."""
        return self.out / "run"


def run(arguments: Arguments) -> int | None:
    """Makes what is missing, stage by stage, and tells the story of one sentence."""
    begun = time.monotonic()
    _check(arguments)
    places = Places(out=arguments.out)
    console.note(f"prism quickstart in {places.out}\n")
    _stage(1, "corpus", lambda: _corpus(arguments, places))
    from prism_lm.training import TrainingStopped

    try:
        _stage(2, "model", lambda: _model(arguments, places))
    except TrainingStopped:
        console.note("stopped; the same command goes on from here")
        return INTERRUPTED
    _stage(3, "index", lambda: _index(places))

    from prism_lm.cli.story import tell

    tell(places.run, places.corpus, prompt=arguments.prompt, seed=arguments.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    console.note(f"\ntook {format_seconds(time.monotonic() - begun)}, at most {format_bytes(peak)} of memory")
    return None


def _check(arguments: Arguments) -> None:
    if arguments.steps is not None and arguments.steps < 1:
        raise UserError(f"--steps is {arguments.steps}; expected 1 or more")
    if arguments.max_bytes < LEAST_BYTES:
        raise UserError(f"--max-bytes is {arguments.max_bytes}; expected {LEAST_BYTES:,} or more")
    if arguments.out.exists() and not arguments.out.is_dir():
        raise UserError(f"{arguments.out} is not a folder; choose another --out")


def _stage(number: int, name: str, make: Callable[[], str]) -> None:
    begun = time.monotonic()
    said = make()
    console.note(f"{number} {name:<7} {said}  ({format_seconds(time.monotonic() - begun)})")


def _is_whole(folder: Path, kind: str) -> bool:
    """Whether the folder is there with all its files; says so where one is there and is not."""
    if not folder.exists():
        return False
    try:
        verify_files(folder, read_manifest(folder, kind=kind))
    except UserError as problem:
        console.note(f"{problem}; it is made again")
        return False
    return True


def _corpus(arguments: Arguments, places: Places) -> str:
    config = PrepareConfig(
        sources=("installed",),
        out=places.corpus,
        vocab_size=VOCABULARY,
        max_bytes=arguments.max_bytes,
        held_out=HELD_OUT,
        overwrite=True,
    )
    whole = all(_is_whole(folder, "corpus") for folder in (places.corpus, places.held_out))
    if whole:
        _check_settings(places, config)
    else:
        from prism_lm.corpus.prepare import prepare

        prepare(config, console.RichProgress())

    from prism_lm.corpus import Corpus

    made = Corpus.open(places.corpus)
    return (
        f"{'used again' if whole else 'made'}: {format_count(made.num_documents)} docstrings of "
        f"{len(made.source_names)} packages on this machine, {format_count(made.num_tokens)} tokens"
    )


def _check_settings(places: Places, config: PrepareConfig) -> None:
    known = read_manifest(places.corpus, kind="corpus").configuration
    if known.get("max_bytes") != config.max_bytes or known.get("sources") != list(config.sources):
        raise UserError(
            f"{places.corpus} was made with other settings (max-bytes {known.get('max_bytes')}); "
            "leave --max-bytes as it was, or choose another --out"
        )


def recipe(arguments: Arguments) -> Recipe:
    """The quickstart recipe, over the steps asked for."""
    made = quickstart_recipe()
    if arguments.steps is None:
        return made
    return replace(made, data=replace(made.data, steps=arguments.steps, tokens=None))


def _model(arguments: Arguments, places: Places) -> str:
    from prism_lm.artifacts.run import open_run
    from prism_lm.training import train

    begun, whole = (places.run / "training.json").exists(), (places.run / "manifest.json").exists()
    config = TrainingConfig(
        recipe=recipe(arguments), corpus=places.corpus, held_out=places.held_out, out=places.run
    )
    if begun:
        _check_same_training(config)
    train(config, console.RichProgress(), resume=begun)
    made = open_run(places.run)
    bank, figures = config.recipe.bank, made.manifest.figures
    held_out = f"; {figures['loss']['value']:.2f} nats a token on text it never saw"
    state = "used again" if whole else "finished" if begun else "trained"
    active = f"{bank.active_prototypes} of them active at a token"
    return f"{state}: {bank.num_prototypes:,} prototypes, {active}{held_out}"


def _check_same_training(config: TrainingConfig) -> None:
    """Raises UserError, in words of this command, where the run was begun for another number of steps."""
    from prism_lm.training import load_config

    known = load_config(config.out).recipe
    if known != config.recipe:
        raise UserError(
            f"{config.out} was begun with other settings ({known.data.steps or 'all'} steps); "
            "leave --steps as it was, or choose another --out"
        )


def _index(places: Places) -> str:
    from prism_lm.index.build import build_index
    from prism_lm.index.prototype_index import PrototypeIndex

    config = IndexConfig(run=places.run, corpus=places.corpus, overwrite=True)
    whole = _is_whole(places.run / "index", "index") and _belongs(places)
    index = PrototypeIndex.open(places.run) if whole else build_index(config, console.RichProgress())
    count = index.manifest.figures["prototypes_used"]
    used = f"{count:,} of {index.num_prototypes:,}"
    short = "; the others have found no use yet: train longer" if count < 0.9 * index.num_prototypes else ""
    return f"{'used again' if whole else 'made'}: {used} prototypes stand for passages{short}"


def _belongs(places: Places) -> bool:
    """Whether the index is of this run and this corpus."""
    from prism_lm.index.prototype_index import PrototypeIndex

    try:
        _ = PrototypeIndex.open(places.run).corpus
    except UserError as problem:
        console.note(f"{problem}; it is made again")
        return False
    return True
