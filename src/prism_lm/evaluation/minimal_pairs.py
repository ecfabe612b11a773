"""Minimal pairs, such as BLiMP: does the model give the acceptable sentence the higher probability?"""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.progress import Progress, Silent


@dataclass(frozen=True, kw_only=True)
class MinimalPair:
    """Two sentences that differ in one point of grammar."""

    paradigm: str
    good: str
    bad: str


@dataclass(frozen=True, kw_only=True)
class MinimalPairsResult:
    """Accuracy is the mean over paradigms, which is the mean over pairs where paradigms are of equal size."""

    accuracy: float
    by_paradigm: dict[str, float]
    correct: tuple[bool, ...]
    """Pair by pair, in the order of the file."""


def read_minimal_pairs(path: Path) -> list[MinimalPair]:
    """Pairs of a JSON Lines file (.jsonl or .jsonl.gz) with the fields uid, good and bad.

    Raises UserError naming the line that is no such pair, or when there is none.
    """
    pairs = []
    compressed = path.suffix == ".gz"
    with gzip.open(path, "rt", encoding="utf-8") if compressed else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                fields = {"paradigm": row["uid"], "good": row["good"], "bad": row["bad"]}
            except (ValueError, KeyError, TypeError) as error:
                wanted = "expected an object with uid, good and bad"
                raise UserError(f"{path}, line {number}: {wanted}") from error
            pairs.append(MinimalPair(**{name: str(value) for name, value in fields.items()}))
    if not pairs:
        raise UserError(f"{path} holds no pair; expected JSON Lines with uid, good and bad")
    return pairs


def compare_minimal_pairs(
    model: Any,
    tokenizer: Any,
    pairs: Sequence[MinimalPair],
    *,
    separator_id: int,
    tokens_at_once: int = 4096,
    progress: Progress | None = None,
) -> MinimalPairsResult:
    """Accuracy of a causal language model on pairs; equal probabilities count as wrong.

    A sentence's score is the summed log-probability of its tokens after the separator, which stands before
    every document of the training text.
    """
    sentences = [sentence for pair in pairs for sentence in (pair.good, pair.bad)]
    encoded = tokenizer(sentences, add_special_tokens=False)["input_ids"]
    scores = sentence_scores(
        model, [[separator_id, *ids] for ids in encoded], tokens_at_once, progress or Silent()
    )
    correct = tuple(good > bad for good, bad in zip(scores[::2], scores[1::2], strict=True))
    groups: dict[str, list[bool]] = defaultdict(list)
    for pair, right in zip(pairs, correct, strict=True):
        groups[pair.paradigm].append(right)
    by_paradigm = {paradigm: sum(rights) / len(rights) for paradigm, rights in sorted(groups.items())}
    accuracy = sum(by_paradigm.values()) / len(by_paradigm)
    return MinimalPairsResult(accuracy=accuracy, by_paradigm=by_paradigm, correct=correct)


@torch.no_grad()
def sentence_scores(
    model: Any, sequences: Sequence[Sequence[int]], tokens_at_once: int, progress: Progress
) -> list[float]:
    """Summed log-probability in nats of all tokens but the first of each sequence, batched by length."""
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    scores = [0.0] * len(sequences)
    progress.start("scoring sentences", len(sequences), "sentences")
    while order:
        length = len(sequences[order[-1]])
        batch = [order.pop() for _ in range(min(len(order), max(1, tokens_at_once // length)))]
        padded = [[*sequences[index], *[0] * (length - len(sequences[index]))] for index in batch]
        ids = torch.tensor(padded, device=model.device)
        lengths = torch.tensor([len(sequences[index]) for index in batch], device=model.device)
        for index, score in zip(batch, _scores(model, ids, lengths), strict=True):
            scores[index] = score
        progress.advance(len(batch))
    progress.finish()
    return scores


def _scores(model: Any, ids: Tensor, lengths: Tensor) -> list[float]:
    """Right padding changes nothing for a causal model: no real token looks at it."""
    log_probabilities = model(input_ids=ids).logits[:, :-1].float().log_softmax(dim=-1)
    taken = log_probabilities.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    real = torch.arange(1, ids.shape[1], device=ids.device) < lengths.unsqueeze(-1)
    return (taken.double() * real).sum(dim=-1).tolist()
