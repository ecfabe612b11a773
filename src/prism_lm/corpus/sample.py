"""The text that a tokenizer is trained on: a bounded, fixed sample, spread over all files."""

from collections import deque
from collections.abc import Iterator, Sequence

from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.estimate import text_bytes
from prism_lm.corpus.identity import hash64, share
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.sources import Source

# Of a very large corpus not all is read for the sample, only some sixteen times as much as is taken.
READ_PER_TAKEN = 16


def is_held_out(document: RawDocument, config: PrepareConfig) -> bool:
    """Whether a document goes to the held-out corpus: decided by its id or source alone, always alike."""
    if config.held_out_by == "source":
        return share(f"held-out source {document.source}") < config.held_out
    return share(f"held-out document {document.id or document.position}") < config.held_out


def read_head(stream: Iterator[RawDocument], limit: int) -> tuple[deque[RawDocument], bool]:
    """The first documents, up to `limit` characters, and whether that was all there are."""
    head: deque[RawDocument] = deque()
    size = 0
    for document in stream:
        head.append(document)
        size += len(document.text)
        if size >= limit:
            return head, False
    return head, True


def training_texts(
    sources: Sequence[Source],
    head: Sequence[RawDocument],
    config: PrepareConfig,
    problems: Problems,
    *,
    head_is_all: bool,
) -> Iterator[str]:
    """At most `tokenizer_sample_bytes` of text, none of it held out.

    A corpus that is no larger is taken whole. Of a larger one, documents are drawn by a hash of their names;
    where that would mean a second download, its beginning is taken.
    """
    documents: Iterator[RawDocument] = iter(head)
    if not head_is_all and all(source.files for source in sources):
        documents = _drawn(sources, config, problems.quiet_copy())
    left = config.tokenizer_sample_bytes
    for document in documents:
        if is_held_out(document, config):
            continue
        left -= len(document.text.encode("utf-8", errors="replace"))
        if left < 0:
            return
        # A lone surrogate is reported when the document's turn comes.
        yield document.text.encode("utf-8", errors="replace").decode("utf-8")


def _drawn(sources: Sequence[Source], config: PrepareConfig, problems: Problems) -> Iterator[RawDocument]:
    """Documents drawn at an even rate, the files in an order that mixes sources."""
    wanted = config.tokenizer_sample_bytes
    available = text_bytes(sources, config) or wanted
    rate = wanted / min(available, READ_PER_TAKEN * wanted)
    files = [(source, file) for source in sources for file in source.files]
    for source, file in sorted(files, key=lambda pair: hash64(pair[1].name)):
        for document in source.of_file(file, config, problems):
            if share(f"sample {document.id or document.position}") < rate:
                yield document
