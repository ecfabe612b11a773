"""The bank from data: which states, how long, what becomes of the dead."""

import math

import pytest
import torch
import torch.nn.functional as F

from prism_lm.corpus import Corpus
from prism_lm.training.batches import Batches
from prism_lm.training.build import build_model
from prism_lm.training.objective import TrainingModule
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import Ranks
from prism_lm.training.seeding import Usage, replace_dead, sample_states, seed_bank

from .conftest import tiny_recipe

CPU = torch.device("cpu")
ALONE = Ranks(rank=0, world_size=1, device=CPU, mesh=None, sharded=False)
RECIPE = tiny_recipe()


@pytest.fixture
def trained():
    model = build_model(RECIPE, vocab_size=50, separator_id=0, dense=False)
    module = TrainingModule(model)
    optimiser = Optimiser(module, RECIPE.optimiser, steps=16, bank_multiplier=5)
    for state in optimiser.adamw.state.values():
        state["exp_avg"].fill_(1.0)
        state["exp_avg_sq"].fill_(2.0)
        state["step"].fill_(3.0)
    return module, optimiser


@pytest.fixture(scope="module")
def batches(corpora):
    return Batches(Corpus.open(corpora[0]), RECIPE.data, seed=0, rank=0, world_size=1, device=CPU)


def places(input_ids):
    """A stand-in for the model: each token's state is its id and its place, so a state names its token."""
    return torch.stack([input_ids.float(), torch.arange(input_ids.shape[1]).expand_as(input_ids).float()], -1)


def sample(batches, **changes):
    arguments = {"seed": 0, "step": 4, "count": 50, "among": 300} | changes
    return sample_states(places, batches, ALONE, **arguments)


def test_states_come_from_the_steps_ahead_without_repeats(batches):
    calls = []

    def forward(input_ids):
        calls.append(input_ids)
        row = len(calls) * torch.ones_like(input_ids)
        return torch.cat([places(input_ids), row[..., None].float()], -1)

    found = sample_states(forward, batches, ALONE, seed=0, step=4, count=50, among=300)
    assert len(calls) == math.ceil(300 / 64)
    assert torch.equal(calls[0], batches.micro_batch(4, 0).input_ids)
    assert torch.equal(calls[2], batches.micro_batch(5, 0).input_ids)
    known = {
        (*token, float(index + 1))
        for index, ids in enumerate(calls)
        for token in places(ids).flatten(0, 1).unbind()
        for token in [tuple(token.tolist())]
    }
    assert {tuple(state.tolist()) for state in found} <= known
    every = sample(batches, count=256, among=256)
    stream = torch.cat(
        [places(batches.micro_batch(4 + i // 2, i % 2).input_ids).flatten(0, 1) for i in range(4)]
    )
    assert torch.equal(every, stream)


def test_the_sample_is_a_function_of_seed_and_step(batches):
    assert torch.equal(sample(batches), sample(batches))
    assert not torch.equal(sample(batches), sample(batches, seed=1))
    assert not torch.equal(sample(batches), sample(batches, step=5))


def test_padding_is_no_state(batches):
    last = len(batches.sequences) - 1
    step = next(step for step in range(last) if last in batches.sequence_ids(step))
    tokens = batches.totals(step).states
    assert tokens < 4 * 32
    present = [
        places(batch.input_ids)[
            torch.ones_like(batch.labels, dtype=torch.bool) if batch.present is None else batch.present
        ]
        for batch in batches.of_rank(step)
    ]
    assert torch.equal(sample(batches, step=step, count=tokens, among=tokens), torch.cat(present))


def unexplained(states: torch.Tensor, bank: torch.Tensor, active: int) -> float:
    """The energy of the residuals, by a plain loop over states."""
    total = 0.0
    for state in states:
        cosines = F.cosine_similarity(bank, state.expand_as(bank), dim=-1)
        values, ids = cosines.topk(active)
        total += float((state - (values.clamp_min(0)[:, None] * bank[ids]).sum(0)).square().sum())
    return total


def test_the_bank_is_the_states_at_the_length_that_fits_best_and_its_moments_are_cleared(trained):
    module, optimiser = trained
    states = torch.randn(96, 16) + 1
    seed_bank(module, optimiser, states, active_prototypes=4)
    bank = module.bank.detach().clone()
    torch.testing.assert_close(bank, states * (bank[0, 0] / states[0, 0]))
    best = unexplained(states, bank, 4)
    assert best < unexplained(states, bank * 1.02, 4)
    assert best < unexplained(states, bank * 0.98, 4)
    state = optimiser.adamw.state[module.bank]
    assert state["step"] == 0
    assert state["exp_avg"].abs().max() == 0
    assert state["exp_avg_sq"].abs().max() == 0
    other = optimiser.adamw.state[optimiser.groups.matrices[0]]
    assert other["step"] == 3


def test_the_dead_go_to_the_worst_covered_states_one_at_a_time(trained):
    module, optimiser = trained
    generator = torch.Generator().manual_seed(0)
    axes = torch.eye(16)
    with torch.no_grad():
        module.bank.copy_(axes[torch.arange(96) % 8] * 3.0)  # the living cover the first eight axes
    before = module.bank.detach().clone()
    gaps = torch.cat([axes[8:10].repeat(5, 1) * 2.0, axes[:8]]) + 0.01 * torch.rand(
        18, 16, generator=generator
    )
    dead = torch.tensor([5, 40])
    replace_dead(module, optimiser, dead, gaps)
    found = F.normalize(module.bank.detach()[dead], dim=-1)
    nearest = (found @ axes.T).argmax(-1)
    assert set(nearest.tolist()) == {8, 9}  # not twice the same gap
    assert module.bank.detach()[dead].norm(dim=-1).tolist() == pytest.approx([3.0, 3.0])
    living = torch.ones(96, dtype=torch.bool)
    living[dead] = False
    assert torch.equal(module.bank.detach()[living], before[living])
    moments = optimiser.adamw.state[module.bank]["exp_avg"]
    assert moments[dead].abs().max() == 0
    assert (moments[living] == 1).all()
    assert optimiser.adamw.state[module.bank]["step"] == 3


def test_a_zero_state_is_never_chosen(trained):
    module, optimiser = trained
    states = torch.zeros(4, 16)
    states[2, 3] = 1.0
    replace_dead(module, optimiser, torch.tensor([0]), states)
    assert F.normalize(module.bank.detach()[0], dim=0)[3] == pytest.approx(1.0)


def test_dead_means_unused_for_a_whole_window():
    usage = Usage(4, CPU)
    usage.start(10)
    usage.saw(torch.tensor([[1, 2]]), 12)
    assert usage.dead(ALONE, 14, window=5).tolist() == []
    assert usage.dead(ALONE, 15, window=5).tolist() == [0, 3]
    usage.start(15, torch.tensor([0]))
    assert usage.dead(ALONE, 17, window=5).tolist() == [3]
    assert usage.dead(ALONE, 18, window=5).tolist() == [1, 2, 3]
    assert usage.dead(ALONE, 20, window=5).tolist() == [0, 1, 2, 3]
