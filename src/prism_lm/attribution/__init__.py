"""From an output to the prototypes that made it, and from them to the passages they stand for.

Names are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_lm.attribution.prompts import encode_prompt as encode_prompt
    from prism_lm.attribution.traces import Trace as Trace
    from prism_lm.attribution.tracing import Tracer as Tracer
    from prism_lm.attribution.tracing import trace as trace
    from prism_lm.attribution.writing import write_tokens as write_tokens

_HOME = {
    "Trace": "prism_lm.attribution.traces",
    "encode_prompt": "prism_lm.attribution.prompts",
    "Tracer": "prism_lm.attribution.tracing",
    "trace": "prism_lm.attribution.tracing",
    "write_tokens": "prism_lm.attribution.writing",
}

__all__ = ["Trace", "Tracer", "encode_prompt", "trace", "write_tokens"]


def __getattr__(name: str) -> Any:
    """The public name `name`, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'prism_lm.attribution' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
