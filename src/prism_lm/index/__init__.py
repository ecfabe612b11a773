"""One pass over a corpus, and what it says about each prototype.

Names are loaded when they are first asked for: reading an index needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_lm.index.build import IndexPlan as IndexPlan
    from prism_lm.index.build import build_index as build_index
    from prism_lm.index.cards import PrototypeCard as PrototypeCard
    from prism_lm.index.cards import card as card
    from prism_lm.index.config import IndexConfig as IndexConfig
    from prism_lm.index.passages import Passage as Passage
    from prism_lm.index.prototype_index import PrototypeIndex as PrototypeIndex

_HOME = {
    "IndexConfig": "prism_lm.index.config",
    "IndexPlan": "prism_lm.index.build",
    "Passage": "prism_lm.index.passages",
    "PrototypeCard": "prism_lm.index.cards",
    "PrototypeIndex": "prism_lm.index.prototype_index",
    "build_index": "prism_lm.index.build",
    "card": "prism_lm.index.cards",
}

__all__ = [
    "IndexConfig",
    "IndexPlan",
    "Passage",
    "PrototypeCard",
    "PrototypeIndex",
    "build_index",
    "card",
]


def __getattr__(name: str) -> Any:
    """The public name `name`, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'prism_lm.index' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
