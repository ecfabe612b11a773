"""Prototype language models: which training text made a model say what it said, and how to switch it off.

The library has the same verbs as the command `prism`. Names are loaded when they are first asked
for, so `import prism_lm` is cheap and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_lm.artifacts.errors import GateFailed, PrismError, UserError
    from prism_lm.artifacts.run import open_run
    from prism_lm.attribution import Trace, trace
    from prism_lm.corpus import Corpus
    from prism_lm.corpus.config import PrepareConfig
    from prism_lm.corpus.prepare import prepare
    from prism_lm.index.build import build_index
    from prism_lm.index.config import IndexConfig
    from prism_lm.index.prototype_index import PrototypeIndex
    from prism_lm.model import Control, PrismConfig, PrismForCausalLM
    from prism_lm.training import RECIPES, TrainingConfig, train

__version__ = "0.1.0"

__all__ = [
    "RECIPES",
    "Control",
    "Corpus",
    "GateFailed",
    "IndexConfig",
    "PrepareConfig",
    "PrismConfig",
    "PrismError",
    "PrismForCausalLM",
    "PrototypeIndex",
    "Trace",
    "TrainingConfig",
    "UserError",
    "__version__",
    "build_index",
    "open_run",
    "prepare",
    "trace",
    "train",
]

_HOME = {
    "Control": "model",
    "Corpus": "corpus",
    "GateFailed": "artifacts.errors",
    "IndexConfig": "index.config",
    "PrepareConfig": "corpus.config",
    "PrismConfig": "model",
    "PrismError": "artifacts.errors",
    "PrismForCausalLM": "model",
    "PrototypeIndex": "index.prototype_index",
    "RECIPES": "training.recipes",
    "Trace": "attribution.traces",
    "TrainingConfig": "training.config",
    "UserError": "artifacts.errors",
    "build_index": "index.build",
    "open_run": "artifacts.run",
    "prepare": "corpus.prepare",
    "trace": "attribution.tracing",
    "train": "training.loop",
}


def __getattr__(name: str) -> Any:
    """The public name `name`, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'prism_lm' has no attribute {name!r}")
    return getattr(import_module(f"prism_lm.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
