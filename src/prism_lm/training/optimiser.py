"""AdamW over three groups of weights: matrices, the rest of the backbone, and the bank."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from prism_lm.training.config import OptimiserSettings
from prism_lm.training.objective import TrainingModule
from prism_lm.training.parallel import overwrite, whole
from prism_lm.training.schedule import learning_rate_factor


class Optimiser:
    """AdamW whose state exists from the start, so that a checkpoint always holds the same tensors."""

    def __init__(
        self, module: TrainingModule, settings: OptimiserSettings, *, steps: int, bank_multiplier: float
    ) -> None:
        self.settings, self.steps = settings, steps
        self.groups = Groups.of(module)
        parts = [
            (self.groups.matrices, settings.weight_decay, 1.0),
            (self.groups.vectors, 0.0, 1.0),
            (self.groups.bank, 0.0, bank_multiplier),
        ]
        self.adamw = torch.optim.AdamW(
            [{"params": p, "weight_decay": d, "multiplier": m} for p, d, m in parts if p],
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            fused=True,
        )
        for parameter in self.groups.all():
            self.adamw.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }

    def advance(self, step: int) -> tuple[Tensor, Tensor | None]:
        """Clips, steps and clears the gradients. Returns the gradient norms of backbone and bank before
        clipping.
        """
        norm = self._clip([*self.groups.matrices, *self.groups.vectors])
        with_bank = any(parameter.grad is not None for parameter in self.groups.bank)
        bank_norm = self._clip(self.groups.bank) if with_bank else None
        rate = self.settings.learning_rate * learning_rate_factor(self.settings, step, self.steps)
        for group in self.adamw.param_groups:
            group["lr"] = rate * group["multiplier"]
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        return norm, bank_norm

    def forget(self, parameter: nn.Parameter, rows: Tensor | None = None) -> None:
        """Clears the moments of some rows of a parameter; without `rows` of all, and its count of steps."""
        state = self.adamw.state[parameter]
        for name in ("exp_avg", "exp_avg_sq"):
            moments = whole(state[name]).clone()
            moments[slice(None) if rows is None else rows] = 0
            overwrite(state[name], moments)
        if rows is None:
            state["step"].zero_()

    def _clip(self, parameters: list[nn.Parameter]) -> Tensor:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = whole(nn.utils.get_total_norm(gradients))
        if self.settings.clip > 0:
            nn.utils.clip_grads_with_norm_(parameters, self.settings.clip, norm)
        return norm


class Groups(NamedTuple):
    """The parameters of a TrainingModule, each once."""

    matrices: list[nn.Parameter]
    vectors: list[nn.Parameter]
    bank: list[nn.Parameter]

    @classmethod
    def of(cls, module: TrainingModule) -> "Groups":
        """Sorts them by what they are."""
        bank = module.bank
        backbone = [parameter for parameter in module.parameters() if parameter is not bank]
        return cls(
            [parameter for parameter in backbone if parameter.ndim >= 2],
            [parameter for parameter in backbone if parameter.ndim < 2],
            [] if bank is None else [bank],
        )

    def all(self) -> list[nn.Parameter]:
        """All of them."""
        return [*self.matrices, *self.vectors, *self.bank]
