"""Documents in files: .txt and .md (one each), .jsonl and .jsonl.gz (one a line), .parquet (one a row)."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from prism_lm.artifacts.units import format_bytes
from prism_lm.corpus.config import FieldNames
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.fields import FieldReader
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.recipes import Recipe

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".txt", ".md", ".jsonl", ".jsonl.gz", ".parquet")
# A document is held in memory whole, with its tokens and their spans: some twenty times its size.
MAX_DOCUMENT_BYTES = 2**28
PARQUET_ROWS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file to read: its documents are called after `name`; `source` is the default name of their source."""

    path: Path
    name: str
    source: str


def read_file(
    file: SourceFile, fields: FieldNames, problems: Problems, recipe: Recipe | None = None
) -> Iterator[RawDocument]:
    """The documents of a file in order. What cannot be read is reported to `problems`, with the line."""
    try:
        if file.path.stat().st_size == 0:
            problems.report("empty file", str(file.path), "the file is empty")
        elif file.name.endswith((".jsonl", ".jsonl.gz")):
            yield from _read_lines(file, FieldReader(fields, file.source, problems, recipe), problems)
        elif file.name.endswith(".parquet"):
            yield from _read_parquet(file, FieldReader(fields, file.source, problems, recipe), problems)
        else:
            yield from _read_plain(file, problems)
    except OSError as error:
        problems.report("unreadable file", str(file.path), f"cannot be read: {error.strerror or error}")


def _read_plain(file: SourceFile, problems: Problems) -> Iterator[RawDocument]:
    size = file.path.stat().st_size
    if size > MAX_DOCUMENT_BYTES:
        problems.report("too long", str(file.path), _too_long(size))
        return
    text = _decode(file.path.read_bytes(), problems, str(file.path), first_line=1)
    if text is not None:
        text = text.removeprefix("\ufeff")
        yield RawDocument(
            position=file.name, place=str(file.path), text=text, source=file.source, title=file.path.stem
        )


def _read_lines(file: SourceFile, reader: FieldReader, problems: Problems) -> Iterator[RawDocument]:
    number = 0
    try:
        with _open_lines(file.path) as lines:
            for number, line in enumerate(_bounded_lines(lines), 1):
                record = _parse(line, problems, file.path, number)
                if record is not None:
                    document = reader.document(record, f"{file.name}:{number}", f"{file.path}:{number}")
                    if document is not None:
                        yield document
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problems.report(
            "broken gzip", f"{file.path}:{number + 1}", f"the gzip stream is broken here: {error}"
        )


def _open_lines(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _bounded_lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of a file; of one that is too long only the beginning, so that memory is bounded."""
    while line := file.readline(MAX_DOCUMENT_BYTES):
        yield line
        while len(line) == MAX_DOCUMENT_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_DOCUMENT_BYTES)


def _parse(line: bytes, problems: Problems, path: Path, number: int) -> dict[str, Any] | None:
    position = f"{path}:{number}"
    if len(line) >= MAX_DOCUMENT_BYTES:
        problems.report("too long", position, _too_long(len(line)))
        return None
    if not line.strip():
        return None
    text = _decode(line, problems, str(path), first_line=number)
    if text is None:
        return None
    try:
        record = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        problems.report("broken JSON", position, f"not JSON: {error}")
        return None
    if not isinstance(record, dict):
        problems.report("broken JSON", position, "the line is JSON but not an object with fields")
        return None
    return record


def _decode(raw: bytes, problems: Problems, path: str, *, first_line: int) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = first_line + before.count(b"\n")
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problems.report(
            "not UTF-8",
            f"{path}:{line}",
            f"byte {column} of the line (0x{raw[error.start]:02x}) is not UTF-8",
        )
        return None


def _read_parquet(file: SourceFile, reader: FieldReader, problems: Problems) -> Iterator[RawDocument]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(file.path) as table:
            for batch in table.iter_batches(batch_size=PARQUET_ROWS_AT_ONCE, use_threads=False):
                for record in _records(batch):
                    place = f"{file.path}:{row}"
                    whole = _decode_record(record, problems, place)
                    document = None if whole is None else reader.document(whole, f"{file.name}:{row}", place)
                    row += 1
                    if document is not None:
                        yield document
    except pa.ArrowException as error:
        problems.report("broken parquet", f"{file.path}:{row}", f"cannot be read from this row on: {error}")


def _records(batch: "pa.RecordBatch") -> list[dict[str, Any]]:
    """The rows of a batch; text is left as bytes where some of it is not UTF-8."""
    import pyarrow as pa

    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        binary = [
            column.cast(pa.large_binary())
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            else column
            for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(binary, names=batch.schema.names).to_pylist()


def _decode_record(record: dict[str, Any], problems: Problems, place: str) -> dict[str, Any] | None:
    decoded: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError as error:
                problems.report("not UTF-8", place, f"field {name!r} is not UTF-8 at byte {error.start + 1}")
                return None
        decoded[name] = value
    return decoded


def _too_long(size: int) -> str:
    return f"{format_bytes(size)} in one document; the limit is {format_bytes(MAX_DOCUMENT_BYTES)}; split it"
