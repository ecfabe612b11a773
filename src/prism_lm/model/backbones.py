"""Dense causal language models: loading them, checking that their head is plainly W z, and putting one
together."""

from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel

# Settings that change logits after the product W z, with the value at which they do nothing.
HEAD_SETTINGS: dict[str, tuple[Any, ...]] = {
    "final_logit_softcapping": (None, 0.0),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "lm_head_multiplier": (None, 1.0),
}


def load_dense(path: str, **options: Any) -> PreTrainedModel:
    """A causal language model with every weight found.  Raises ValueError naming the weights that are
    missing."""
    model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, **options)
    if info["missing_keys"]:
        raise ValueError(
            f"{path} lacks the weights {sorted(info['missing_keys'])}: it is not a whole checkpoint"
        )
    return model


def base_prefix(path: Any, options: dict[str, Any]) -> str | None:
    """The model type at this path, if it is a dense model's; None for a prototype model."""
    passed = {
        name: options[name] for name in ("revision", "token", "cache_dir", "subfolder") if name in options
    }
    model_type = AutoConfig.from_pretrained(path, **passed).model_type
    return None if model_type == "prism_lm" else model_type


def check_plain_head(dense: PreTrainedModel) -> None:
    """Raise ValueError, by name, unless logits are W z and nothing else; settled by one small forward
    pass."""
    name = type(dense).__name__
    head = dense.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise ValueError(f"{name} has no linear output embedding, which the decomposition (4) needs")
    if head.bias is not None:
        raise ValueError(
            f"the output embedding of {name} has a bias; only logits W z without one can be decomposed"
        )
    for setting, idle in HEAD_SETTINGS.items():
        if getattr(dense.config, setting, None) not in idle:
            raise ValueError(
                f"{name} changes its logits by {setting}={getattr(dense.config, setting)}; "
                "only plain logits W z can be decomposed"
            )
    if head.weight.device.type != "meta":
        _probe(dense, head, name)


@torch.no_grad()
def _probe(dense: PreTrainedModel, head: nn.Linear, name: str) -> None:
    training = dense.training
    dense.eval()
    tokens = torch.arange(min(8, head.weight.shape[0]), device=head.weight.device).unsqueeze(0)
    states = dense.base_model(input_ids=tokens).last_hidden_state
    same = torch.equal(dense(input_ids=tokens).logits, head(states))
    dense.train(training)
    if not same:
        raise ValueError(
            f"the logits of {name} are not W z of its base model's last hidden state: not supported"
        )


def dense_from_parts(
    config: PreTrainedConfig, backbone: nn.Module, head: nn.Linear, generation_config: Any
) -> PreTrainedModel:
    """The causal language model of this configuration, made of an existing backbone and head, which are
    shared."""
    with torch.device("meta"):
        dense = AutoModelForCausalLM.from_config(deepcopy(config))
    setattr(dense, dense.base_model_prefix, backbone)
    dense.set_output_embeddings(head)
    dense.generation_config = generation_config
    return dense.train(backbone.training)
