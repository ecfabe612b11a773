"""The language model of a recipe: a PrismForCausalLM, or its dense twin with the same initial weights."""

from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, PreTrainedModel

from prism_lm.corpus import Corpus
from prism_lm.model import PrismConfig, PrismForCausalLM
from prism_lm.training.config import ModelShape, Recipe, TrainingConfig
from prism_lm.training.objective import TrainingModule
from prism_lm.training.parallel import Ranks, whole


def backbone_fields(
    shape: ModelShape, *, vocab_size: int, separator_id: int, sequence_length: int
) -> dict[str, Any]:
    """The fields of the backbone's configuration in transformers, with its model_type."""
    common = {
        "model_type": shape.backbone,
        "vocab_size": vocab_size,
        "bos_token_id": separator_id,
        "eos_token_id": separator_id,
        "tie_word_embeddings": shape.tied,
        "use_cache": True,
    }
    if shape.backbone == "gpt2":
        return common | {
            "n_embd": shape.hidden_size,
            "n_layer": shape.layers,
            "n_head": shape.heads,
            "n_inner": shape.intermediate_size,
            "n_positions": sequence_length,
            # The fused tanh form: the same function as transformers' gelu_new, several times as fast on a
            # CPU.
            "activation_function": "gelu_pytorch_tanh",
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        }
    return common | {
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads or shape.heads,
        "head_dim": shape.hidden_size // shape.heads,
        "intermediate_size": shape.intermediate_size or 64 * -(-8 * shape.hidden_size // 192),
        "max_position_embeddings": sequence_length,
        "attention_dropout": 0.0,
    }


def prism_config(recipe: Recipe, *, vocab_size: int, separator_id: int) -> PrismConfig:
    """The configuration of the prototype model that a recipe asks for over this vocabulary."""
    fields = backbone_fields(
        recipe.model,
        vocab_size=vocab_size,
        separator_id=separator_id,
        sequence_length=recipe.data.sequence_length,
    )
    model_type = fields.pop("model_type")
    bank = recipe.bank
    return PrismConfig(
        text_config=AutoConfig.for_model(model_type, **fields),
        num_prototypes=bank.num_prototypes,
        active_prototypes=bank.active_prototypes,
        reconstruction_weight=bank.reconstruction_weight,
        prototype_coverage_weight=bank.prototype_coverage_weight,
        token_coverage_weight=bank.token_coverage_weight,
    )


def build_model(recipe: Recipe, *, vocab_size: int, separator_id: int, dense: bool) -> PreTrainedModel:
    """The model with initial weights that depend on the seed alone; a dense twin has those of the prototype
    model.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = PrismForCausalLM(prism_config(recipe, vocab_size=vocab_size, separator_id=separator_id))
    # Only generation pads: a backbone that knows the padding id looks for it in every batch, and separators
    # are many.
    model.generation_config.pad_token_id = separator_id
    return model.dense() if dense else model


def layers_of(backbone: nn.Module, count: int) -> list[nn.Module]:
    """The backbone's layers, in order."""
    for child in backbone.children():
        if isinstance(child, nn.ModuleList) and len(child) == count:
            return list(child)
    raise AssertionError(f"{type(backbone).__name__} has no list of {count} layers")


def prepare_module(config: TrainingConfig, corpus: Corpus, ranks: Ranks) -> TrainingModule:
    """The model with its initial weights, on the device, checkpointed, compiled and sharded as configured."""
    runtime = config.recipe.runtime
    model = build_model(
        config.recipe, vocab_size=corpus.vocab_size, separator_id=corpus.separator_id, dense=config.dense
    )
    if runtime.activation_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module = TrainingModule(model).to(ranks.device).train()
    layers = layers_of(module.backbone, config.recipe.model.layers)
    if runtime.compile:
        for layer in layers:
            layer.compile()
    ranks.spread(module, layers)
    return module


def whole_model(
    config: TrainingConfig, corpus: Corpus, module: TrainingModule, ranks: Ranks
) -> PreTrainedModel:
    """The trained language model, unsharded."""
    if ranks.mesh is None:
        return cast("PreTrainedModel", module.language_model)
    model = build_model(
        config.recipe, vocab_size=corpus.vocab_size, separator_id=corpus.separator_id, dense=config.dense
    )
    targets = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in module.language_model.named_parameters():
            targets[name].copy_(whole(parameter))
    return model
