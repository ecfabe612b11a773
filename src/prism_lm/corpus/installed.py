"""The embedded corpus: docstrings of the Python packages on this machine. Source is parsed, never imported.

A document is the docstring of a real object (module, class or function) in a real file, with its line.
"""

import ast
import inspect
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.identity import hash64
from prism_lm.corpus.packages import Package, installed_packages

DEFAULT_MAX_BYTES = 8 * 2**20
MIN_CHARACTERS = 40  # shorter ones ("See base class.") say nothing
MAX_SOURCE_BYTES = 2**20  # larger files are tables and generated code

_Described = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Described:
    """An object with a docstring: its qualified name in the module, its kind and its line."""

    name: str
    kind: str
    line: int
    text: str


def installed_documents(max_bytes: int | None = None) -> Iterator[RawDocument]:
    """Docstrings until `max_bytes` (8 MiB unless given), taken from all packages in turn, a file each time.

    The same packages give the same documents in the same order.
    """
    left = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
    for package, file in _in_turn(installed_packages()):
        for described in described_objects(package.root / file):
            left -= len(described.text.encode("utf-8"))
            if left < 0:
                return
            yield _document(package, file, described)


def described_objects(path: Path) -> Iterator[Described]:
    """The objects of a Python file that have a docstring, in the order of their lines."""
    tree = _parse(path)
    if tree is None:
        return
    for node, name in _objects(tree):
        text = _docstring(node)
        if text is not None:
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield Described(name=name, kind=_kind(node), line=line, text=text)


def _parse(path: Path) -> ast.Module | None:
    """The syntax tree; None for a file that is not worth it or not Python (packages carry broken ones)."""
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            return None
        source = path.read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in other people's strings
            return ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _objects(tree: ast.Module) -> Iterator[tuple[_Described, str]]:
    """Module, classes and functions, however deep in functions and branches, with qualified names."""
    waiting: deque[tuple[ast.AST, str]] = deque([(tree, "")])
    while waiting:
        node, prefix = waiting.popleft()
        inner = prefix
        if isinstance(node, ast.Module):
            yield node, "<module>"
        elif isinstance(node, ast.ClassDef):
            yield node, prefix + node.name
            inner = f"{prefix}{node.name}."
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, prefix + node.name
            inner = f"{prefix}{node.name}.<locals>."
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLD_STATEMENTS)]
        waiting.extendleft((child, inner) for child in reversed(children))


def _kind(node: _Described) -> str:
    if isinstance(node, ast.Module):
        return "module"
    return "class" if isinstance(node, ast.ClassDef) else "function"


_BRANCHES = (ast.If, ast.Try, ast.ExceptHandler, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
_HOLD_STATEMENTS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, *_BRANCHES)


def _docstring(node: _Described) -> str | None:
    raw = ast.get_docstring(node, clean=False)
    if raw is None:
        return None
    text = inspect.cleandoc(raw)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return text if len(text) >= MIN_CHARACTERS else None


def _in_turn(packages: list[Package]) -> Iterator[tuple[Package, str]]:
    """One file of each package, then the next of each: a limited corpus then holds some of every package.

    Within a package files come by a hash of their names, so that the part taken is not just its first folder.
    """
    queues = deque((package, iter(sorted(package.files, key=hash64))) for package in packages)
    while queues:
        package, files = queues.popleft()
        for file in islice(files, 1):
            yield package, file
            queues.append((package, files))


def _document(package: Package, file: str, described: Described) -> RawDocument:
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    title = module if described.kind == "module" else f"{module}.{described.name}"
    return RawDocument(
        position=f"{file}:{described.name}:{described.line}",
        place=f"{package.root / file}:{described.line}",
        text=described.text,
        source=package.name,
        licence=package.licence,
        title=title,
        metadata={
            "file": file,
            "line": described.line,
            "object": described.name,
            "kind": described.kind,
            "package_version": package.version,
        },
    )
