"""The loss of a step against (5)-(8) written out, however it is cut into micro-batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prism_lm.training.batches import Totals, assemble
from prism_lm.training.build import build_model
from prism_lm.training.objective import TrainingModule, added, read_terms, share_of_loss

from .conftest import tiny_recipe

LENGTH, VOCABULARY = 12, 64
RECIPE = tiny_recipe(bank={"num_prototypes": 24, "active_prototypes": 3})
WEIGHTS = {"reconstruction_weight": 0.7, "prototype_coverage_weight": 0.4, "token_coverage_weight": 0.9}


@pytest.fixture(scope="module")
def module():
    recipe = replace(RECIPE, data=replace(RECIPE.data, sequence_length=LENGTH))
    model = build_model(recipe, vocab_size=VOCABULARY, separator_id=0, dense=False)
    with torch.no_grad():
        model.bank.weight.normal_(generator=torch.Generator().manual_seed(1))
    return TrainingModule(model.double())


def sequences(short=True):
    dice = np.random.default_rng(0)
    lengths = [LENGTH, LENGTH, LENGTH, 5 if short else LENGTH]
    return [dice.integers(0, VOCABULARY, length) for length in lengths]


def step_loss(module, groups, bank, factor=1.0):
    """The sum of the shares of micro-batches, as the loop puts it together."""
    batches = [assemble(group, LENGTH, 0, torch.device("cpu")) for group in groups]
    states = sum(len(row) for group in groups for row in group)
    totals = Totals(states - sum(map(len, groups)), states, len(groups))
    terms = [module(batch.input_ids, read_terms(batch, 3)) for batch in batches]
    summed = None
    for term in terms:
        summed = added(summed, term)
    return sum(share_of_loss(term, totals, bank, factor) for term in terms), summed


def plain_loss(module, groups, bank, factor=1.0):
    """(5)-(8) token by token, with R1 as the mean over micro-batches."""
    P, W = module.bank, module.language_model.get_output_embeddings().weight
    losses, unexplained, best, coverages = [], [], [], []
    for group in groups:
        found = []
        for row in group:
            ids = torch.from_numpy(row)[None]
            states = module.backbone(input_ids=ids).last_hidden_state[0]
            losses += [
                F.cross_entropy(W @ z, label) for z, label in zip(states[:-1], ids[0, 1:], strict=True)
            ]
            for z in states:
                cosines = F.cosine_similarity(z[None], P)
                values, active = cosines.topk(3)
                residual = z - (values.clamp(min=0)[:, None] * P[active]).sum(0)
                unexplained.append(residual.square().sum() / z.square().sum())
                best.append(cosines.max())
                found.append(cosines)
        coverages.append(torch.stack(found).amax(0).mean())
    mean = lambda values: torch.stack(values).mean()  # noqa: E731
    return mean(losses) + factor * (
        bank.reconstruction_weight * mean(unexplained)
        + bank.prototype_coverage_weight * (1 - mean(coverages))
        + bank.token_coverage_weight * (1 - mean(best))
    )


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()))


@pytest.mark.parametrize("cut", [(4,), (2, 2), (1, 3), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_the_loss_is_the_objective_however_it_is_cut(module, cut, factor):
    rows, groups = sequences(), []
    for size in cut:
        groups.append(rows[:size])
        rows = rows[size:]
    bank = replace(RECIPE.bank, **WEIGHTS)
    ours, _ = step_loss(module, groups, bank, factor)
    plain = plain_loss(module, groups, bank, factor)
    assert ours.item() == pytest.approx(plain.item(), rel=1e-9)
    for one, other in zip(gradients(ours, module), gradients(plain, module), strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-10)


def test_only_r1_depends_on_the_cut(module):
    rows = sequences()
    without_r1 = replace(RECIPE.bank, **WEIGHTS | {"prototype_coverage_weight": 0.0})
    whole, _ = step_loss(module, [rows], without_r1)
    cut, _ = step_loss(module, [rows[:2], rows[2:]], without_r1)
    assert whole.item() == pytest.approx(cut.item(), rel=1e-9)
    with_r1 = replace(RECIPE.bank, **WEIGHTS)
    assert (
        abs(step_loss(module, [rows], with_r1)[0] - step_loss(module, [rows[:2], rows[2:]], with_r1)[0])
        > 1e-3
    )


def test_without_the_clustering_head_the_loss_is_the_models_own(module):
    rows = sequences(short=False)
    batch = assemble(rows, LENGTH, 0, torch.device("cpu"))
    terms = module(batch.input_ids, read_terms(batch, None))
    assert terms.reconstruction is None
    module.eval()
    expected = module.language_model(batch.input_ids, labels=batch.input_ids).loss
    module.train()
    assert terms.cross_entropy.item() / (4 * (LENGTH - 1)) == pytest.approx(expected.item(), rel=1e-6)


def test_sums_are_added_without_their_graph(module):
    _, summed = step_loss(module, [sequences()[:2], sequences()[2:]], RECIPE.bank)
    assert all(term is not None and not term.requires_grad for term in summed[:4])
    assert summed.active_ids is None


@pytest.mark.parametrize("backbone", ["gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_twin_has_the_same_initial_weights(backbone, tied):
    recipe = tiny_recipe(model={"backbone": backbone, "tied": tied})
    made = [build_model(recipe, vocab_size=50, separator_id=0, dense=dense) for dense in (False, True)]
    heads = [model.get_output_embeddings().weight for model in made]
    assert torch.equal(*heads)
    one, other = (dict(model.base_model.named_parameters()) for model in made)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not hasattr(made[1], "bank")
    again = build_model(recipe, vocab_size=50, separator_id=0, dense=True)
    assert torch.equal(again.get_output_embeddings().weight, heads[1])
    another = build_model(replace(recipe, seed=1), vocab_size=50, separator_id=0, dense=True)
    assert not torch.equal(another.get_output_embeddings().weight, heads[1])
