"""Command-line words -> a command's `Arguments`, by tyro; its boxed complaints become one line."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from typing import TypeVar

from prism_lm.artifacts.errors import UserError

Arguments = TypeVar("Arguments")


def parse(kind: type[Arguments], program: str, words: Sequence[str]) -> Arguments:
    """An instance of the dataclass `kind` from `words`.

    `--help` prints to stdout and leaves with SystemExit(0), as every program does.

    Raises:
        UserError: an option is unknown, missing or malformed: one line that names it.
    """
    import tyro

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, prog=program, args=list(words), config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as leaving:
        if not leaving.code:
            sys.stderr.write(complaint.getvalue())
            raise
    raise UserError(one_line(complaint.getvalue(), program))


def one_line(boxed: str, program: str) -> str:
    """The first section of tyro's box, and what it proposes instead, as one line."""
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", row).strip("│ \t") for row in boxed.splitlines()]
    rows = [row for row in rows if row and not row.startswith(("╭", "╰"))]
    sections: list[list[str]] = [[]]
    for row in rows:
        if set(row) == {"─"}:
            sections.append([])
        else:
            sections[-1].append(row)
    text = " ".join(sections[0]).split(" Got errors:")[0].rstrip(".")
    text = re.sub(r"^Missing from [^:]*:", "Missing:", text)
    text = re.sub(r"^Error parsing (\S+): (.*?)\[?('[^']*')\]?$", _malformed, text)
    hints = [" ".join(section[:2]) for section in sections[1:] if section[0].startswith("Perhaps you meant")]
    return " ".join([f"{text}.", *(f"{hint}." for hint in hints), f"See: {program} --help"])


def _malformed(match: re.Match[str]) -> str:
    """An option whose value has the wrong form, without the parser's words for types."""
    option, reason, value = match.groups()
    kind = "a number" if "float" in reason.lower() else "a whole number"
    if not re.search("int|float", reason.lower()):
        return match[0]
    name = option if option.startswith("--") else "the number"
    return f"{name} is {value}; expected {kind}"
