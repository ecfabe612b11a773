"""The output's logits taken apart by equation (4), in one forward pass over prompt and output."""

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from prism_lm.attribution.traces import Rival, SliceOfLogit, TokenTrace
from prism_lm.index.words import TokenTexts
from prism_lm.model import PrismForCausalLM


class TakenApart(NamedTuple):
    """All output tokens, and each prototype's part in the whole output."""

    tokens: tuple[TokenTrace, ...]
    totals: dict[int, float]
    """Prototype -> sum of its slices over the output."""
    active_tokens: dict[int, int]
    """Prototype -> output tokens for which it is active."""
    tolerance: float
    """The error of a sum that float32 arithmetic in the forward pass explains."""

    def largest(self, number: int) -> list[int]:
        """The prototypes with the largest totals by size."""
        return sorted(self.totals, key=lambda prototype: (-abs(self.totals[prototype]), prototype))[:number]


class _Parts(NamedTuple):
    """M output tokens as tensors; V vocabulary, A active prototypes."""

    target: Tensor
    """[M]: the output's token ids."""
    logits: Tensor
    """[M, V] float64, of the model's own forward pass."""
    whole: Tensor
    """[M]: the logit to explain, from these."""
    prototypes: Tensor
    """[M, A]: slices."""
    residual: Tensor
    """[M]"""
    active_ids: Tensor
    """[M, A]"""
    activations: Tensor
    """[M, A]"""


@torch.inference_mode()
def take_apart(
    model: PrismForCausalLM,
    prompt: list[int],
    output: list[int],
    *,
    rival: int | None,
    top: int,
    texts: TokenTexts,
) -> TakenApart:
    """Slices of each output token's logit: centred over the vocabulary, or against the rival."""
    ids = torch.tensor([prompt + output], device=model.device)
    before = torch.arange(len(prompt) - 1, ids.shape[1] - 1, device=model.device)
    out = model(input_ids=ids[:, :-1], logits_to_keep=before, output_prototypes=True)
    parts = _split(model, out, ids[0, len(prompt) :], rival)
    tokens = tuple(_token(parts, t, len(prompt), rival, top, texts) for t in range(len(output)))
    return TakenApart(tokens, *_totals(parts), _tolerance(model, out.final_states[0]))


def _split(model: PrismForCausalLM, out: Any, target: Tensor, rival: int | None) -> _Parts:
    chosen = target.unsqueeze(-1)
    if rival is not None:
        chosen = torch.cat([chosen, torch.full_like(chosen, rival)], dim=-1)
    active_ids, activations = out.active_ids[0], out.activations[0]
    logits = out.logits[0].double()
    whole = logits.gather(-1, chosen)
    if rival is None:
        whole = whole - logits.mean(dim=-1, keepdim=True)
    slices = model.slices(out.final_states[0], active_ids, activations, chosen, centred=rival is None)
    against = _difference if rival is not None else _only
    return _Parts(
        target,
        logits,
        against(whole),
        against(slices.prototypes),
        against(slices.residual),
        active_ids,
        activations,
    )


def _only(values: Tensor) -> Tensor:
    return values[..., 0]


def _difference(values: Tensor) -> Tensor:
    return values[..., 0] - values[..., 1]


def _token(parts: _Parts, t: int, offset: int, rival: int | None, top: int, texts: TokenTexts) -> TokenTrace:
    active = [
        SliceOfLogit(prototype=prototype, activation=activation, slice=value)
        for prototype, activation, value in zip(
            parts.active_ids[t].tolist(),
            parts.activations[t].tolist(),
            parts.prototypes[t].tolist(),
            strict=True,
        )
        if activation > 0
    ]
    active.sort(key=lambda one: (-abs(one.slice), one.prototype))
    token, others = int(parts.target[t]), sum(one.slice for one in active[top:])
    residual, logit = float(parts.residual[t]), float(parts.whole[t])
    probability, rank = _standing(parts.logits[t], token)
    return TokenTrace(
        position=offset + t,
        token=token,
        text=texts.text(token),
        probability=probability,
        rank=rank,
        logit=logit,
        leading=tuple(active[:top]),
        others=others,
        num_others=len(active[top:]),
        residual=residual,
        error=abs(sum(one.slice for one in active) + residual - logit),
        rival=None if rival is None else _rival(parts.logits[t], rival, texts),
    )


def _standing(logits: Tensor, token: int) -> tuple[float, int]:
    """Probability, and 1 + the number of likelier tokens."""
    return float(logits.softmax(dim=-1)[token]), 1 + int((logits > logits[token]).sum())


def _rival(logits: Tensor, token: int, texts: TokenTexts) -> Rival:
    probability, rank = _standing(logits, token)
    return Rival(token=token, text=texts.text(token), probability=probability, rank=rank)


def _totals(parts: _Parts) -> tuple[dict[int, float], dict[int, int]]:
    totals: dict[int, float] = {}
    active: Counter[int] = Counter()
    columns = (parts.active_ids, parts.prototypes, parts.activations)
    for prototype, value, activation in zip(*(column.flatten().tolist() for column in columns), strict=True):
        if activation > 0:
            totals[prototype] = totals.get(prototype, 0.0) + value
            active[prototype] += 1
    return totals, dict(active)


def _tolerance(model: PrismForCausalLM, states: Tensor) -> float:
    """Rounding of a dot product of D float32 terms: about sqrt(D) units in the last place of |z| |W_v|."""
    largest = states.norm(dim=-1).max() * model.lm_head.weight.norm(dim=-1).max()
    return float(8 * states.shape[-1] ** 0.5 * torch.finfo(torch.float32).eps * largest)
