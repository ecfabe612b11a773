"""How often a prototype fires on which value: current token, next token, source.

Counts of (prototype, value) pairs are kept sparsely and exactly while they fit. When they do not, each
prototype keeps its largest counts by the Misra-Gries rule: the next largest count is taken off all of
them. A count can then be too small, by at most `undercount`, and that is at most usage / (kept + 1); it is
never too large.
"""

from typing import NamedTuple

import numpy as np

from prism_lm.index.arrays import Integers, ranks_in_runs, run_lengths, run_starts

MIN_TABLE_ENTRIES = 1 << 20
KEPT = 128
_DENSE_ENTRIES = 1 << 22  # of prototypes x values, counted in one array


class Commonest(NamedTuple):
    """The commonest values of each prototype as columns, by prototype and then by falling count."""

    prototypes: Integers
    values: Integers
    counts: Integers
    ranks: Integers


class TriggerCounts:
    """Counts of (prototype, value).  Memory: 16 bytes for each of at most max(2^20, 2 x K x kept) pairs,
    thrice over."""

    def __init__(self, num_prototypes: int, num_values: int, kept: int = KEPT) -> None:
        self._num_values = num_values
        self._kept = kept
        self._limit = self.limit_for(num_prototypes, kept)
        self._pending: list[tuple[Integers, Integers]] = []
        self._pending_entries = 0
        self.undercount = np.zeros(num_prototypes, dtype=np.int64)
        """[K]: how much too small the counts of a prototype may be; 0 means exact."""
        self.pairs = np.zeros(num_prototypes, dtype=np.int64)
        """[K]: pairs counted."""

    @staticmethod
    def limit_for(num_prototypes: int, kept: int = KEPT) -> int:
        """Pairs that are held, at most twice over while tables are merged."""
        return max(MIN_TABLE_ENTRIES, 2 * num_prototypes * kept)

    def update(self, prototypes: Integers, values: Integers) -> None:
        """Counts pairs (prototypes[n], values[n])."""
        self.pairs += np.bincount(prototypes, minlength=self.pairs.shape[0])
        keys, counts = self._tally(prototypes * self._num_values + values)
        self._pending.append((keys, counts))
        self._pending_entries += keys.shape[0]
        if self._pending_entries > self._limit:
            self._merge()

    def commonest(self, number: int) -> Commonest:
        """The `number` commonest values of each prototype; among equal counts the smaller value comes
        first."""
        keys, counts = self._merge()
        prototypes, values = np.divmod(keys, self._num_values)
        order = np.lexsort((values, -counts, prototypes))
        ranks = ranks_in_runs(prototypes[order])
        order = order[ranks < number]
        return Commonest(prototypes[order], values[order], counts[order], ranks[ranks < number])

    def _tally(self, keys: Integers) -> tuple[Integers, Integers]:
        """The different keys in order, and how often each occurs."""
        if self.pairs.shape[0] * self._num_values <= _DENSE_ENTRIES:  # several times faster than to sort
            counts = np.bincount(keys, minlength=1)
            found = np.flatnonzero(counts)
            return found, counts[found]
        keys = np.sort(keys)
        starts = run_starts(keys)
        return keys[starts], run_lengths(starts, keys.shape[0])

    def _merge(self) -> tuple[Integers, Integers]:
        if not self._pending:
            none = np.zeros(0, dtype=np.int64)
            return none, none
        keys = np.concatenate([table[0] for table in self._pending])
        counts = np.concatenate([table[1] for table in self._pending])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = run_starts(keys)
        merged = keys[starts], np.add.reduceat(counts[order], starts)
        if starts.shape[0] > self._limit:
            merged = self._pruned(*merged)
        self._pending, self._pending_entries = [merged], merged[0].shape[0]
        return merged

    def _pruned(self, keys: Integers, counts: Integers) -> tuple[Integers, Integers]:
        prototypes = keys // self._num_values
        order = np.lexsort((-counts, prototypes))
        first_left_out = order[ranks_in_runs(prototypes[order]) == self._kept]
        cut = np.zeros_like(self.undercount)
        cut[prototypes[first_left_out]] = counts[first_left_out]
        self.undercount += cut
        counts = counts - cut[prototypes]
        return keys[counts > 0], counts[counts > 0]
