"""Ids: stable, and each given to one document only, in memory that does not grow with the corpus."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

IDS_IN_MEMORY = 2**18


def hash64(text: str) -> int:
    """A 64-bit hash of `text` that is the same in every process and on every machine."""
    digest = hashlib.blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def share(text: str) -> float:
    """A number in [0, 1) drawn from `text` alone: what is below 0.05 is a fixed twentieth."""
    return (hash64(text) >> 11) / 2**53


class UniqueIds:
    """Gives each document an id that no other has.

    The first bearer of an id keeps it; a later one gets its position, and if need be a number, behind it. Ids
    seen are kept as 64-bit hashes: the latest in memory, the rest in sorted runs on disk, eight bytes each.
    Should two different ids ever share a hash, the second gets a longer id than it needs, and nothing else
    happens.
    """

    def __init__(self, folder: Path, ids_in_memory: int = IDS_IN_MEMORY) -> None:
        self._folder = folder
        self._limit = ids_in_memory
        self._recent: set[int] = set()
        self._runs: list[NDArray[np.uint64]] = []

    def assign(self, wanted: str, position: str) -> str:
        """`wanted` if nobody has it, else "wanted#position", "wanted#position#2" and so on."""
        if self._take(wanted):
            return wanted
        candidate = f"{wanted}#{position}" if wanted != position else f"{wanted}#2"
        number = 2
        while not self._take(candidate):
            number += 1
            candidate = f"{wanted}#{number}" if wanted == position else f"{wanted}#{position}#{number - 1}"
        return candidate

    def _take(self, candidate: str) -> bool:
        key = hash64(candidate)
        if key in self._recent or any(_contains(run, key) for run in self._runs):
            return False
        self._recent.add(key)
        if len(self._recent) >= self._limit:
            self._spill()
        return True

    def _spill(self) -> None:
        path = self._folder / f"ids-{len(self._runs):05d}"
        np.sort(np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))).tofile(path)
        self._runs.append(np.memmap(path, dtype=np.uint64, mode="r"))
        self._recent.clear()


def _contains(run: NDArray[np.uint64], key: int) -> bool:
    place = int(np.searchsorted(run, np.uint64(key)))
    return place < len(run) and int(run[place]) == key
