"""How a corpus lies on disk: names, dtypes and sizes, shared by what writes it and what reads it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

KIND = "corpus"
TOKENS_PER_SHARD = 2**26
SOURCES_NAME = "sources.json"
DOCUMENT_STARTS = (
    "document-starts.bin"  # int64 [documents + 1]: the first token of each; then the number of tokens
)
DOCUMENT_SOURCES = "document-sources.bin"  # int32 [documents]: place of the source's name in sources.json

DOCUMENT_START_DTYPE = np.dtype("<i8")
DOCUMENT_SOURCE_DTYPE = np.dtype("<i4")
SPAN_DTYPE = np.dtype("<u4")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The sizes that the files have; part of the manifest's configuration.

    Tokens lie in files of `tokens_per_shard` each (the last may have fewer), spans in files of as many pairs.
    """

    num_documents: int
    num_tokens: int
    vocab_size: int
    separator_id: int
    token_dtype: Literal["uint16", "uint32"]
    tokens_per_shard: int
    num_document_shards: int

    @property
    def num_token_shards(self) -> int:
        """How many token files there are, and span files."""
        return -(-self.num_tokens // self.tokens_per_shard)


def token_dtype(vocab_size: int) -> Literal["uint16", "uint32"]:
    """The smallest type that holds every id."""
    return "uint16" if vocab_size <= 2**16 else "uint32"


def tokens_name(shard: int) -> str:
    """Token ids, one after another."""
    return f"tokens-{shard:05d}.bin"


def spans_name(shard: int) -> str:
    """Pairs (start, end) of uint32, one per token: characters of the document's text."""
    return f"spans-{shard:05d}.bin"


def documents_name(shard: int) -> str:
    """Documents with their text."""
    return f"documents-{shard:05d}.parquet"
