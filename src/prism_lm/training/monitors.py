"""Figures on held-out text, by the same pass for a prototype model and its dense twin."""

import torch
from torch import Tensor

from prism_lm.corpus import Corpus, SequenceOrder, Sequences
from prism_lm.model import HeldOutFigures
from prism_lm.training.batches import MicroBatch, assemble
from prism_lm.training.config import Recipe
from prism_lm.training.metrics import Figure
from prism_lm.training.objective import Reader, TrainingModule, present_states
from prism_lm.training.parallel import Ranks

ORDER_SEED = 0
"""The same text in the same order for every run, whatever its seed, so that runs can be compared."""


class HeldOut:
    """Held-out text, the same sequences every time: `held_out_tokens` from all over the corpus.

    They are shuffled as in training, for R1 depends on which states share a batch: neighbours in the corpus
    are of few kinds and leave many prototypes without a state near them.
    """

    def __init__(self, corpus: Corpus, recipe: Recipe, ranks: Ranks) -> None:
        self._corpus, self._recipe, self._ranks = corpus, recipe, ranks
        length = recipe.data.sequence_length
        self._sequences = Sequences(corpus, length)
        wanted = max(1, recipe.monitoring.held_out_tokens // length)
        count = min(len(self._sequences), wanted)
        self._chosen: list[int] = SequenceOrder(len(self._sequences), ORDER_SEED).at(0, count).tolist()

    @torch.no_grad()
    def measure(self, module: TrainingModule, *, with_bank: bool) -> dict[str, Figure]:
        """All figures. `with_bank` off: those of a dense model, also for a bank not set from data yet."""
        figures = HeldOutFigures(self._recipe.bank.num_prototypes if with_bank else 0)
        size, length = self._recipe.data.micro_batch, self._recipe.data.sequence_length
        module.eval()
        for first in range(0, len(self._chosen), size):
            rows = [self._sequences[i] for i in self._chosen[first : first + size]]
            batch = assemble(rows, length, self._corpus.separator_id, self._ranks.device)
            module(batch.input_ids, self._reader(figures, batch, with_bank=with_bank))
        module.train()
        tokens = sum(len(self._sequences[i]) for i in self._chosen)
        where = f"{tokens} tokens, {len(self._chosen)} shuffled sequences of {length} of the held-out corpus"
        return {
            name: Figure(value=value, unit=unit, set=where)
            for name, (value, unit) in figures.result().items()
        }

    def _reader(self, figures: HeldOutFigures, batch: MicroBatch, *, with_bank: bool) -> Reader[tuple[()]]:
        def read(states: Tensor, output_embedding: Tensor, bank: Tensor | None) -> tuple[()]:
            flat, labels = present_states(states, batch)
            bank = bank if with_bank else None
            figures.update(flat, output_embedding, labels, bank, self._recipe.bank.active_prototypes)
            return ()

        return read
