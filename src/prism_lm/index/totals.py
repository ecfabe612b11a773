"""Usage, mass and coverage of each prototype."""

import numpy as np

from prism_lm.index.firings import Block


class Totals:
    """Running totals over blocks.  Memory: 28 bytes a prototype."""

    def __init__(self, num_prototypes: int) -> None:
        self.tokens = 0
        self.usage = np.zeros(num_prototypes, dtype=np.int64)
        """[K]: tokens where the prototype is active, a_ti > 0."""
        self.mass = np.zeros(num_prototypes, dtype=np.float64)
        """[K]: sum over tokens of a_ti."""
        self.coverage = np.full(num_prototypes, -np.inf, dtype=np.float32)
        """[K]: max over tokens of c_ti, active or not: the prototype's term of R1 (7), over the whole
        corpus."""
        self.nearest = np.full(num_prototypes, -1, dtype=np.int64)
        """[K]: the token position where coverage is reached."""

    def update(self, block: Block) -> None:
        """Adds one block; blocks come in order of position."""
        size = self.usage.shape[0]
        self.tokens += block.stop - block.start
        self.usage += np.bincount(block.firings.prototypes, minlength=size)
        self.mass += np.bincount(block.firings.prototypes, weights=block.firings.activations, minlength=size)
        better = block.nearest_cosines > self.coverage
        self.coverage[better] = block.nearest_cosines[better]
        self.nearest[better] = block.nearest_positions[better]
