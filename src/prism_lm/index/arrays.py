"""Names of array types, and the two vectorised steps that every statistic is built from: runs and ranks."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def run_starts(keys: npt.NDArray[np.generic]) -> Integers:
    """Where each run of equal neighbours begins in a sorted array: [] for an empty one."""
    if keys.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1)).astype(np.int64)


def run_lengths(starts: Integers, size: int) -> Integers:
    """Lengths of the runs that begin at `starts` in an array of `size` entries."""
    return np.diff(np.append(starts, size))


def ranks_in_runs(keys: npt.NDArray[np.generic]) -> Integers:
    """0, 1, 2, ... within each run of equal neighbours of a sorted array."""
    starts = run_starts(keys)
    return np.arange(keys.shape[0]) - np.repeat(starts, run_lengths(starts, keys.shape[0]))


def mixed(values: Integers | Hashes) -> Hashes:
    """splitmix64: a fixed scrambling of 64-bit integers, the source of all sampling here.

    Sampling by hash makes a sample a property of the corpus: it depends on no order, batch size or state.
    """
    scrambled = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    scrambled = (scrambled ^ (scrambled >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    scrambled = (scrambled ^ (scrambled >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return scrambled ^ (scrambled >> np.uint64(31))
