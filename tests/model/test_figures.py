"""Held-out figures against plain loops over states and prototypes."""

import pytest
import torch
import torch.nn.functional as F

from prism_lm.model import HeldOutFigures
from prism_lm.model import figures as module

STATES, HIDDEN, PROTOTYPES, VOCABULARY, ACTIVE = 60, 8, 12, 20, 3
SIZES = (10, 20, 10, 10, 10)


@pytest.fixture
def made(monkeypatch):
    """Figures of five batches with sets of 25 states, and what went in."""
    monkeypatch.setattr(module, "SET_STATES", 25)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(STATES, HIDDEN, generator=generator) + 0.5
    bank = torch.randn(PROTOTYPES, HIDDEN, generator=generator) + 0.3
    embedding = torch.randn(VOCABULARY, HIDDEN, generator=generator)
    labels = torch.randint(VOCABULARY, (STATES,), generator=generator)
    labels[::7] = -100
    sums = HeldOutFigures(PROTOTYPES)
    for part, wanted in zip(states.split(SIZES), labels.split(SIZES), strict=True):
        sums.update(part, embedding, wanted, bank, ACTIVE)
    return {name: figure.value for name, figure in sums.result().items()}, states, bank, embedding, labels


def cosines(states, bank):
    return torch.stack([torch.stack([F.cosine_similarity(z, p, dim=0) for p in bank]) for z in states])


def test_coverage_over_batches_larger_sets_and_the_whole(made):
    found, states, bank, _, _ = made
    table = cosines(states, bank)
    batches = [part.max(0).values.mean().item() for part in table.split(SIZES)]
    assert found["R1"] == pytest.approx(sum(batches) / 5)
    # Batches are added until 25 states are there: 10 + 20, then 10 + 10 + 10.
    sets = [table[:30].max(0).values.mean().item(), table[30:].max(0).values.mean().item()]
    assert found["R1_larger_sets"] == pytest.approx(sum(sets) / 2)
    assert found["R1_whole_set"] == pytest.approx(table.max(0).values.mean().item())
    assert found["R2"] == pytest.approx(table.max(1).values.mean().item())


def test_what_keeps_coverage_honest(made):
    found, states, bank, embedding, labels = made
    table, mixtures, used = cosines(states, bank), [], set()
    for row in table:
        ids = row.topk(ACTIVE).indices.tolist()
        used |= {i for i in ids if row[i] > 0}
        mixtures.append(sum(max(0.0, row[i].item()) * bank[i] for i in ids))
    mixture, mean = torch.stack(mixtures), states.mean(0)
    residual = (states - mixture).square().sum().item()
    centred = (states - mean).square().sum().item()
    assert found["variance_unexplained_centred"] == pytest.approx(residual / centred)
    assert found["anisotropy"] == pytest.approx(F.cosine_similarity(states, mean[None], dim=1).mean().item())
    assert found["prototypes_used"] == len(used) / PROTOTYPES
    for name, rows in (("loss", states), ("loss_without_residual", mixture)):
        assert found[name] == pytest.approx(F.cross_entropy(rows @ embedding.T, labels).item(), rel=1e-5)


def test_a_set_that_is_never_full_is_taken_as_it_is():
    sums = HeldOutFigures(2)
    states = torch.eye(3)
    sums.update(states, torch.eye(3), torch.tensor([0, 1, 2]), torch.eye(3)[:2], 1)
    result = sums.result()
    assert result["R1_larger_sets"].value == result["R1_whole_set"].value == 1.0
