"""What a run will need, said before it starts."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.units import format_bytes, format_count, format_seconds
from prism_lm.training.arithmetic import (
    Memory,
    Operations,
    Parameters,
    count_operations,
    count_parameters,
    estimate_memory,
)
from prism_lm.training.config import Recipe, check, number_of_steps
from prism_lm.training.schedule import seed_step


@dataclass(frozen=True, kw_only=True)
class DeviceRate:
    """A device: the products it can do in a second (dense, no sparsity), and how much it can hold."""

    bfloat16: float
    float32: float
    memory: float
    """Bytes; 0 where unknown."""


GIB = 2.0**30
DEVICES: dict[str, DeviceRate] = {
    "a100": DeviceRate(bfloat16=312e12, float32=19.5e12, memory=80 * GIB),
    "h100": DeviceRate(bfloat16=989e12, float32=67e12, memory=80 * GIB),
    "h200": DeviceRate(bfloat16=989e12, float32=67e12, memory=141 * GIB),
    "b200": DeviceRate(bfloat16=2250e12, float32=75e12, memory=180 * GIB),
    "l40s": DeviceRate(bfloat16=362e12, float32=92e12, memory=48 * GIB),
    "rtx4090": DeviceRate(bfloat16=165e12, float32=83e12, memory=24 * GIB),
}
# The share of those rates that training reaches, from experience with models of these sizes.
UTILISATION = 0.35
# The share of this machine's own measured rate of matrix products that training reaches, from runs on two
# cores.
UTILISATION_HERE = 0.5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Parameters, memory, tokens, operations and time of a run. The times are estimates and say on what
    ground.
    """

    recipe: str
    dense: bool
    device: str
    devices: int
    parameters: Parameters
    memory: Memory
    """Of each device."""
    device_memory: float
    """Bytes that each device has; 0 where unknown."""
    operations: Operations
    """For one token."""
    tokens: int
    steps: int
    corpus_tokens: int | None
    total_operations: float
    seconds: float
    ground: str
    """What the estimate of time rests on."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self) | {"parameters_total": self.parameters.total, "memory_total": self.memory.total}

    def rows(self) -> list[tuple[str, str]]:
        """Lines for a person: what, and how much."""
        count, memory, operations = self.parameters, self.memory, self.operations
        parts = ", ".join(
            f"{name} {format_bytes(getattr(memory, name))}"
            for name in ("weights", "gradients", "optimiser", "activations")
        )
        share = f", {operations.bank / operations.dense:.1%} of them the bank's" if count.bank else ""
        rows = [
            ("model", f"{self.recipe}, {'dense twin' if self.dense else 'with prototypes'}"),
            ("parameters", self._parameters()),
            ("tokens", self._tokens()),
            (
                "operations",
                f"{self.total_operations:.3g} FLOP, {operations.dense + operations.bank:.3g} a token{share}",
            ),
            ("memory", f"about {format_bytes(memory.total)} on each device: {parts}"),
            (
                "time",
                f"about {format_seconds(self.seconds)} on {self.devices} x {self.device}, an estimate: "
                f"{self.ground}",
            ),
        ]
        if self.device_memory and memory.total > 0.9 * self.device_memory:
            advice = (
                f"each device has {format_bytes(self.device_memory)}: use a smaller data.micro_batch, "
                "runtime.activation_checkpointing, runtime.sharding full or more devices"
            )
            rows.append(("too large", advice))
        return rows

    def _parameters(self) -> str:
        count = self.parameters
        return (
            f"{format_count(count.total)}: layers {format_count(count.layers)}, embeddings "
            f"{format_count(count.embeddings)}, bank {format_count(count.bank)} (adds {count.bank_share:.1%})"
        )

    def _tokens(self) -> str:
        text = f"{format_count(self.tokens)} in {format_count(self.steps)} steps"
        if self.corpus_tokens:
            times = self.tokens / self.corpus_tokens
            text += (
                f", {format_count(round(times, 2))} times the corpus of {format_count(self.corpus_tokens)}"
            )
        return text


def make_plan(
    recipe: Recipe,
    *,
    vocab_size: int,
    corpus_tokens: int | None = None,
    dense: bool = False,
    device: str | None = None,
    devices: int = 1,
) -> Plan:
    """The plan of a recipe on `devices` of a kind; `device` None or "cpu" is this machine's processor.

    Raises:
        UserError: the kind of device is not known, or the batch cannot be divided among so many.
    """
    check(recipe)
    if devices < 1 or recipe.data.batch % (recipe.data.micro_batch * devices):
        raise UserError(
            f"{devices} devices were given; expected a divisor of "
            f"{recipe.data.batch // recipe.data.micro_batch}, the micro-batches of a step: data.batch over "
            "data.micro_batch"
        )
    parameters = count_parameters(recipe, vocab_size=vocab_size, dense=dense)
    operations = count_operations(recipe, parameters, vocab_size=vocab_size)
    steps = number_of_steps(recipe.data)
    per_step = recipe.data.batch * recipe.data.sequence_length
    clustered = steps - seed_step(recipe.bank, steps)
    total = per_step * (steps * operations.dense + clustered * operations.bank)
    rate, available, ground = _rate(device or "cpu", recipe)
    repeated = (
        1 / 3 * steps * per_step * operations.backbone if recipe.runtime.activation_checkpointing else 0.0
    )
    return Plan(
        recipe=recipe.name,
        dense=dense,
        device=device or "cpu",
        devices=devices,
        parameters=parameters,
        memory=estimate_memory(recipe, parameters, vocab_size=vocab_size, devices=devices),
        device_memory=available,
        operations=operations,
        tokens=steps * per_step,
        steps=steps,
        corpus_tokens=corpus_tokens,
        total_operations=total,
        seconds=(total + repeated) / rate / devices,
        ground=ground,
    )


def _rate(device: str, recipe: Recipe) -> tuple[float, float, str]:
    """Operations a second in training, bytes of memory, and the ground for the rate."""
    if device == "cpu":
        measured = measure_rate(recipe)
        ground = (
            f"{UTILISATION_HERE:.0%} of the {measured / 1e9:.0f} GFLOP/s that matrix products of this width "
            "just gave"
        )
        return UTILISATION_HERE * measured, 0.0, ground
    if device not in DEVICES:
        raise UserError(f"device {device!r} is not known; expected cpu or one of {', '.join(DEVICES)}")
    known = DEVICES[device]
    peak = known.float32 if recipe.runtime.precision == "float32" else known.bfloat16
    ground = f"{UTILISATION:.0%} of a peak of {peak / 1e12:.0f} TFLOP/s in {recipe.runtime.precision}"
    return UTILISATION * peak, known.memory, ground


def measure_rate(recipe: Recipe, seconds: float = 0.3) -> float:
    """Operations a second of this machine's processor in products of the recipe's width."""
    tokens = min(4096, recipe.data.micro_batch * recipe.data.sequence_length)
    width = recipe.model.hidden_size
    states, weights = torch.randn(tokens, width), torch.randn(width, 4 * width)
    torch.mm(states, weights)
    done, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        torch.mm(states, weights)
        done += 1
    return 2.0 * tokens * width * 4 * width * done / spent
