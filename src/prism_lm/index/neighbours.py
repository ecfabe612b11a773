"""The passages nearest to each prototype: its tokens with the highest c_ti, from different documents.

The strongest tokens of a prototype tend to sit in one document, or in copies of one. So a document
gives a prototype at most one passage, and passages that read the same (`context_hashes`) count as one.
Nothing is forgotten: a passage says how often its document activates the prototype, and how many documents
repeat it.
"""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_lm.index.arrays import Floats, Hashes, Integers, Mask, ranks_in_runs, run_lengths, run_starts
from prism_lm.index.firings import Block

# Entries of the dense prototype x document table that groups the firings of a block, held at one time.
_TABLE_ENTRIES = 1 << 22


class Candidates(NamedTuple):
    """Passages offered to prototypes, as columns of equal length."""

    prototypes: Integers
    documents: Integers
    cosines: Floats
    positions: Integers
    contexts: Hashes
    firings: Integers
    """Tokens of this document where the prototype is active."""
    copies: Integers
    """Documents, this one included, whose strongest passage reads the same; at least so many."""

    @classmethod
    def empty(cls) -> Self:
        """No candidates."""
        types = (np.int64, np.int64, np.float32, np.int64, np.uint64, np.int64, np.int64)
        return cls._make(np.zeros(0, dtype=kind) for kind in types)

    def take(self, rows: npt.NDArray[np.generic]) -> Self:
        """The rows chosen by indices or by a mask."""
        return self._make(column[rows] for column in self)

    def joined(self, other: Self) -> Self:
        """These and then the others."""
        return self._make(np.concatenate(pair) for pair in zip(self, other, strict=True))


class Neighbours:
    """Keeps the best `kept` passages of each prototype.  Memory: at most 56 x `kept` bytes a prototype,
    twice over."""

    def __init__(self, num_prototypes: int, kept: int) -> None:
        self._num_prototypes = num_prototypes
        self._limit = kept
        self._kept = Candidates.empty()
        self._open = Candidates.empty()  # of the document that the last block left unfinished
        self._bar = np.full(num_prototypes, -np.inf, dtype=np.float32)

    def update(self, block: Block) -> None:
        """Adds one block; blocks come in order of position, so a document is cut by neighbouring blocks
        only."""
        groups = best_in_documents(block, self._num_prototypes)
        begun = groups.documents == block.documents[0]  # a document that the block before may have begun
        groups = _same_document(self._open.joined(groups.take(begun))).joined(groups.take(~begun))
        unfinished = groups.documents == block.documents[-1]
        self._open = groups.take(unfinished)
        self._offer(groups.take(~unfinished))

    def result(self) -> Candidates:
        """The passages kept, by prototype and then by falling cosine."""
        self._offer(self._open)
        self._open = Candidates.empty()
        return self._kept

    def _offer(self, candidates: Candidates) -> None:
        promising = candidates.take(candidates.cosines >= self._bar[candidates.prototypes])
        if promising.prototypes.shape[0] == 0:
            return
        merged = _same_passage(self._kept.joined(promising))
        merged = merged.take(np.lexsort((merged.positions, -merged.cosines, merged.prototypes)))
        ranks = ranks_in_runs(merged.prototypes)
        self._kept = merged.take(ranks < self._limit)
        last = merged.take(ranks == self._limit - 1)
        self._bar[last.prototypes] = last.cosines


def best_in_documents(block: Block, num_prototypes: int) -> Candidates:
    """For each prototype and document of the block: the strongest token (the first among equals), and how
    many."""
    first, last = int(block.documents[0]), int(block.documents[-1])
    step = max(1, _TABLE_ENTRIES // num_prototypes)
    places = block.firings.positions - block.start
    parts = Candidates.empty()
    for low in range(first, last + 1, step):
        stop = int(np.searchsorted(block.documents, min(low + step, last + 1)))
        begin = int(np.searchsorted(block.documents, low))
        span = slice(int(np.searchsorted(places, begin)), int(np.searchsorted(places, stop)))
        if span.stop > span.start:
            parts = parts.joined(_best_of_span(block, places[span], span, low, num_prototypes))
    return parts


def _best_of_span(block: Block, places: Integers, span: slice, low: int, num_prototypes: int) -> Candidates:
    documents = block.documents[places] - low
    cosines = block.firings.activations[span]
    keys = documents * num_prototypes + block.firings.prototypes[span]
    size = (int(documents[-1]) + 1) * num_prototypes
    counts = np.bincount(keys, minlength=size)
    best = np.full(size, -np.inf, dtype=np.float32)
    np.maximum.at(best, keys, cosines)
    winners = np.flatnonzero(cosines == best[keys])[::-1]  # written backwards, so the first of equals stays
    winner = np.zeros(size, dtype=np.int64)
    winner[keys[winners]] = winners
    groups = np.flatnonzero(counts)
    place = places[winner[groups]]
    return Candidates(
        prototypes=groups % num_prototypes,
        documents=groups // num_prototypes + low,
        cosines=best[groups],
        positions=block.start + place,
        contexts=block.contexts[place],
        firings=counts[groups],
        copies=np.ones(groups.shape[0], dtype=np.int64),
    )


def _same_document(candidates: Candidates) -> Candidates:
    """One candidate for each prototype and document: the strongest, with the firings of all."""
    order = np.lexsort(
        (candidates.positions, -candidates.cosines, candidates.prototypes, candidates.documents)
    )
    candidates = candidates.take(order)
    changed = _changes(candidates.documents) | _changes(candidates.prototypes)
    return _collapsed(candidates, np.flatnonzero(changed), add_firings=True)


def _same_passage(candidates: Candidates) -> Candidates:
    """One candidate for each prototype and context: the strongest, with the copies of all."""
    order = np.lexsort(
        (candidates.positions, -candidates.cosines, candidates.contexts, candidates.prototypes)
    )
    candidates = candidates.take(order)
    changed = _changes(candidates.prototypes) | _changes(candidates.contexts)
    return _collapsed(candidates, np.flatnonzero(changed), add_firings=False)


def _changes(keys: npt.NDArray[np.generic]) -> Mask:
    """Whether an entry differs from the one before it; the first does."""
    changed = np.ones(keys.shape[0], dtype=np.bool_)
    changed[1:] = keys[1:] != keys[:-1]
    return changed


def _collapsed(candidates: Candidates, starts: Integers, *, add_firings: bool) -> Candidates:
    """The first candidate of each run, with the counts of the whole run."""
    if starts.shape[0] == 0:
        return candidates
    first = candidates.take(starts)
    if add_firings:
        return first._replace(firings=np.add.reduceat(candidates.firings, starts))
    return first._replace(copies=np.add.reduceat(candidates.copies, starts))


def passages_per_prototype(candidates: Candidates, num_prototypes: int) -> Integers:
    """[K]: how many passages each prototype has."""
    starts = run_starts(candidates.prototypes)
    counts = np.zeros(num_prototypes, dtype=np.int64)
    counts[candidates.prototypes[starts]] = run_lengths(starts, candidates.prototypes.shape[0])
    return counts
