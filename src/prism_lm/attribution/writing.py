"""Seeded writing, token by token.

Randomness is drawn as one Gumbel noise vector for each token, from the seed alone: the token is the
largest of log-probability / temperature + noise. So the same seed under a control gives the same token
wherever the control does not reach, and what differs is due to the control.
"""

from typing import Any

import torch
from torch import Tensor

from prism_lm.model import Control, PrismForCausalLM


@torch.inference_mode()
def write_tokens(
    model: PrismForCausalLM,
    prompt_ids: list[int],
    *,
    tokens: int,
    seed: int = 0,
    temperature: float = 1.0,
    control: Control | None = None,
    stop_at: int | None = None,
) -> list[int]:
    """Up to `tokens` new ids after the prompt; fewer when `stop_at` is written, which is then the last.

    temperature 0 takes the likeliest token every time (the lowest id among equals).
    """
    noise = torch.Generator().manual_seed(seed)
    cache: Any = None
    step = torch.tensor([prompt_ids], device=model.device)
    written: list[int] = []
    while len(written) < tokens and (not written or written[-1] != stop_at):
        out = model(input_ids=step, cache=cache, use_cache=True, logits_to_keep=1, control=control)
        cache = out.cache
        written.append(_choose(out.logits[0, -1], temperature, noise))
        step = torch.tensor([written[-1:]], device=model.device)
    return written


def _choose(logits: Tensor, temperature: float, noise: torch.Generator) -> int:
    logits = logits.double().cpu()
    if temperature > 0:
        uniform = torch.rand(logits.shape, generator=noise, dtype=torch.float64)
        logits = logits / temperature - (-uniform.clamp_min(torch.finfo(torch.float64).tiny).log()).log()
    return int(logits.argmax())
