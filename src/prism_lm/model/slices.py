"""Signatures W p_i, and logits taken apart into the slices of (4)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from .outputs import Slices

PROTOTYPES_AT_ONCE = 256


@torch.no_grad()
def signatures(
    output_embedding: Tensor, bank: Tensor, prototypes: Tensor | Iterable[int], *, centred: bool = False
) -> Tensor:
    """s_i = W p_i for these ids: [n, V] in float32 at least.

    output_embedding W [V, D], bank P [K, D].  centred: less the mean over the vocabulary.
    """
    ids = prototypes if isinstance(prototypes, Tensor) else torch.tensor(list(prototypes), dtype=torch.int64)
    found = _wide(bank[ids.to(bank.device)]) @ _wide(output_embedding).t()
    return found - found.mean(dim=-1, keepdim=True) if centred else found


def signature_ranges(output_embedding: Tensor, bank: Tensor) -> Tensor:
    """range_i = max_v s_iv - min_v s_iv of (11): [K], some prototypes at a time."""
    parts = []
    for ids in torch.arange(bank.shape[0]).split(PROTOTYPES_AT_ONCE):
        some = signatures(output_embedding, bank, ids)
        parts.append(some.amax(dim=-1) - some.amin(dim=-1))
    return torch.cat(parts)


@torch.no_grad()
def take_apart(
    output_embedding: Tensor,
    bank: Tensor,
    final_states: Tensor,
    active_ids: Tensor,
    activations: Tensor,
    token_ids: Tensor,
    *,
    centred: bool = True,
) -> Slices:
    """The logits of chosen tokens as slices of active prototypes and residual, in float64.

    output_embedding W [V, D], P [K, D], final_states [N, D], active_ids and activations [N, A], token_ids
    [N, M].  centred: every logit and slice less its mean over the vocabulary, as a logit is defined up to a
    constant only.
    """
    states, activations = final_states.double(), activations.double()
    rows = output_embedding[token_ids].double()
    if centred:
        rows = rows - output_embedding.mean(dim=0, dtype=torch.float64)
    prototypes = bank[active_ids].double()
    slices = torch.einsum("nmd,nad->nam", rows, prototypes) * activations.unsqueeze(-1)
    residual = states - torch.einsum("na,nad->nd", activations, prototypes)
    return Slices(
        slices, torch.einsum("nmd,nd->nm", rows, residual), torch.einsum("nmd,nd->nm", rows, states)
    )


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
