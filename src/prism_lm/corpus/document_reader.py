"""Reads single documents out of the parquet files of a corpus."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prism_lm.corpus import layout as on_disk
from prism_lm.corpus.document import Document

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS_KEPT = 8
_COLUMNS = ["id", "text", "source", "url", "licence", "title", "metadata"]


class DocumentReader:
    """Finds the row group that holds a document, reads it, and keeps the latest few."""

    def __init__(self, folder: Path, num_shards: int) -> None:
        self._folder = folder
        self._num_shards = num_shards
        self._groups: OrderedDict[tuple[int, bool], pa.Table] = OrderedDict()

    def document(self, index: int) -> Document:
        """The document with this index."""
        group, row = self._place(index)
        return _document(index, self._read(group, ids_only=False).slice(row, 1).to_pylist()[0])

    def id(self, index: int) -> str:
        """Its id alone, without reading texts."""
        group, row = self._place(index)
        return self._read(group, ids_only=True).column("id")[row].as_py()

    def all(self) -> Iterator[Document]:
        """All documents in order, a row group in memory at a time."""
        index = 0
        for group in range(len(self._group_starts) - 1):
            for row in self._read(group, ids_only=False).to_pylist():
                yield _document(index, row)
                index += 1

    def ids(self) -> Iterator[str]:
        """All ids in order, those of a row group in memory at a time."""
        for group in range(len(self._group_starts) - 1):
            yield from self._read(group, ids_only=True).column("id").to_pylist()

    @cached_property
    def _group_starts(self) -> NDArray[np.int64]:
        """Index of each row group's first document, over all files; behind them the number of documents."""
        return np.cumsum([0, *(rows for _, _, rows in self._group_list)])

    @cached_property
    def _group_list(self) -> list[tuple[int, int, int]]:
        """For each row group: file, place in the file, rows."""
        import pyarrow.parquet as pq

        groups: list[tuple[int, int, int]] = []
        for shard in range(self._num_shards):
            footer = pq.read_metadata(self._folder / on_disk.documents_name(shard))
            groups.extend((shard, i, footer.row_group(i).num_rows) for i in range(footer.num_row_groups))
        return groups

    def _place(self, index: int) -> tuple[int, int]:
        group = int(np.searchsorted(self._group_starts, index, side="right")) - 1
        return group, index - int(self._group_starts[group])

    def _read(self, group: int, *, ids_only: bool) -> "pa.Table":
        import pyarrow.parquet as pq

        key = (group, ids_only)
        if key not in self._groups:
            shard, place, _ = self._group_list[group]
            with pq.ParquetFile(self._folder / on_disk.documents_name(shard)) as file:
                columns = ["id"] if ids_only else _COLUMNS
                self._groups[key] = file.read_row_group(place, columns=columns, use_threads=False)
            if len(self._groups) > GROUPS_KEPT:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]


def _document(index: int, row: dict[str, Any]) -> Document:
    fields: dict[str, Any] = {**row, "index": index, "metadata": json.loads(row["metadata"])}
    return Document(**fields)
