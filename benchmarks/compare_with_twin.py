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
from prism_lm.artifacts.folders import write_file_atomic
from prism_lm.artifacts.run import open_run
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


def correct_pairs(run: Path, model: PreTrainedModel, pairs: list[MinimalPair]) -> list[bool]:
    """Which minimal pairs the model of a run gets right."""
    tokenizer = AutoTokenizer.from_pretrained(run)
    result = compare_minimal_pairs(model, tokenizer, pairs, separator_id=model.config.eos_token_id)
    return [bool(one) for one in result.correct]


def measured(run: Path, corpus: Corpus, pairs: list[MinimalPair], keep: Path | None) -> dict[str, Any]:
    """Figures and right answers of a run; kept in a file of the folder `keep`, and read from there."""
    kept = None if keep is None else keep / f"{run.name}-{open_run(run).hash[:12]}-{len(pairs)}.json"
    if kept is not None and kept.exists():
        return json.loads(kept.read_text())
    model = AutoModelForCausalLM.from_pretrained(run, dtype=torch.float32).eval()
    found = {
        "figures": held_out(run, model, corpus),
        "correct": correct_pairs(run, model, pairs) if pairs else [],
    }
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_file_atomic(kept, json.dumps(found))
    return found


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
    parser.add_argument("--minimal-pairs", type=Path, help="leave out for held-out figures alone")
    parser.add_argument("--keep", type=Path, help="a folder for what was measured, so that it is not twice")
    options = parser.parse_args()
    if len(options.dense) != len(options.prototype):
        parser.error("give as many prototype runs as dense runs, in matching order")
    logging.set_verbosity_error()
    pairs = read_minimal_pairs(options.minimal_pairs) if options.minimal_pairs else []
    names = [pair.paradigm for pair in pairs]
    groups = [np.array([n for n, name in enumerate(names) if name == each]) for each in dict.fromkeys(names)]
    corpus = Corpus.open(options.held_out)
    rows: list[dict[str, Any]] = []
    right: list[list[np.ndarray]] = []
    for twins in zip(options.dense, options.prototype, strict=True):
        configs = [load_config(run) for run in twins]
        if configs[0].recipe.seed != configs[1].recipe.seed or not configs[0].dense or configs[1].dense:
            parser.error(f"{twins[0]} and {twins[1]} are no twins: one seed, and only the first dense")
        found = [measured(run, corpus, pairs, options.keep) for run in twins]
        right.append([np.array(one["correct"], dtype=float) for one in found])
        rows += [{"run": run.name, **one["figures"]} for run, one in zip(twins, found, strict=True)]
    losses = np.array([row["loss"] for row in rows])
    dense, prototype = losses[::2], losses[1::2]
    result: dict[str, Any] = {
        "runs": rows,
        "loss_change_percent": [round(100 * float(x), 3) for x in prototype / dense - 1],
        "mean_loss_change_percent": round(100 * float(prototype.mean() / dense.mean() - 1), 3),
    }
    if pairs:
        for row, correct in zip(rows, (one for both in right for one in both), strict=True):
            row["minimal_pairs"] = accuracy(correct, groups)
        mean = np.mean([both[1] - both[0] for both in right], axis=0)
        result["minimal_pairs_change_points"] = round(100 * accuracy(mean, groups), 2)
        result["minimal_pairs_change_interval_95"] = interval(mean, groups)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
