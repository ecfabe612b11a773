"""Text in, sequences of tokens out, and the way back from any token to its document and characters.

Names are loaded when they are first asked for, so that `--help` needs neither numpy nor pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_lm.corpus.config import PrepareConfig as PrepareConfig
    from prism_lm.corpus.corpus import Corpus as Corpus
    from prism_lm.corpus.document import Document as Document
    from prism_lm.corpus.document import TokenLocation as TokenLocation
    from prism_lm.corpus.sequences import SequenceOrder as SequenceOrder
    from prism_lm.corpus.sequences import Sequences as Sequences

_HOME = {
    "Corpus": "prism_lm.corpus.corpus",
    "Document": "prism_lm.corpus.document",
    "PrepareConfig": "prism_lm.corpus.config",
    "SequenceOrder": "prism_lm.corpus.sequences",
    "Sequences": "prism_lm.corpus.sequences",
    "TokenLocation": "prism_lm.corpus.document",
}

__all__ = ["Corpus", "Document", "PrepareConfig", "SequenceOrder", "Sequences", "TokenLocation"]


def __getattr__(name: str) -> Any:
    """The public name `name`, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'prism_lm.corpus' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
