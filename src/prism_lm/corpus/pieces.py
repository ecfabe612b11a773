"""Long texts in pieces and pieces in groups: how much is tokenised at a time, and where a text may be cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.byte_level import Spans

# A longer text is tokenised in pieces: an encoding takes a hundred times the memory of its text.
MAX_PIECE = 2**18
# How far back from there a place between two words is looked for.
SEARCH = 2**12
# Characters that are encoded at a time.
MAX_GROUP = 2**20


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of the text of document `owner`, from character `offset` on."""

    owner: int
    offset: int
    text: str


def pieces_of(texts: Sequence[str], max_piece: int) -> list[Piece]:
    """All texts in pieces, in order; a text that is no longer than `max_piece` is one piece."""
    return [
        Piece(owner, offset, piece)
        for owner, text in enumerate(texts)
        for offset, piece in split_text(text, max_piece)
    ]


def split_text(text: str, max_piece: int) -> Iterator[tuple[int, str]]:
    """Pieces of at most `max_piece` characters, each with its offset, cut between words if possible."""
    start = 0
    while len(text) - start > max_piece:
        stop = _cut(text, start, start + max_piece)
        yield start, text[start:stop]
        start = stop
    yield start, text[start:]


def _cut(text: str, start: int, stop: int) -> int:
    """The last place before `stop` between a letter and " letter", where no tokenizer has a token across."""
    lowest = max(start + 1, stop - SEARCH)
    for place in range(stop, lowest, -1):
        if text[place] == " " and text[place - 1].isalpha() and text[place + 1 : place + 2].isalpha():
            return place
    return stop


def grouped(pieces: Sequence[Piece], limit: int) -> Iterator[list[Piece]]:
    """The pieces in groups of about `limit` characters, so that one long document takes no more at a time."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + len(piece.text) > limit:
            yield group
            group = list[Piece]()
            size = 0
        group.append(piece)
        size += len(piece.text)
    yield group


def cut_separators(
    pieces: Sequence[Piece], spans: Spans, counts: NDArray[np.int64], found: NDArray[np.intp]
) -> list[Piece]:
    """Cuts the pieces inside each text that was read as the separator, so that it is read as ordinary text.

    A unigram model, or one that looks whole words up, has its special tokens among its ordinary entries.
    """
    cuts: dict[int, list[int]] = {}
    owners = np.searchsorted(np.cumsum(counts), found, side="right")
    for owner, (start, end) in zip(owners.tolist(), spans[found].tolist(), strict=True):
        if end - start < 2:
            raise UserError(
                f"the tokenizer writes {pieces[owner].text[start:end]!r}, which is ordinary text, with the "
                "separator; choose another token as --separator, or another tokenizer"
            )
        cuts.setdefault(owner, []).append(start + 1)
    result: list[Piece] = []
    for index, piece in enumerate(pieces):
        edges = [0, *cuts.get(index, []), len(piece.text)]
        for start, stop in pairwise(edges):
            result.append(Piece(piece.owner, piece.offset + start, piece.text[start:stop]))
    return result
