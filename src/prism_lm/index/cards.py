"""The card of a prototype: what it raises, what sets it off, and the passages it stands for."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prism_lm.index.passages import Passage, read_passage
from prism_lm.index.prototype_index import PrototypeIndex
from prism_lm.index.tables import FIELDS, LEVELS

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, kw_only=True)
class Word:
    """A vocabulary entry of a signature."""

    token: int
    text: str
    logit: float
    """Per unit of activation, centred over the vocabulary and less what the bank does on average."""


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """How often the prototype is active on one value, beside how common the value is in the whole corpus."""

    value: int
    """Token id, or number of the source."""
    text: str
    count: int
    undercount: int
    """By how much `count` may be too small; 0: it is exact."""
    share: float
    """Of the tokens where the prototype is active."""
    corpus_share: float
    lift: float
    """share / corpus_share: 1 says nothing special."""


@dataclass(frozen=True, kw_only=True)
class PrototypeCard:
    """Everything an index knows about one prototype."""

    prototype: int
    num_prototypes: int
    run: str
    corpus: str
    is_of_training_corpus: bool
    usage: int
    """Tokens of the corpus where it is active."""
    usage_share: float
    mass: float
    """Sum of its activations over the corpus."""
    mass_share: float
    mass_rank: int
    """1: the prototype with the largest mass."""
    coverage: float
    """The largest cosine with any token state of the corpus."""
    activation_quantiles: dict[str, float]
    """Of its activation where active, from a sample: "0.5" is the median. Empty if it is never active."""
    raised: tuple[Word, ...]
    lowered: tuple[Word, ...]
    triggers: dict[str, tuple[Trigger, ...]]
    """Under current, next and source: the commonest current tokens, next tokens, and sources."""
    neighbours: tuple[Passage, ...]
    """Nearest first, each from another document."""
    bands: tuple[Passage, ...]
    """Drawn from equal bands of activation, strongest band first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def render(self, width: int = 100, *, neighbours: int | None = None) -> "Group":
        """The card for a terminal of this width, as a rich renderable, with all neighbours or so many."""
        from prism_lm.index.card_text import render_card

        return render_card(self, width, neighbours)

    def text(self, width: int = 100) -> str:
        """The card as plain text."""
        from prism_lm.index.terminal import plain_text

        return plain_text(self.render(width), width)

    def _repr_html_(self) -> str:
        from prism_lm.index.card_html import card_html

        return card_html(self)


def card(run: str | Path, prototype: int, *, corpus: str | Path | None = None) -> PrototypeCard:
    """The card of one prototype of an indexed run. `corpus` says where the corpus is now, if it was moved.

    Raises:
        UserError: the run has no index, the prototype does not exist, or the corpus is gone or another one.
    """
    return PrototypeIndex.open(run, corpus=corpus).card(prototype)


def make_card(index: PrototypeIndex, prototype: int) -> PrototypeCard:
    """The card of one prototype of an opened index."""
    (row,) = index.rows("prototypes", prototype)
    passages = [read_passage(index.corpus, example) for example in index.rows("examples", prototype)]
    levels = row["activation_quantiles"]
    return PrototypeCard(
        prototype=prototype,
        num_prototypes=index.num_prototypes,
        run=str(index.run.path),
        corpus=str(index.corpus_path),
        is_of_training_corpus=index.is_of_training_corpus,
        usage=row["usage"],
        usage_share=row["usage_share"],
        mass=row["mass"],
        mass_share=row["mass_share"],
        mass_rank=index.rank_by_mass(prototype),
        coverage=row["coverage"],
        activation_quantiles={} if levels is None else dict(zip(map(str, LEVELS), levels, strict=True)),
        raised=words_of(row, "raised"),
        lowered=words_of(row, "lowered"),
        triggers=_triggers(index.rows("triggers", prototype)),
        neighbours=tuple(passage for passage in passages if passage.kind != "band"),
        bands=tuple(passage for passage in passages if passage.kind == "band"),
    )


def words_of(row: dict[str, Any], name: Literal["raised", "lowered"]) -> tuple[Word, ...]:
    """The signature's words in a row of the prototypes table, most raised or most lowered first."""
    columns = zip(row[f"{name}_tokens"], row[f"{name}_words"], row[f"{name}_logits"], strict=True)
    return tuple(Word(token=token, text=text, logit=logit) for token, text, logit in columns)


def _triggers(rows: list[dict[str, Any]]) -> dict[str, tuple[Trigger, ...]]:
    names = Trigger.__dataclass_fields__
    return {
        field: tuple(Trigger(**{name: row[name] for name in names}) for row in rows if row["field"] == field)
        for field in FIELDS
    }
