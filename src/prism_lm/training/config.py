"""What a training run is made of: frozen, keyword-only, without torch, saved resolved in every run."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prism_lm.artifacts.errors import UserError

Backbone = Literal["gpt2", "llama", "qwen3"]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
Sharding = Literal["data", "full"]
Decay = Literal["cosine", "linear", "constant"]


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The backbone: any width and depth of a transformers family. The vocabulary is the corpus's."""

    backbone: Backbone = "gpt2"
    hidden_size: int
    """D, the width of the final hidden state and of every prototype."""
    layers: int
    heads: int
    key_value_heads: int | None = None
    """Heads that share keys and values; None: as many as heads. GPT-2 has no such sharing."""
    intermediate_size: int | None = None
    """Width inside each feed-forward block; None: 4 D for gpt2, 8/3 D rounded up to 64 for the others."""
    tied: bool = True
    """Whether the output embedding W is the input embedding."""


@dataclass(frozen=True, kw_only=True)
class BankSettings:
    """The prototype bank and its objective (5). A dense twin leaves all of it unused."""

    num_prototypes: int
    """K."""
    active_prototypes: int
    """A, active prototypes for each token."""
    reconstruction_weight: float = 0.1
    """w_rec of (5)."""
    prototype_coverage_weight: float = 0.2
    """w_R1 of (5)."""
    token_coverage_weight: float = 0.35
    """w_R2 of (5)."""
    seed_at: float = 0.25
    """Fraction of the steps after which the bank is set from token states; before it, cross-entropy alone."""
    ramp: float = 0.1
    """Fraction of the steps over which the three weights then rise linearly to their values."""
    learning_rate_multiplier: float = 5.0
    """The bank's learning rate over that of the backbone. The bank has no weight decay."""
    dead_after: int = 100
    """Steps without being active on any token after which a prototype counts as dead."""
    reseed_every: int = 100
    """Steps between two replacements of dead prototypes by badly covered token states; 0: never."""
    reseed_until: float = 0.9
    """Fraction of the steps after which none is replaced any more."""


@dataclass(frozen=True, kw_only=True)
class OptimiserSettings:
    """AdamW with warm-up, decay and clipping of the gradient's norm."""

    learning_rate: float
    """At its peak, after warm-up."""
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    """On matrices of the backbone; not on biases, norms or the bank."""
    warmup: float = 0.02
    """Fraction of the steps over which the learning rate rises from 0."""
    decay: Decay = "cosine"
    final_fraction: float = 0.1
    """The learning rate at the last step over that at the peak."""
    clip: float = 1.0
    """Largest norm of the backbone's gradient, and apart from it of the bank's; 0: no clipping."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which tokens are seen, how many, in what portions."""

    sequence_length: int
    batch: int
    """Sequences in one step, over all processes."""
    micro_batch: int
    """Sequences in one forward pass of one process. R1 is taken over one such micro-batch. Steps accumulate
    gradients over batch / (micro_batch x processes) of them."""
    tokens: int | None = None
    """Tokens to train on, rounded up to whole steps."""
    steps: int | None = None
    """Steps to train for. Where it is given, `tokens` has no say."""


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Where and how the same computation is carried out."""

    device: Device = "auto"
    precision: Precision = "float32"
    """bfloat16: autocast in the forward pass; weights, sums and optimiser stay in float32."""
    compile: bool = False
    """Compile each layer of the backbone in place."""
    activation_checkpointing: bool = False
    """Recompute each layer in the backward pass instead of keeping what it computed."""
    sharding: Sharding = "data"
    """With several processes: `data` replicates the weights, `full` spreads weights and optimiser over
    them.
    """
    threads: int | None = None
    """CPU threads of one process; None: torch's choice, and the cores divided among processes under
    torchrun.
    """
    deterministic: bool = False
    """Ask torch for deterministic kernels. A CPU needs no asking; a GPU does, for exact resume."""


@dataclass(frozen=True, kw_only=True)
class MonitoringSettings:
    """What is written while the run goes on."""

    log_every: int = 10
    """Steps between two lines of metrics."""
    evaluate_every: int = 0
    """Steps between two passes over the held-out text; 0: at the end only."""
    held_out_tokens: int = 500_000
    """Largest number of held-out tokens in one such pass."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; 0: at the end only."""
    keep: int = 2
    """Checkpoints that stay on disk."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about a run but the data and the place: what the functions in recipes.py return."""

    name: str
    model: ModelShape
    bank: BankSettings
    optimiser: OptimiserSettings
    data: DataSettings
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)
    seed: int = 0
    """Of the initial weights and of the order of the data."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """A recipe, the corpus it is applied to and the folder that the run is written in."""

    recipe: Recipe
    corpus: Path
    out: Path
    held_out: Path | None = None
    dense: bool = False
    """Train the plain causal model of the same initial weights, seed and batches: the twin to compare with.
    """

    def __post_init__(self) -> None:
        check(self.recipe)


def number_of_steps(data: DataSettings) -> int:
    """Steps of a run: as given, or the tokens rounded up to whole steps."""
    if data.steps is not None:
        return data.steps
    assert data.tokens is not None
    return -(-data.tokens // (data.batch * data.sequence_length))


def check(recipe: Recipe) -> None:
    """Raises UserError, in one line that names the setting, where no run could be made of the recipe."""
    model, bank, data = recipe.model, recipe.bank, recipe.data
    for part in (model, bank, recipe.optimiser, data, recipe.monitoring):
        _check_numbers(part)
    _require(model.hidden_size % model.heads == 0, "model.hidden_size", model.hidden_size,
             f"a multiple of model.heads, {model.heads}")  # fmt: skip
    shared = model.key_value_heads or model.heads
    _require(model.heads % shared == 0, "model.key_value_heads", shared, f"a divisor of {model.heads}")
    _require(model.backbone != "gpt2" or shared == model.heads, "model.key_value_heads", shared,
             "none, for gpt2 has one key for each head")  # fmt: skip
    _require(bank.active_prototypes <= bank.num_prototypes, "bank.active_prototypes", bank.active_prototypes,
             f"at most bank.num_prototypes, {bank.num_prototypes}")  # fmt: skip
    _require(data.tokens is not None or data.steps is not None, "data.tokens", None,
             "a number, or a number of steps as data.steps")  # fmt: skip
    _require(data.sequence_length >= 2, "data.sequence_length", data.sequence_length, "2 or more")
    _require(data.batch % data.micro_batch == 0, "data.batch", data.batch,
             f"a multiple of data.micro_batch, {data.micro_batch}")  # fmt: skip


_FRACTIONS = {"seed_at", "ramp", "reseed_until", "warmup", "final_fraction", "beta1", "beta2"}
_MAY_BE_ZERO = {
    "reconstruction_weight", "prototype_coverage_weight", "token_coverage_weight", "reseed_every",
    "weight_decay", "clip", "evaluate_every", "checkpoint_every", *_FRACTIONS,
}  # fmt: skip


def _check_numbers(part: object) -> None:
    assert dataclasses.is_dataclass(part)
    section = {"BankSettings": "bank", "OptimiserSettings": "optimiser", "DataSettings": "data",
               "ModelShape": "model", "MonitoringSettings": "monitoring"}[type(part).__name__]  # fmt: skip
    for entry in dataclasses.fields(part):
        value = getattr(part, entry.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        name = f"{section}.{entry.name}"
        _require(value >= 0 if entry.name in _MAY_BE_ZERO else value > 0, name, value,
                 "0 or more" if entry.name in _MAY_BE_ZERO else "more than 0")  # fmt: skip
        _require(entry.name not in _FRACTIONS or value <= 1, name, value, "a fraction between 0 and 1")


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise UserError(f"{name} is {value}; expected {expected}")
