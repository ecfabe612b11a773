"""`prism prepare`: files, folders and data sets -> a corpus."""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.text import Text

from prism_lm.artifacts.units import format_bytes, format_count, format_seconds
from prism_lm.artifacts.visible import visible
from prism_lm.cli import console
from prism_lm.corpus.config import FieldNames, PrepareConfig

if TYPE_CHECKING:
    from prism_lm.corpus import Corpus


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Turn text into a corpus: documents, their tokens, and the way back from each token to its text.

    A source is a file or folder of .txt, .md, .jsonl, .jsonl.gz or .parquet; hf:NAME or hf:NAME:CONFIG, a
    data set of Hugging Face, streamed (hf:fineweb, hf:fineweb-edu and hf:nemotron-cc are known by these
    names); or the word installed: the docstrings of the Python packages on this machine.
    """

    sources: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="SOURCE...", help_behavior_hint="")
    ]
    """Where the text is."""
    out: Path
    """The corpus folder to make."""
    tokenizer: str | None = None
    """A Hugging Face tokenizer (folder or name) or another corpus. Without it a byte-level BPE is trained."""
    vocab_size: int = PrepareConfig.vocab_size
    """Entries of the tokenizer that is trained, the separator and 256 bytes included."""
    tokenizer_sample_bytes: int = PrepareConfig.tokenizer_sample_bytes
    """Text that it is trained on, at most."""
    separator: str | None = None
    """The token put after each document. Without it: the tokenizer's end-of-text token."""
    text_field: str | None = None
    """Field with the text. Fields that are not given are recognised by name."""
    id_field: str | None = None
    """Field with the id of a document."""
    source_field: str | None = None
    """Field with the name of its source."""
    url_field: str | None = None
    """Field with its address."""
    licence_field: str | None = None
    """Field with its licence."""
    title_field: str | None = None
    """Field with its title."""
    recipe: Literal["fineweb", "fineweb-edu", "nemotron-cc"] | None = None
    """Read a data set with the schema of this one."""
    split: str = PrepareConfig.split
    """Split of a Hugging Face data set."""
    held_out: float = PrepareConfig.held_out
    """Share of the documents that goes to a second corpus, OUT-heldout."""
    held_out_by: Literal["document", "source"] = PrepareConfig.held_out_by
    """Hold out single documents, or all documents of a source together."""
    on_error: Literal["stop", "skip"] = PrepareConfig.on_error
    """At a bad document stop and name it, or skip it and count."""
    max_documents: int | None = None
    """Documents taken from each source, at most."""
    max_bytes: int | None = None
    """UTF-8 bytes of text taken from each source, at most."""
    follow_links: bool = False
    """Also read files that links in a source folder point to outside it."""
    overwrite: bool = False
    """Replace a corpus that stands at OUT, once the new one is whole."""
    plan: bool = False
    """Say what would be read and needed, and stop."""
    json: bool = False
    """One JSON document on stdout."""


def run(arguments: Arguments) -> None:
    """Says what it will take, makes the corpus, and says what was made and what comes next."""
    config = configuration(arguments)
    _announce(config, arguments)
    if arguments.plan:
        return
    from prism_lm.corpus.corpus import Corpus
    from prism_lm.corpus.prepare import prepare

    made = [prepare(config, console.RichProgress())]
    if config.held_out:
        made.append(Corpus.open(config.held_out_path))
    if arguments.json:
        console.show_json([{"path": str(corpus.path), **asdict(corpus.manifest)} for corpus in made])
    else:
        _report(made)


def configuration(arguments: Arguments) -> PrepareConfig:
    """The configuration that the command line asks for."""
    given = {name: value for name, value in vars(arguments).items() if name not in ("plan", "json")}
    fields = {name.removesuffix("_field"): given.pop(name) for name in list(given) if name.endswith("_field")}
    return PrepareConfig(**given, fields=FieldNames(**fields))


def _announce(config: PrepareConfig, arguments: Arguments) -> None:
    from prism_lm.corpus.estimate import estimate

    needed = estimate(config)
    if arguments.plan and arguments.json:
        console.show_json(asdict(needed))
        return
    text = "unknown" if needed.text_bytes is None else f"about {format_bytes(needed.text_bytes)}"
    disk = "unknown" if needed.disk_bytes is None else f"about {format_bytes(needed.disk_bytes)}"
    files = "" if needed.bytes_in is None else f"{needed.files:,} files, {format_bytes(needed.bytes_in)}; "
    console.note(f"reading  {files}text {text}")
    free, memory = format_bytes(needed.disk_free), format_bytes(needed.memory_bytes)
    console.note(f"needs    disk {disk} ({free} free), memory about {memory}")
    if needed.disk_bytes is not None and needed.disk_bytes > needed.disk_free:
        console.note("warning: the disk will probably not hold it; choose another folder, or less text")


def _report(made: "list[Corpus]") -> None:
    for corpus in made:
        figures = corpus.manifest.figures
        _say(
            f"made     {corpus.path}: {format_count(corpus.num_documents)} documents from "
            f"{format_count(figures['sources'])} sources, {format_bytes(figures['text_bytes'])} of text, "
            f"{format_count(corpus.num_tokens)} tokens, vocabulary {corpus.vocab_size:,}"
        )
    figures = made[0].manifest.figures
    for kind, count in figures["skipped"].items():
        examples = "; ".join(figures["skipped_examples"][kind])
        _say(f"skipped  {count:,} of kind {kind}: {visible(examples)}")
    _say(f"took     {format_seconds(figures['seconds'])}")
    _say(f"next     {_next_command(made)}")


def _next_command(made: "list[Corpus]") -> str:
    held_out = ["--held-out", str(made[1].path)] if len(made) > 1 else []
    return shlex.join(
        ["prism", "train", "quickstart", "--corpus", str(made[0].path), *held_out, "--out", "run"]
    )


def _say(line: str) -> None:
    """A line of the result, never broken: it holds paths and a command to copy."""
    console.stdout().print(Text(line), soft_wrap=True)
