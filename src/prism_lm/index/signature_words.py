"""The words of a signature: what a prototype raises and lowers, more than prototypes do on average.

The signature s_i = W p_i of (4) is centred twice. Over the vocabulary, since logits are defined up to a
constant. And over the prototypes: s_mean = W p_mean, with p_mean the mean of the bank weighted by mass, is
what the whole bank does per unit of activation - mostly the frequencies of words - and hides what is
special about one prototype.
"""

from typing import NamedTuple

import numpy as np
import torch

from prism_lm.index.arrays import Doubles, Floats, Integers, Mask
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
def signature_words(model: PrismForCausalLM, mass: Doubles, number: int, occurring: Mask) -> SignatureWords:
    """The `number` most raised and most lowered entries of every prototype, among those that occur in the
    corpus.

    occurring [V]: entries that no text has (padding of the embedding, bytes of no character) were never
    trained and say nothing, so they are neither shown nor counted in the mean. mass [K]: where no
    prototype has any, the plain mean of the bank is taken. In chunks: no K x V matrix is kept.
    """
    bank, head = model.bank.weight, model.lm_head.weight
    weights = mass / mass.sum() if mass.sum() > 0 else np.full(mass.shape, 1 / mass.shape[0])
    tokens = torch.from_numpy(np.flatnonzero(occurring)).to(bank.device)
    typical = _centred((head @ (torch.from_numpy(weights).to(bank) @ bank))[tokens])
    number = min(number, tokens.shape[0])
    parts = []
    for ids in torch.arange(bank.shape[0], device=bank.device).split(max(1, _ENTRIES // head.shape[0])):
        special = _centred(model.signatures(ids)[:, tokens]) - typical
        high, low = special.topk(number), special.topk(number, largest=False)
        columns = (tokens[high.indices], high.values, tokens[low.indices], low.values)
        parts.append([column.cpu().numpy() for column in columns])
    return SignatureWords(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centred(signatures: torch.Tensor) -> torch.Tensor:
    return signatures - signatures.mean(dim=-1, keepdim=True)
