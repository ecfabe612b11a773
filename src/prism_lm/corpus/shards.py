"""The files of a corpus that grow: flat arrays in shards, and the table of documents."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prism_lm.corpus import layout as on_disk

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_BYTES = 4 * 2**20  # text in a row group: what is read to show one document
GROUP_ROWS = 4096
FILE_BYTES = 512 * 2**20  # text in a document file


def write_array(file: BinaryIO, values: NDArray[Any]) -> None:
    """Appends the bytes of an array; unlike `ndarray.tofile` it says when the disk is full."""
    file.write(np.ascontiguousarray(values).view(np.uint8).data)


class ShardedFile:
    """Appends arrays to files that each hold the same number of entries."""

    def __init__(self, folder: Path, name: Callable[[int], str], entries: int) -> None:
        self._folder, self._name, self._entries = folder, name, entries
        self._shard, self._room = 0, 0
        self._file: BinaryIO | None = None

    def append(self, values: NDArray[Any]) -> None:
        """Writes `values`, entries along the first axis, and begins new files where one is full."""
        while len(values):
            if self._room == 0:
                self._next()
            assert self._file is not None
            now = values[: self._room]
            write_array(self._file, now)
            self._room -= len(now)
            values = values[len(now) :]

    def close(self) -> None:
        """Closes the open file."""
        if self._file is not None:
            self._file.close()

    def _next(self) -> None:
        self.close()
        self._file = (self._folder / self._name(self._shard)).open("xb")
        self._shard, self._room = self._shard + 1, self._entries


class DocumentTable:
    """Writes documents to parquet files in small row groups."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[dict[str, Any]] = []
        self._group_bytes = 0
        self._file_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self.shards = 0

    def append(self, row: dict[str, Any], size: int) -> None:
        """Adds a document whose text has `size` bytes."""
        if self._rows and self._group_bytes + size > GROUP_BYTES:
            self._write_group()
        self._rows.append(row)
        self._group_bytes += size
        if len(self._rows) >= GROUP_ROWS:
            self._write_group()

    def flush(self) -> None:
        """Writes what is left."""
        if self._rows:
            self._write_group()

    def close(self) -> None:
        """Closes the open file."""
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._writer is None or self._file_bytes > FILE_BYTES:
            self._next_file()
        assert self._writer is not None
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=_schema()))
        self._file_bytes += self._group_bytes
        self._rows.clear()
        self._group_bytes = 0

    def _next_file(self) -> None:
        import pyarrow.parquet as pq

        if self._writer is not None:
            self._writer.close()
        path = self._folder / on_disk.documents_name(self.shards)
        self._writer = pq.ParquetWriter(path, _schema(), compression="zstd", compression_level=1)
        self.shards, self._file_bytes = self.shards + 1, 0


def _schema() -> "pa.Schema":
    import pyarrow as pa

    texts = ["id", "text", "source", "url", "licence", "title", "metadata"]
    numbers = ["first_token", "token_count"]
    return pa.schema([*((name, pa.string()) for name in texts), *((name, pa.int64()) for name in numbers)])
