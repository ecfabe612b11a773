from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.artifacts import UserError
from prism_lm.corpus import Corpus, SequenceOrder, Sequences

SEEDS = st.integers(-(2**40), 2**70)


def test_windows_cover_the_stream_once(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus(["the fox", "x", "the hill and the dog", "東京"])
    for length in (2, 3, 7, corpus.num_tokens, corpus.num_tokens + 5):
        sequences = Sequences(corpus, length)
        parts = [sequences[i] for i in range(len(sequences))]
        assert np.concatenate(parts).tolist() == corpus.tokens(0, corpus.num_tokens).tolist()
        assert all(len(part) == length for part in parts[:-1])
        assert 0 < len(parts[-1]) <= length
        assert [sequences.start(i) for i in range(len(sequences))] == list(
            range(0, corpus.num_tokens, length)
        )
        with pytest.raises(IndexError):
            sequences[len(sequences)]
        with pytest.raises(IndexError):
            sequences[-1]


def test_length_must_leave_something_to_predict(make_corpus: Callable[..., Corpus]) -> None:
    with pytest.raises(UserError, match="at least 2"):
        Sequences(make_corpus(["the fox"]), 1)


@given(st.integers(1, 700), SEEDS, st.integers(0, 3))
def test_an_epoch_visits_each_sequence_once(num_sequences: int, seed: int, epoch: int) -> None:
    order = SequenceOrder(num_sequences, seed)
    visited = order.at(epoch * num_sequences, (epoch + 1) * num_sequences)
    assert sorted(visited.tolist()) == list(range(num_sequences))


@given(st.integers(1, 300), SEEDS, st.integers(1, 4), st.integers(1, 5), st.integers(0, 40))
def test_ranks_part_the_global_batch(
    num_sequences: int, seed: int, world_size: int, per_rank: int, step: int
) -> None:
    order = SequenceOrder(num_sequences, seed)
    ranks = [order.batch(step, rank, world_size, per_rank) for rank in range(world_size)]
    together = order.batch(step, 0, 1, world_size * per_rank)
    assert np.concatenate(ranks).tolist() == together.tolist()
    assert together.dtype == np.int64


@given(st.integers(1, 40), st.integers(1, 7))
def test_steps_visit_each_sequence_once_an_epoch(num_sequences: int, batch: int) -> None:
    """Batches that straddle two epochs included."""
    order = SequenceOrder(num_sequences, seed=1)
    steps = -(-2 * num_sequences // batch)
    visited = np.concatenate([order.batch(step, 0, 1, batch) for step in range(steps)])[: 2 * num_sequences]
    assert (np.bincount(visited, minlength=num_sequences) == 2).all()


def test_order_is_the_one_of_every_earlier_release() -> None:
    """A run resumed under a new release must see the same batches."""
    assert SequenceOrder(10, seed=0).at(0, 10).tolist() == [0, 5, 3, 7, 6, 1, 9, 8, 4, 2]
    assert SequenceOrder(10, seed=0).at(10, 20).tolist() == [6, 0, 7, 5, 3, 9, 1, 4, 2, 8]
    assert SequenceOrder(1_000_003, seed=7).batch(5, 1, 2, 4).tolist() == [751307, 842289, 922885, 94900]


def test_epochs_and_seeds_differ_and_the_order_looks_random() -> None:
    order = SequenceOrder(4096, seed=3)
    first, second = order.at(0, 4096), order.at(4096, 8192)
    other = SequenceOrder(4096, seed=4).at(0, 4096)
    for a, b in ((first, second), (first, other), (first, np.arange(4096))):
        assert np.count_nonzero(a == b) < 20
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.08
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.08


def test_wrong_ranks_and_empty_corpora() -> None:
    with pytest.raises(UserError, match="no sequence"):
        SequenceOrder(0, seed=1)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        SequenceOrder(10, seed=1).batch(0, 2, 2, 1)
