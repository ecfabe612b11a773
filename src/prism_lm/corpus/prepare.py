"""Sources to a corpus: read, tokenise, identify, write; one pass, a batch at a time, in flat memory."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.folders import new_folder
from prism_lm.artifacts.progress import SILENT, Progress
from prism_lm.corpus.batches import Batch, encoded, in_batches
from prism_lm.corpus.command import command_of
from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.corpus import Corpus
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.encode import EncodedBatch, Encoder
from prism_lm.corpus.estimate import text_bytes
from prism_lm.corpus.identity import UniqueIds
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.sample import is_held_out, read_head, training_texts
from prism_lm.corpus.sources import find_sources
from prism_lm.corpus.stream import SourceStream
from prism_lm.corpus.tokenizer import CorpusTokenizer, load_tokenizer, train_tokenizer
from prism_lm.corpus.writer import CorpusWriter


def prepare(config: PrepareConfig, progress: Progress = SILENT) -> Corpus:
    """Makes the corpus folder `config.out`, and the held-out one where asked for, and opens the first.

    Whole or absent: at an error, a full disk or a kill, no folder appears under that name.

    Raises:
        UserError: a source is missing or bad (and bad input is not skipped), the folder exists already, or
            nothing is left to put in it.
    """
    return _Preparation(config, progress).run()


class _Preparation:
    """One call of `prepare`: what its steps share."""

    def __init__(self, config: PrepareConfig, progress: Progress) -> None:
        self.config, self.progress = config, progress
        self.begun = time.monotonic()
        self.problems = Problems(config.on_error)
        self.sources = find_sources(config, self.problems)
        self.stream = SourceStream(self.sources, config, self.problems)

    def run(self) -> Corpus:
        paths = [self.config.out, *([self.config.held_out_path] if self.config.held_out else [])]
        with ExitStack() as stack:
            folders = [stack.enter_context(new_folder(p, overwrite=self.config.overwrite)) for p in paths]
            tokenizer, documents = self._tokenizer()
            writers = [stack.enter_context(CorpusWriter(folder, tokenizer)) for folder in folders]
            with TemporaryDirectory(dir=folders[0], prefix=".ids-") as scratch:
                self._write(documents, Encoder(tokenizer), writers, UniqueIds(Path(scratch)))
            self._check_not_empty(writers)
            for path, writer in zip(paths, writers, strict=True):
                self._finish(path, writer)
        return Corpus.open(self.config.out)

    def _tokenizer(self) -> tuple[CorpusTokenizer, Iterator[RawDocument]]:
        """The tokenizer, and the documents: what was read to train it is not read again."""
        documents = iter(self.stream)
        if self.config.tokenizer is not None:
            return load_tokenizer(self.config.tokenizer, self.config.separator), documents
        self.progress.start("training the tokenizer", None, "documents")
        head, is_all = read_head(documents, self.config.tokenizer_sample_bytes)
        texts = training_texts(self.sources, head, self.config, self.problems, head_is_all=is_all)
        tokenizer = train_tokenizer(self._counted(texts), self.config.vocab_size)
        self.progress.finish()
        return tokenizer, _released(head, documents)

    def _counted(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            self.progress.advance()
            yield text

    def _write(
        self,
        documents: Iterable[RawDocument],
        encoder: Encoder,
        writers: Sequence[CorpusWriter],
        ids: UniqueIds,
    ) -> None:
        self.progress.start("tokenising", text_bytes(self.sources, self.config), "B")
        for batch, tokens in encoded(in_batches(documents, self.problems), encoder, self.problems):
            held_out = np.array([self._is_held_out(document) for document in batch.documents], dtype=np.bool_)
            names = [
                ids.assign(document.id or document.position, document.position)
                for document in batch.documents
            ]
            for writer, chosen in zip(writers, (~held_out, held_out), strict=False):
                _append(writer, names, batch, tokens, chosen)
            written = sum(writer.num_tokens for writer in writers)
            self.progress.advance(
                sum(batch.sizes), tokens=written, skipped=sum(self.problems.counts.values())
            )
        self.progress.finish()

    def _is_held_out(self, document: RawDocument) -> bool:
        return self.config.held_out > 0 and is_held_out(document, self.config)

    def _check_not_empty(self, writers: Sequence[CorpusWriter]) -> None:
        empty = [writer.num_documents == 0 for writer in writers]
        if all(empty):
            skipped = sum(self.problems.counts.values())
            raise UserError(
                f"no document is left of {', '.join(self.config.sources)} ({skipped} skipped); give text"
            )
        if any(empty):
            side = "held-out" if empty[1] else "training"
            by_source = ", or hold out by document" if self.config.held_out_by == "source" else ""
            raise UserError(
                f"no document fell to the {side} side when a share of {self.config.held_out} was held out by "
                f"{self.config.held_out_by}; give more text, choose another share{by_source}"
            )

    def _finish(self, path: Path, writer: CorpusWriter) -> None:
        writer.finish(
            configuration={
                **self.config.content(),
                "part": "held-out" if path != self.config.out else "training",
            },
            sources=self.stream.hashes,
            figures=self._figures(writer),
            command=command_of(self.config),
        )

    def _figures(self, writer: CorpusWriter) -> dict[str, Any]:
        seconds = time.monotonic() - self.begun
        return {
            "documents": writer.num_documents,
            "tokens": writer.num_tokens,
            "text_bytes": writer.text_bytes,
            "sources": writer.num_sources,
            "seconds": round(seconds, 3),
            "skipped": dict(self.problems.counts),
            "skipped_examples": {kind: list(lines) for kind, lines in self.problems.examples.items()},
        }


def _append(
    writer: CorpusWriter, ids: Sequence[str], batch: Batch, tokens: EncodedBatch, chosen: Any
) -> None:
    if chosen.all():
        writer.append(ids, batch, tokens)
    elif chosen.any():
        kept = [name for name, keep in zip(ids, chosen, strict=True) if keep]
        writer.append(kept, batch.select(chosen), tokens.select(chosen))


def _released(head: deque[RawDocument], rest: Iterator[RawDocument]) -> Iterator[RawDocument]:
    """The head, each document let go as it is taken, and then the rest."""
    while head:
        yield head.popleft()
    yield from rest
