"""A corpus without some of its documents: tokens and spans are copied, nothing is tokenised again."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.folders import new_folder
from prism_lm.artifacts.progress import SILENT, Progress
from prism_lm.artifacts.visible import visible
from prism_lm.corpus.batches import BATCH_CHARACTERS, BATCH_DOCUMENTS, Batch
from prism_lm.corpus.corpus import Corpus
from prism_lm.corpus.document import Document, RawDocument
from prism_lm.corpus.drop_list import read_drop_list
from prism_lm.corpus.encode import EncodedBatch
from prism_lm.corpus.tokenizer import load_tokenizer
from prism_lm.corpus.writer import CorpusWriter

LIST_NAME = "dropped"
_NAMED = 3  # unknown ids that a message names


@dataclass(frozen=True, kw_only=True)
class SourceChange:
    """What a drop takes from one source. Tokens are without separators."""

    source: str
    documents: int
    tokens: int
    dropped_documents: int
    dropped_tokens: int


@dataclass(frozen=True, kw_only=True)
class DropPlan:
    """Which documents of a corpus go."""

    corpus: Corpus
    drop_list: Path
    dropped: NDArray[np.bool_]
    """[documents]."""

    @classmethod
    def of(cls, corpus: Corpus, drop_list: Path) -> "DropPlan":
        """Finds the documents of a list of ids.

        Raises:
            UserError: the list is unreadable or empty, names a document that the corpus has not, or all of
                them.
        """
        wanted = read_drop_list(drop_list)
        dropped = np.zeros(corpus.num_documents, dtype=np.bool_)
        missing = dict.fromkeys(wanted)
        for index, id in enumerate(corpus.document_ids()):
            if id in wanted:
                dropped[index] = True
                missing.pop(id, None)
        if missing:
            names = ", ".join(visible(id) for id in [*missing][:_NAMED])
            more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
            raise UserError(
                f"{drop_list} names documents that {corpus.path} has not: {names}{more}; take the list "
                "from this corpus"
            )
        if dropped.all():
            raise UserError(f"{drop_list} names every document of {corpus.path}; nothing would be left")
        return cls(corpus=corpus, drop_list=drop_list, dropped=dropped)

    def changes(self) -> list[SourceChange]:
        """What goes and what there was, for each source that loses a document; the largest loss first."""
        corpus = self.corpus
        tokens = np.diff(corpus.document_starts) - 1
        sources = np.asarray(corpus.sources)
        count = len(corpus.source_names)

        def per_source(weights: NDArray[Any]) -> list[int]:
            return np.bincount(sources, weights=weights, minlength=count).astype(np.int64).tolist()

        columns = zip(
            corpus.source_names,
            per_source(np.ones(len(tokens))),
            per_source(tokens),
            per_source(self.dropped),
            per_source(tokens * self.dropped),
            strict=True,
        )
        changes = [
            SourceChange(source=name, documents=d, tokens=t, dropped_documents=gone, dropped_tokens=lost)
            for name, d, t, gone, lost in columns
            if gone
        ]
        return sorted(changes, key=lambda change: (-change.dropped_tokens, change.source))

    def write(self, out: Path, progress: Progress = SILENT, *, overwrite: bool = False) -> Corpus:
        """The corpus without them, as a folder that is whole or absent; its manifest names parent and list.

        Raises:
            UserError: the folder exists already, is that of the parent, or the disk is full.
        """
        if out.resolve() == self.corpus.path.resolve():
            raise UserError(f"{out} is the corpus to drop from, which stays as it is; choose another --out")
        begun = time.monotonic()
        with ExitStack() as stack:
            folder = stack.enter_context(new_folder(out, overwrite=overwrite))
            writer = stack.enter_context(CorpusWriter(folder, self._tokenizer()))
            progress.start("copying", int((~self.dropped).sum()), "documents")
            for documents in self._kept():
                ids = [document.id for document in documents]
                writer.append(ids, _batch(documents), self._tokens(documents))
                progress.advance(len(documents))
            progress.finish()
            shutil.copyfile(self.drop_list, folder / f"{LIST_NAME}{self.drop_list.suffix}")
            self._finish(writer, seconds=time.monotonic() - begun)
        return Corpus.open(out)

    def _tokenizer(self) -> Any:
        separator = self.corpus.tokenizer.convert_ids_to_tokens(self.corpus.separator_id)
        return load_tokenizer(str(self.corpus.path), str(separator))

    def _kept(self) -> Iterator[list[Document]]:
        """The documents that stay, in order, in batches bounded in characters and number."""
        batch: list[Document] = []
        characters = 0
        for document in self.corpus.documents():
            if self.dropped[document.index]:
                continue
            batch.append(document)
            characters += len(document.text)
            if characters >= BATCH_CHARACTERS or len(batch) >= BATCH_DOCUMENTS:
                yield batch
                batch = []
                characters = 0
        if batch:
            yield batch

    def _tokens(self, documents: list[Document]) -> EncodedBatch:
        ranges = [self.corpus.document_range(document.index) for document in documents]
        return EncodedBatch(
            ids=np.concatenate([self.corpus.tokens(*r) for r in ranges]).astype(np.uint32),
            spans=np.concatenate([self.corpus.spans(*r) for r in ranges]).astype(np.uint32),
            counts=np.array([stop - start for start, stop in ranges], dtype=np.int64),
        )

    def _finish(self, writer: CorpusWriter, *, seconds: float) -> None:
        parent = self.corpus.manifest
        writer.finish(
            configuration={
                "part": parent.configuration.get("part"),
                "parent": {"path": str(self.corpus.path), "command": parent.command},
                "dropped_documents": int(self.dropped.sum()),
            },
            sources={"parent": self.corpus.hash},
            figures={
                "documents": writer.num_documents,
                "tokens": writer.num_tokens,
                "text_bytes": writer.text_bytes,
                "sources": writer.num_sources,
                "seconds": round(seconds, 3),
                "skipped": {},
                "skipped_examples": {},
            },
            command=None,
        )


def _batch(documents: list[Document]) -> Batch:
    return Batch(
        documents=[
            RawDocument(
                position=document.id,
                place=document.id,
                text=document.text,
                source=document.source,
                id=document.id,
                url=document.url,
                licence=document.licence,
                title=document.title,
                metadata=document.metadata,
            )
            for document in documents
        ],
        sizes=[len(document.text.encode("utf-8")) for document in documents],
    )
