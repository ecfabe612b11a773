"""Every statistic of the pass against a plain loop over the firings."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from blocks import Firing, World, make_world
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_lm.index.arrays import ranks_in_runs, run_starts
from prism_lm.index.firings import CONTEXT_TOKENS
from prism_lm.index.neighbours import Candidates, Neighbours, passages_per_prototype
from prism_lm.index.samples import Sample, Samples, bands, priority, quantiles
from prism_lm.index.totals import Totals
from prism_lm.index.triggers import TriggerCounts

PROTOTYPES = 7
worlds = st.builds(
    make_world,
    st.integers(0, 10_000),
    num_tokens=st.integers(1, 300),
    block=st.integers(8, 300),
    document=st.sampled_from([1, 5, 40, 400]),
)


def by_prototype(world: World) -> dict[int, list[Firing]]:
    grouped: dict[int, list[Firing]] = defaultdict(list)
    for firing in world.firings:
        grouped[firing.prototype].append(firing)
    return grouped


def context(world: World, position: int) -> tuple[int, ...]:
    """The tokens of the same document among the eight that end at the position."""
    places = range(max(0, position - CONTEXT_TOKENS + 1), position + 1)
    return tuple(int(world.tokens[p]) for p in places if world.documents[p] == world.documents[position])


@given(worlds)
@settings(max_examples=40, deadline=None)
def test_usage_mass_and_coverage(world: World) -> None:
    totals = Totals(PROTOTYPES)
    for block in world.blocks:
        totals.update(block)
    grouped = by_prototype(world)
    assert totals.tokens == world.tokens.shape[0]
    for prototype in range(PROTOTYPES):
        firings = grouped[prototype]
        assert totals.usage[prototype] == len(firings)
        assert totals.mass[prototype] == pytest.approx(sum(f.activation for f in firings))
        column = [float(value) for value in world.similarity[:, prototype]]
        assert totals.coverage[prototype] == max(column)
        assert totals.nearest[prototype] == column.index(max(column))


def neighbours(world: World, kept: int) -> Candidates:
    table = Neighbours(PROTOTYPES, kept)
    for block in world.blocks:
        table.update(block)
    return table.result()


def neighbours_by_loop(world: World, prototype: int) -> list[tuple[int, float, int, int]]:
    """(position, cosine, firings in the document, documents that read the same), strongest first."""
    documents: dict[int, list[Firing]] = defaultdict(list)
    for firing in by_prototype(world)[prototype]:
        documents[firing.document].append(firing)
    best = {d: min(fs, key=lambda f: (-f.activation, f.position)) for d, fs in documents.items()}
    passages: dict[tuple[int, ...], list[Firing]] = defaultdict(list)
    for firing in best.values():
        passages[context(world, firing.position)].append(firing)
    rows = []
    for same in passages.values():
        winner = min(same, key=lambda f: (-f.activation, f.position))
        rows.append((winner.position, winner.activation, len(documents[winner.document]), len(same)))
    return sorted(rows, key=lambda row: (-row[1], row[0]))


@given(worlds)
@settings(max_examples=60, deadline=None)
def test_neighbours_are_the_strongest_token_of_each_document_and_passage(world: World) -> None:
    found = neighbours(world, kept=1000)
    for prototype in range(PROTOTYPES):
        rows = found.take(found.prototypes == prototype)
        columns = zip(
            rows.positions.tolist(),
            rows.cosines.tolist(),
            rows.firings.tolist(),
            rows.copies.tolist(),
            strict=True,
        )
        assert list(columns) == neighbours_by_loop(world, prototype)


@given(worlds, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_a_bounded_table_keeps_the_strongest_and_never_counts_too_many_copies(
    world: World, kept: int
) -> None:
    found = neighbours(world, kept)
    for prototype in range(PROTOTYPES):
        rows = found.take(found.prototypes == prototype)
        expected = neighbours_by_loop(world, prototype)[:kept]
        assert list(zip(rows.positions.tolist(), rows.firings.tolist(), strict=True)) == [
            (position, firings) for position, _, firings, _ in expected
        ]
        assert all(n <= row[3] for n, row in zip(rows.copies.tolist(), expected, strict=True))
    assert passages_per_prototype(found, PROTOTYPES).max() <= kept


def test_neighbours_come_from_different_documents() -> None:
    found = neighbours(make_world(3), kept=4)
    pairs = list(zip(found.prototypes.tolist(), found.documents.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)) > 10


@given(worlds, st.sampled_from([1, 3, 1000]))
@settings(max_examples=40, deadline=None)
def test_samples_are_the_lowest_priorities(world: World, kept: int) -> None:
    table = Samples(PROTOTYPES, kept)
    for block in world.blocks:
        table.update(block)
    sample = table.result()
    for prototype in range(PROTOTYPES):
        rows = sample.take(sample.prototypes == prototype)
        firings = by_prototype(world)[prototype]
        hashes = {f.position: hash_of(prototype, f.position) for f in firings}
        chosen = sorted(firings, key=lambda f: hashes[f.position])[:kept]
        assert rows.positions.tolist() == [f.position for f in chosen]
        assert rows.activations.tolist() == [f.activation for f in chosen]


def hash_of(prototype: int, position: int) -> int:
    return int(priority(np.array([prototype]), np.array([position]))[0])


def test_sampling_is_uniform() -> None:
    chosen = priority(np.zeros(10_000, dtype=np.int64), np.arange(10_000)).argsort()[:500]
    assert 0.4 < (chosen < 5000).mean() < 0.6
    assert 0.4 < (chosen % 2).mean() < 0.6


def whole_sample(world: World) -> Sample:
    table = Samples(PROTOTYPES, 1000)
    for block in world.blocks:
        table.update(block)
    return table.result()


@given(worlds, st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_bands_hold_equal_shares_of_the_firings(world: World, num_bands: int, per_band: int) -> None:
    chosen, band = bands(whole_sample(world), num_bands, per_band)
    for prototype in range(PROTOTYPES):
        firings = sorted(by_prototype(world)[prototype], key=lambda f: (f.activation, f.position))
        expected = []
        for number in reversed(range(num_bands)):
            members = [f for rank, f in enumerate(firings) if rank * num_bands // len(firings) == number]
            members = sorted(members, key=lambda f: hash_of(prototype, f.position))[:per_band]
            expected += [(f.activation, number) for f in sorted(members, key=lambda f: -f.activation)]
        rows = chosen.prototypes == prototype
        assert list(zip(chosen.activations[rows].tolist(), band[rows].tolist(), strict=True)) == expected


@given(worlds)
@settings(max_examples=20, deadline=None)
def test_quantiles_are_of_nearest_rank(world: World) -> None:
    found = quantiles(whole_sample(world), PROTOTYPES, (0.0, 0.5, 1.0))
    for prototype in range(PROTOTYPES):
        values = sorted(f.activation for f in by_prototype(world)[prototype])
        if not values:
            assert np.isnan(found[prototype]).all()
            continue
        assert found[prototype].tolist() == [values[0], values[round(0.5 * (len(values) - 1))], values[-1]]


def triggers(
    world: World, number: int, kept: int = 128
) -> tuple[TriggerCounts, list[tuple[int, int, int, int]]]:
    counts = TriggerCounts(PROTOTYPES, 5, kept)
    for block in world.blocks:
        places = block.firings.positions - block.start
        counts.update(block.firings.prototypes, block.tokens[places])
    found = counts.commonest(number)
    return counts, list(zip(*(column.tolist() for column in found), strict=True))


@given(worlds)
@settings(max_examples=40, deadline=None)
def test_commonest_triggers_are_counted_exactly(world: World) -> None:
    counts, found = triggers(world, 2)
    expected = []
    for prototype in range(PROTOTYPES):
        tally = Counter(f.token for f in by_prototype(world)[prototype])
        best = sorted(tally.items(), key=lambda pair: (-pair[1], pair[0]))[:2]
        expected += [(prototype, token, count, rank) for rank, (token, count) in enumerate(best)]
    assert found == expected
    assert not counts.undercount.any()


@given(st.integers(0, 1000), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_full_trigger_table_counts_too_few_within_its_bound(seed: int, kept: int) -> None:
    generator = np.random.default_rng(seed)
    counts = TriggerCounts(3, 50, kept)
    counts._limit = 6 * kept
    exact: Counter[tuple[int, int]] = Counter()
    for _ in range(12):
        prototypes = generator.integers(0, 3, 40)
        values = np.minimum(generator.geometric(0.2, 40), 49)
        counts.update(prototypes, values)
        exact.update(zip(prototypes.tolist(), values.tolist(), strict=True))
    found = counts.commonest(50)
    usage = Counter({p: sum(n for (q, _), n in exact.items() if q == p) for p in range(3)})
    kept_counts = {(p, v): n for p, v, n, _ in zip(*(column.tolist() for column in found), strict=True)}
    for (prototype, value), count in exact.items():
        least = kept_counts.get((prototype, value), 0)
        assert least <= count <= least + counts.undercount[prototype]
    assert all(counts.undercount[p] <= usage[p] / (kept + 1) for p in range(3))


@given(st.lists(st.integers(0, 5)))
def test_runs_and_ranks(keys: list[int]) -> None:
    keys = sorted(keys)
    array = np.array(keys, dtype=np.int64)
    assert run_starts(array).tolist() == [i for i, k in enumerate(keys) if i == 0 or keys[i - 1] != k]
    assert ranks_in_runs(array).tolist() == [keys[:i].count(k) for i, k in enumerate(keys)]
