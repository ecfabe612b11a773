"""A uniform sample of each prototype's firings: where activation is middling or weak, what does the text say?

The sample of a prototype is the `kept` firings with the smallest hash of (prototype, position): uniform,
and a property of the corpus, whatever the order or the batches in which it was read.
"""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_lm.index.arrays import Doubles, Floats, Hashes, Integers, mixed, ranks_in_runs, run_starts
from prism_lm.index.firings import Block

_PRIORITY_BITS = np.uint64(43)  # what a 64-bit sort key leaves beside the id of the prototype
_MANY = 4  # times the size of the table: then it pays to look for a lower bar first


class Sample(NamedTuple):
    """Sampled firings as columns."""

    prototypes: Integers
    positions: Integers
    activations: Floats
    priorities: Hashes
    """Small ones are kept."""

    def take(self, rows: npt.NDArray[np.generic]) -> Self:
        """The rows chosen by indices or by a mask."""
        return self._make(column[rows] for column in self)


class Samples:
    """Keeps `kept` firings of each prototype.  Memory: at most 28 x `kept` bytes a prototype, twice over."""

    def __init__(self, num_prototypes: int, kept: int) -> None:
        self._limit = kept
        none = np.zeros(0, dtype=np.int64)
        self._kept = Sample(none, none, none.astype(np.float32), none.astype(np.uint64))
        self._bar = np.full(num_prototypes, np.uint64(1) << _PRIORITY_BITS, dtype=np.uint64)

    def update(self, block: Block) -> None:
        """Adds one block."""
        firings = block.firings
        priorities = priority(firings.prototypes, firings.positions)
        promising = priorities < self._bar[firings.prototypes]
        if np.count_nonzero(promising) > _MANY * self._limit * self._bar.shape[0]:
            promising &= priorities < self._lower_bar(firings.prototypes, priorities)[firings.prototypes]
        chosen = np.flatnonzero(promising)
        if chosen.shape[0] == 0:
            return
        new = Sample(firings.prototypes, firings.positions, firings.activations, priorities).take(chosen)
        merged = Sample._make(np.concatenate(pair) for pair in zip(self._kept, new, strict=True))
        keys = (merged.prototypes.astype(np.uint64) << _PRIORITY_BITS) | merged.priorities
        merged = merged.take(np.argsort(keys, kind="stable"))
        ranks = ranks_in_runs(merged.prototypes)
        self._kept = merged.take(ranks < self._limit)
        last = merged.take(ranks == self._limit - 1)
        self._bar[last.prototypes] = last.priorities

    def _lower_bar(self, prototypes: Integers, priorities: Hashes) -> Hashes:
        """[K]: what no kept priority of a prototype can reach, since so many of these firings lie below it.

        Of n uniform priorities about 2 x kept lie in the lowest 2 x kept / n of their range. So while bars
        are still high, most firings need no sorting.
        """
        size = self._bar.shape[0]
        counts = np.maximum(1, np.bincount(prototypes, minlength=size))
        share = np.minimum(1.0, 2 * self._limit / counts)
        guess = (share * float(1 << int(_PRIORITY_BITS))).astype(np.uint64)
        below = np.bincount(prototypes[priorities < guess[prototypes]], minlength=size)
        return np.where(below >= self._limit, guess, self._bar)

    def result(self) -> Sample:
        """The firings kept, by prototype and then by priority."""
        return self._kept


def priority(prototypes: Integers, positions: Integers) -> Hashes:
    """The hash that decides whether a firing is sampled."""
    return mixed(mixed(positions) + prototypes.astype(np.uint64)) >> (np.uint64(64) - _PRIORITY_BITS)


def by_activation(sample: Sample) -> Sample:
    """The sample ordered by prototype and then by rising activation (equal ones by position)."""
    return sample.take(np.lexsort((sample.positions, sample.activations, sample.prototypes)))


def bands(sample: Sample, num_bands: int, per_band: int) -> tuple[Sample, Integers]:
    """`per_band` firings from each of `num_bands` equal bands of activation, and the band of each (0: the
    weakest).

    Within a band the lowest priorities are taken: a uniform choice. Ordered by prototype, falling band,
    and falling activation.
    """
    ordered = by_activation(sample)
    starts = run_starts(ordered.prototypes)
    sizes = np.diff(np.append(starts, ordered.prototypes.shape[0]))
    band = ranks_in_runs(ordered.prototypes) * num_bands // np.repeat(sizes, sizes)
    order = np.lexsort((ordered.priorities, band, ordered.prototypes))
    chosen = order[ranks_in_runs((ordered.prototypes * num_bands + band)[order]) < per_band]
    final = np.lexsort((-ordered.activations[chosen], -band[chosen], ordered.prototypes[chosen]))
    return ordered.take(chosen[final]), band[chosen[final]]


def quantiles(sample: Sample, num_prototypes: int, levels: tuple[float, ...]) -> Doubles:
    """[K, levels]: quantiles of activation where active, of the sample (nearest rank); NaN for a prototype
    never active."""
    ordered = by_activation(sample)
    result = np.full((num_prototypes, len(levels)), np.nan)
    starts = run_starts(ordered.prototypes)
    sizes = np.diff(np.append(starts, ordered.prototypes.shape[0]))
    for column, level in enumerate(levels):
        rank = np.rint(level * (sizes - 1)).astype(np.int64)
        result[ordered.prototypes[starts], column] = ordered.activations[starts + rank]
    return result
