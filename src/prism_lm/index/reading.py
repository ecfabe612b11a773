"""The pass itself: the model reads the corpus in the sequences it was trained on, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from prism_lm.artifacts.progress import Progress
from prism_lm.corpus import Corpus
from prism_lm.index.arrays import Floats, Integers
from prism_lm.index.config import BLOCK_TOKENS
from prism_lm.index.firings import CONTEXT_TOKENS, Block, Firings, context_hashes
from prism_lm.model import PrismForCausalLM
from prism_lm.model.head import select_with_nearest_states


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads a corpus with a model in windows [i L, (i+1) L) of its stream, L the sequence length."""

    model: PrismForCausalLM
    corpus: Corpus
    sequence_length: int
    batch_tokens: int

    def blocks(self, progress: Progress) -> Iterator[Block]:
        """All blocks in order. A block ends where a sequence ends, so the cuts depend on L alone."""
        step = max(1, BLOCK_TOKENS // self.sequence_length) * self.sequence_length
        for start in range(0, self.corpus.num_tokens, step):
            yield self.block(start, min(start + step, self.corpus.num_tokens), progress)

    def block(self, start: int, stop: int, progress: Progress) -> Block:
        """What the model does on tokens [start, stop)."""
        lead = min(CONTEXT_TOKENS - 1, start)
        tokens = self.corpus.tokens(start - lead, min(stop + 1, self.corpus.num_tokens))
        documents = self.corpus.documents_of(np.arange(start - lead, stop))
        ids, cosines, nearest, nearest_at = self._select(tokens[lead : lead + stop - start], progress)
        row, column = np.nonzero(cosines > 0)
        return Block(
            start=start,
            tokens=np.append(tokens[lead:], [-1] * (stop == self.corpus.num_tokens)).astype(np.int64),
            documents=documents[lead:],
            contexts=context_hashes(tokens[: lead + stop - start], documents, lead),
            firings=Firings(
                positions=start + row, prototypes=ids[row, column], activations=cosines[row, column]
            ),
            nearest_cosines=nearest,
            nearest_positions=start + nearest_at,
        )

    @torch.inference_mode()
    def _select(self, tokens: Integers, progress: Progress) -> tuple[Integers, Floats, Floats, Integers]:
        bank, active = self.model.bank.weight, self.model.config.active_prototypes
        ids: list[Tensor] = []
        cosines: list[Tensor] = []
        nearest = torch.full((bank.shape[0],), -torch.inf, device=bank.device)
        nearest_at = torch.zeros(bank.shape[0], dtype=torch.int64, device=bank.device)
        for begin, batch in self._batches(tokens, bank.device):
            states = self.model.model(input_ids=batch).last_hidden_state.flatten(0, 1)
            chosen, found = select_with_nearest_states(states, bank, active)
            better = found.cosine > nearest
            nearest = torch.where(better, found.cosine, nearest)
            nearest_at = torch.where(better, found.index + begin, nearest_at)
            ids.append(chosen.active_ids.cpu())
            cosines.append(chosen.cosines.cpu())
            progress.advance(batch.numel())
        return (
            torch.cat(ids).numpy(),
            torch.cat(cosines).numpy(),
            nearest.cpu().numpy(),
            nearest_at.cpu().numpy(),
        )

    def _batches(self, tokens: Integers, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """(offset, ids [B, L]) in order; the short sequence at the corpus's end comes alone."""
        length = self.sequence_length
        whole = tokens.shape[0] // length * length
        step = max(1, self.batch_tokens // length) * length
        for begin in range(0, whole, step):
            batch = tokens[begin : min(begin + step, whole)].reshape(-1, length)
            yield begin, torch.from_numpy(batch).to(device)
        if whole < tokens.shape[0]:
            yield whole, torch.from_numpy(tokens[None, whole:]).to(device)
