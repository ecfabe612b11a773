"""Prototype models beside their dense twins: held-out figures of the runs, accuracy on minimal pairs.

    python benchmarks/compare_with_twin.py --dense D0 D1 --prototype P0 P1 --minimal-pairs blimp.jsonl.gz

Runs are given in matching order. Held-out figures are those that `prism train` took at the end of each run,
over the same text. The interval of the difference in accuracy is a paired bootstrap over minimal pairs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

import prism_lm.model.modeling_prism  # noqa: F401  (makes AutoModelForCausalLM know prototype models)
from prism_lm.artifacts.run import open_run
from prism_lm.evaluation.minimal_pairs import MinimalPair, compare_minimal_pairs, read_minimal_pairs


def held_out(run: Path) -> dict[str, float]:
    """The last held-out figures of a run."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["event"] == "held_out"][-1]
    return {name: figure["value"] for name, figure in last["figures"].items()}


def correct_pairs(run: Path, pairs: list[MinimalPair]) -> np.ndarray:
    """Which minimal pairs the model of a run gets right."""
    model = AutoModelForCausalLM.from_pretrained(run, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(run)
    result = compare_minimal_pairs(model, tokenizer, pairs, separator_id=model.config.eos_token_id)
    return np.array(result.correct)


def accuracy(correct: np.ndarray, groups: list[np.ndarray]) -> float:
    """Mean over paradigms."""
    return float(np.mean([correct[group].mean() for group in groups]))


def interval(differences: np.ndarray, groups: list[np.ndarray], draws: int = 2000) -> list[float]:
    """95 % interval of the mean over paradigms, by bootstrap over the pairs of each paradigm."""
    generator = np.random.default_rng(0)
    means = [
        np.mean([differences[generator.choice(group, len(group))].mean() for group in groups])
        for _ in range(draws)
    ]
    return [round(100 * float(bound), 2) for bound in np.quantile(means, [0.025, 0.975])]


def main() -> None:
    """Print one JSON document."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--dense", type=Path, nargs="+", required=True)
    parser.add_argument("--prototype", type=Path, nargs="+", required=True)
    parser.add_argument("--minimal-pairs", type=Path, required=True)
    options = parser.parse_args()
    if len(options.dense) != len(options.prototype):
        parser.error("give as many prototype runs as dense runs, in matching order")
    logging.set_verbosity_error()
    pairs = read_minimal_pairs(options.minimal_pairs)
    names = [pair.paradigm for pair in pairs]
    groups = [np.array([n for n, name in enumerate(names) if name == each]) for each in dict.fromkeys(names)]
    rows: list[dict[str, Any]] = []
    differences = []
    for dense, prototype in zip(options.dense, options.prototype, strict=True):
        seeds = {open_run(run).configuration["recipe"]["seed"] for run in (dense, prototype)}
        if len(seeds) > 1:
            parser.error(f"{dense} and {prototype} have different seeds: they are no twins")
        right = {run: correct_pairs(run, pairs) for run in (dense, prototype)}
        differences.append(right[prototype].astype(float) - right[dense])
        for run in (dense, prototype):
            rows.append({"run": run.name, **held_out(run), "minimal_pairs": accuracy(right[run], groups)})
    losses = np.array(
        [[held_out(run)["loss"] for run in runs] for runs in (options.dense, options.prototype)]
    )
    mean = np.mean(differences, axis=0)
    print(
        json.dumps(
            {
                "runs": rows,
                "loss_change_percent": [round(100 * float(x), 3) for x in losses[1] / losses[0] - 1],
                "mean_loss_change_percent": round(100 * float(losses[1].mean() / losses[0].mean() - 1), 3),
                "minimal_pairs_change_points": round(100 * accuracy(mean, groups), 2),
                "minimal_pairs_change_interval_95": interval(mean, groups),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
