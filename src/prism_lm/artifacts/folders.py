"""Folders and files that are whole or absent: written under another name, flushed to the disk, renamed."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from prism_lm.artifacts.errors import UserError, explain_full_disk

MANIFEST_NAME = "manifest.json"


@contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Generator[Path, None, None]:
    """Gives a temporary folder beside `path` to write in, and renames it to `path` when the block ends well.

    If the block raises, the temporary folder is removed and `path` is as it was. If the process is killed,
    `path` is as it was, and the next call for the same `path` removes what was left over. With `overwrite`,
    the folder that stands there is replaced only once the new one is complete.

    Raises:
        UserError: `path` exists and `overwrite` is off; `path` cannot be replaced safely; the disk is full.
    """
    target = _absolute(path)
    _check_target(target, overwrite=overwrite)
    with explain_full_disk(target):
        _make_parent(target)
        _clean_left_overs(target)
        part, lock = _make_part(target)
        try:
            yield part
            _flush_tree(part)
            _put_in_place(part, target, overwrite=overwrite)
        finally:
            # After a rename `part` is gone and nothing happens here.
            shutil.rmtree(part, ignore_errors=True)
            os.close(lock)


def write_file_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Writes `data` (text as UTF-8) so that `path` holds all of it or what it held before.

    Raises:
        UserError: the disk is full.
    """
    target = _absolute(path)
    part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
    raw = data.encode("utf-8") if isinstance(data, str) else data
    with explain_full_disk(target):
        try:
            with part.open("xb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _flush(target.parent)


def _absolute(path: str | os.PathLike[str]) -> Path:
    # Path.resolve would follow a link that stands under this name, and Path.absolute would keep "..".
    return Path(os.path.abspath(path))  # noqa: PTH100


def _check_target(target: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise UserError(
            f"{target} exists already; choose another name, remove it, or add --overwrite (overwrite=True)"
        )
    if target.is_symlink() or not target.is_dir():
        raise UserError(f"{target} is not a folder, so it is not replaced; remove it, or choose another name")
    if any(target.iterdir()) and not (target / MANIFEST_NAME).is_file():
        raise UserError(
            f"{target} holds files but no {MANIFEST_NAME}, so prism-lm did not make it and does not replace "
            "it; remove it yourself, or choose another name"
        )


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise UserError(f"{target.parent} cannot be a folder to write in: {error.strerror}") from error


def _make_part(target: Path) -> tuple[Path, int]:
    """Makes a temporary folder and locks it: the lock dies with the process, and says that it is in use."""
    while True:
        part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
        try:
            part.mkdir()
        except PermissionError as error:
            raise UserError(f"{target.parent} cannot be written in: {error.strerror}") from error
        lock = _try_lock(part)
        if lock is not None:
            return part, lock


def _try_lock(folder: Path) -> int | None:
    """An open descriptor that holds the folder's lock; None where somebody else holds it or it has gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == folder.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _siblings(target: Path, mark: str) -> list[Path]:
    """The folders `.NAME.MARK-xxxxxxxx` beside the target; as text, for a name may hold `*` or `[`."""
    start = f".{target.name}.{mark}-"
    return [path for path in target.parent.iterdir() if path.name.startswith(start) and not path.is_symlink()]


def _clean_left_overs(target: Path) -> None:
    """Removes what killed processes left, and puts back a folder whose replacement never arrived."""
    busy = False
    for part in _siblings(target, "part"):
        lock = _try_lock(part)
        if lock is None:
            busy = True
            continue
        shutil.rmtree(part, ignore_errors=True)
        os.close(lock)
    for old in _siblings(target, "old") if not busy else []:
        if os.path.lexists(target):
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def _put_in_place(part: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite and target.is_dir():
        old = target.with_name(f".{target.name}.old-{secrets.token_hex(4)}")
        target.rename(old)
        try:
            part.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    elif os.path.lexists(target):
        raise UserError(f"{target} was made by somebody else meanwhile; choose another name, or remove it")
    else:
        part.rename(target)
    _flush(target.parent)


def _flush_tree(folder: Path) -> None:
    for directory, _, names in os.walk(folder):
        for name in names:
            _flush(Path(directory, name))
        _flush(Path(directory))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(PermissionError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
