"""metrics.jsonl: one line an event, every figure with its unit and the set it was taken over."""

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prism_lm.artifacts.errors import UserError, explain_full_disk

FILE_NAME = "metrics.jsonl"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number that says what it is."""

    value: float | None
    """None for what is no number: nothing is left out without a word."""
    unit: str
    set: str
    """What it was taken over."""


class MetricsFile:
    """Appends lines; each is on its way to the disk before the next step begins."""

    def __init__(self, path: Path, *, keep: int) -> None:
        """Opens the file and cuts it to its first `keep` bytes: what was known at the checkpoint resumed
        from.
        """
        self.path = path
        size = path.stat().st_size if path.exists() else 0
        if size < keep:
            raise UserError(
                f"{path} has {size} bytes and the checkpoint knew {keep}; it was cut or replaced: put it back"
            )
        self._file = path.open("ab")
        self._file.truncate(keep)

    def write(self, *, event: str, step: int, tokens: int, figures: Mapping[str, Figure]) -> None:
        """One line: after `step` steps and `tokens` tokens."""
        line = {
            "event": event,
            "step": step,
            "tokens": tokens,
            "figures": plain(figures),
        }
        with explain_full_disk(self.path):
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()

    def settle(self) -> int:
        """Forces the lines to the disk and returns their size in bytes, for the checkpoint."""
        with explain_full_disk(self.path):
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Closes the file. Every line was flushed when it was written: what is left belongs to one that
        failed.
        """
        with suppress(OSError):
            self._file.close()


def plain(figures: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """Figures as JSON, in which what is no finite number is null."""
    return {
        name: asdict(figure) | {"value": figure.value if math.isfinite(figure.value or 0.0) else None}
        for name, figure in figures.items()
    }


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, in order."""
    path = run / FILE_NAME
    if not path.is_file():
        raise UserError(f"{path} is not there; expected the folder of a run")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
