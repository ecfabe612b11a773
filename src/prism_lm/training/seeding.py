"""The bank set from data, and dead prototypes replaced: pure functions of (seed, step) and the weights."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from prism_lm.model.head import reconstruct, select_prototypes
from prism_lm.training.batches import Batches
from prism_lm.training.objective import TrainingModule
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import Ranks, overwrite, whole

# Tokens to choose among for each prototype of a new bank: one batch would give it few documents only.
TOKENS_PER_PROTOTYPE = 8
# States looked at when dead prototypes are replaced: those of one step, up to a number, and some for each.
CANDIDATES, CANDIDATES_EACH = 4096, 4

Forward = Callable[[Tensor], Tensor]
"""Final states [B, T, D] of input_ids [B, T], by the root module. All processes call it equally often."""


@torch.no_grad()
def sample_states(
    forward: Forward, batches: Batches, ranks: Ranks, *, seed: int, step: int, count: int, among: int
) -> Tensor:
    """`count` token states [count, D] sampled without replacement from at least `among` tokens.

    The tokens are those of the micro-batches of `step` and of the steps after it. The choice depends on the
    arguments alone; processes share the work and all get the same states.
    """
    lengths = _pool(batches, step, max(count, among))
    starts = np.concatenate([[0], np.cumsum([int(part.sum()) for part in lengths])])
    chosen = np.sort(np.random.default_rng([seed, step, count]).choice(starts[-1], size=count, replace=False))
    found: Tensor | None = None
    for turn in range(-(-len(lengths) // ranks.world_size)):
        index = turn * ranks.world_size + ranks.rank
        batch = batches.micro_batch(step + index // batches.per_step, index % batches.per_step)
        states = forward(batch.input_ids).float()
        if found is None:
            found = states.new_zeros(count, states.shape[-1])
        if index >= len(lengths):
            continue  # a turn that only keeps this process in step with the others
        rows = np.nonzero((chosen >= starts[index]) & (chosen < starts[index + 1]))[0]
        present = states.flatten(0, 1) if batch.present is None else states[batch.present]
        found[torch.from_numpy(rows)] = present[torch.from_numpy(chosen[rows] - starts[index])]
    assert found is not None
    return ranks.sum(found)


def _pool(batches: Batches, step: int, among: int) -> list[np.ndarray]:
    """Lengths of the sequences of as many micro-batches as hold `among` tokens."""
    lengths: list[np.ndarray] = []
    tokens = 0
    while tokens < among:
        index = len(lengths)
        lengths.append(batches.lengths(step + index // batches.per_step, index % batches.per_step))
        tokens += int(lengths[-1].sum())
    return lengths


@torch.no_grad()
def seed_bank(module: TrainingModule, optimiser: Optimiser, states: Tensor, active_prototypes: int) -> None:
    """Sets P [K, D] to token states [K, D] times one factor: the one whose mixtures (3) fit them best."""
    bank = module.bank
    assert bank is not None
    selection = select_prototypes(states, states, active_prototypes)
    mixtures = reconstruct(states, selection.active_ids, selection.cosines.clamp_min(0))
    scale = (states * mixtures).sum() / mixtures.square().sum().clamp_min(torch.finfo(torch.float32).tiny)
    overwrite(bank, states * scale)
    optimiser.forget(bank)


@torch.no_grad()
def replace_dead(module: TrainingModule, optimiser: Optimiser, dead: Tensor, states: Tensor) -> None:
    """Points dead prototypes (ids [n]) at the worst covered of `states` [M, D], M >= n.

    One at a time: the state whose largest cosine with any prototype is lowest, the replaced ones included, so
    that two prototypes are not given to one gap. The length is the mean length of the living.
    """
    bank = module.bank
    assert bank is not None
    prototypes = whole(bank.detach()).clone()
    living = torch.ones(len(prototypes), dtype=torch.bool, device=prototypes.device)
    living[dead] = False
    length = prototypes[living].norm(dim=-1).mean()
    directions = torch.nn.functional.normalize(states, dim=-1)
    coverage = largest_cosines(directions, prototypes[living])
    coverage[states.norm(dim=-1) == 0] = torch.inf  # a zero state has no direction to offer
    for prototype in dead.tolist():
        worst = directions[coverage.argmin()]
        prototypes[prototype] = worst * length
        coverage = torch.maximum(coverage, directions @ worst)
    overwrite(bank, prototypes)
    optimiser.forget(bank, dead)


def largest_cosines(directions: Tensor, prototypes: Tensor) -> Tensor:
    """[M]: each unit direction's largest cosine with any prototype, in chunks."""
    towards = torch.nn.functional.normalize(prototypes, dim=-1).T
    return torch.cat([(part @ towards).amax(dim=-1) for part in directions.split(1024)])


class Usage:
    """The last step at which each prototype was active on any token, here and, once merged, anywhere."""

    def __init__(self, num_prototypes: int, device: torch.device) -> None:
        self.last_active = torch.full((num_prototypes,), -1, dtype=torch.int64, device=device)

    def start(self, step: int, ids: Tensor | None = None) -> None:
        """Gives these prototypes, or all, a full window from this step on."""
        self.last_active[slice(None) if ids is None else ids] = step - 1

    def saw(self, active_ids: Tensor, step: int) -> None:
        """Notes the active prototypes of a micro-batch."""
        self.last_active[active_ids.flatten()] = step

    def dead(self, ranks: Ranks, step: int, window: int) -> Tensor:
        """Ids, in order, of those that no process has seen active in the last `window` steps."""
        ranks.largest(self.last_active)
        return (self.last_active < step - window).nonzero().flatten()
