"""Texts to token ids and character spans, a batch at a time, on all cores."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.byte_level import Spans, byte_lengths, byte_spans
from prism_lm.corpus.tokenizer import CorpusTokenizer
from prism_lm.corpus.word_cache import WordCache, cuts_like_gpt2

if TYPE_CHECKING:
    from tokenizers import Encoding

# A longer text is tokenised in pieces: an encoding takes a hundred times the memory of its text.
MAX_PIECE = 2**18
# How far back from there a place between two words is looked for.
SEARCH = 2**12


@dataclass(frozen=True, kw_only=True)
class EncodedBatch:
    """The tokens of some documents, one after another.

    ids: [N] token ids; spans: [N, 2] characters [start, end) of the token's own document; counts: tokens per
    document, summing to N.
    """

    ids: NDArray[np.uint32]
    spans: Spans
    counts: NDArray[np.int64]

    def select(self, chosen: NDArray[np.bool_]) -> "EncodedBatch":
        """The tokens of the documents for which `chosen` is true."""
        kept = np.repeat(chosen, self.counts)
        return EncodedBatch(ids=self.ids[kept], spans=self.spans[kept], counts=self.counts[chosen])


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of the text of document `owner`, from character `offset` on."""

    owner: int
    offset: int
    text: str


class Encoder:
    """Encodes plain text: no special token is added, and no text becomes the separator by its spelling."""

    def __init__(self, tokenizer: CorpusTokenizer, max_piece: int = MAX_PIECE) -> None:
        self._backend = tokenizer.backend
        self._separator_id = tokenizer.separator_id
        self._lengths = byte_lengths(tokenizer.backend)
        self._max_piece = max_piece
        plain = self._lengths is not None and cuts_like_gpt2(tokenizer.backend)
        self._words = WordCache(tokenizer.backend) if plain else None

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Tokens and spans of `texts`, none of which may hold a lone surrogate.

        Raises:
            UserError: the tokenizer writes a single character of ordinary text as the separator.
        """
        pieces = [
            _Piece(owner, offset, piece)
            for owner, text in enumerate(texts)
            for offset, piece in split_text(text, self._max_piece)
        ]
        while True:
            ids, spans, counts = self._encode_pieces([piece.text for piece in pieces])
            found = np.flatnonzero(ids == self._separator_id)
            if not found.size:
                return _joined(len(texts), pieces, ids, spans, counts)
            pieces = _cut_separators(pieces, spans, counts, found)

    def _encode_pieces(self, pieces: list[str]) -> tuple[NDArray[np.uint32], Spans, NDArray[np.int64]]:
        if self._lengths is None:
            encodings = self._backend.encode_batch(pieces, add_special_tokens=False)
            ids, counts = _ids(encodings)
            return ids, _concatenated(list(map(_offsets, encodings))), counts
        ids, counts = self._byte_level_ids(pieces)
        return ids, self._byte_level_spans(pieces, self._lengths[ids], counts), counts

    def _byte_level_ids(self, pieces: list[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if self._words is None:
            return _ids(self._backend.encode_batch_fast(pieces, add_special_tokens=False))
        parts = self._words.encode(pieces)
        counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32), counts

    def _byte_level_spans(
        self, pieces: list[str], token_lengths: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Spans:
        raw = [piece.encode("utf-8") for piece in pieces]
        sizes = np.fromiter(map(len, raw), dtype=np.int64, count=len(raw))
        characters = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        found = np.bincount(
            np.repeat(np.arange(len(pieces)), counts), weights=token_lengths, minlength=len(pieces)
        )
        if (found == sizes).all():
            spans = byte_spans(token_lengths, b"".join(raw), int(characters.sum()))
            spans -= np.repeat((np.cumsum(characters) - characters).astype(np.uint32), counts)[:, None]
            return spans
        # An added token swallowed the blanks around it: the tokenizer itself must say where its tokens lie.
        return _concatenated(
            list(map(_offsets, self._backend.encode_batch(pieces, add_special_tokens=False)))
        )


def _joined(
    num_texts: int, pieces: Sequence[_Piece], ids: NDArray[np.uint32], spans: Spans, counts: NDArray[np.int64]
) -> EncodedBatch:
    """The tokens of the pieces as those of the documents: spans count from the beginning of the document."""
    offsets = np.fromiter((piece.offset for piece in pieces), np.uint32, len(pieces))
    owners = np.fromiter((piece.owner for piece in pieces), np.int64, len(pieces))
    spans += np.repeat(offsets, counts)[:, None]
    of_texts = np.bincount(owners, weights=counts, minlength=num_texts).astype(np.int64)
    return EncodedBatch(ids=ids, spans=spans, counts=of_texts)


def _cut_separators(
    pieces: Sequence[_Piece], spans: Spans, counts: NDArray[np.int64], found: NDArray[np.intp]
) -> list[_Piece]:
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
    result: list[_Piece] = []
    for index, piece in enumerate(pieces):
        edges = [0, *cuts.get(index, []), len(piece.text)]
        for start, stop in pairwise(edges):
            result.append(_Piece(piece.owner, piece.offset + start, piece.text[start:stop]))
    return result


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


def _ids(encodings: Sequence["Encoding"]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    ids = array("I")
    counts = np.empty(len(encodings), dtype=np.int64)
    for index, encoding in enumerate(encodings):
        before = len(ids)
        ids.extend(encoding.ids)
        counts[index] = len(ids) - before
    return np.frombuffer(ids, dtype=np.uint32) if ids else np.empty(0, dtype=np.uint32), counts


def _offsets(encoding: "Encoding") -> Spans:
    return np.array(encoding.offsets, dtype=np.uint32).reshape(-1, 2)


def _concatenated(spans: Sequence[Spans]) -> Spans:
    return np.concatenate(spans) if spans else np.empty((0, 2), dtype=np.uint32)
