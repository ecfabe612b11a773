"""Everything needed to go on as if nothing had happened: written whole, then pointed at.

A checkpoint is the folder checkpoints/step-000500: weights and AdamW's two moments as safetensors with whole,
unsharded tensors (so the number of processes may change), and state.json. checkpoints/LATEST names the newest.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
from prism_lm.training.serialise import from_dict

FOLDER = "checkpoints"
_LATEST = "LATEST"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, kw_only=True)
class State:
    """The numbers of a run at a step. There is no random state: data and choices are functions of (seed, step)."""

    step: int
    """Steps that are done."""
    tokens: int = 0
    metrics_bytes: int = 0
    """Length of metrics.jsonl."""
    pending: list = field(default_factory=list)
    """Terms of the steps since the last line of metrics."""
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
            raise UserError(f"{pointer} names {name!r}, which is no checkpoint there; put it back, or start anew")
        return self.folder / name

    def save(self, state: State, module: TrainingModule, optimiser: Optimiser, usage: Usage | None) -> Path:
        """Writes a checkpoint and removes the oldest. All processes call it; the main one writes."""
        target = self.folder / f"step-{state.step:06d}"
        if self._ranks.is_main:
            self.folder.mkdir(exist_ok=True)
            with new_folder(target, overwrite=True) as part:
                self._write(part, state, module, optimiser, usage)
            write_file_atomic(self.folder / _LATEST, target.name + "\n")
            self._prune(target.name)
        else:
            for tensors in _parts(module, optimiser):
                for _ in tensors():  # gathering sharded tensors takes every process
                    pass
        self._ranks.wait()
        return target

    def load(self, path: Path, module: TrainingModule, optimiser: Optimiser, usage: Usage | None) -> State:
        """Reads a checkpoint into weights, optimiser and usage, and returns its numbers."""
        verify_files(path, read_manifest(path, kind="checkpoint"), deep=True)
        raw = json.loads((path / "state.json").read_text(encoding="utf-8"))
        steps = raw.pop("optimiser_steps")
        with safe_open(path / "weights.safetensors", "pt") as file:
            for name, parameter in _parameters(module):
                overwrite(parameter, file.get_tensor(name))
        for moment in _MOMENTS:
            with safe_open(path / f"{moment}.safetensors", "pt") as file:
                for name, parameter in _parameters(module):
                    overwrite(optimiser.adamw.state[parameter][moment], file.get_tensor(name))
        for name, parameter in _parameters(module):
            optimiser.adamw.state[parameter]["step"].fill_(steps[name])
        if usage is not None:
            with safe_open(path / "usage.safetensors", "pt") as file:
                usage.last_active.copy_(file.get_tensor("last_active"))
        return from_dict(State, raw)

    def _write(
        self, part: Path, state: State, module: TrainingModule, optimiser: Optimiser, usage: Usage | None
    ) -> None:
        names = ("weights", *_MOMENTS)
        for name, tensors in zip(names, _parts(module, optimiser), strict=True):
            save_file(dict(tensors()), part / f"{name}.safetensors")
        if usage is not None:
            save_file({"last_active": usage.last_active.cpu()}, part / "usage.safetensors")
        steps = {name: float(optimiser.adamw.state[parameter]["step"]) for name, parameter in _parameters(module)}
        raw = asdict(state) | {"optimiser_steps": steps}
        (part / "state.json").write_text(json.dumps(raw, indent=1), encoding="utf-8")
        write_manifest(part, kind="checkpoint", configuration={}, sources={}, figures={"step": state.step})

    def _prune(self, newest: str) -> None:
        whole_ones = sorted(path for path in self.folder.iterdir() if path.name.startswith("step-"))
        older = [path for path in whole_ones if path.name != newest]
        for path in older[: max(0, len(older) - self._keep + 1)]:
            shutil.rmtree(path, ignore_errors=True)


def _parameters(module: TrainingModule) -> list[tuple[str, torch.nn.Parameter]]:
    """Names and parameters, tied ones once."""
    return list(module.language_model.named_parameters())


def _parts(
    module: TrainingModule, optimiser: Optimiser
) -> Iterator[Callable[[], Iterator[tuple[str, Tensor]]]]:
    """Weights, then each moment, whole and on the CPU: one file's tensors at a time."""

    def of(read: Callable[[torch.nn.Parameter], Tensor]) -> Callable[[], Iterator[tuple[str, Tensor]]]:
        def tensors() -> Iterator[tuple[str, Tensor]]:
            for name, parameter in _parameters(module):
                yield name, whole(read(parameter)).detach().cpu().contiguous()

        return tensors

    yield of(lambda parameter: parameter)
    for moment in _MOMENTS:
        yield of(lambda parameter, moment=moment: optimiser.adamw.state[parameter][moment])
