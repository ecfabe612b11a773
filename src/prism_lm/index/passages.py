"""A passage: one token of the corpus that activates a prototype, in its context, with document and
offsets."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prism_lm.corpus import Corpus
from prism_lm.index.arrays import Integers

TOKENS_BEFORE, TOKENS_AFTER = 32, 16


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A token of a document that activates a prototype. It is a neighbour of the prototype: near it, not
    its cause.

    `start`, `end`, `context_start` and `context_end` are character offsets in the document's text.
    """

    kind: str
    """neighbour (at the top), band (drawn from a band of activation) or nearest (of a prototype never
    active)."""
    band: int | None
    """For kind band: 0 is the weakest."""
    activation: float
    """c_ti, the cosine of the token's state and the prototype."""
    position: int
    """In the corpus's stream of tokens."""
    document_index: int
    document_id: str
    source: str
    url: str
    title: str
    licence: str
    start: int
    end: int
    """The token; start = end for the separator at a document's end."""
    context_start: int
    context_end: int
    before: str
    token: str
    after: str
    firings_in_document: int | None
    """For kind neighbour: tokens of the document where the prototype is active."""
    copies: int | None
    """For kind neighbour: documents, this one included, whose strongest passage reads the same; at least
    so many."""

    @property
    def is_separator(self) -> bool:
        """Whether it is the end of the document, no token of its text."""
        return self.start == self.end

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def spans(corpus: Corpus, positions: Integers) -> dict[str, Any]:
    """Columns of the examples table that say where positions are: document, token span and context span."""
    unique, inverse = np.unique(positions, return_inverse=True)  # in order, so the corpus is read in order
    documents = corpus.documents_of(unique)
    first, last = _context_positions(corpus, unique, documents)
    token, opening, closing = (_characters(corpus, places) for places in (unique, first, last))
    ids = {index: corpus.locate(int(unique[row])).document_id for row, index in _first_rows(documents)}
    columns = {
        "document": documents,
        "document_id": np.array([ids[index] for index in documents.tolist()], dtype=object),
        "start": token[:, 0],
        "end": token[:, 1],
        "context_start": opening[:, 0],
        "context_end": closing[:, 1],
    }
    return {name: column[inverse] for name, column in columns.items()}


def _characters(corpus: Corpus, positions: Integers) -> Integers:
    parts = [corpus.spans(position, position + 1) for position in positions.tolist()]
    return np.concatenate(parts) if parts else np.zeros((0, 2), dtype=np.int64)


def _first_rows(documents: Integers) -> list[tuple[int, int]]:
    unique, rows = np.unique(documents, return_index=True)
    return list(zip(rows.tolist(), unique.tolist(), strict=True))


def _context_positions(corpus: Corpus, positions: Integers, documents: Integers) -> tuple[Integers, Integers]:
    """First and last token of the context: a few tokens around the position, in the same document."""
    unique, inverse = np.unique(documents, return_inverse=True)
    ranges = np.array([corpus.document_range(index) for index in unique.tolist()], dtype=np.int64).reshape(
        -1, 2
    )
    first, separator = ranges[inverse, 0], ranges[inverse, 1]
    return np.maximum(positions - TOKENS_BEFORE, first), np.minimum(positions + TOKENS_AFTER, separator)


def read_passage(corpus: Corpus, row: Mapping[str, Any]) -> Passage:
    """The passage of one row of the examples table, with its text from the corpus."""
    document = corpus.document(row["document"])
    start, end = row["start"], row["end"]
    return Passage(
        kind=row["kind"],
        band=row["band"],
        activation=row["activation"],
        position=row["position"],
        document_index=document.index,
        document_id=document.id,
        source=document.source,
        url=document.url,
        title=document.title,
        licence=document.licence,
        start=start,
        end=end,
        context_start=row["context_start"],
        context_end=row["context_end"],
        before=document.text[row["context_start"] : start],
        token=document.text[start:end],
        after=document.text[end : row["context_end"]],
        firings_in_document=row["firings_in_document"],
        copies=row["copies"],
    )
