"""What `prepare` is asked to do. Imports nothing heavy: `--help` is built from it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from prism_lm.artifacts.errors import UserError

FIELD_ROLES = ("text", "id", "source", "url", "licence", "title")
MIN_VOCAB_SIZE = 257  # 256 bytes and the separator
HELD_OUT_SUFFIX = "-heldout"


@dataclass(frozen=True, kw_only=True)
class FieldNames:
    """Names of the fields of a record that play a role; None: recognised by name."""

    text: str | None = None
    id: str | None = None
    source: str | None = None
    url: str | None = None
    licence: str | None = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Everything that decides what a corpus holds.

    Raises:
        UserError: on construction, when two settings contradict each other or one is out of its range.
    """

    sources: tuple[str, ...]
    """Files, folders, `hf:NAME[:CONFIG]`, or `installed`."""
    out: Path
    """The corpus folder to make."""
    tokenizer: str | None = None
    """A Hugging Face tokenizer (folder or name) or another corpus; None: train a byte-level BPE here."""
    vocab_size: int = 4096
    """Entries of the tokenizer that is trained, the separator and 256 bytes included."""
    separator: str | None = None
    """The token put after each document; None: the tokenizer's end-of-text token."""
    tokenizer_sample_bytes: int = 64 * 2**20
    """Text that a tokenizer is trained on, at most."""
    fields: FieldNames = field(default_factory=FieldNames)
    recipe: str | None = None
    """Schema of a known data set: fineweb, fineweb-edu or nemotron-cc; None: by the data set's name."""
    split: str = "train"
    """Split of a Hugging Face data set."""
    held_out: float = 0.0
    """Share of the documents that goes to a second corpus, OUT-heldout."""
    held_out_by: Literal["document", "source"] = "document"
    """Whether single documents are held out or all documents of a source together."""
    on_error: Literal["stop", "skip"] = "stop"
    """At a bad document: stop and name it, or skip, count and report it."""
    max_documents: int | None = None
    """Documents taken from each source, at most."""
    max_bytes: int | None = None
    """UTF-8 bytes of text taken from each source, at most (whole documents)."""
    follow_links: bool = False
    """Also read files that a link in a source folder points to outside that folder."""
    overwrite: bool = False
    """Replace a corpus that stands at OUT, once the new one is whole."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise UserError("no source was given; give a file, a folder, hf:NAME, or installed")
        if not 0.0 <= self.held_out < 1.0:
            raise UserError(
                f"held-out is {self.held_out}; a share from 0 up to, but not including, 1 was expected"
            )
        if self.tokenizer is None and self.vocab_size < MIN_VOCAB_SIZE:
            raise UserError(
                f"vocab-size is {self.vocab_size}; at least {MIN_VOCAB_SIZE} was expected (all bytes and one)"
            )
        for name in ("tokenizer_sample_bytes", "max_documents", "max_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name.replace('_', '-')} is {value}; a positive number was expected")

    @property
    def held_out_path(self) -> Path:
        """Where the held-out corpus goes."""
        return self.out.with_name(self.out.name + HELD_OUT_SUFFIX)

    def content(self) -> dict[str, Any]:
        """The settings that decide the contents, as JSON: where the corpus lies is not among them."""
        settings = asdict(self)
        for name in ("out", "overwrite"):
            del settings[name]
        return settings
