"""The clustering losses (6)-(8) and the cross-entropy of the objective (5).

Only few entries of the N x K similarity matrix carry gradient: A for each state (6), the largest of those
(8), and one for each prototype (7).  They are selected without gradient, in chunks, and the backward pass
below is written by hand for exactly these entries; a test holds it against automatic differentiation of the
plain dense form in float64.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .head import (
    NearestStates,
    Selection,
    gather_sum,
    inverse_norm,
    reconstruct,
    select_with_nearest_states,
)


class ClusteringTerms(NamedTuple):
    """Sums and means from which (5) is put together, over the states that were passed in."""

    reconstruction_sum: Tensor
    """sum_t |r_t|^2 / |z_t|^2 of (6); a zero state adds 0."""
    prototype_coverage: Tensor
    """R1 of (7): the mean over prototypes of the largest cosine with any of these states."""
    token_coverage_sum: Tensor
    """sum_t max_i c_ti of (8)."""
    num_states: int
    active_ids: Tensor
    """[N, A] int64."""
    activations: Tensor
    """[N, A]: a_ti of (2), no gradient."""
    nearest_cosine: Tensor
    """[K]: max_t c_ti, no gradient."""

    def loss(self, reconstruction: float, prototype_coverage: float, token_coverage: float) -> Tensor:
        """w_rec L_REC + w_R1 L_R1 + w_R2 L_R2 over these states alone."""
        return (
            reconstruction * self.reconstruction_sum / self.num_states
            + prototype_coverage * (1 - self.prototype_coverage)
            + token_coverage * (1 - self.token_coverage_sum / self.num_states)
        )


def clustering_terms(states: Tensor, prototypes: Tensor, active_prototypes: int) -> ClusteringTerms:
    """L_REC (6), R1 (7) and R2 (8) of states [N, D] and a bank [K, D], differentiable in both.

    Computed in float32 at least.  Raises ValueError without states or when K < A.
    """
    if states.shape[0] == 0:
        raise ValueError("the clustering losses need at least one token state, and none was given")
    wide = torch.promote_types(states.dtype, torch.float32)
    with torch.autocast(states.device.type, enabled=False):
        reconstruction, coverage, token_coverage, *rest = _Clustering.apply(
            states.to(wide), prototypes.to(wide), active_prototypes
        )
    return ClusteringTerms(reconstruction, coverage, token_coverage, states.shape[0], *rest)


class _Clustering(torch.autograd.Function):
    """Values of (6)-(8) and their gradients at the selected entries."""

    @staticmethod
    def forward(  # pyrefly: ignore[bad-override]
        ctx: Any, states: Tensor, prototypes: Tensor, active_prototypes: int
    ) -> tuple[Tensor, ...]:
        chosen, nearest = select_with_nearest_states(states, prototypes, active_prototypes)
        activations = chosen.cosines.clamp(min=0)
        residual = states - reconstruct(prototypes, chosen.active_ids, activations)
        inverse_lengths = inverse_norm(states)
        unexplained = residual.square().sum(dim=-1) * inverse_lengths.square()
        ctx.save_for_backward(states, prototypes, residual, inverse_lengths, unexplained, *chosen, *nearest)
        ctx.mark_non_differentiable(chosen.active_ids, activations, nearest.cosine)
        losses = unexplained.sum(), nearest.cosine.mean(), chosen.cosines[:, 0].sum()
        return *losses, chosen.active_ids, activations, nearest.cosine

    @staticmethod
    @once_differentiable
    def backward(  # pyrefly: ignore[bad-override]
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor, Tensor, None]:
        states, prototypes, residual, inverse_lengths, unexplained, *chosen = ctx.saved_tensors
        entries = _Entries.of(
            states,
            prototypes,
            residual,
            inverse_lengths,
            Selection(*chosen[:2]),
            NearestStates(*chosen[2:]),
            gradients,
        )
        state_gradient = entries.state_gradient(gradients[0], unexplained)
        return state_gradient, entries.prototype_gradient(), None


class _Entries(NamedTuple):
    """The entries (t, i) that carry gradient, with dL/dc_ti, and what both gradients need of them.

    With u = z/|z| and q = p/|p|:  dc/dz = (q - c u)/|z|   and   dc/dp = (u - c q)/|p|.
    """

    states: Tensor
    prototypes: Tensor
    pull: Tensor
    """[N, D]: dL/dr_t = 2 g r_t / |z_t|^2."""
    inverse_states: Tensor
    inverse_prototypes: Tensor
    chosen: Selection
    nearest: NearestStates
    active: Tensor
    """[N, A]: dL/dc of the active entries."""
    covered: Tensor
    """[K]: dL/dc of the nearest state of each prototype."""

    @classmethod
    def of(
        cls,
        states: Tensor,
        prototypes: Tensor,
        residual: Tensor,
        inverse_states: Tensor,
        chosen: Selection,
        nearest: NearestStates,
        gradients: tuple[Tensor, ...],
    ) -> "_Entries":
        reconstruction, coverage, token_coverage = gradients[:3]
        pull = residual * (2 * reconstruction * inverse_states.square()).unsqueeze(-1)
        active = -rowwise_products(pull, prototypes, chosen.active_ids)
        active = torch.where(chosen.cosines > 0, active, 0.0)  # activations below zero were cut to 0 in (2)
        active[:, 0] += token_coverage
        covered = (coverage / prototypes.shape[0]).expand(prototypes.shape[0])
        return cls(
            states,
            prototypes,
            pull,
            inverse_states,
            inverse_norm(prototypes),
            chosen,
            nearest,
            active,
            covered,
        )

    def state_gradient(self, reconstruction: Tensor, unexplained: Tensor) -> Tensor:
        """dL/dz: through r, through the |z|^2 below it, and through every selected cosine."""
        chosen, nearest, size = self.chosen, self.nearest, self.states.shape[0]
        towards = self.active * self.inverse_prototypes[chosen.active_ids]
        gradient = reconstruct(self.prototypes, chosen.active_ids, towards)
        along = (self.active * chosen.cosines).sum(dim=-1)
        by_state, offsets, order = _group(nearest.index, size)
        gradient += F.embedding_bag(
            order,
            self.prototypes,
            offsets,
            per_sample_weights=(self.covered * self.inverse_prototypes)[order],
            mode="sum",
        )
        along.index_add_(0, by_state, (self.covered * nearest.cosine)[order])
        gradient *= self.inverse_states.unsqueeze(-1)
        shrink = (along + 2 * reconstruction * unexplained) * self.inverse_states.square()
        return gradient.addcmul_(self.states, shrink.unsqueeze(-1), value=-1).add_(self.pull)

    def prototype_gradient(self) -> Tensor:
        """dL/dp: the pull of the residuals, and every selected cosine."""
        chosen, nearest, bank_size = self.chosen, self.nearest, self.prototypes.shape[0]
        width = chosen.active_ids.shape[1]
        sorted_ids, offsets, order = _group(chosen.active_ids.flatten(), bank_size)
        tokens = order.div(width, rounding_mode="floor")
        activations = chosen.cosines.clamp(min=0).flatten()[order]
        gradient = F.embedding_bag(tokens, self.pull, offsets, per_sample_weights=-activations, mode="sum")
        towards = (self.active * self.inverse_states.unsqueeze(-1)).flatten()[order]
        direction = F.embedding_bag(tokens, self.states, offsets, per_sample_weights=towards, mode="sum")
        towards = self.covered * self.inverse_states[nearest.index]
        direction += reconstruct(self.states, nearest.index.unsqueeze(-1), towards.unsqueeze(-1))
        along = self.covered * nearest.cosine
        along = along.index_add(0, sorted_ids, (self.active * chosen.cosines).flatten()[order])
        direction *= self.inverse_prototypes.unsqueeze(-1)
        shrink = along * self.inverse_prototypes.square()
        return gradient.add_(direction).addcmul_(self.prototypes, shrink.unsqueeze(-1), value=-1)


def _group(keys: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys sorted, the start of each of the groups 0 .. groups-1 among them, and the order that sorts."""
    sorted_keys, order = keys.sort(stable=True)
    starts = torch.searchsorted(sorted_keys, torch.arange(groups, device=keys.device))
    return sorted_keys, starts, order


def rowwise_products(rows: Tensor, table: Tensor, ids: Tensor) -> Tensor:
    """rows[n] . table[ids[n, j]]: [N, A].

    It is the gradient of a weighted sum of table rows with respect to the weights, for which torch has a
    kernel that never writes the [N, A, D] rows out.
    """
    with torch.enable_grad():
        weights = torch.zeros(ids.shape, dtype=rows.dtype, device=rows.device, requires_grad=True)
        total = gather_sum(table.detach(), ids, weights)
    (products,) = torch.autograd.grad(total, weights, rows)
    return products


def reconstruction_loss(states: Tensor, residuals: Tensor) -> Tensor:
    """L_REC (6) in its plain form: mean_t |r_t|^2 / |z_t|^2, a zero state counting 0."""
    return (residuals.square().sum(dim=-1) * inverse_norm(states).square()).mean()


def prototype_coverage_loss(cosines: Tensor) -> Tensor:
    """L_R1 (7) in its plain form, of the whole matrix [N, K]: every prototype near some token state."""
    return 1 - cosines.amax(dim=0).mean()


def token_coverage_loss(cosines: Tensor) -> Tensor:
    """L_R2 (8) in its plain form, of the whole matrix [N, K]: every token state near some prototype."""
    return 1 - cosines.amax(dim=1).mean()


# A chunk of logits of 2^25 floats is 128 MB; smaller products are fastest in one piece (measured on two
# cores).
LOGITS_PER_CHUNK = 1 << 25


def cross_entropy_sum(states: Tensor, output_embedding: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy L_CE of logits W z, summed in nats over the labels that are not -100.

    states [N, D], output_embedding W [V, D], labels [N] int64: the token that follows each state.  The [N,
    V] logits are never held at once when they are large.
    """
    if torch.is_autocast_enabled(states.device.type):
        narrow = torch.get_autocast_dtype(states.device.type)
        states, output_embedding = states.to(narrow), output_embedding.to(narrow)
    rows = max(1, LOGITS_PER_CHUNK // output_embedding.shape[0])
    if states.shape[0] <= rows:
        logits = states @ output_embedding.t()
        wide = torch.promote_types(logits.dtype, torch.float32)
        return F.cross_entropy(logits.to(wide), labels, reduction="sum")
    options = torch.nn.LinearCrossEntropyOptions(
        chunking_method=None, batch_chunk_size=rows, allow_retain_graph=True
    )
    return F.linear_cross_entropy(states, output_embedding, labels, reduction="sum", options=options)
