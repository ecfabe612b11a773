"""Which passages an index keeps for each prototype: the nearest ones, and some from every band of
activation."""

from typing import Any

import numpy as np

from prism_lm.index.arrays import Integers, ranks_in_runs
from prism_lm.index.neighbours import Candidates, passages_per_prototype
from prism_lm.index.samples import Sample, bands
from prism_lm.index.totals import Totals

Columns = dict[str, Any]
KINDS = ("neighbour", "band", "nearest")


def choose_examples(
    candidates: Candidates, sample: Sample, totals: Totals, *, neighbours: int, num_bands: int, per_band: int
) -> Columns:
    """Columns of the examples table by prototype, kind and rank; a value that a kind lacks is None."""
    parts = [_top(candidates, neighbours), _drawn(sample, num_bands, per_band), _nearest(candidates, totals)]
    sizes = [part["prototype"].shape[0] for part in parts]
    kind = np.repeat(np.arange(len(KINDS)), sizes)
    columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["rank"], kind, columns["prototype"]))
    columns = {name: column[order] for name, column in columns.items()}
    for name in ("band", "firings_in_document", "copies"):
        columns[name] = [None if value < 0 else value for value in columns[name].tolist()]
    return {**columns, "kind": [KINDS[number] for number in kind[order]]}


def _top(candidates: Candidates, neighbours: int) -> Columns:
    ranks = ranks_in_runs(candidates.prototypes)
    best = candidates.take(ranks < neighbours)
    return {
        "prototype": best.prototypes,
        "rank": ranks[ranks < neighbours],
        "band": _lacking(best.prototypes),
        "activation": best.cosines,
        "position": best.positions,
        "firings_in_document": best.firings,
        "copies": best.copies,
    }


def _drawn(sample: Sample, num_bands: int, per_band: int) -> Columns:
    chosen, band = bands(sample, num_bands, per_band)
    return {
        "prototype": chosen.prototypes,
        "rank": ranks_in_runs(chosen.prototypes),
        "band": band,
        "activation": chosen.activations,
        "position": chosen.positions,
        "firings_in_document": _lacking(chosen.prototypes),
        "copies": _lacking(chosen.prototypes),
    }


def _nearest(candidates: Candidates, totals: Totals) -> Columns:
    """A prototype that is never active still has a token that comes nearest."""
    idle = np.flatnonzero(passages_per_prototype(candidates, totals.usage.shape[0]) == 0)
    return {
        "prototype": idle,
        "rank": np.zeros_like(idle),
        "band": _lacking(idle),
        "activation": totals.coverage[idle],
        "position": totals.nearest[idle],
        "firings_in_document": _lacking(idle),
        "copies": _lacking(idle),
    }


def _lacking(like: Integers) -> Integers:
    return np.full(like.shape, -1)
