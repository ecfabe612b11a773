"""Writes a corpus folder, a batch of documents at a time, in memory that does not grow."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from prism_lm.artifacts.folders import write_file_atomic
from prism_lm.artifacts.manifest import Manifest, write_manifest
from prism_lm.corpus import layout as on_disk
from prism_lm.corpus.batches import Batch
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.encode import EncodedBatch
from prism_lm.corpus.shards import DocumentTable, ShardedFile, write_array
from prism_lm.corpus.tokenizer import TOKENIZER_FOLDER, CorpusTokenizer


class CorpusWriter:
    """Documents and tokens in, a corpus folder out. A context manager: on leaving, its files are closed."""

    def __init__(self, folder: Path, tokenizer: CorpusTokenizer) -> None:
        self._folder, self._tokenizer = folder, tokenizer
        self._tokens_per_shard = on_disk.TOKENS_PER_SHARD
        self._dtype = on_disk.token_dtype(tokenizer.vocab_size)
        self._tokens = ShardedFile(folder, on_disk.tokens_name, self._tokens_per_shard)
        self._spans = ShardedFile(folder, on_disk.spans_name, self._tokens_per_shard)
        self._table = DocumentTable(folder)
        self._starts = (folder / on_disk.DOCUMENT_STARTS).open("xb")
        self._source_ids = (folder / on_disk.DOCUMENT_SOURCES).open("xb")
        self._source_names: dict[str, int] = {}
        self.num_documents = 0
        self.num_tokens = 0
        self.text_bytes = 0

    def __enter__(self) -> "CorpusWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def num_sources(self) -> int:
        """How many different sources the documents name."""
        return len(self._source_names)

    def append(self, ids: Sequence[str], batch: Batch, encoded: EncodedBatch) -> None:
        """Adds documents with their ids and tokens; each has at least one token."""
        documents, counts = batch.documents, encoded.counts
        assert counts.min(initial=1) > 0, "a document without tokens has no place in the stream"
        starts = self.num_tokens + np.cumsum(counts + 1) - (counts + 1)
        self._append_tokens(documents, encoded)
        for index, document in enumerate(documents):
            row = _row(ids[index], document, int(starts[index]), int(counts[index]))
            self._table.append(row, batch.sizes[index])
        self._append_sources(documents)
        write_array(self._starts, starts.astype(on_disk.DOCUMENT_START_DTYPE))
        self.text_bytes += sum(batch.sizes)
        self.num_tokens += int(counts.sum()) + len(counts)
        self.num_documents += len(documents)

    def finish(
        self,
        *,
        configuration: Mapping[str, Any],
        sources: Mapping[str, str],
        figures: Mapping[str, Any],
        command: str | None,
    ) -> Manifest:
        """Closes the files, adds the tokenizer, and writes the manifest last."""
        write_array(self._starts, np.array([self.num_tokens], dtype=on_disk.DOCUMENT_START_DTYPE))
        self._table.flush()
        self.close()
        write_file_atomic(self._folder / on_disk.SOURCES_NAME, json.dumps(list(self._source_names), indent=0))
        self._tokenizer.save(self._folder / TOKENIZER_FOLDER)
        return write_manifest(
            self._folder,
            kind=on_disk.KIND,
            configuration={**configuration, "layout": asdict(self._layout())},
            sources=sources,
            figures=figures,
            command=command,
        )

    def close(self) -> None:
        """Closes every file."""
        self._table.close()
        for file in (self._tokens, self._spans, self._starts, self._source_ids):
            file.close()

    def _append_tokens(self, documents: Sequence[RawDocument], encoded: EncodedBatch) -> None:
        """Puts the separator behind each document; its span is empty and stands at the end of the text."""
        separators = np.cumsum(encoded.counts + 1) - 1
        total = len(encoded.ids) + len(separators)
        is_token = np.ones(total, dtype=np.bool_)
        is_token[separators] = False
        ids = np.full(total, self._tokenizer.separator_id, dtype=np.dtype(self._dtype).newbyteorder("<"))
        ids[is_token] = encoded.ids
        spans = np.empty((total, 2), dtype=on_disk.SPAN_DTYPE)
        spans[is_token] = encoded.spans
        lengths = np.fromiter((len(document.text) for document in documents), np.int64, len(documents))
        spans[separators] = lengths[:, None]
        self._tokens.append(ids)
        self._spans.append(spans)

    def _append_sources(self, documents: Sequence[RawDocument]) -> None:
        names = self._source_names
        ids = [names.setdefault(document.source, len(names)) for document in documents]
        write_array(self._source_ids, np.array(ids, dtype=on_disk.DOCUMENT_SOURCE_DTYPE))

    def _layout(self) -> on_disk.Layout:
        return on_disk.Layout(
            num_documents=self.num_documents,
            num_tokens=self.num_tokens,
            vocab_size=self._tokenizer.vocab_size,
            separator_id=self._tokenizer.separator_id,
            token_dtype=self._dtype,
            tokens_per_shard=self._tokens_per_shard,
            num_document_shards=self._table.shards,
        )


def _row(id: str, document: RawDocument, first_token: int, token_count: int) -> dict[str, Any]:
    return {
        "id": id,
        "text": document.text,
        "source": document.source,
        "url": document.url,
        "licence": document.licence,
        "title": document.title,
        "metadata": json.dumps(document.metadata, default=str),
        "first_token": first_token,
        "token_count": token_count,
    }
