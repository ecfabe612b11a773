"""Cost of the prototype head in a training step: dense twin, prototype model, and the naive dense form, in
turn.

    python benchmarks/train_step.py --shape mini --rounds 20
    python benchmarks/train_step.py --shape gpt2_124m --rounds 5

Every round runs one whole step (forward, backward, AdamW) of each variant on the same tokens, in rotated
order, and gives ratios to the dense step of that round. The bank counts as set (all three losses on), which
in a run holds for the last three quarters of the steps. Peak memory is that of a process of its own for each
variant.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import logging

from prism_lm.model import clustering_terms, cross_entropy_sum
from prism_lm.model.losses import prototype_coverage_loss, reconstruction_loss, token_coverage_loss
from prism_lm.training import recipes
from prism_lm.training.build import build_model

SHAPES = {"mini": (2048, 16, 128), "gpt2_124m": (50257, 1, 1024)}
"""Vocabulary, sequences and length of a step."""
VARIANTS = ("dense", "prism", "naive")


def naive_loss(states: Tensor, prototypes: Tensor, active: int) -> Tensor:
    """(6)-(8) by automatic differentiation of the whole similarity matrix."""
    cosines = F.normalize(states, dim=-1) @ F.normalize(prototypes, dim=-1).t()
    values, ids = cosines.topk(active, dim=-1)
    mixture = (values.clamp(min=0).unsqueeze(-1) * prototypes[ids]).sum(dim=1)
    parts = (
        reconstruction_loss(states, states - mixture),
        prototype_coverage_loss(cosines),
        token_coverage_loss(cosines),
    )
    return 0.3 * sum(parts)


def prism_loss(states: Tensor, prototypes: Tensor, active: int) -> Tensor:
    """(6)-(8) as the product computes them."""
    return clustering_terms(states, prototypes, active).loss(0.3, 0.3, 0.3)


def make_step(shape: str, variant: str) -> Callable[[], float]:
    """A function that takes one training step and returns its seconds."""
    vocabulary, sequences, length = SHAPES[shape]
    recipe = getattr(recipes, shape)()
    model = build_model(recipe, vocab_size=vocabulary, separator_id=0, dense=variant == "dense").train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, vocabulary, (sequences, length), generator=torch.Generator().manual_seed(0))
    labels = F.pad(ids, (0, 1), value=-100)[:, 1:].flatten()
    head_loss = {"prism": prism_loss, "naive": naive_loss}.get(variant)
    if head_loss is not None:
        with torch.no_grad():
            states = model.model(ids).last_hidden_state.flatten(0, 1)
            chosen = torch.randint(0, len(states), (recipe.bank.num_prototypes,))
            noise = 0.3 * torch.randn(recipe.bank.num_prototypes, states.shape[1])
            model.bank.weight.copy_((states[chosen] + noise) / recipe.bank.active_prototypes**0.5)

    def step() -> float:
        start = time.perf_counter()
        states = model.base_model(ids, use_cache=False).last_hidden_state.flatten(0, 1)
        loss = cross_entropy_sum(states, model.get_output_embeddings().weight, labels) / len(labels)
        if head_loss is not None:
            loss = loss + head_loss(states, model.bank.weight, recipe.bank.active_prototypes)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    return step


def peak_memory(shape: str, variant: str) -> float:
    """MB at most resident in a process that takes three steps of one variant."""
    command = [sys.executable, __file__, "--shape", shape, "--memory-of", variant]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def arithmetic(shape: str) -> dict[str, float]:
    """Share of a dense step's multiply-adds (6 N, and 12 L T D of attention, a token) that the head's forward
    product (2 K D), and the whole of the naive form (6 K D), add."""
    vocabulary, _, length = SHAPES[shape]
    recipe = getattr(recipes, shape)()
    model, bank = recipe.model, recipe.bank
    layers = 12 * model.layers * model.hidden_size**2
    dense = 6 * (layers + vocabulary * model.hidden_size) + 12 * model.layers * length * model.hidden_size / 2
    product = 2 * bank.num_prototypes * model.hidden_size
    return {"prism": product / dense, "naive": 3 * product / dense}


def quartiles(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 4), "quartile_1": round(low, 4), "quartile_3": round(high, 4)}


def main() -> None:
    """Print one JSON document."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--shape", choices=SHAPES, default="mini")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--memory-of", choices=VARIANTS)
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    if options.memory_of:
        step = make_step(options.shape, options.memory_of)
        for _ in range(3):
            step()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    # First of all: a process starts with the peak of the one that it was forked from.
    memory = {variant: round(peak_memory(options.shape, variant)) for variant in VARIANTS}
    steps = {variant: make_step(options.shape, variant) for variant in VARIANTS}
    for step in steps.values():
        step()
    ratios: dict[str, list[float]] = {"prism": [], "naive": []}
    dense: list[float] = []
    for round_number in range(options.rounds):
        order = VARIANTS[round_number % 3 :] + VARIANTS[: round_number % 3]
        seconds = {variant: steps[variant]() for variant in order}
        dense.append(seconds["dense"])
        for variant, seen in ratios.items():
            seen.append(seconds[variant] / seconds["dense"])
    report = {
        "shape": options.shape,
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "dense_step_seconds": quartiles(dense),
        "step_over_dense": {variant: quartiles(seen) for variant, seen in ratios.items()},
        "added_by_arithmetic": {name: round(share, 4) for name, share in arithmetic(options.shape).items()},
        "peak_memory_MB": memory,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
