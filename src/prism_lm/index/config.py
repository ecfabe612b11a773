"""Configuration of `prism index`, without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prism_lm.artifacts.errors import UserError

BLOCK_TOKENS = 1 << 16
"""Tokens between two updates of the statistics. Fixed: results must not depend on the batch size."""


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """What to index and how much to keep of it."""

    run: Path
    """Folder of a prototype model that `prism train` made; the index goes into its folder index/."""
    corpus: Path
    """Folder of the corpus to read: the one that the run was trained on, unless `other_corpus`."""
    other_corpus: bool = False
    """Allow a corpus that the run was not trained on. Its passages are then no training passages."""
    batch_tokens: int = 8192
    """Tokens in one forward pass. Changes speed and memory, never the result."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model runs; auto: a GPU where there is one."""
    neighbours: int = 16
    """Passages at the top of each prototype, from as many documents."""
    bands: int = 5
    """Equal bands of activation from which examples are drawn."""
    per_band: int = 2
    """Examples from each band."""
    words: int = 20
    """Raised and lowered vocabulary entries of each signature."""
    triggers: int = 5
    """Commonest current tokens, next tokens and sources of each prototype."""
    overwrite: bool = False
    """Replace an index that is there; the old one stays until the new one is whole."""

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "neighbours", "bands", "per_band", "words", "triggers"):
            value = getattr(self, name)
            if value < 1:
                raise UserError(f"{name} is {value}; expected 1 or more")
        if self.batch_tokens > BLOCK_TOKENS:
            raise UserError(f"batch_tokens is {self.batch_tokens}; expected {BLOCK_TOKENS} or fewer")
