"""What people see: errors, notes, tables and progress. All on stderr; stdout is for results.

Text of documents and models is hostile: nothing here interprets markup, and control characters
are shown, never sent to the terminal.
"""

import json
import logging
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from prism_lm.artifacts.units import format_count, format_seconds
from prism_lm.artifacts.visible import visible

PIPE_WIDTH = 110

# Read when transformers, datasets and huggingface_hub are first imported; what the user has set stays.
_QUIET = {
    "DATASETS_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def quiet_libraries() -> None:
    """Silence the libraries' own progress bars and advice; a warning keeps one line on stderr."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", category)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # each try without a network is a line
    warnings.showwarning = _show_warning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _stderr().print(Text(f"warning: {visible(str(message))}"), style="yellow", soft_wrap=True)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def stdout() -> Console:
    """The console for results. In a pipe or a file it has a width that lines of text are readable in, not
    rich's 80."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, markup=False, emoji=False, width=None if known else PIPE_WIDTH)


def width() -> int:
    """Cells in a line of what `show` prints to."""
    return stdout().width


def error(text: str) -> None:
    """One line on stderr that says what was wrong."""
    _stderr().print(Text(f"error: {' '.join(text.split())}"), style="bold red", soft_wrap=True)


def note(text: str | Text = "") -> None:
    """A line of narration on stderr."""
    _stderr().print(text if isinstance(text, Text) else Text(text), soft_wrap=True)


def show(result: RenderableType = "") -> None:
    """A result on stdout."""
    stdout().print(Text(result) if isinstance(result, str) else result)


def show_command(words: Sequence[str]) -> None:
    """A command to type next, on stdout, in one line however long, so that it can be copied."""
    stdout().print(Text(f"  {shlex.join(words)}"), soft_wrap=True)


def show_json(result: object) -> None:
    """A result for programs: one JSON document on stdout, in ASCII, so nothing in it drives a terminal."""
    print(json.dumps(result, indent=1))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table for `show`. Columns whose name starts with ">" are right-aligned."""
    result = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in columns:
        result.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in row))
    return result


class RichProgress:
    """A progress bar with rate and time left on a terminal; a few plain lines anywhere else."""

    def __init__(self) -> None:
        self._console = _stderr()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._plain: _PlainProgress | None = None

    def start(self, description: str, total: int | None, unit: str) -> None:
        """Begin to count `total` (None: not known) of `unit`."""
        self.finish()
        if not self._console.is_terminal:
            self._plain = _PlainProgress(self._console, description, total, unit)
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(24),
            _Rate(unit),
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(description, total=total, figures="")
        self._bar.start()

    def advance(self, amount: int = 1, **figures: float | str) -> None:
        """Count `amount` more; `figures` are shown beside the bar."""
        shown = _spell(figures)
        if self._bar is not None:
            self._bar.advance(self._task, amount)
            if shown:
                self._bar.update(self._task, figures=shown)
        elif self._plain is not None:
            self._plain.advance(amount, shown)

    def finish(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._plain is not None:
            self._plain.finish()
            self._plain = None


def _spell(figures: dict[str, float | str]) -> str:
    pairs = (
        f"{name} {value if isinstance(value, str) else f'{value:.4g}'}" for name, value in figures.items()
    )
    return "  ".join(pairs)


class _Rate(ProgressColumn):
    """'12.3k/40k tokens  8.1k tokens/s  3 s left  loss 4.2'."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = f"/{format_count(int(task.total))}" if task.total is not None else ""
        parts = [f"{format_count(int(task.completed))}{total} {self._unit}"]
        if task.speed:
            parts.append(f"{format_count(int(task.speed))} {self._unit}/s")
        if task.time_remaining is not None:
            parts.append(f"{format_seconds(task.time_remaining)} left")
        return Text("  ".join([*parts, str(task.fields.get("figures", ""))]).rstrip())


class _PlainProgress:
    """Progress for logs: a line when it begins, one every half minute, one when it ends."""

    _EVERY_SECONDS = 30.0

    def __init__(self, console: Console, description: str, total: int | None, unit: str) -> None:
        self._console, self._description, self._total, self._unit = console, description, total, unit
        self._done, self._figures = 0, ""
        self._begun = self._spoken = time.monotonic()

    def advance(self, amount: int, figures: str) -> None:
        self._done += amount
        self._figures = figures or self._figures
        if time.monotonic() - self._spoken >= self._EVERY_SECONDS:
            self._spoken = time.monotonic()
            self._say("")

    def finish(self) -> None:
        self._say(f"  in {format_seconds(time.monotonic() - self._begun)}")

    def _say(self, ending: str) -> None:
        total = f"/{format_count(self._total)}" if self._total is not None else ""
        figures = f"  {self._figures}" if self._figures else ""
        count = f"{format_count(self._done)}{total} {self._unit}"
        self._console.print(Text(f"{self._description}: {count}{figures}{ending}"), soft_wrap=True)
