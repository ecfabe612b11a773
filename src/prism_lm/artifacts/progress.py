"""How a library function that takes long says how far it is, without knowing about terminals."""

from typing import Protocol


class Progress(Protocol):
    """One bar at a time: start it, advance it, finish it. Calls are cheap enough to make for every batch."""

    def start(self, description: str, total: int | None, unit: str) -> None:
        """Opens a bar. `total` is None where it is not known; `unit` names what is counted ("tokens")."""

    def advance(self, amount: int = 1, **figures: float | str) -> None:
        """Moves the bar by `amount` and shows the latest `figures` beside it."""

    def finish(self) -> None:
        """Closes the bar; without an open one nothing happens."""


class Silent:
    """The Progress that shows nothing: the default of every library function."""

    def start(self, description: str, total: int | None, unit: str) -> None:
        """Shows nothing."""

    def advance(self, amount: int = 1, **figures: float | str) -> None:
        """Shows nothing."""

    def finish(self) -> None:
        """Shows nothing."""


SILENT = Silent()
"""It holds nothing, so one will do."""
