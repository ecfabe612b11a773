"""What changes with the step: learning rate, weight of the clustering losses, when the bank is set."""

import math

from prism_lm.training.config import BankSettings, OptimiserSettings


def learning_rate_factor(optimiser: OptimiserSettings, step: int, steps: int) -> float:
    """The learning rate of step 0 .. steps-1 over its peak: linear warm-up, then decay to final_fraction."""
    warmup = round(optimiser.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    if optimiser.decay == "constant":
        return 1.0
    done = (step - warmup) / max(1, steps - 1 - warmup)
    shape = (1 + math.cos(math.pi * done)) / 2 if optimiser.decay == "cosine" else 1 - done
    return optimiser.final_fraction + (1 - optimiser.final_fraction) * shape


def seed_step(bank: BankSettings, steps: int) -> int:
    """The step before which the bank is set from token states."""
    return math.floor(bank.seed_at * steps)


def clustering_factor(bank: BankSettings, step: int, steps: int) -> float:
    """The three weights of (5) over their final values: 0 before the bank is set, then rising linearly to
    1.
    """
    since = step - seed_step(bank, steps)
    if since < 0:
        return 0.0
    return min(1.0, (since + 1) / max(1, math.floor(bank.ramp * steps)))


def reseeds_at(bank: BankSettings, step: int, steps: int) -> bool:
    """Whether dead prototypes are replaced before this step."""
    since = step - seed_step(bank, steps)
    if bank.reseed_every == 0 or since < bank.dead_after or step > bank.reseed_until * steps:
        return False
    return since % bank.reseed_every == 0
