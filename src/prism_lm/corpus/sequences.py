"""Training sequences: windows of the token stream, and the order in which they are visited."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.corpus import Corpus

ROUNDS = 6
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Sequences:
    """The stream in windows [i * length, (i + 1) * length): no token is dropped, none is in two windows.

    The last window may be shorter.
    """

    corpus: Corpus
    length: int

    def __post_init__(self) -> None:
        if self.length < 2:
            raise UserError(
                f"the sequence length is {self.length}; at least 2 tokens are needed to predict one"
            )

    def __len__(self) -> int:
        return -(-self.corpus.num_tokens // self.length)

    def start(self, index: int) -> int:
        """The position in the stream of the first token of a sequence."""
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        return index * self.length

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        start = self.start(index)
        return self.corpus.tokens(start, min(start + self.length, self.corpus.num_tokens))


@dataclass(frozen=True)
class SequenceOrder:
    """Which sequences each rank takes at each step: a pure function of (seed, step, rank), never stored.

    Step s of a run with batches of G sequences takes the places s * G to (s + 1) * G - 1 of an endless order,
    in which every epoch of `num_sequences` places is a fresh permutation. Ranks take consecutive parts of it,
    so the global batch does not depend on how many there are.
    """

    num_sequences: int
    seed: int

    def __post_init__(self) -> None:
        if self.num_sequences < 1:
            raise UserError("the corpus holds no sequence; prepare a corpus with more text")

    def batch(self, step: int, rank: int, world_size: int, per_rank: int) -> NDArray[np.int64]:
        """The `per_rank` sequence indices that `rank` takes at `step` (both count from 0)."""
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}")
        first = (step * world_size + rank) * per_rank
        return self.at(first, first + per_rank)

    def at(self, start: int, stop: int) -> NDArray[np.int64]:
        """The indices at places [start, stop) of the endless order."""
        parts: list[NDArray[np.int64]] = []
        while start < stop:
            epoch, place = divmod(start, self.num_sequences)
            count = min(stop - start, self.num_sequences - place)
            parts.append(self._permuted(np.arange(place, place + count, dtype=np.uint64), epoch))
            start += count
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _permuted(self, places: NDArray[np.uint64], epoch: int) -> NDArray[np.int64]:
        """A permutation of [0, num_sequences) at `places`.

        A Feistel network permutes the next power of four; a value outside the range is sent through again
        until it falls inside (cycle walking), which keeps it a permutation.
        """
        half = max(1, ((self.num_sequences - 1).bit_length() + 1) // 2)
        keys = _round_keys(self.seed, epoch)
        values = _feistel(places, half, keys)
        outside = values >= self.num_sequences
        while outside.any():
            values[outside] = _feistel(values[outside], half, keys)
            outside = values >= self.num_sequences
        return values.astype(np.int64)


def _feistel(values: NDArray[np.uint64], half: int, keys: list[int]) -> NDArray[np.uint64]:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right, key) & mask)
    return (left << shift) | right


def _mixed(values: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, which wraps at 64 bits: every bit of the input reaches every bit."""
    z = values ^ np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _round_keys(seed: int, epoch: int) -> list[int]:
    """One key a round, drawn from (seed, epoch); NumPy keeps SeedSequence the same across versions."""
    words = np.random.SeedSequence([seed & _MASK, epoch]).generate_state(ROUNDS, np.uint64)
    return [int(word) for word in words]
