"""The words of a signature: what a prototype raises and lowers, more than prototypes do on average.

The signature s_i = W p_i of (4) is centred twice. Over the vocabulary, since logits are defined up to a
constant. And over the prototypes: s_mean = W p_mean, with p_mean the mean of the bank weighted by mass, is
what the whole bank does per unit of activation - mostly the frequencies of words - and hides what is
special about one prototype.
"""

from typing import NamedTuple

import numpy as np
import torch

from prism_lm.index.arrays import Doubles, Floats, Integers
from prism_lm.model import PrismForCausalLM

_ENTRIES = 1 << 22


class SignatureWords(NamedTuple):
    """[K, words] each: vocabulary ids and their centred logits per unit of activation."""

    raised: Integers
    raised_logits: Floats
    """Falling."""
    lowered: Integers
    lowered_logits: Floats
    """Rising: the most lowered first."""


@torch.inference_mode()
def signature_words(model: PrismForCausalLM, mass: Doubles, number: int, vocabulary: int) -> SignatureWords:
    """The `number` most raised and most lowered of the first `vocabulary` entries, for every prototype.

    Entries beyond `vocabulary` are padding of the embedding that no text uses. Where no prototype has any
    mass the plain mean of the bank is taken. In chunks: no K x V matrix is kept.
    """
    bank = model.bank.weight
    weights = mass / mass.sum() if mass.sum() > 0 else np.full(mass.shape, 1 / mass.shape[0])
    mean = torch.from_numpy(weights).to(bank) @ bank
    typical = _centred((model.lm_head.weight @ mean)[:vocabulary])
    number = min(number, vocabulary)
    rows = max(1, _ENTRIES // vocabulary)
    parts = []
    for start in range(0, bank.shape[0], rows):
        ids = torch.arange(start, min(start + rows, bank.shape[0]), device=bank.device)
        special = _centred(model.signatures(ids)[:, :vocabulary]) - typical
        high, low = special.topk(number), special.topk(number, largest=False)
        parts.append([part.cpu().numpy() for part in (high.indices, high.values, low.indices, low.values)])
    return SignatureWords(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centred(signatures: torch.Tensor) -> torch.Tensor:
    return signatures - signatures.mean(dim=-1, keepdim=True)
