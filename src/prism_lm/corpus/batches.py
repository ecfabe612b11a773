"""Documents in batches with their ids, and their tokens one step ahead of whoever writes them."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.encode import EncodedBatch, Encoder
from prism_lm.corpus.problems import Problems

BATCH_CHARACTERS = 2**20
BATCH_DOCUMENTS = 2048
BATCHES_AHEAD = 2


@dataclass
class Batch:
    """Documents that are tokenised together; `sizes` are the bytes of their texts."""

    documents: list[RawDocument] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def select(self, chosen: NDArray[np.bool_]) -> "Batch":
        """Those for which `chosen` is true."""
        pairs = [
            pair
            for pair, keep in zip(zip(self.documents, self.sizes, strict=True), chosen, strict=True)
            if keep
        ]
        return Batch(documents=[document for document, _ in pairs], sizes=[size for _, size in pairs])


def in_batches(documents: Iterable[RawDocument], problems: Problems) -> Iterator[Batch]:
    """Batches bounded in characters and in documents; text that is not Unicode is reported and left out."""
    batch, characters = Batch(), 0
    for document in documents:
        try:
            size = len(document.text.encode("utf-8"))
        except UnicodeEncodeError as error:
            message = (
                f"character {error.start + 1} of the text is half of a surrogate pair, which is not Unicode"
            )
            problems.report("not Unicode", document.place, message)
            continue
        batch.documents.append(document)
        batch.sizes.append(size)
        characters += len(document.text)
        if characters >= BATCH_CHARACTERS or len(batch.documents) >= BATCH_DOCUMENTS:
            yield batch
            batch, characters = Batch(), 0
    if batch.documents:
        yield batch


def encoded(
    batches: Iterable[Batch], encoder: Encoder, problems: Problems
) -> Iterator[tuple[Batch, EncodedBatch]]:
    """The batches with their tokens, in order. While one is written, the next are tokenised on other cores.

    Documents without a token are reported and left out: they have no place in the stream.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode") as pool:
        waiting: deque[tuple[Batch, Future[EncodedBatch]]] = deque()
        for batch in batches:
            texts = [document.text for document in batch.documents]
            waiting.append((batch, pool.submit(encoder.encode, texts)))
            if len(waiting) > BATCHES_AHEAD:
                yield _without_empty(*_next(waiting), problems)
        while waiting:
            yield _without_empty(*_next(waiting), problems)


def _next(waiting: deque[tuple[Batch, Future[EncodedBatch]]]) -> tuple[Batch, EncodedBatch]:
    batch, future = waiting.popleft()
    return batch, future.result()


def _without_empty(batch: Batch, tokens: EncodedBatch, problems: Problems) -> tuple[Batch, EncodedBatch]:
    full = (tokens.counts > 0) & np.array([not document.text.isspace() for document in batch.documents])
    if full.all():
        return batch, tokens
    for document, keep in zip(batch.documents, full, strict=True):
        if not keep:
            what = _nothing_in(document.text)
            problems.report("0-token document", document.place, f"{what}, so there is nothing to train on")
    return batch.select(full), tokens.select(full)


def _nothing_in(text: str) -> str:
    if not text:
        return "the text is empty"
    return "the text is white space only" if text.isspace() else "the tokenizer makes no token of the text"
