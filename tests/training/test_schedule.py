"""Learning rate, ramp and the moments at which the bank is touched."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.training.recipes import micro
from prism_lm.training.schedule import clustering_factor, learning_rate_factor, reseeds_at, seed_step

fractions = st.floats(0, 1)


def optimiser(**changes):
    return dataclasses.replace(micro().optimiser, **changes)


def bank(**changes):
    return dataclasses.replace(micro().bank, **changes)


@given(
    steps=st.integers(1, 3000), warmup=fractions, final=fractions, decay=st.sampled_from(["cosine", "linear"])
)
def test_the_rate_rises_to_its_peak_and_falls_to_the_final_fraction(steps, warmup, final, decay):
    settings = optimiser(warmup=warmup, final_fraction=final, decay=decay)
    factors = [learning_rate_factor(settings, step, steps) for step in range(steps)]
    warm = round(warmup * steps)
    assert all(0 < factor <= 1 + 1e-12 for factor in factors[:warm])
    assert factors[:warm] == sorted(factors[:warm])
    assert factors[warm:] == sorted(factors[warm:], reverse=True)
    if steps - warm >= 2:
        assert factors[warm] == pytest.approx(1)
        assert factors[-1] == pytest.approx(final)


def test_constant_stays():
    assert learning_rate_factor(optimiser(decay="constant"), 99, 100) == 1


@given(steps=st.integers(1, 3000), at=fractions, ramp=fractions)
def test_the_weights_are_zero_before_the_bank_is_set_and_rise_to_one(steps, at, ramp):
    settings = bank(seed_at=at, ramp=ramp)
    factors = [clustering_factor(settings, step, steps) for step in range(steps)]
    first = seed_step(settings, steps)
    assert all(factor == 0 for factor in factors[:first])
    assert all(0 < factor <= 1 for factor in factors[first:])
    assert factors == sorted(factors)
    if first + max(1, int(ramp * steps)) <= steps:
        assert factors[-1] == 1


def test_ten_steps_of_ramp_by_hand():
    settings = bank(seed_at=0.25, ramp=0.1)
    assert [round(clustering_factor(settings, step, 100), 3) for step in (24, 25, 29, 34, 35)] == [
        0, 0.1, 0.5, 1, 1,
    ]  # fmt: skip


def test_dead_prototypes_are_replaced_at_these_steps():
    settings = bank(seed_at=0.2, dead_after=10, reseed_every=15, reseed_until=0.8)
    assert [step for step in range(100) if reseeds_at(settings, step, 100)] == [35, 50, 65, 80]
    assert not any(reseeds_at(bank(reseed_every=0), step, 1000) for step in range(1000))
