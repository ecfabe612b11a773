"""The plain dense form of (1)-(8), by automatic differentiation: what the fast path is held against."""

import torch
from torch import Tensor


def cosine_matrix(states: Tensor, prototypes: Tensor) -> Tensor:
    """(1), the whole [N, K] matrix; a zero vector has cosine 0 with everything."""
    safe_states = torch.where(states.norm(dim=-1, keepdim=True) > 0, states, torch.inf)
    safe_prototypes = torch.where(prototypes.norm(dim=-1, keepdim=True) > 0, prototypes, torch.inf)
    directions = torch.nan_to_num(states / safe_states.norm(dim=-1, keepdim=True))
    return directions @ torch.nan_to_num(prototypes / safe_prototypes.norm(dim=-1, keepdim=True)).t()


def losses(states: Tensor, prototypes: Tensor, active: int) -> tuple[Tensor, Tensor, Tensor]:
    """sum of (6) over states, R1 of (7), sum of the terms of (8)."""
    cosines = cosine_matrix(states, prototypes)
    values, ids = cosines.sort(dim=-1, descending=True, stable=True)
    activations = values[:, :active].clamp(min=0)
    mixture = (activations.unsqueeze(-1) * prototypes[ids[:, :active]]).sum(dim=1)
    residual_energy = (states - mixture).square().sum(dim=-1)
    energy = states.square().sum(dim=-1)
    nonzero = energy > 0
    unexplained = residual_energy[nonzero] / energy[nonzero]
    return unexplained.sum(), cosines.max(dim=0).values.mean(), cosines.max(dim=1).values.sum()
