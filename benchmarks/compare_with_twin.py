"""Prototype models beside their dense twins: held-out figures of the runs, accuracy on minimal pairs.

    python benchmarks/compare_with_twin.py --dense D0 D1 --prototype P0 P1 --held-out mixed-valid \\
        --minimal-pairs blimp.jsonl.gz

Runs are given in matching order. All are read anew over the same held-out text. The interval of the
difference in accuracy is a paired bootstrap over minimal pairs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, logging

import prism_lm.model.modeling_prism  # noqa: F401  (makes AutoModelForCausalLM know prototype models)
from prism_lm.corpus import Corpus
from prism_lm.evaluation.minimal_pairs import MinimalPair, compare_minimal_pairs, read_minimal_pairs
from prism_lm.training import load_config
from prism_lm.training.monitors import HeldOut
from prism_lm.training.objective import TrainingModule
from prism_lm.training.parallel import processes


def held_out(run: Path, model: PreTrainedModel, corpus: Corpus) -> dict[str, float]:
    """The figures that `prism train` takes at the end of a run, taken again."""
    config = load_config(run)
    with processes(config.recipe.runtime) as ranks:
        measured = HeldOut(corpus, config.recipe, ranks).measure(
            TrainingModule(model), with_bank=not config.dense
        )
    return {name: figure.value for name, figure in measured.items()}


def correct_pairs(run: Path, model: PreTrainedModel, pairs: list[MinimalPair]) -> np.ndarray:
    """Which minimal pairs the model of a run gets right."""
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
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--minimal-pairs", type=Path, required=True)
    options = parser.parse_args()
    if len(options.dense) != len(options.prototype):
        parser.error("give as many prototype runs as dense runs, in matching order")
    logging.set_verbosity_error()
    pairs = read_minimal_pairs(options.minimal_pairs)
    names = [pair.paradigm for pair in pairs]
    groups = [np.array([n for n, name in enumerate(names) if name == each]) for each in dict.fromkeys(names)]
    corpus = Corpus.open(options.held_out)
    rows: list[dict[str, Any]] = []
    differences, losses = [], []
    for twins in zip(options.dense, options.prototype, strict=True):
        configs = [load_config(run) for run in twins]
        if configs[0].recipe.seed != configs[1].recipe.seed or not configs[0].dense or configs[1].dense:
            parser.error(f"{twins[0]} and {twins[1]} are no twins: one seed, and only the first dense")
        right = []
        for run in twins:
            model = AutoModelForCausalLM.from_pretrained(run, dtype=torch.float32).eval()
            right.append(correct_pairs(run, model, pairs))
            figures = held_out(run, model, corpus)
            rows.append({"run": run.name, **figures, "minimal_pairs": accuracy(right[-1], groups)})
        differences.append(right[1].astype(float) - right[0])
        losses.append([row["loss"] for row in rows[-2:]])
    dense, prototype = np.array(losses).T
    mean = np.mean(differences, axis=0)
    print(
        json.dumps(
            {
                "runs": rows,
                "loss_change_percent": [round(100 * float(x), 3) for x in prototype / dense - 1],
                "mean_loss_change_percent": round(100 * float(prototype.mean() / dense.mean() - 1), 3),
                "minimal_pairs_change_points": round(100 * accuracy(mean, groups), 2),
                "minimal_pairs_change_interval_95": interval(mean, groups),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
