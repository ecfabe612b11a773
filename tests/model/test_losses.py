import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_lm.model.head import column_maximum, select_prototypes
from prism_lm.model.losses import (
    clustering_terms,
    cross_entropy_sum,
    prototype_coverage_loss,
    reconstruction_loss,
    rowwise_products,
    token_coverage_loss,
)

from .dense_form import cosine_matrix, losses


def random_case(seed, states=37, prototypes=23, size=11, offset=0.5):
    generator = torch.Generator().manual_seed(seed)

    def make(rows):
        return torch.randn(rows, size, generator=generator, dtype=torch.float64) + offset

    return make(states).requires_grad_(), make(prototypes).requires_grad_()


def gradients(value, *inputs):
    return torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.7, 1.3, 0.4)])
@pytest.mark.parametrize("active", [1, 4, 23])
def test_values_and_gradients_equal_the_dense_form(weights, active):
    states, prototypes = random_case(active)
    terms = clustering_terms(states, prototypes, active)
    fast = (terms.reconstruction_sum, terms.prototype_coverage, terms.token_coverage_sum)
    plain = losses(states, prototypes, active)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other)
    total, expected = (sum(w * v for w, v in zip(weights, side, strict=True)) for side in (fast, plain))
    for one, other in zip(
        gradients(total, states, prototypes), gradients(expected, states, prototypes), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@given(
    seed=st.integers(0, 10_000),
    states=st.integers(1, 40),
    prototypes=st.integers(1, 30),
    offset=st.floats(-1, 1),
)
@settings(max_examples=40, deadline=None)
def test_any_shape_equals_the_dense_form(seed, states, prototypes, offset):
    z, p = random_case(seed, states, prototypes, 5, offset)
    active = 1 + seed % prototypes
    terms = clustering_terms(z, p, active)
    total = terms.loss(1.0, 0.5, 0.25)
    reconstruction, coverage, token_coverage = losses(z, p, active)
    expected = reconstruction / states + 0.5 * (1 - coverage) + 0.25 * (1 - token_coverage / states)
    torch.testing.assert_close(total, expected)
    for one, other in zip(gradients(total, z, p), gradients(expected, z, p), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_losses_in_their_plain_form():
    states, prototypes = (tensor.detach() for tensor in random_case(3))
    terms = clustering_terms(states, prototypes, 4)
    matrix = cosine_matrix(states, prototypes)
    activations = torch.zeros_like(matrix)
    for t in range(len(states)):
        for i in matrix[t].argsort(descending=True)[:4]:
            activations[t, i] = max(0.0, float(matrix[t, i]))
    residuals = states - activations @ prototypes
    torch.testing.assert_close(reconstruction_loss(states, residuals), terms.reconstruction_sum / len(states))
    torch.testing.assert_close(prototype_coverage_loss(matrix), 1 - terms.prototype_coverage)
    torch.testing.assert_close(token_coverage_loss(matrix), 1 - terms.token_coverage_sum / len(states))


def test_chunks_change_nothing(monkeypatch):
    states, prototypes = random_case(5, states=101)
    whole = clustering_terms(states, prototypes, 4)
    whole_gradients = gradients(whole.loss(1, 1, 1), states, prototypes)
    monkeypatch.setattr("prism_lm.model.head.ENTRIES_PER_CHUNK", 23 * 7)
    parts = clustering_terms(states, prototypes, 4)
    assert torch.equal(whole.active_ids, parts.active_ids)
    for one, other in zip(whole_gradients, gradients(parts.loss(1, 1, 1), states, prototypes), strict=True):
        torch.testing.assert_close(one, other)


def test_a_zero_state_a_zero_prototype_and_no_positive_cosine():
    states, prototypes = (tensor.detach().clone() for tensor in random_case(7))
    states[4], prototypes[9] = 0.0, 0.0
    states[5] = -prototypes.abs().sum(dim=0) * 10
    states.requires_grad_(), prototypes.requires_grad_()
    terms = clustering_terms(states, prototypes, 6)
    plain = losses(states, prototypes, 6)
    for one, other in zip(terms[:3], plain, strict=True):
        torch.testing.assert_close(one, other)
    state_gradient, prototype_gradient = gradients(terms.loss(1, 1, 1), states, prototypes)
    assert torch.isfinite(state_gradient).all()
    assert torch.isfinite(prototype_gradient).all()
    assert not state_gradient[4].any(), "a zero state pulls nowhere"
    chosen = select_prototypes(states, prototypes, 6)
    assert chosen.cosines[4].tolist() == [0.0] * 6
    assert chosen.active_ids[4].tolist() == [0, 1, 2, 3, 4, 5], "ties go to the lowest id"
    assert (chosen.cosines.clamp(min=0)[5] == 0).sum() == (chosen.cosines[5] <= 0).sum()


def test_ties_go_to_the_lowest_id():
    _, prototypes = random_case(11, prototypes=12)
    doubled = torch.cat([prototypes, prototypes]).detach()
    chosen = select_prototypes(prototypes.detach(), doubled, 2)
    assert torch.equal(chosen.active_ids, torch.stack([torch.arange(12), torch.arange(12) + 12], dim=1))


def test_more_active_than_prototypes_is_an_error():
    states, prototypes = random_case(1, prototypes=3)
    with pytest.raises(ValueError, match="K >= A"):
        clustering_terms(states, prototypes, 4)


def test_no_states_is_an_error():
    _, prototypes = random_case(1)
    with pytest.raises(ValueError, match="at least one token state"):
        clustering_terms(prototypes[:0], prototypes, 4)


@given(rows=st.integers(1, 70), columns=st.integers(1, 9), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_column_maximum_is_max(rows, columns, seed):
    matrix = torch.randint(-3, 4, (rows, columns), generator=torch.Generator().manual_seed(seed)).float()
    best, at = column_maximum(matrix)
    assert torch.equal(best, matrix.max(dim=0).values)
    for column in range(columns):
        assert int(at[column]) == matrix[:, column].tolist().index(float(best[column])), "the first of equals"


def test_rowwise_products_against_a_loop():
    rows, table = (tensor.detach() for tensor in random_case(13))
    ids = torch.randint(0, 23, (37, 5), generator=torch.Generator().manual_seed(0))
    products = rowwise_products(rows, table, ids)
    for n in range(37):
        for j in range(5):
            torch.testing.assert_close(products[n, j], rows[n] @ table[ids[n, j]])


@pytest.mark.parametrize("per_chunk", [1 << 25, 40])
def test_cross_entropy_sum_in_one_piece_and_in_chunks(per_chunk, monkeypatch):
    monkeypatch.setattr("prism_lm.model.losses.LOGITS_PER_CHUNK", per_chunk)
    states, embedding = random_case(17)
    labels = torch.randint(0, 23, (37,), generator=torch.Generator().manual_seed(1))
    labels[3] = labels[20] = -100
    total = cross_entropy_sum(states, embedding, labels)
    log_probabilities = (states @ embedding.t()).log_softmax(dim=-1)
    expected = -sum(log_probabilities[n, labels[n]] for n in range(37) if labels[n] != -100)
    torch.testing.assert_close(total, expected)
    for one, other in zip(
        gradients(total, states, embedding), gradients(expected, states, embedding), strict=True
    ):
        torch.testing.assert_close(one, other)
