"""Texts to token ids and character spans, a batch at a time, on all cores."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prism_lm.corpus.byte_level import Spans, byte_lengths, byte_spans
from prism_lm.corpus.pieces import MAX_GROUP, MAX_PIECE, Piece, cut_separators, grouped, pieces_of
from prism_lm.corpus.tokenizer import CorpusTokenizer
from prism_lm.corpus.word_cache import WordCache, cuts_like_gpt2

if TYPE_CHECKING:
    from tokenizers import Encoding


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
class _Encoded:
    """The tokens of some pieces: spans count from the beginning of the piece, `counts` tokens a piece."""

    pieces: list[Piece]
    ids: NDArray[np.uint32]
    spans: Spans
    counts: NDArray[np.int64]


class Encoder:
    """Encodes plain text: no special token is added, and no text becomes the separator by its spelling."""

    def __init__(
        self, tokenizer: CorpusTokenizer, max_piece: int = MAX_PIECE, max_group: int = MAX_GROUP
    ) -> None:
        self._backend = tokenizer.backend
        self._separator_id = tokenizer.separator_id
        self._lengths = byte_lengths(tokenizer.backend)
        self._max_piece, self._max_group = max_piece, max_group
        plain = self._lengths is not None and cuts_like_gpt2(tokenizer.backend)
        self._words = WordCache(tokenizer.backend) if plain else None

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Tokens and spans of `texts`, none of which may hold a lone surrogate.

        Raises:
            UserError: the tokenizer writes a single character of ordinary text as the separator.
        """
        pieces = pieces_of(texts, self._max_piece)
        groups = [self._encode_group(group) for group in grouped(pieces, self._max_group)]
        return _joined(len(texts), groups)

    def _encode_group(self, pieces: list[Piece]) -> _Encoded:
        while True:
            ids, spans, counts = self._encode_pieces([piece.text for piece in pieces])
            found = np.flatnonzero(ids == self._separator_id)
            if not found.size:
                return _Encoded(pieces, ids, spans, counts)
            pieces = cut_separators(pieces, spans, counts, found)

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


def _joined(num_texts: int, groups: Sequence[_Encoded]) -> EncodedBatch:
    """The tokens of the pieces as those of the documents: spans count from the beginning of the document."""
    of_texts = np.zeros(num_texts, dtype=np.int64)
    for group in groups:
        offsets = np.fromiter((piece.offset for piece in group.pieces), np.uint32, len(group.pieces))
        owners = np.fromiter((piece.owner for piece in group.pieces), np.int64, len(group.pieces))
        group.spans[:] += np.repeat(offsets, group.counts)[:, None]
        of_texts += np.bincount(owners, weights=group.counts, minlength=num_texts).astype(np.int64)
    return EncodedBatch(
        ids=np.concatenate([group.ids for group in groups]),
        spans=_concatenated([group.spans for group in groups]),
        counts=of_texts,
    )


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
