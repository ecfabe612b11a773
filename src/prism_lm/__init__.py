"""Prototype language models: which training text made a model say what it said, and how to switch it off.

The library has the same verbs as the command `prism`. Names are loaded when they are first asked
for, so `import prism_lm` is cheap and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_lm.artifacts.errors import GateFailed as GateFailed
    from prism_lm.artifacts.errors import PrismError as PrismError
    from prism_lm.artifacts.errors import UserError as UserError

__version__ = "0.1.0"

_HOME = {
    "PrismError": "prism_lm.artifacts.errors",
    "UserError": "prism_lm.artifacts.errors",
    "GateFailed": "prism_lm.artifacts.errors",
    "Corpus": "prism_lm.corpus",
    "PrepareConfig": "prism_lm.corpus.config",
    "prepare": "prism_lm.corpus.prepare",
    "PrismConfig": "prism_lm.model",
    "PrismForCausalLM": "prism_lm.model",
    "Control": "prism_lm.model",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """The public name `name`, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'prism_lm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
