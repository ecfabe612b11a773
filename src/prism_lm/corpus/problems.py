"""Bad input: the first stops everything, or each is skipped and counted, as the user asked."""

import unicodedata
from dataclasses import dataclass, field
from typing import Literal

from prism_lm.artifacts.errors import UserError

EXAMPLES_KEPT = 3


@dataclass
class Problems:
    """What to do with a bad document or file, and what was skipped so far, by kind."""

    on_error: Literal["stop", "skip"] = "stop"
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def report(self, kind: str, position: str, message: str) -> None:
        """Counts a skipped document, or stops.

        Raises:
            UserError: `on_error` is "stop"; the line names file and line.
        """
        line = printable(f"{position}: {message}")
        if self.on_error == "stop":
            raise UserError(f"{line}; correct it, or skip such input with --on-error skip")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_KEPT:
            examples.append(line)

    def quiet_copy(self) -> "Problems":
        """For a first look at the input: stops in the same places, and counts for nobody."""
        return Problems(on_error=self.on_error)


def printable(text: str) -> str:
    """One line without control characters: names of files and fields come from strangers."""
    return "".join(
        character if unicodedata.category(character)[0] != "C" else f"\\x{ord(character):02x}"
        for character in text
    )
