"""The decomposition of the final hidden state: equations (1)-(4).

Letters: N states (tokens of all sequences laid end to end), D hidden size, V vocabulary, K prototypes in the
bank, A active prototypes per token.  z [N, D] final hidden states, P [K, D] bank, W [V, D] output embedding.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Entries of the similarity matrix held at one time: 2^22 floats are 16 MB, about what a core's caches stream
# well.
ENTRIES_PER_CHUNK = 1 << 22


class Selection(NamedTuple):
    """Which prototypes are active where, and how close they are."""

    active_ids: Tensor
    """[N, A] int64: the A prototypes with the largest cosine, largest first; of equals, lowest id first."""
    cosines: Tensor
    """[N, A] float: c_ti of (1) for these."""


class NearestStates(NamedTuple):
    """For each prototype the state with the largest cosine, the first among equals."""

    index: Tensor
    """[K] int64."""
    cosine: Tensor
    """[K] float: max_t c_ti."""


def inverse_norm(vectors: Tensor) -> Tensor:
    """1 / |v| for each row, and 0 for a zero vector: a zero state or prototype has cosine 0 with
    everything."""
    norms = vectors.norm(dim=-1)
    return torch.where(norms > 0, norms, torch.inf).reciprocal()


@torch.no_grad()
def select_prototypes(states: Tensor, prototypes: Tensor, active_prototypes: int) -> Selection:
    """Cosines (1) and the choice of the A active prototypes (2), without gradient, in chunks over states.

    states [N, D], prototypes [K, D].  No N x K matrix is kept.  Raises ValueError when K < A.
    """
    return _scan(states, prototypes, active_prototypes, None)


@torch.no_grad()
def select_with_nearest_states(
    states: Tensor, prototypes: Tensor, active_prototypes: int
) -> tuple[Selection, NearestStates]:
    """`select_prototypes`, and in the same pass the nearest state of each prototype, that R1 (7) asks for."""
    nearest = _RunningMaximum(states, prototypes.shape[0])
    selection = _scan(states, prototypes, active_prototypes, nearest)
    return selection, NearestStates(nearest.index, nearest.cosine)


def _scan(
    states: Tensor, prototypes: Tensor, active_prototypes: int, nearest: "_RunningMaximum | None"
) -> Selection:
    count, bank_size = states.shape[0], prototypes.shape[0]
    if bank_size < active_prototypes:
        raise ValueError(
            f"{active_prototypes} active prototypes asked of a bank of {bank_size}: K >= A is needed"
        )
    directions = (prototypes * inverse_norm(prototypes).unsqueeze(-1)).t()
    lengths = inverse_norm(states)
    active_ids = torch.empty(count, active_prototypes, dtype=torch.int64, device=states.device)
    cosines = states.new_empty(count, active_prototypes)
    tied = torch.zeros(count, dtype=torch.bool, device=states.device)
    rows = max(1, ENTRIES_PER_CHUNK // bank_size)
    buffer = states.new_empty(min(rows, count), bank_size)
    for start in range(0, count, rows):
        chunk = slice(start, min(start + rows, count))
        scaled = states[chunk] * lengths[chunk].unsqueeze(-1)
        similarity = torch.mm(scaled, directions, out=buffer[: chunk.stop - start])
        if nearest is not None:
            nearest.update(similarity, start)
        values, ids = similarity.topk(min(active_prototypes + 1, bank_size), dim=-1)
        tied[chunk] = (values[:, 1:] == values[:, :-1]).any(dim=-1)
        cosines[chunk], active_ids[chunk] = values[:, :active_prototypes], ids[:, :active_prototypes]
    _settle_ties(states, lengths, directions, tied, active_ids, cosines)
    return Selection(active_ids, cosines)


class _RunningMaximum:
    """The largest cosine of each prototype so far, and its state; the first of equal states is kept."""

    def __init__(self, states: Tensor, bank_size: int) -> None:
        self.cosine = states.new_full((bank_size,), -torch.inf)
        self.index = torch.zeros(bank_size, dtype=torch.int64, device=states.device)

    def update(self, similarity: Tensor, start: int) -> None:
        """Take in the cosines [n, K] of the states from `start` on."""
        best, at = column_maximum(similarity)
        better = best > self.cosine
        self.cosine = torch.where(better, best, self.cosine)
        self.index = torch.where(better, at + start, self.index)


def column_maximum(matrix: Tensor, rows_per_block: int = 16) -> tuple[Tensor, Tensor]:
    """Largest entry of each column and its row, the first row among equals: `matrix.max(dim=0)`, several
    times faster.

    Taking values alone is vectorised; the row is then looked for only within the winning block of rows.
    """
    blocks = matrix.shape[0] // rows_per_block
    if blocks < 2:
        return matrix.max(dim=0)
    tiled = matrix[: blocks * rows_per_block].view(blocks, rows_per_block, -1)
    best, block = tiled.amax(dim=1).max(dim=0)
    columns = torch.arange(matrix.shape[1], device=matrix.device)
    row = block * rows_per_block + tiled[block, :, columns].argmax(dim=1)
    if blocks * rows_per_block == matrix.shape[0]:
        return best, row
    tail, tail_row = matrix[blocks * rows_per_block :].max(dim=0)
    better = tail > best
    return torch.where(better, tail, best), torch.where(better, tail_row + blocks * rows_per_block, row)


def _settle_ties(
    states: Tensor, lengths: Tensor, directions: Tensor, tied: Tensor, active_ids: Tensor, cosines: Tensor
) -> None:
    """Rewrite, in place, rows with equal cosines so that the lowest id comes first: topk promises no
    order."""
    rows = tied.nonzero().squeeze(-1)
    step = max(1, ENTRIES_PER_CHUNK // directions.shape[1])
    for start in range(0, rows.numel(), step):
        some = rows[start : start + step]
        similarity = (states[some] * lengths[some].unsqueeze(-1)) @ directions
        values, ids = similarity.sort(dim=-1, descending=True, stable=True)
        active_ids[some] = ids[:, : active_ids.shape[1]]
        cosines[some] = values[:, : active_ids.shape[1]]


def gather_sum(table: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """sum_j weights[n, j] * table[ids[n, j]]: [N, D], without the [N, A, D] intermediate."""
    return F.embedding_bag(ids, table, per_sample_weights=weights, mode="sum")


def reconstruct(prototypes: Tensor, active_ids: Tensor, activations: Tensor) -> Tensor:
    """zhat of (3): the weighted sum of active prototypes.  [N, D]."""
    return gather_sum(prototypes, active_ids, activations)
