"""The loss of a step, equation (5), from sums over micro-batches and processes."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from prism_lm.model import clustering_terms, cross_entropy_sum
from prism_lm.training.batches import IGNORED, MicroBatch, Totals
from prism_lm.training.config import BankSettings

Read = TypeVar("Read")
Reader = Callable[[Tensor, Tensor, Tensor | None], Read]
"""What is done with final states [B, T, D], output embedding W [V, D] and bank [K, D] (None in a dense
twin).
"""


class TrainingModule(nn.Module):
    """The root module of training: whatever needs the head's weights happens inside its forward pass.

    There the sharded weights are whole. `language_model` is a PrismForCausalLM or the dense model of
    transformers; both take this path.
    """

    def __init__(self, language_model: nn.Module) -> None:
        super().__init__()
        self.language_model = language_model

    @property
    def backbone(self) -> nn.Module:
        """Everything below the head."""
        return cast("nn.Module", self.language_model.base_model)

    @property
    def bank(self) -> nn.Parameter | None:
        """P [K, D], or None in a dense twin."""
        bank = getattr(self.language_model, "bank", None)
        return cast("nn.Parameter", bank.weight) if isinstance(bank, nn.Module) else None

    def forward(self, input_ids: Tensor, read: Reader[Read]) -> Read:
        """`read` of the final states of input_ids [B, T]; a tensor or a tuple of tensors."""
        states = self.backbone(input_ids=input_ids, use_cache=False).last_hidden_state
        head = cast("PreTrainedModel", self.language_model).get_output_embeddings()
        assert head is not None
        return read(states, cast("Tensor", head.weight), self.bank)


class Terms(NamedTuple):
    """Sums over one micro-batch, of which (5) is put together; without clustering only the first is there."""

    cross_entropy: Tensor
    """Nats, summed over predicted tokens."""
    reconstruction: Tensor | None = None
    """|r_t|^2 / |z_t|^2 of (6), summed over tokens."""
    prototype_coverage: Tensor | None = None
    """R1 of (7), over this micro-batch."""
    token_coverage: Tensor | None = None
    """max_i c_ti of (8), summed over tokens."""
    active_ids: Tensor | None = None
    """[N, A] int64."""


def read_terms(batch: MicroBatch, active_prototypes: int | None) -> Reader[Terms]:
    """The reader that gives the Terms of a micro-batch; `active_prototypes` None: cross-entropy alone."""

    def read(states: Tensor, output_embedding: Tensor, bank: Tensor | None) -> Terms:
        cross_entropy = cross_entropy_sum(*predicting_states(states, output_embedding, batch))
        if active_prototypes is None or bank is None:
            return Terms(cross_entropy)
        found = clustering_terms(present_states(states, batch)[0], bank, active_prototypes)
        return Terms(
            cross_entropy,
            found.reconstruction_sum,
            found.prototype_coverage,
            found.token_coverage_sum,
            found.active_ids,
        )

    return read


def read_states(states: Tensor, output_embedding: Tensor, bank: Tensor | None) -> Tensor:
    """The reader that gives the final states themselves."""
    return states


def added(summed: Terms | None, terms: Terms) -> Terms:
    """Sums over micro-batches, detached; the ids, which are no sums, are left out."""
    if summed is None:
        return Terms(terms.cross_entropy.detach(), *map(_detached, terms[1:4]))
    return Terms(
        summed.cross_entropy + terms.cross_entropy.detach(),
        *(
            None if a is None or b is None else a + b.detach()
            for a, b in zip(summed[1:4], terms[1:4], strict=True)
        ),
    )


def _detached(term: Tensor | None) -> Tensor | None:
    return None if term is None else term.detach()


def predicting_states(
    states: Tensor, output_embedding: Tensor, batch: MicroBatch
) -> tuple[Tensor, Tensor, Tensor]:
    """States [N, D] with a next token, W, and those tokens [N]: a sequence's last state predicts none."""
    if batch.present is None:
        return states[:, :-1].flatten(0, 1), output_embedding, batch.labels[:, :-1].flatten()
    there = batch.labels != IGNORED
    return states[there], output_embedding, batch.labels[there]


def present_states(states: Tensor, batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """States [N, D] and labels [N] of the tokens that are there, without padding."""
    if batch.present is None:
        return states.flatten(0, 1), batch.labels.flatten()
    return states[batch.present], batch.labels[batch.present]


def share_of_loss(terms: Terms, totals: Totals, bank: BankSettings, factor: float) -> Tensor:
    """This micro-batch's share of (5): the shares of all micro-batches on all processes add up to the loss.

    Cross-entropy is divided by the step's count of predicted tokens, (6) and (8) by its count of tokens, and
    (7), which is no sum over tokens, is averaged over the step's micro-batches. `factor` is the ramp.
    """
    share = terms.cross_entropy / max(1, totals.predicted)
    if terms.reconstruction is None or terms.prototype_coverage is None or terms.token_coverage is None:
        return share
    part = torch.ones_like(share) / totals.micro_batches
    return share + factor * (
        bank.reconstruction_weight * terms.reconstruction / totals.states
        + bank.prototype_coverage_weight * (1 - terms.prototype_coverage) / totals.micro_batches
        + bank.token_coverage_weight * (part - terms.token_coverage / totals.states)
    )
