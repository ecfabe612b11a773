"""Figures of a model on held-out text: loss, coverage, and what keeps coverage honest."""

from typing import NamedTuple

import torch
from torch import Tensor

from .head import inverse_norm, reconstruct
from .losses import clustering_terms, cross_entropy_sum

SET_STATES = 16_384
"""States in the larger sets that R1 is also taken over: the same for every recipe, so that R1 can be compared
between runs whose batches differ."""


class Figure(NamedTuple):
    """A value and its unit."""

    value: float
    unit: str


class HeldOutFigures:
    """Running sums over batches of final states, from which the figures of a text are read.

    With num_prototypes=0 (a dense model) only `loss` and `anisotropy` are taken.
    """

    def __init__(self, num_prototypes: int) -> None:
        self._num_prototypes = num_prototypes
        self._sums: dict[str, float] = {}
        self._used = torch.zeros(num_prototypes, dtype=torch.bool)
        self._nearest = torch.full((num_prototypes,), -torch.inf)
        self._set = CoverageSet(num_prototypes)
        self._vectors: dict[str, Tensor] = {}

    def _add(self, **amounts: Tensor | float) -> None:
        for name, amount in amounts.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(amount)

    @torch.no_grad()
    def update(
        self,
        states: Tensor,
        output_embedding: Tensor,
        labels: Tensor,
        bank: Tensor | None,
        active_prototypes: int,
    ) -> None:
        """Add a batch: states [N, D], W [V, D], labels [N] (-100 where no token follows), bank P [K, D] or
        None."""
        self._add(
            batches=1,
            states=states.shape[0],
            predicted=(labels != -100).sum(),
            loss=cross_entropy_sum(states, output_embedding, labels),
        )
        wide = states.double()
        for name, vector in (
            ("mean", wide.sum(0)),
            ("direction", (wide * inverse_norm(wide).unsqueeze(-1)).sum(0)),
        ):
            self._vectors[name] = self._vectors.get(name, torch.zeros_like(vector)) + vector
        self._add(energy=wide.square().sum())
        if bank is not None:
            self._update_prototypes(states, output_embedding, labels, bank, active_prototypes)

    def _update_prototypes(
        self, states: Tensor, output_embedding: Tensor, labels: Tensor, bank: Tensor, active_prototypes: int
    ) -> None:
        terms = clustering_terms(states, bank, active_prototypes)
        wide_states, wide_bank = states.float(), bank.float()
        mixture = reconstruct(wide_bank, terms.active_ids, terms.activations)
        self._add(
            r1=terms.prototype_coverage,
            r2=terms.token_coverage_sum,
            reconstruction=terms.reconstruction_sum,
            residual_energy=(wide_states - mixture).double().square().sum(),
            loss_without_residual=cross_entropy_sum(mixture.to(states.dtype), output_embedding, labels),
        )
        self._used[terms.active_ids[terms.activations > 0].unique().cpu()] = True
        nearest = terms.nearest_cosine.float().cpu()
        self._nearest = torch.maximum(self._nearest, nearest)
        self._set.update(nearest, states.shape[0])

    def result(self) -> dict[str, Figure]:
        """Name to value and unit.  Raises ValueError when nothing was added."""
        if not self._sums.get("predicted"):
            raise ValueError("no figures can be read: no token with a successor was added")
        states, predicted = self._sums["states"], self._sums["predicted"]
        mean = self._vectors["mean"] / states
        scatter = self._sums["energy"] / states - float(mean.square().sum())
        towards_mean = float(self._vectors["direction"] @ mean) * float(inverse_norm(mean)) / states
        figures = {
            "loss": Figure(self._sums["loss"] / predicted, "nats per predicted token"),
            "anisotropy": Figure(towards_mean, "mean cosine of states to their mean"),
        }
        if self._num_prototypes:
            figures |= self._prototype_figures(states, predicted, scatter)
        return figures

    def _prototype_figures(self, states: float, predicted: float, scatter: float) -> dict[str, Figure]:
        per_batch = f"mean cosine, over batches of about {round(states / self._sums['batches'])} states"
        return {
            "R1": Figure(self._sums["r1"] / self._sums["batches"], per_batch),
            "R1_larger_sets": Figure(self._set.mean(), f"mean cosine, over {self._set.name}"),
            "R1_whole_set": Figure(
                float(self._nearest.mean()), f"mean cosine, over all {round(states)} states"
            ),
            "R2": Figure(self._sums["r2"] / states, "mean cosine"),
            "reconstruction": Figure(self._sums["reconstruction"] / states, "mean |r|^2 / |z|^2"),
            "variance_unexplained_centred": Figure(
                self._sums["residual_energy"] / states / scatter, "sum |r|^2 / sum |z - mean z|^2"
            ),
            "loss_without_residual": Figure(
                self._sums["loss_without_residual"] / predicted, "nats per predicted token"
            ),
            "prototypes_used": Figure(float(self._used.float().mean()), "share of the bank"),
        }


class CoverageSet:
    """R1 (7) over sets of SET_STATES states: the mean over whole sets, or over what there is of the first."""

    def __init__(self, num_prototypes: int) -> None:
        self._nearest = torch.full((num_prototypes,), -torch.inf)
        self._states = 0
        self._done: list[float] = []

    def update(self, nearest_cosine: Tensor, states: int) -> None:
        """Add a batch of so many states, by the largest cosine [K] of each prototype with one of them."""
        self._nearest = torch.maximum(self._nearest, nearest_cosine)
        self._states += states
        if self._states >= SET_STATES:
            self._done.append(float(self._nearest.mean()))
            self._nearest, self._states = torch.full_like(self._nearest, -torch.inf), 0

    @property
    def name(self) -> str:
        """What the mean is over."""
        few = f"all {self._states} states, too few for a set"
        return f"sets of {SET_STATES} states" if self._done else few

    def mean(self) -> float:
        """The mean over sets."""
        return sum(self._done) / len(self._done) if self._done else float(self._nearest.mean())
