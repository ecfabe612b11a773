"""What a recipe costs, by arithmetic: parameters, floating-point operations, memory."""

from dataclasses import dataclass

import torch

from prism_lm.model import PrismForCausalLM
from prism_lm.model.head import ENTRIES_PER_CHUNK
from prism_lm.model.losses import LOGITS_PER_CHUNK
from prism_lm.training.build import prism_config
from prism_lm.training.config import Recipe


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Counts of weights; a tied output embedding is counted once, as an embedding."""

    layers: int
    """The backbone without embeddings."""
    embeddings: int
    """Token and position embeddings, and W where it is not tied."""
    bank: int
    """P: K x D, 0 in a dense twin."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.layers + self.embeddings + self.bank

    @property
    def bank_share(self) -> float:
        """What the bank adds to the model without it."""
        return self.bank / (self.layers + self.embeddings)


def count_parameters(recipe: Recipe, *, vocab_size: int, dense: bool) -> Parameters:
    """Counts of the model as it would be built; nothing is allocated."""
    with torch.device("meta"):
        model = PrismForCausalLM(prism_config(recipe, vocab_size=vocab_size, separator_id=0))
    bank = model.bank.weight.numel()
    embeddings = {id(module.weight): module.weight.numel() for module in model.modules()
                  if isinstance(module, torch.nn.Embedding)}  # fmt: skip
    head = model.lm_head.weight
    embeddings[id(head)] = head.numel()
    total = sum(parameter.numel() for parameter in model.parameters())
    spent = sum(embeddings.values())
    return Parameters(layers=total - spent - bank, embeddings=spent, bank=0 if dense else bank)


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Floating-point operations for one token of training, a multiplication and an addition counting two."""

    backbone: float
    """Three times the forward pass of the layers: their matrices, and causal attention."""
    output: float
    """Three times W z."""
    bank: float
    """Similarities with the whole bank, once, and the recomputed entries; from the setting of the bank on."""

    @property
    def dense(self) -> float:
        """Of the twin without a bank."""
        return self.backbone + self.output


def count_operations(recipe: Recipe, parameters: Parameters, *, vocab_size: int) -> Operations:
    """Operations a token; what activation checkpointing repeats is not among them."""
    model, bank = recipe.model, recipe.bank
    attention = 2 * model.layers * recipe.data.sequence_length * model.hidden_size
    similarities = 2 * bank.num_prototypes * model.hidden_size
    # Mixture, cosines and their two gradients: about six products of an active prototype with a vector.
    entries = 6 * 2 * bank.active_prototypes * model.hidden_size
    return Operations(
        backbone=3.0 * (2 * parameters.layers + attention),
        output=3.0 * 2 * vocab_size * model.hidden_size,
        bank=float(similarities + entries) if parameters.bank else 0.0,
    )


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on one device."""

    weights: float
    gradients: float
    optimiser: float
    """AdamW's two moments."""
    activations: float
    """What one micro-batch keeps for its backward pass, with the head's chunks."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.optimiser + self.activations


# Numbers that a layer keeps for each token and unit of width: inputs of the two norms and four products, q,
# k and v, attention's output, two residual sums and both sides of the activation function at four times the
# width.
KEPT_PER_LAYER = 18


def estimate_memory(recipe: Recipe, parameters: Parameters, *, vocab_size: int, devices: int) -> Memory:
    """Memory on each of `devices`, for weights in float32 and activations in the recipe's precision."""
    runtime, model = recipe.runtime, recipe.model
    shards = devices if runtime.sharding == "full" else 1
    weights = 4.0 * parameters.total / shards
    if shards > 1:  # the root's group is whole while the loss is computed, and one layer at a time is
        weights += 4.0 * (parameters.embeddings + parameters.bank + parameters.layers / model.layers)
    tokens = recipe.data.micro_batch * recipe.data.sequence_length
    width = 4.0 if runtime.precision == "float32" else 2.0
    kept = KEPT_PER_LAYER * (1 if runtime.activation_checkpointing else model.layers)
    kept += model.layers if runtime.activation_checkpointing else 0
    logits = 3 * 4.0 * min(tokens * vocab_size, LOGITS_PER_CHUNK)
    # States, residual, their gradients; ids (int64) and cosines of the active prototypes, sorted once in
    # backward.
    head = (
        4.0 * tokens * (6 * model.hidden_size + 10 * recipe.bank.active_prototypes) + 4.0 * ENTRIES_PER_CHUNK
    )
    return Memory(
        weights=weights,
        gradients=4.0 * parameters.total / shards,
        optimiser=8.0 * parameters.total / shards,
        activations=width * tokens * model.hidden_size * kept + logits + (head if parameters.bank else 0.0),
    )
