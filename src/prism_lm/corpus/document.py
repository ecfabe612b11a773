"""A document, on its way in and on its way out, and the place of a token in it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class RawDocument:
    """A document as a source gives it, before it has a place in a corpus.

    `position` says where it comes from, the same wherever the source lies ("books/a.jsonl:12"): it is the id
    of a document that brings none. `place` says the same to a person, with the whole path.
    """

    position: str
    place: str
    text: str
    source: str
    id: str | None = None
    url: str = ""
    licence: str = ""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document of a corpus, with the text that was tokenised and all that came with it."""

    index: int
    id: str
    text: str
    source: str
    url: str
    licence: str
    title: str
    metadata: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLocation:
    """Where a token of the stream comes from: characters [start, end) of the document's text.

    A token that holds only some bytes of a character has the span of the whole character, so neighbouring
    tokens may share one. The separator after a document stands at its end: start = end = len(text).
    """

    document_index: int
    document_id: str
    start: int
    end: int
    is_separator: bool
