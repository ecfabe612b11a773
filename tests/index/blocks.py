"""Random blocks of firings for the tests of the statistics, and a plain list of the same firings."""

from typing import NamedTuple

import numpy as np

from prism_lm.index.firings import CONTEXT_TOKENS, Block, Firings, context_hashes


class Firing(NamedTuple):
    position: int
    prototype: int
    activation: float
    token: int
    next_token: int
    document: int


class World(NamedTuple):
    """A made-up corpus: its blocks as the statistics see them, and everything that fired as a list."""

    blocks: list[Block]
    firings: list[Firing]
    tokens: np.ndarray
    documents: np.ndarray
    similarity: np.ndarray


def make_world(
    seed: int,
    *,
    num_tokens: int = 300,
    num_prototypes: int = 7,
    active: int = 3,
    block: int = 64,
    document: int = 40,
) -> World:
    """Few distinct tokens and rounded cosines, so that ties and repeated passages occur; documents of
    uneven length."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(0, 4, num_tokens)
    documents = np.sort(generator.integers(0, max(1, num_tokens // document), num_tokens))
    documents = np.unique(documents, return_inverse=True)[1]
    similarity = np.round(generator.uniform(-0.5, 1, (num_tokens, num_prototypes)), 1).astype(np.float32)
    similarity[:, 0] = -0.25  # a prototype that is never active
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :active]
    blocks = [
        _block(tokens, documents, similarity, order, start, min(start + block, num_tokens))
        for start in range(0, num_tokens, block)
    ]
    following = np.append(tokens[1:], -1)
    firings = [
        Firing(t, int(i), float(similarity[t, i]), int(tokens[t]), int(following[t]), int(documents[t]))
        for t in range(num_tokens)
        for i in order[t]
        if similarity[t, i] > 0
    ]
    return World(blocks, firings, tokens, documents, similarity)


def _block(
    tokens: np.ndarray,
    documents: np.ndarray,
    similarity: np.ndarray,
    order: np.ndarray,
    start: int,
    stop: int,
) -> Block:
    cosines = np.take_along_axis(similarity[start:stop], order[start:stop], axis=1)
    row, column = np.nonzero(cosines > 0)
    lead = min(CONTEXT_TOKENS - 1, start)
    return Block(
        start=start,
        tokens=np.append(tokens, -1)[start : stop + 1],
        documents=documents[start:stop],
        contexts=context_hashes(tokens[start - lead : stop], documents[start - lead : stop], lead),
        firings=Firings(
            positions=start + row, prototypes=order[start:stop][row, column], activations=cosines[row, column]
        ),
        nearest_cosines=similarity[start:stop].max(axis=0),
        nearest_positions=start + similarity[start:stop].argmax(axis=0),
    )
