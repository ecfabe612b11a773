"""What the model returns: of a forward pass, of the decomposition, of a logit taken apart."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor
from transformers.modeling_outputs import CausalLMOutputWithPast

from .control import ControlEffect


@dataclass
class PrismOutput(CausalLMOutputWithPast):
    """What a forward pass returns.

    loss: with `labels`, in training mode the whole objective (5) with the configuration's weights, in
    evaluation mode the cross-entropy alone; `cross_entropy` is that part always (mean nats a predicted
    token). With `output_prototypes=True`, for the positions of `logits`: active_ids [B, T, A] (largest
    cosine first), cosines and activations [B, T, A], residual_norm [B, T] (|r_t|), final_states [B, T, D]
    (z_t before any control). With `control`: control_effect.
    """

    cross_entropy: Tensor | None = None
    active_ids: Tensor | None = None
    cosines: Tensor | None = None
    activations: Tensor | None = None
    residual_norm: Tensor | None = None
    final_states: Tensor | None = None
    control_effect: ControlEffect | None = None


class Decomposition(NamedTuple):
    """(1)-(3) for a batch: ids, cosines and activations [B, T, A]."""

    active_ids: Tensor
    cosines: Tensor
    activations: Tensor


class Slices(NamedTuple):
    """The logit of chosen tokens as an exact sum, equation (4): `prototypes.sum(1) + residual == logits`."""

    prototypes: Tensor
    """[N, A, M]: a_ti (W p_i)_v for each active prototype and chosen token v."""
    residual: Tensor
    """[N, M]: (W r_t)_v."""
    logits: Tensor
    """[N, M]: (W z_t)_v."""
