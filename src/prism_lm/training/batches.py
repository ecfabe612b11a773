"""Which sequences a step trains on, as tensors: a pure function of (seed, step), the same for any process
count.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus import Corpus, SequenceOrder, Sequences
from prism_lm.training.config import DataSettings

IGNORED = -100
ORDERED_AT_ONCE = 4096


class MicroBatch(NamedTuple):
    """Sequences of one forward pass. A short one (the end of the corpus) is padded on the right."""

    input_ids: Tensor
    """[B, T] int64."""
    labels: Tensor
    """[B, T] int64: the next token of the same sequence, or -100 where there is none."""
    present: Tensor | None
    """[B, T] bool: where there is a token; None where that is everywhere."""


class Totals(NamedTuple):
    """What the sums of one step are divided by, over all processes."""

    predicted: int
    """Tokens with a next token in their sequence."""
    states: int
    """Tokens."""
    micro_batches: int


class Batches:
    """The order of a corpus's sequences, cut into steps, micro-batches and processes.

    The sequences of a step are one list; micro-batch i of it is the i-th run of `micro_batch` of them, and
    each process takes consecutive micro-batches. So one process that accumulates and several that do not
    compute the same terms, R1 included.
    """

    def __init__(
        self,
        corpus: Corpus,
        data: DataSettings,
        *,
        seed: int,
        rank: int,
        world_size: int,
        device: torch.device,
    ) -> None:
        if data.batch % (data.micro_batch * world_size):
            raise UserError(
                f"data.batch is {data.batch}; expected a multiple of {data.micro_batch * world_size}: "
                f"data.micro_batch {data.micro_batch} on each of {world_size} processes"
            )
        self.sequences = Sequences(corpus, data.sequence_length)
        if len(self.sequences) == 0:
            raise UserError(f"{corpus.path} holds no token; expected a corpus to train on")
        self.order = SequenceOrder(len(self.sequences), seed)
        self.data, self.rank, self.world_size, self.device = data, rank, world_size, device
        self.padding = corpus.separator_id
        self.per_step = data.batch // data.micro_batch
        self.per_rank = self.per_step // world_size
        last = len(self.sequences) - 1
        self._last, self._short = last, len(self.sequences[last])
        # The order of several steps costs hardly more to compute than that of one.
        self._steps_ahead = max(1, ORDERED_AT_ONCE // data.batch)
        self._known = -1, np.empty((0, 0), dtype=np.int64)

    def sequence_ids(self, step: int) -> np.ndarray:
        """All sequences of a step, [batch]."""
        block, place = divmod(step, self._steps_ahead)
        if block != self._known[0]:
            portion = self._steps_ahead * self.data.batch
            places = self.order.at(block * portion, (block + 1) * portion)
            self._known = block, places.reshape(self._steps_ahead, self.data.batch)
        return self._known[1][place]

    def totals(self, step: int) -> Totals:
        """Counts over the whole step, without reading it: only the corpus's last sequence may be short."""
        missing = int((self.sequence_ids(step) == self._last).sum()) * (
            self.data.sequence_length - self._short
        )
        tokens = self.data.batch * self.data.sequence_length - missing
        return Totals(tokens - self.data.batch, tokens, self.per_step)

    def of_rank(self, step: int) -> Iterator[MicroBatch]:
        """The micro-batches of a step that this process computes."""
        for index in range(self.rank * self.per_rank, (self.rank + 1) * self.per_rank):
            yield self.micro_batch(step, index)

    def micro_batch(self, step: int, index: int) -> MicroBatch:
        """Micro-batch `index` of a step."""
        rows = [self.sequences[int(i)] for i in self._ids(step, index)]
        return assemble(rows, self.data.sequence_length, self.padding, self.device)

    def lengths(self, step: int, index: int) -> np.ndarray:
        """Tokens in each sequence of micro-batch `index` of a step."""
        return np.where(self._ids(step, index) == self._last, self._short, self.data.sequence_length)

    def _ids(self, step: int, index: int) -> np.ndarray:
        size = self.data.micro_batch
        return self.sequence_ids(step)[index * size : (index + 1) * size]


def assemble(rows: list[np.ndarray], length: int, padding: int, device: torch.device) -> MicroBatch:
    """Token arrays of at most `length` as one MicroBatch on `device`."""
    ids = np.full((len(rows), length), padding, dtype=np.int64)
    labels = np.full((len(rows), length), IGNORED, dtype=np.int64)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
        labels[row, : len(tokens) - 1] = tokens[1:]
    lengths = np.array([len(tokens) for tokens in rows])
    present = None
    if (lengths < length).any():
        present = _send(np.arange(length)[None, :] < lengths[:, None], device)
    return MicroBatch(_send(ids, device), _send(labels, device), present)


def _send(array: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
