"""The model: configuration, head (1)-(4), losses (5)-(8), edits (9)-(11), `PrismForCausalLM`.

Whoever has a checkpoint needs only this package, torch and transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .configuration_prism import PrismConfig
    from .control import Control, ControlEffect, ControlRows, divergence, divergence_bound
    from .figures import Figure, HeldOutFigures
    from .losses import ClusteringTerms, clustering_terms, cross_entropy_sum
    from .modeling_prism import PrismForCausalLM, PrototypeBank
    from .outputs import PrismOutput, Slices

_HOMES = {
    "PrismConfig": "configuration_prism",
    "Control": "control",
    "ControlEffect": "control",
    "ControlRows": "control",
    "divergence": "control",
    "divergence_bound": "control",
    "Figure": "figures",
    "HeldOutFigures": "figures",
    "ClusteringTerms": "losses",
    "clustering_terms": "losses",
    "cross_entropy_sum": "losses",
    "PrismForCausalLM": "modeling_prism",
    "PrismOutput": "outputs",
    "PrototypeBank": "modeling_prism",
    "Slices": "outputs",
}

__all__ = [
    "ClusteringTerms",
    "Control",
    "ControlEffect",
    "ControlRows",
    "Figure",
    "HeldOutFigures",
    "PrismConfig",
    "PrismForCausalLM",
    "PrismOutput",
    "PrototypeBank",
    "Slices",
    "clustering_terms",
    "cross_entropy_sum",
    "divergence",
    "divergence_bound",
]


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name that needs them is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
