"""Which Python packages lie on this machine, with their files, versions and licences."""

import os
import platform
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

STANDARD_LIBRARY = "python"
# Tests say little about what they test, and vendored packages are copies.
_PASSED_OVER = frozenset(
    {"test", "tests", "testing", "idle_test", "_vendor", "_vendored", "vendored", "site-packages"}
)
_LONGEST_LICENCE = 100  # a longer field holds the whole text


@dataclass(frozen=True, kw_only=True)
class Package:
    """A distribution, or the standard library: `files` are its Python files, relative to `root`."""

    name: str
    version: str
    licence: str
    root: Path
    files: tuple[str, ...]


def installed_packages() -> list[Package]:
    """The standard library and all distributions with Python files, ordered by name, each once."""
    found = {STANDARD_LIBRARY: _standard_library()}
    for distribution in distributions():
        package = _package(distribution)
        # The first of a name is the one that Python imports.
        if package is not None and package.name not in found:
            found[package.name] = package
    return [found[name] for name in sorted(found)]


def licence_of(distribution: Distribution) -> str:
    """The licence that a distribution's metadata states; empty where it states none."""
    metadata = distribution.metadata
    for name in ("License-Expression", "License"):
        value = str((metadata.get_all(name) or [""])[0]).strip()
        if value and value.upper() != "UNKNOWN" and len(value) <= _LONGEST_LICENCE and "\n" not in value:
            return value
    classifiers = [entry for entry in metadata.get_all("Classifier") or [] if entry.startswith("License ::")]
    return "; ".join(entry.rsplit("::", 1)[-1].strip() for entry in classifiers)


def _standard_library() -> Package:
    root = Path(sysconfig.get_paths()["stdlib"])
    return Package(
        name=STANDARD_LIBRARY,
        version=platform.python_version(),
        licence="PSF-2.0",
        root=root,
        files=tuple(_python_files_below(root)),
    )


def _python_files_below(root: Path) -> Iterator[str]:
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_wanted(name))
        relative = PurePosixPath(Path(directory).relative_to(root).as_posix())
        yield from (str(relative / name) for name in sorted(names) if name.endswith(".py"))


def _package(distribution: Distribution) -> Package | None:
    name = "".join((distribution.metadata.get_all("Name") or [])[:1])
    files = tuple(sorted(_own_files(distribution)))
    if not name or not files:
        return None
    root = Path(str(distribution.locate_file("")))
    return Package(
        name=name, version=distribution.version, licence=licence_of(distribution), root=root, files=files
    )


def _own_files(distribution: Distribution) -> Iterator[str]:
    """Its Python files; names that lead out of the folder of packages (scripts, or worse) are left out."""
    for file in distribution.files or ():
        parts = file.parts
        inside = ".." not in parts and not file.is_absolute()
        if inside and file.suffix == ".py" and all(map(_is_wanted, parts[:-1])):
            yield file.as_posix()


def _is_wanted(folder: str) -> bool:
    return folder not in _PASSED_OVER and not folder.startswith((".", "__pycache__"))
