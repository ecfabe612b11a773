"""Recipes: functions that return everything about a run but its data and its folder.

Sizes in the comments count the backbone without embeddings, then the bank. Learning rates of the large ones
follow the usual GPT-2 scale; only the small ones have been trained here (docs/results.md).
"""

from collections.abc import Callable
from dataclasses import replace

from prism_lm.training.config import (
    BankSettings,
    DataSettings,
    ModelShape,
    MonitoringSettings,
    OptimiserSettings,
    Recipe,
    RuntimeSettings,
)


def quickstart() -> Recipe:
    """Words after a few minutes on two cores: 0.6M + 0.13M parameters, 1.5M tokens, many small steps."""
    return Recipe(
        name="quickstart",
        model=ModelShape(hidden_size=128, layers=3, heads=4),
        bank=BankSettings(num_prototypes=1024, active_prototypes=4),
        optimiser=OptimiserSettings(learning_rate=4e-3, warmup=0.04),
        data=DataSettings(sequence_length=128, batch=8, micro_batch=8, tokens=1_500_000),
        monitoring=MonitoringSettings(held_out_tokens=50_000, checkpoint_every=400, keep=1),
    )


def micro() -> Recipe:
    """About 1M + 1M parameters, 5M tokens: the size of most comparisons in docs/results.md."""
    return Recipe(
        name="micro",
        model=ModelShape(hidden_size=128, layers=5, heads=4),
        bank=BankSettings(num_prototypes=8192, active_prototypes=4),
        optimiser=OptimiserSettings(learning_rate=2e-3),
        data=DataSettings(sequence_length=128, batch=16, micro_batch=16, tokens=5_000_000),
    )


def mini() -> Recipe:
    """About 3M + 2M parameters, 5M tokens."""
    return Recipe(
        name="mini",
        model=ModelShape(hidden_size=256, layers=4, heads=4),
        bank=BankSettings(num_prototypes=8192, active_prototypes=4),
        optimiser=OptimiserSettings(learning_rate=1.5e-3),
        data=DataSettings(sequence_length=128, batch=16, micro_batch=16, tokens=5_000_000),
    )


def gpt2_124m() -> Recipe:
    """GPT-2 small with K 8192: 85M + 6.3M parameters, 2.5 billion tokens."""
    return _large("gpt2_124m", ModelShape(hidden_size=768, layers=12, heads=12), prototypes=8192,
                  learning_rate=6e-4, tokens=2_500_000_000, micro_batch=32)  # fmt: skip


def gpt2_355m() -> Recipe:
    """GPT-2 medium with K 8192: 302M + 8.4M parameters, 7 billion tokens."""
    return _large("gpt2_355m", ModelShape(hidden_size=1024, layers=24, heads=16), prototypes=8192,
                  learning_rate=3e-4, tokens=7_000_000_000, micro_batch=16)  # fmt: skip


def gpt2_774m() -> Recipe:
    """GPT-2 large with K 16384: 708M + 21M parameters, 15 billion tokens."""
    return _large("gpt2_774m", ModelShape(hidden_size=1280, layers=36, heads=20), prototypes=16384,
                  learning_rate=2.5e-4, tokens=15_000_000_000, micro_batch=8)  # fmt: skip


def gpt2_1558m() -> Recipe:
    """GPT-2 XL with K 16384: 1,475M + 26M parameters (1.7 % of all), 31 billion tokens."""
    return _large("gpt2_1558m", ModelShape(hidden_size=1600, layers=48, heads=25), prototypes=16384,
                  learning_rate=2e-4, tokens=31_000_000_000, micro_batch=8)  # fmt: skip


def llama_160m() -> Recipe:
    """Llama shape, untied, K 8192: 85M + 6.3M parameters, 2.5 billion tokens."""
    return _large("llama_160m", _llama(hidden_size=768, layers=12, heads=12), prototypes=8192,
                  learning_rate=6e-4, tokens=2_500_000_000, micro_batch=16)  # fmt: skip


def llama_410m() -> Recipe:
    """Llama shape, untied, K 8192: 304M + 8.4M parameters, 7 billion tokens."""
    return _large("llama_410m", _llama(hidden_size=1024, layers=24, heads=16), prototypes=8192,
                  learning_rate=3e-4, tokens=7_000_000_000, micro_batch=8)  # fmt: skip


def llama_1b() -> Recipe:
    """Llama shape, untied, K 16384: 1.1 billion + 34M parameters, 22 billion tokens."""
    return _large("llama_1b", _llama(hidden_size=2048, layers=22, heads=32), prototypes=16384,
                  learning_rate=2e-4, tokens=22_000_000_000, micro_batch=4)  # fmt: skip


def scaled(recipe: Recipe, *, tokens: int) -> Recipe:
    """The recipe over another number of tokens."""
    return replace(recipe, data=replace(recipe.data, tokens=tokens, steps=None))


def _llama(*, hidden_size: int, layers: int, heads: int) -> ModelShape:
    return ModelShape(backbone="llama", hidden_size=hidden_size, layers=layers, heads=heads, tied=False)


def _large(
    name: str, model: ModelShape, *, prototypes: int, learning_rate: float, tokens: int, micro_batch: int
) -> Recipe:
    """Half a million tokens a step, in bfloat16, on any number of GPUs that divides the batch."""
    return Recipe(
        name=name,
        model=model,
        bank=BankSettings(num_prototypes=prototypes, active_prototypes=4),
        optimiser=OptimiserSettings(learning_rate=learning_rate),
        data=DataSettings(sequence_length=1024, batch=512, micro_batch=micro_batch, tokens=tokens),
        runtime=RuntimeSettings(precision="bfloat16", compile=True),
        monitoring=MonitoringSettings(evaluate_every=1000, held_out_tokens=2_000_000, checkpoint_every=1000),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    function.__name__: function
    for function in (
        quickstart, micro, mini, gpt2_124m, gpt2_355m, gpt2_774m, gpt2_1558m,
        llama_160m, llama_410m, llama_1b,
    )
}  # fmt: skip
