"""From what the user named to a stream of documents, in an order that is the same on every run."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.files import SUFFIXES, SourceFile, read_file
from prism_lm.corpus.problems import Problems, printable
from prism_lm.corpus.recipes import recipe_named

HUB_PREFIX = "hf:"
INSTALLED = "installed"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One SOURCE of the command line. `files` is empty for a hub data set and for `installed`."""

    given: str
    files: tuple[SourceFile, ...] = ()

    def documents(self, config: PrepareConfig, problems: Problems) -> Iterator[RawDocument]:
        """Its documents in order, within the limits of the configuration."""
        return _limited(self._all(config, problems), config)

    def _all(self, config: PrepareConfig, problems: Problems) -> Iterator[RawDocument]:
        if self.given == INSTALLED:
            from prism_lm.corpus.installed import installed_documents

            yield from installed_documents(max_bytes=config.max_bytes)
        elif self.given.startswith(HUB_PREFIX):
            from prism_lm.corpus.hub import hub_documents

            yield from hub_documents(self.given.removeprefix(HUB_PREFIX), config, problems)
        else:
            for file in self.files:
                yield from self.of_file(file, config, problems)

    def of_file(self, file: SourceFile, config: PrepareConfig, problems: Problems) -> Iterator[RawDocument]:
        """The documents of one of its files."""
        recipe = recipe_named(config.recipe) if config.recipe else None
        return read_file(file, config.fields, problems, recipe)


def find_sources(config: PrepareConfig, problems: Problems) -> list[Source]:
    """The sources of a configuration, each with its files listed in a fixed order.

    Raises:
        UserError: one does not exist, is of no known kind, or is a folder without text.
    """
    return [_find(given, config, problems) for given in config.sources]


def _find(given: str, config: PrepareConfig, problems: Problems) -> Source:
    if given == INSTALLED or given.startswith(HUB_PREFIX):
        return Source(given=given)
    path = Path(given)
    if path.is_dir():
        return Source(given=given, files=tuple(_files_in(path, config, problems)))
    if not path.exists():
        raise UserError(
            printable(f"{given} does not exist; give a file, a folder, {HUB_PREFIX}NAME, or {INSTALLED}")
        )
    if not path.name.endswith(SUFFIXES):
        raise UserError(printable(f"{given} is of no known kind; {_expected()} was expected"))
    return Source(given=given, files=(SourceFile(path=path, name=path.name, source=_stem(path.name)),))


def _files_in(folder: Path, config: PrepareConfig, problems: Problems) -> Iterator[SourceFile]:
    """The text files below a folder in the order of their names; hidden files and folders are passed over."""
    inside = folder.resolve()
    others: Counter[str] = Counter()
    found = 0
    for directory, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(directory, name)
            if not name.endswith(SUFFIXES):
                others[path.suffix] += 1
            elif path.is_symlink() and not _follow(path, inside, config, problems):
                continue
            else:
                found += 1
                relative = path.relative_to(folder).as_posix()
                yield SourceFile(path=path, name=f"{inside.name}/{relative}", source=inside.name)
    if not found:
        raise UserError(
            printable(f"{folder} holds no {_expected()} ({_counted(others)}); give a folder with text")
        )


def _follow(path: Path, inside: Path, config: PrepareConfig, problems: Problems) -> bool:
    """Whether a link is read: never one to a file inside the folder, which is read under its own name."""
    target = path.resolve()
    if target.is_relative_to(inside):
        return False
    if not config.follow_links:
        problems.report(
            "link out of the folder",
            str(path),
            "a link that leads out of the folder; --follow-links reads it",
        )
    return config.follow_links


def _limited(documents: Iterator[RawDocument], config: PrepareConfig) -> Iterator[RawDocument]:
    left = config.max_bytes
    for document in islice(documents, config.max_documents):
        if left is not None:
            left -= len(document.text.encode("utf-8", errors="replace"))
            if left < 0:
                return
        yield document


def _expected() -> str:
    return ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]} file"


def _counted(others: Counter[str]) -> str:
    kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in others.most_common(4))
    return f"other files: {kinds}" if others else "no files at all"


def _stem(name: str) -> str:
    return next(
        name.removesuffix(suffix)
        for suffix in sorted(SUFFIXES, key=len, reverse=True)
        if name.endswith(suffix)
    )
