"""Lists of documents to drop: ids in .txt, .jsonl or .parquet, as a person reviewed them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.problems import printable

SUFFIXES = (".txt", ".jsonl", ".parquet")


def read_drop_list(path: Path) -> set[str]:
    """The ids that a list names.

    A .txt has an id a line. In .jsonl and .parquet an entry has the field `id`; one whose field `drop` is
    false was looked at and stays. Lines count from 1 and parquet rows from 0, as in the ids of documents.

    Raises:
        UserError: it is not there, of another kind, has an entry without an id, or names nothing to drop.
    """
    if not path.is_file():
        raise UserError(f"{path} is no file; expected a list of documents: {', '.join(SUFFIXES)}")
    readers = {".txt": _lines, ".jsonl": _objects, ".parquet": _rows}
    if path.suffix not in readers:
        raise UserError(f"{path} is of kind {path.suffix!r}; expected {', '.join(SUFFIXES)}")
    try:
        ids = set(readers[path.suffix](path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    if not ids:
        raise UserError(f"{path} names no document to drop")
    return ids


def _lines(path: Path) -> Iterator[str]:
    yield from filter(None, path.read_text(encoding="utf-8").split("\n"))


def _objects(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}:{number}: no JSON ({printable(str(error))})") from error
            yield from _chosen(entry, f"{path}:{number}")


def _rows(path: Path) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} is no parquet file ({printable(str(error))[:120]})") from error
    wanted = [name for name in ("id", "drop") if name in table.column_names]
    for number, entry in enumerate(table.select(wanted).to_pylist()):
        yield from _chosen(entry, f"{path}, row {number}")


def _chosen(entry: Any, place: str) -> Iterator[str]:
    id = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(id, str) or not id:
        raise UserError(f"{place}: no field 'id' that holds the id of a document as text")
    drop = entry.get("drop")
    if drop is None:
        drop = True
    if not isinstance(drop, bool):
        raise UserError(f"{place}: the field 'drop' is {printable(repr(drop))[:60]}; expected true or false")
    if drop:
        yield id
