"""Writing: what the seed decides, and what a control leaves alone."""

from collections import Counter

import pytest
import torch

from prism_lm.attribution import write_tokens
from prism_lm.attribution.tracing import Tracer
from prism_lm.attribution.writing import _choose
from prism_lm.model import Control

PROMPT = [5, 6, 7]


def test_greedy_equals_generate(tracer: Tracer) -> None:
    mine = write_tokens(tracer.model, PROMPT, tokens=12, temperature=0)
    theirs = tracer.model.generate(
        torch.tensor([PROMPT]), max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert mine == theirs[0, len(PROMPT) :].tolist()


def test_it_stops_at_the_separator(tracer: Tracer) -> None:
    free = write_tokens(tracer.model, PROMPT, tokens=12, seed=4)
    stop = free[5]
    assert write_tokens(tracer.model, PROMPT, tokens=12, seed=4, stop_at=stop) == free[: free.index(stop) + 1]


def test_a_control_that_touches_nothing_writes_the_same(tracer: Tracer) -> None:
    free = write_tokens(tracer.model, PROMPT, tokens=12, seed=4)
    assert write_tokens(tracer.model, PROMPT, tokens=12, seed=4, control=Control.of({3: 0.0})) == free
    off = Control.off(range(tracer.model.config.num_prototypes))
    assert write_tokens(tracer.model, PROMPT, tokens=12, seed=4, control=off) != free


def test_sampling_follows_the_probabilities() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0])
    noise = torch.Generator().manual_seed(0)
    counts = Counter(_choose(logits, 2.0, noise) for _ in range(4000))
    expected = (logits / 2.0).softmax(-1).tolist()
    assert [counts[i] / 4000 for i in range(3)] == pytest.approx(expected, abs=0.03)


def test_ties_go_to_the_lowest_id() -> None:
    assert _choose(torch.tensor([0.0, 3.0, 3.0]), 0.0, torch.Generator()) == 1
