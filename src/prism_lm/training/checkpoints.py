"""Everything needed to go on as if nothing had happened: written whole, then pointed at.

A checkpoint is the folder checkpoints/step-000500: weights and AdamW's two moments as safetensors with
whole, unsharded tensors (so the number of processes may change), and state.json. checkpoints/LATEST names
the newest.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.folders import new_folder, write_file_atomic
from prism_lm.artifacts.manifest import read_manifest, verify_files, write_manifest
from prism_lm.training.objective import TrainingModule
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import Ranks, overwrite, whole
from prism_lm.training.seeding import Usage

FOLDER = "checkpoints"
_LATEST = "LATEST"
_FILES: dict[str, Callable[[Optimiser, torch.nn.Parameter], Tensor]] = {
    "weights": lambda optimiser, parameter: parameter,
    "exp_avg": lambda optimiser, parameter: optimiser.adamw.state[parameter]["exp_avg"],
    "exp_avg_sq": lambda optimiser, parameter: optimiser.adamw.state[parameter]["exp_avg_sq"],
}


@dataclass(frozen=True, kw_only=True)
class State:
    """The numbers of a run at a step. There is no random state: data and choices are functions of (seed,
    step).
    """

    step: int
    """Steps that are done."""
    tokens: int = 0
    metrics_bytes: int = 0
    """Length of metrics.jsonl."""
    pending: list[dict[str, Any]] = field(default_factory=list)
    """Terms of the steps since the last line of metrics."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The latest held-out figures."""
    replaced: int = 0
    """Dead prototypes replaced so far."""
    seconds: float = 0.0
    """Time spent on steps so far."""
    pending_seconds: float = 0.0
    """The part of it since the last line of metrics."""
    logged_tokens: int = 0
    """Tokens up to the last line of metrics."""
    processes: int = 1
    threads: int = 0
    """Processes, and CPU threads of each: with others the run goes on, but sums round differently."""


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, run: Path, ranks: Ranks, *, keep: int) -> None:
        self.folder, self._ranks, self._keep = run / FOLDER, ranks, keep

    def latest(self) -> Path | None:
        """The newest whole checkpoint."""
        pointer = self.folder / _LATEST
        if not pointer.is_file():
            return None
        name = pointer.read_text(encoding="utf-8").strip()
        if Path(name).name != name or not (self.folder / name).is_dir():
            raise UserError(
                f"{pointer} names {name!r}, which is no checkpoint there; put it back, or start anew"
            )
        return self.folder / name

    def save(self, state: State, module: TrainingModule, optimiser: Optimiser, usage: Usage | None) -> Path:
        """Writes a checkpoint and removes the oldest. All processes call it; the main one writes.

        Raises:
            UserError: the disk is full; the checkpoints that stand there are untouched.
        """
        target = self.folder / f"step-{state.step:06d}"
        with ExitStack() as stack:
            part = self._ranks.by_main(lambda: self._open(stack, target)) or target
            for name, read in _FILES.items():
                tensors = self._gather(module, lambda parameter, read=read: read(optimiser, parameter))
                self._ranks.by_main(partial(save_file, tensors, part / f"{name}.safetensors"))
            self._ranks.by_main(lambda: _write_state(part, state, module, optimiser, usage))
            self._ranks.by_main(stack.close)
        self._ranks.by_main(lambda: self._point_at(target))
        return target

    def load(self, path: Path, module: TrainingModule, optimiser: Optimiser, usage: Usage | None) -> State:
        """Reads a checkpoint into weights, optimiser and usage, and returns its numbers."""
        verify_files(path, read_manifest(path, kind="checkpoint"), deep=True)
        raw = json.loads((path / "state.json").read_text(encoding="utf-8"))
        steps = raw.pop("optimiser_steps")
        for file_name, read in _FILES.items():
            with safe_open(path / f"{file_name}.safetensors", "pt") as file:
                for name, parameter in _parameters(module):
                    overwrite(read(optimiser, parameter), file.get_tensor(name))
        for name, parameter in _parameters(module):
            optimiser.adamw.state[parameter]["step"].fill_(steps[name])
        if usage is not None:
            with safe_open(path / "usage.safetensors", "pt") as file:
                usage.last_active.copy_(file.get_tensor("last_active"))
        return State(**raw)

    def _open(self, stack: ExitStack, target: Path) -> Path:
        self.folder.mkdir(exist_ok=True)
        return stack.enter_context(new_folder(target, overwrite=True))

    def _gather(
        self, module: TrainingModule, read: Callable[[torch.nn.Parameter], Tensor]
    ) -> dict[str, Tensor]:
        """Whole tensors on the CPU of the main process; nothing is kept on the others."""
        found = {}
        for name, parameter in _parameters(module):
            tensor = whole(read(parameter)).detach()
            if self._ranks.is_main:
                found[name] = tensor.cpu().contiguous()
        return found

    def _point_at(self, target: Path) -> None:
        write_file_atomic(self.folder / _LATEST, target.name + "\n")
        steps = sorted(
            (int(path.name[5:]), path) for path in self.folder.glob("step-*") if path.name[5:].isdigit()
        )
        older = [path for _, path in steps if path != target]
        for path in older[: max(0, len(older) - self._keep + 1)]:
            shutil.rmtree(path, ignore_errors=True)


def _write_state(
    part: Path, state: State, module: TrainingModule, optimiser: Optimiser, usage: Usage | None
) -> None:
    if usage is not None:
        save_file({"last_active": usage.last_active.cpu()}, part / "usage.safetensors")
    steps = {name: float(optimiser.adamw.state[parameter]["step"]) for name, parameter in _parameters(module)}
    raw = asdict(state) | {"optimiser_steps": steps}
    (part / "state.json").write_text(json.dumps(raw, indent=1), encoding="utf-8")
    write_manifest(part, kind="checkpoint", configuration={}, sources={}, figures={"step": state.step})


def _parameters(module: TrainingModule) -> list[tuple[str, torch.nn.Parameter]]:
    """Names and parameters, tied ones once."""
    return list(module.language_model.named_parameters())
