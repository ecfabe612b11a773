"""The errors that prism-lm raises on purpose, and the one that a full disk becomes."""

import errno
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prism_lm.artifacts.units import format_bytes

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class PrismError(Exception):
    """Whatever prism-lm raises on purpose."""


class UserError(PrismError):
    """The input is wrong. One line: what was given, what was expected, what to do. Exit status 2."""


class GateFailed(PrismError):  # noqa: N818 - the outcome of a check, not a fault
    """A check that the user asked for did not hold. Exit status 1."""


def is_disk_full(error: BaseException) -> bool:
    """Whether `error`, or what caused it, says that the disk has no room left.

    Libraries written in Rust or C++ (tokenizers, safetensors, arrow) keep only the text of the error.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in DISK_FULL:
            return True
        if isinstance(seen, Exception) and "No space left on device" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


@contextmanager
def explain_full_disk(target: Path) -> Generator[None, None, None]:
    """Turns "no space left" while writing `target` into a UserError that names it and says what is free."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PrismError) or not is_disk_full(error):
            raise
        raise UserError(
            f"the disk is full: {target} could not be written ({_free(target.parent)}); nothing half-written "
            "was left under that name; free some space or choose a folder on another disk"
        ) from error


def _free(folder: Path) -> str:
    try:
        return f"{format_bytes(shutil.disk_usage(folder).free)} free in {folder}"
    except OSError:
        return f"in {folder}"
