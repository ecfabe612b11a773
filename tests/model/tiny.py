"""Tiny random models of three families, tied and untied, for tests."""

import torch
from transformers import GPT2Config, LlamaConfig, Qwen3Config

from prism_lm.model import PrismConfig, PrismForCausalLM

VOCABULARY = 64
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SHARED = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
ROPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def backbones():
    """Name to configuration."""
    made = {}
    for tied in (True, False):
        kind = "tied" if tied else "untied"
        more = {"tie_word_embeddings": tied, **SHARED}
        made[f"gpt2-{kind}"] = GPT2Config(
            n_embd=32, n_layer=2, n_head=4, n_positions=48, **NO_DROPOUT, **more
        )
        made[f"llama-{kind}"] = LlamaConfig(num_key_value_heads=2, **ROPE, **more)
        made[f"qwen3-{kind}"] = Qwen3Config(num_key_value_heads=2, head_dim=8, **ROPE, **more)
    return made


def tiny_model(backbone="gpt2-tied", *, dtype=torch.float32, prototypes=16, active=4, seed=0):
    """A random model whose states are spread enough for cosines of both signs."""
    torch.manual_seed(seed)
    text_config = backbones()[backbone]
    config = PrismConfig(text_config=text_config, num_prototypes=prototypes, active_prototypes=active)
    model = PrismForCausalLM(config).to(dtype).eval()
    with torch.no_grad():
        model.bank.weight.normal_(std=0.4)
        for parameter in model.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    return model


def tokens(batch, length, seed=1):
    """Random token ids, none of them padding."""
    return torch.randint(1, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))
