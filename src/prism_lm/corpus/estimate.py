"""What a corpus will take, before it is made: text, disk and memory."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.files import SourceFile
from prism_lm.corpus.installed import DEFAULT_MAX_BYTES
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.sources import INSTALLED, Source, find_sources

GZIP_RATIO = 2.5  # text to compressed text, where the file does not say
PARQUET_RATIO = 1.8
BYTES_PER_TOKEN = 3.5  # English text, byte-level BPE of a few thousand entries
DISK_PER_TOKEN = 2 + 8  # id and span
COMPRESSED_TEXT = 0.45
BASE_MEMORY = 500 * 2**20  # the libraries, and the batches under way


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sizes in bytes; None where only reading would tell (a data set that is streamed)."""

    files: int
    bytes_in: int | None
    text_bytes: int | None
    disk_bytes: int | None
    disk_free: int
    memory_bytes: int


def estimate(config: PrepareConfig) -> Estimate:
    """What `prepare(config)` will read, need and leave. Sizes of compressed files are rough.

    Raises:
        UserError: a source does not exist or holds no text.
    """
    sources = find_sources(config, Problems(on_error="skip"))
    files = [file for source in sources for file in source.files]
    text = text_bytes(sources, config)
    disk = None if text is None else int(text * (COMPRESSED_TEXT + DISK_PER_TOKEN / BYTES_PER_TOKEN))
    head = (
        0
        if config.tokenizer
        else config.tokenizer_sample_bytes
        if text is None
        else min(config.tokenizer_sample_bytes, text)
    )
    return Estimate(
        files=len(files),
        bytes_in=sum(_size(file) for file in files) if len(files) and all(s.files for s in sources) else None,
        text_bytes=text,
        disk_bytes=disk,
        disk_free=shutil.disk_usage(_existing(config.out)).free,
        memory_bytes=BASE_MEMORY + 6 * head,
    )


def text_bytes(sources: Sequence[Source], config: PrepareConfig) -> int | None:
    """About how much text the sources hold; None where one is streamed without a limit."""
    total = 0
    for source in sources:
        if source.files:
            size: int | None = sum(map(_text_size, source.files))
        else:
            size = DEFAULT_MAX_BYTES if source.given == INSTALLED and config.max_bytes is None else None
        if config.max_bytes is not None:
            size = config.max_bytes if size is None else min(size, config.max_bytes)
        if size is None:
            return None
        total += size
    return total


def _text_size(file: SourceFile) -> int:
    size = _size(file)
    if file.name.endswith(".gz"):
        return int(size * GZIP_RATIO)
    return int(size * PARQUET_RATIO) if file.name.endswith(".parquet") else size


def _size(file: SourceFile) -> int:
    try:
        return file.path.stat().st_size
    except OSError:
        return 0


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
