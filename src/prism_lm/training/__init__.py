"""Training: loop, parallelism, checkpoints, schedule, monitors, and recipes from 1M to 1.6B parameters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prism_lm.training.config import (
    BankSettings,
    DataSettings,
    ModelShape,
    MonitoringSettings,
    OptimiserSettings,
    Recipe,
    RuntimeSettings,
    TrainingConfig,
)
from prism_lm.training.recipes import RECIPES

if TYPE_CHECKING:
    from prism_lm.training.folder import load_config
    from prism_lm.training.interrupt import TrainingStopped
    from prism_lm.training.loop import train
    from prism_lm.training.metrics import read_metrics

_HOMES = {"load_config": "folder", "TrainingStopped": "interrupt", "train": "loop", "read_metrics": "metrics"}

__all__ = [
    "RECIPES",
    "BankSettings",
    "DataSettings",
    "ModelShape",
    "MonitoringSettings",
    "OptimiserSettings",
    "Recipe",
    "RuntimeSettings",
    "TrainingConfig",
    "TrainingStopped",
    "load_config",
    "read_metrics",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports torch only when a name that needs it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
