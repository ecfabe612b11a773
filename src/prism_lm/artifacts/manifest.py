"""The manifest: what a folder is, what it was made from and with, and the hash of every file in it."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.folders import MANIFEST_NAME, write_file_atomic

FORMAT_VERSION = 1
_FIELDS = {"kind", "format_version", "hash", "configuration", "sources", "figures", "files", "command"}


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """Size in bytes and BLAKE2b-256 hash of one file."""

    bytes: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `manifest.json` says.

    `hash` names the folder: it covers the kind, the configuration, the sources and the hashes of all files,
    so two folders with the same hash hold the same bytes. `sources` maps a role ("corpus") to the hash of
    what was used. `command` is the command line that makes the folder again.
    """

    kind: str
    format_version: int
    hash: str
    configuration: dict[str, Any]
    sources: dict[str, str]
    figures: dict[str, Any]
    files: dict[str, FileEntry]
    command: str


def write_manifest(
    folder: str | os.PathLike[str],
    *,
    kind: str,
    configuration: Mapping[str, Any],
    sources: Mapping[str, str],
    figures: Mapping[str, Any],
    command: str | None = None,
    exclude: Collection[str] = (),
) -> Manifest:
    """Hashes every file in `folder` and writes `manifest.json`, which therefore comes last.

    `exclude` names entries at the top of the folder that are no part of it (a run's checkpoints, its index).
    `command` is the running process's own command line unless given.
    """
    root = Path(folder)
    files = {name: _entry(root / name) for name in _file_names(root, frozenset(exclude) | {MANIFEST_NAME})}
    plain = json.loads(json.dumps({"configuration": configuration, "sources": sources, "figures": figures}))
    manifest = Manifest(
        kind=kind,
        format_version=FORMAT_VERSION,
        hash=_identity(kind, plain["configuration"], plain["sources"], files),
        configuration=plain["configuration"],
        sources=plain["sources"],
        figures=plain["figures"],
        files=files,
        command=command_line() if command is None else command,
    )
    write_file_atomic(root / MANIFEST_NAME, json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n")
    return manifest


def read_manifest(folder: str | os.PathLike[str], *, kind: str) -> Manifest:
    """Reads and checks `manifest.json`: that it is there, of this kind, of a known version, and unaltered.

    Raises:
        UserError: any of that does not hold; the line says which folder and what to do.
    """
    root = Path(folder)
    raw = _load(root, kind)
    if raw["kind"] != kind:
        raise UserError(
            f"{root} is of kind {raw['kind']!r} where {kind!r} was expected; give a folder of that kind"
        )
    if raw["format_version"] > FORMAT_VERSION:
        raise UserError(
            f"{root} has format {raw['format_version']} and this prism-lm reads up to {FORMAT_VERSION}; "
            "install a newer prism-lm"
        )
    files = {_safe_name(root, name): FileEntry(**entry) for name, entry in raw["files"].items()}
    fields: dict[str, Any] = {**raw, "files": files}
    manifest = Manifest(**fields)
    if _identity(kind, manifest.configuration, manifest.sources, files) != manifest.hash:
        raise UserError(f"{root / MANIFEST_NAME} was altered: its hash does not fit; make the {kind} again")
    return manifest


def verify_files(folder: str | os.PathLike[str], manifest: Manifest, *, deep: bool = False) -> None:
    """Checks that every file of the manifest is there with its size, and with `deep` with its hash.

    Raises:
        UserError: one is missing, of another size, altered, or a link that leads out of the folder.
    """
    root = Path(folder)
    inside = root.resolve()
    again = f"make it again with: {manifest.command}"
    for name, entry in manifest.files.items():
        path = root / name
        if not path.is_file():
            raise UserError(f"{root} is not whole: {name} is missing; {again}")
        if not path.resolve().is_relative_to(inside):
            raise UserError(f"{root} is not trusted: {name} is a link that leads out of the folder; {again}")
        size = path.stat().st_size
        if size != entry.bytes:
            raise UserError(f"{root} is not whole: {name} has {size:,} bytes, not {entry.bytes:,}; {again}")
        if deep and hash_file(path) != entry.hash:
            raise UserError(f"{root} is damaged: the contents of {name} are not what was written; {again}")


def hash_file(path: Path) -> str:
    """The BLAKE2b-256 hash of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def command_line() -> str:
    """The command line of this process, as one would type it."""
    program = Path(sys.argv[0] or "python")
    if program.name in {"prism", "prism.exe"} or program.parts[-2:] == ("prism_lm", "__main__.py"):
        return shlex.join(["prism", *sys.argv[1:]])
    return shlex.join(["python", *sys.argv])


def _file_names(root: Path, excluded: frozenset[str]) -> list[str]:
    names: list[str] = []
    for directory, folders, files in os.walk(root):
        relative = Path(directory).relative_to(root)
        if relative == Path():
            folders[:] = [name for name in folders if name not in excluded]
            files = [name for name in files if name not in excluded]
        names.extend((relative / name).as_posix() for name in files)
    return sorted(names)


def _entry(path: Path) -> FileEntry:
    return FileEntry(bytes=path.stat().st_size, hash=hash_file(path))


def _identity(kind: str, configuration: object, sources: object, files: Mapping[str, FileEntry]) -> str:
    hashes = {name: entry.hash for name, entry in files.items()}
    text = json.dumps([kind, configuration, sources, hashes], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8"), digest_size=32).hexdigest()


def _load(root: Path, kind: str) -> dict[str, Any]:
    path = root / MANIFEST_NAME
    try:
        raw = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        what = (
            f"holds no {MANIFEST_NAME}, so it is not finished or not ours"
            if root.exists()
            else "does not exist"
        )
        raise UserError(f"{root} {what}; a {kind} folder was expected") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); make the {kind} again") from error
    if not (isinstance(raw, dict) and set(raw) == _FIELDS and _well_formed(raw)):
        raise UserError(f"{path} is not a manifest of prism-lm; a {kind} folder was expected")
    return raw


def _well_formed(raw: Mapping[str, Any]) -> bool:
    texts = all(isinstance(raw[name], str) for name in ("kind", "hash", "command"))
    tables = all(isinstance(raw[name], dict) for name in ("configuration", "sources", "figures", "files"))
    if not (texts and tables and isinstance(raw["format_version"], int)):
        return False
    return all(map(_entry_like, raw["files"].values()))


def _entry_like(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == {"bytes", "hash"}
        and isinstance(entry["bytes"], int)
        and isinstance(entry["hash"], str)
    )


def _safe_name(root: Path, name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0] or "\0" in name:
        raise UserError(f"{root / MANIFEST_NAME} names {name!r}, which lies outside the folder")
    return name
