"""A corpus opened for reading: the token stream, the documents, and the way from one to the other."""

import json
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prism_lm.artifacts.manifest import Manifest, read_manifest, verify_files
from prism_lm.corpus import layout as on_disk
from prism_lm.corpus.document import Document, TokenLocation
from prism_lm.corpus.document_reader import DocumentReader
from prism_lm.corpus.tokenizer import TOKENIZER_FOLDER, load_fast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Corpus:
    """Documents and their tokens as one stream: the tokens of a document, a separator, the next document, ...

    Open it with `Corpus.open`. Everything is read through memory maps, so opening is quick and memory stays
    small; a copy sent to another process opens the files again.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._layout = on_disk.Layout(**manifest.configuration["layout"])
        self._documents = DocumentReader(path, self._layout.num_document_shards)
        self._token_maps: dict[int, NDArray[Any]] = {}
        self._span_maps: dict[int, NDArray[Any]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, deep: bool = False) -> "Corpus":
        """Opens a corpus folder; with `deep`, reads every byte once and compares the hashes.

        Raises:
            UserError: it is no corpus, not whole (a file is missing or has another size), or was altered.
        """
        folder = Path(path)
        manifest = read_manifest(folder, kind=on_disk.KIND)
        verify_files(folder, manifest, deep=deep)
        return cls(folder, manifest)

    def __reduce__(self) -> tuple[Callable[[Path], "Corpus"], tuple[Path]]:
        return Corpus.open, (self.path,)

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}, {self.num_documents:,} documents, {self.num_tokens:,} tokens)"

    @property
    def hash(self) -> str:
        """Names the contents; whatever is made from this corpus records it."""
        return self.manifest.hash

    @property
    def num_tokens(self) -> int:
        """Length of the stream, separators included."""
        return self._layout.num_tokens

    @property
    def num_documents(self) -> int:
        """Number of documents; each has at least one token."""
        return self._layout.num_documents

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id."""
        return self._layout.vocab_size

    @property
    def separator_id(self) -> int:
        """The token behind each document."""
        return self._layout.separator_id

    @property
    def tokenizer_path(self) -> Path:
        """A folder that AutoTokenizer loads."""
        return self.path / TOKENIZER_FOLDER

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer that made the tokens."""
        return load_fast(str(self.tokenizer_path))

    @cached_property
    def source_names(self) -> list[str]:
        """The names that `sources` counts in."""
        return json.loads((self.path / on_disk.SOURCES_NAME).read_text(encoding="utf-8"))

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """[documents] the place of each document's source in `source_names`."""
        return self._map(on_disk.DOCUMENT_SOURCES, on_disk.DOCUMENT_SOURCE_DTYPE)

    @cached_property
    def document_starts(self) -> NDArray[np.int64]:
        """[documents + 1] position of each document's first token; behind them the length of the stream."""
        return self._map(on_disk.DOCUMENT_STARTS, on_disk.DOCUMENT_START_DTYPE)

    def tokens(self, start: int, stop: int) -> NDArray[np.int64]:
        """The token ids at positions [start, stop) of the stream."""
        return self._gather(self._token_shard, start, stop).astype(np.int64)

    def spans(self, start: int, stop: int) -> NDArray[np.int64]:
        """[n, 2] the characters [start, end) in their documents of the tokens at positions [start, stop)."""
        return self._gather(self._span_shard, start, stop).astype(np.int64)

    def document(self, index: int) -> Document:
        """The document with this index, text included."""
        if not 0 <= index < self.num_documents:
            raise IndexError(f"document {index} of {self.num_documents}")
        return self._documents.document(index)

    def documents(self) -> Iterator[Document]:
        """All documents in order, read a few at a time."""
        return self._documents.all()

    def document_ids(self) -> Iterator[str]:
        """The ids of all documents in order, without reading texts."""
        return self._documents.ids()

    def document_range(self, index: int) -> tuple[int, int]:
        """Positions [first, stop) of a document's tokens; at `stop` stands its separator."""
        if not 0 <= index < self.num_documents:
            raise IndexError(f"document {index} of {self.num_documents}")
        return int(self.document_starts[index]), int(self.document_starts[index + 1]) - 1

    def document_index(self, position: int) -> int:
        """The document of the token at `position`; a separator belongs to the document before it."""
        if not 0 <= position < self.num_tokens:
            raise IndexError(f"position {position} of {self.num_tokens}")
        return int(np.searchsorted(self.document_starts, position, side="right")) - 1

    def documents_of(self, positions: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The document of each position; same shape."""
        given = np.asarray(positions)
        if given.size and (given.min() < 0 or given.max() >= self.num_tokens):
            raise IndexError(f"positions {given.min()} to {given.max()} of {self.num_tokens}")
        return (np.searchsorted(self.document_starts, given, side="right") - 1).astype(np.int64)

    def locate(self, position: int) -> TokenLocation:
        """The document and the characters of the token at `position`."""
        index = self.document_index(position)
        start, end = self.spans(position, position + 1)[0]
        return TokenLocation(
            document_index=index,
            document_id=self._documents.id(index),
            start=int(start),
            end=int(end),
            is_separator=position == self.document_range(index)[1],
        )

    def _gather(self, shard: Callable[[int], NDArray[Any]], start: int, stop: int) -> NDArray[Any]:
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"positions [{start}, {stop}) of {self.num_tokens}")
        size = self._layout.tokens_per_shard
        first, last = start // size, max(start, stop - 1) // size
        if first == last:
            return shard(first)[start - first * size : stop - first * size] if stop > start else shard(0)[:0]
        parts = [shard(i)[max(0, start - i * size) : stop - i * size] for i in range(first, last + 1)]
        return np.concatenate(parts)

    def _token_shard(self, shard: int) -> NDArray[Any]:
        if shard not in self._token_maps:
            dtype = np.dtype(self._layout.token_dtype).newbyteorder("<")
            self._token_maps[shard] = self._map(on_disk.tokens_name(shard), dtype)
        return self._token_maps[shard]

    def _span_shard(self, shard: int) -> NDArray[Any]:
        if shard not in self._span_maps:
            self._span_maps[shard] = self._map(on_disk.spans_name(shard), on_disk.SPAN_DTYPE).reshape(-1, 2)
        return self._span_maps[shard]

    def _map(self, name: str, dtype: "np.dtype[Any]") -> NDArray[Any]:
        return np.memmap(self.path / name, dtype=dtype, mode="r")
