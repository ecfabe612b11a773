"""What one block of the corpus makes the prototypes do: the sparse activations of equation (2) as flat
arrays."""

from dataclasses import dataclass

import numpy as np

from prism_lm.index.arrays import Floats, Hashes, Integers, mixed


@dataclass(frozen=True, kw_only=True)
class Firings:
    """Every (token, prototype) pair of a block with a_ti > 0, in order of position.  F pairs."""

    positions: Integers
    """[F]: token position in the corpus's stream."""
    prototypes: Integers
    """[F]: ids."""
    activations: Floats
    """[F]: a_ti, which is the cosine c_ti where it is positive."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A stretch of the corpus's stream with what the model did on it.  T tokens, K prototypes.

    Blocks are cut at fixed positions whatever the batch size, so no statistic depends on the batch size.
    """

    start: int
    tokens: Integers
    """[T + 1]: token ids; the last is the token after the block, -1 at the end of the corpus."""
    documents: Integers
    """[T]: document index of each token (a separator belongs to the document it ends)."""
    contexts: Hashes
    """[T]: hash of each token with the few before it, see `context_hashes`."""
    firings: Firings
    nearest_cosines: Floats
    """[K]: max over the block's tokens of c_ti, active or not."""
    nearest_positions: Integers
    """[K]: the token where it is reached, the first among equals."""

    @property
    def stop(self) -> int:
        """The position after the last token."""
        return self.start + self.documents.shape[0]


CONTEXT_TOKENS = 8


def context_hashes(tokens: Integers, documents: Integers, lead: int) -> Hashes:
    """A hash of each token and the up to seven before it in the same document.

    `tokens` and `documents` begin `lead` tokens before the first one asked for.  Two places with equal
    hashes read the same: this is how copies of a passage are recognised, since copied documents are common
    in real corpora.
    """
    count = tokens.shape[0] - lead
    result = np.zeros(count, dtype=np.uint64)
    for back in range(CONTEXT_TOKENS):
        values = np.zeros(count, dtype=np.int64)  # 0: no such token in this document
        missing = min(max(0, back - lead), count)
        earlier = slice(lead - back + missing, lead - back + count)
        inside = documents[earlier] == documents[lead + missing :]
        values[missing:] = np.where(inside, tokens[earlier] + 1, 0)
        result = mixed(result) + values.astype(np.uint64)
    return mixed(result)
