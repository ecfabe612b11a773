"""The order of the data: nothing lost, nothing twice, the same for any number of processes."""

import dataclasses

import numpy as np
import pytest
import torch

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus import Corpus, Sequences
from prism_lm.training.batches import IGNORED, Batches, assemble

from .conftest import tiny_recipe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus(corpora):
    return Corpus.open(corpora[0])


def batches(corpus, *, rank=0, world_size=1, seed=0, **changes):
    data = dataclasses.replace(tiny_recipe().data, **changes)
    return Batches(corpus, data, seed=seed, rank=rank, world_size=world_size, device=CPU)


def rows(micro_batches):
    """Tokens of every sequence, without padding."""
    found = []
    for batch in micro_batches:
        present = torch.ones_like(batch.labels, dtype=torch.bool) if batch.present is None else batch.present
        found += [tuple(ids[there].tolist()) for ids, there in zip(batch.input_ids, present, strict=True)]
    return found


def test_an_epoch_holds_every_sequence_once(corpus):
    made = batches(corpus, batch=1, micro_batch=1)
    seen = [row for step in range(len(made.sequences)) for row in rows(made.of_rank(step))]
    every = [tuple(made.sequences[i].tolist()) for i in range(len(made.sequences))]
    assert sorted(seen) == sorted(every)
    assert sum(map(len, seen)) == corpus.num_tokens


@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_share_out_the_micro_batches_of_one(corpus, world_size):
    alone = batches(corpus, batch=8, micro_batch=2)
    together = [
        batches(corpus, batch=8, micro_batch=2, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for step in (0, 3, 29):
        expected = [batch.input_ids for batch in alone.of_rank(step)]
        found = [batch.input_ids for one in together for batch in one.of_rank(step)]
        assert all(map(torch.equal, expected, found))
        assert len(expected) == len(found)
        assert {one.totals(step) for one in together} == {alone.totals(step)}


def test_totals_count_what_the_tensors_hold_also_with_the_short_sequence(corpus):
    made = batches(corpus)
    last = len(made.sequences) - 1
    assert len(made.sequences[last]) < made.data.sequence_length
    with_short = [step for step in range(last + 1) if last in made.sequence_ids(step)]
    for step in {0, 1, with_short[0]}:
        micro_batches = list(made.of_rank(step))
        totals = made.totals(step)
        assert totals.predicted == sum(int((batch.labels != IGNORED).sum()) for batch in micro_batches)
        assert totals.states == sum(map(len, rows(micro_batches)))
        assert totals.micro_batches == len(micro_batches)
        lengths = [made.lengths(step, index) for index in range(made.per_step)]
        assert np.concatenate(lengths).tolist() == [len(row) for row in rows(micro_batches)]


def test_labels_are_the_next_tokens_of_the_same_sequence():
    batch = assemble([np.array([5, 6, 7]), np.array([8, 9])], 3, 0, CPU)
    assert batch.input_ids.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert batch.labels.tolist() == [[6, 7, IGNORED], [9, IGNORED, IGNORED]]
    assert batch.present.tolist() == [[True, True, True], [True, True, False]]
    assert assemble([np.array([1, 2])], 2, 0, CPU).present is None


def test_another_seed_gives_another_order(corpus):
    one, other = (batches(corpus, seed=seed).sequence_ids(0).tolist() for seed in (0, 1))
    assert one != other
    assert batches(corpus).sequence_ids(0).tolist() == one


def test_a_batch_that_cannot_be_divided_is_refused(corpus):
    with pytest.raises(UserError, match=r"data.batch is 4; expected a multiple of 6: data.micro_batch 2 on"):
        batches(corpus, world_size=3)


def test_sequences_are_cut_from_the_stream(corpus):
    stream = corpus.tokens(0, corpus.num_tokens)
    made = Sequences(corpus, 32)
    assert np.concatenate([made[i] for i in range(len(made))]).tolist() == stream.tolist()
