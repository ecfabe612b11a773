"""What a trace says: for each output token, the prototypes that made its logit, and the passages behind
them."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from prism_lm.index.cards import Word
from prism_lm.index.passages import Passage
from prism_lm.index.prototype_index import as_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Group


@dataclass(frozen=True, kw_only=True)
class SliceOfLogit:
    """What one prototype adds to a token's logit: a_ti (W p_i)_v of (4), centred or against the rival."""

    prototype: int
    activation: float
    slice: float


@dataclass(frozen=True, kw_only=True)
class Rival:
    """The token that an output token is held against."""

    token: int
    text: str
    probability: float
    rank: int


@dataclass(frozen=True, kw_only=True)
class TokenTrace:
    """One output token taken apart: sum of slices + others + residual = logit."""

    position: int
    """Place in prompt and output together, counted in tokens."""
    token: int
    text: str
    probability: float
    rank: int
    """1: the likeliest token of the vocabulary there."""
    logit: float
    """Less its mean over the vocabulary; or, with a rival, less the rival's logit."""
    leading: tuple[SliceOfLogit, ...]
    """The prototypes with the largest slices by size, largest first."""
    others: float
    """What the other active prototypes add together."""
    num_others: int
    residual: float
    """What the part of the state that no prototype explains adds: (W r_t)_v."""
    error: float
    """|sum of slices + others + residual - logit|, the logit being that of the model's own forward pass."""
    rival: Rival | None

    @property
    def by_prototypes(self) -> float:
        """What all prototypes add together."""
        return sum(one.slice for one in self.leading) + self.others

    @property
    def named_others(self) -> str:
        """What their row is called."""
        return f"{self.num_others} other{'' if self.num_others == 1 else 's'}"

    @property
    def largest_part(self) -> float:
        """The size of the largest single part, which the longest bar stands for (others are many in one)."""
        return max(abs(part) for part in (*(one.slice for one in self.leading), self.residual))


@dataclass(frozen=True, kw_only=True)
class LeadingPrototype:
    """A prototype's part in the whole output."""

    prototype: int
    slice: float
    """Sum over the output's tokens."""
    tokens: int
    """Output tokens for which it was active."""
    raised: tuple[Word, ...]
    neighbours: tuple[Passage, ...]
    """The passages nearest to it. They are its neighbours: no score of influence stands behind them."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """An output taken apart, token by token.

    `slice` and `logit` are in logits (nats of log-odds), centred over the vocabulary, or differences to
    the rival.
    """

    run: str
    corpus: str | None
    """None: the run has no index, so no passages are shown."""
    is_of_training_corpus: bool
    prompt: str
    output: str
    prompt_tokens: tuple[str, ...]
    written_by_model: bool
    seed: int | None
    temperature: float | None
    versus: str | None
    tokens: tuple[TokenTrace, ...]
    leading: tuple[LeadingPrototype, ...]
    """The prototypes with the largest parts in the whole output, by size of the sum."""
    behind: dict[int, LeadingPrototype]
    """For every prototype that leads some token: its words and its passages."""
    notes: tuple[str, ...]
    """What a reader must know about how the trace was made."""
    tolerance: float
    """The largest error that float32 arithmetic explains."""

    @property
    def logit(self) -> float:
        """Sum of the logits of all output tokens."""
        return sum(token.logit for token in self.tokens)

    @property
    def by_prototypes(self) -> float:
        """What prototypes add to that sum."""
        return sum(token.by_prototypes for token in self.tokens)

    @property
    def residual(self) -> float:
        """What the residual adds to that sum."""
        return sum(token.residual for token in self.tokens)

    @property
    def largest_error(self) -> float:
        """The largest error of any token's sum."""
        return max((token.error for token in self.tokens), default=0.0)

    @property
    def adds_up(self) -> bool:
        """The sum check: every token's parts give its logit to floating-point error."""
        return self.largest_error <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, sums included."""
        plain = asdict(self)
        plain["behind"] = {str(prototype): asdict(entry) for prototype, entry in self.behind.items()}
        sums = {"logit": self.logit, "by_prototypes": self.by_prototypes, "residual": self.residual}
        return plain | {"sums": sums | {"largest_error": self.largest_error, "adds_up": self.adds_up}}

    def to_table(self) -> "pa.Table":
        """One row for each part of each token's logit, as a pyarrow Table."""
        import pyarrow as pa

        return pa.Table.from_pylist(
            [row for order, token in enumerate(self.tokens) for row in _rows(order, token)]
        )

    def to_frame(self) -> Any:
        """`to_table` as a pandas DataFrame where pandas is installed."""
        return as_frame(self.to_table())

    def render(self, width: int = 100) -> "Group":
        """The trace for a terminal of this width, as a rich renderable."""
        from prism_lm.attribution.trace_text import render_trace

        return render_trace(self, width)

    def text(self, width: int = 100) -> str:
        """The trace as plain text."""
        from prism_lm.index.terminal import plain_text

        return plain_text(self.render(width), width)

    def _repr_html_(self) -> str:
        from prism_lm.attribution.trace_html import trace_html

        return trace_html(self)

    def html_document(self) -> str:
        """The trace as a whole HTML file."""
        from prism_lm.attribution.trace_html import trace_html
        from prism_lm.index.html import document

        return document(f"trace of {self.prompt}", trace_html(self))


def _rows(order: int, token: TokenTrace) -> list[dict[str, Any]]:
    shared = {"order": order, "token": token.token, "text": token.text, "probability": token.probability}
    shared |= {"rank": token.rank, "logit": token.logit}
    parts = [("prototype", one.prototype, one.activation, one.slice) for one in token.leading]
    parts += [("other prototypes", None, None, token.others), ("residual", None, None, token.residual)]
    names = ("part", "prototype", "activation", "slice")
    return [shared | dict(zip(names, part, strict=True)) for part in parts]
