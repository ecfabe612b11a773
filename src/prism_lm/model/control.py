"""Control, equations (9)-(11): gains on prototypes, applied to the final hidden state, never inside the
backbone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .head import reconstruct


@dataclass(frozen=True, kw_only=True)
class Control:
    """A gain g_i >= 0 for some prototypes; all others keep gain 1.  Immutable and hashable.

    gains: (prototype id, gain) pairs, ids rising.  Build it with `Control.of({4211: 0.0})`.
    """

    gains: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, gains: Mapping[int, float]) -> "Control":
        """From a mapping of prototype id to gain.  Raises ValueError for a gain that is not a number of at
        least 0."""
        pairs = []
        for prototype, gain in sorted(gains.items()):
            if isinstance(prototype, bool) or not isinstance(prototype, int) or prototype < 0:
                raise ValueError(f"a prototype id is a whole number from 0, got {prototype!r}")
            if not isinstance(gain, int | float) or not math.isfinite(gain) or gain < 0:
                raise ValueError(
                    f"the gain of prototype {prototype} must be a finite number of at least 0, got {gain!r}"
                )
            pairs.append((prototype, float(gain)))
        return cls(gains=tuple(pairs))

    @classmethod
    def off(cls, prototypes: Iterable[int]) -> "Control":
        """Gain 0 for each of these."""
        return cls.of(dict.fromkeys(prototypes, 0.0))

    def __bool__(self) -> bool:
        return any(gain != 1.0 for _, gain in self.gains)


ControlLike = Control | Sequence[Control | None]


@dataclass(frozen=True, kw_only=True)
class ControlRows:
    """One control for each row of a batch, or one for all of them."""

    rows: tuple[Control | None, ...]

    @classmethod
    def of(cls, control: "ControlLike | ControlRows") -> "ControlRows":
        """Raises TypeError for anything but a Control, or a sequence of Control and None."""
        if isinstance(control, ControlRows):
            return control
        rows = (control,) if isinstance(control, Control) else tuple(control)
        for row in rows:
            if row is not None and not isinstance(row, Control):
                raise TypeError(f"a control is a Control or None, got {type(row).__name__}; see Control.of")
        return cls(rows=rows)

    def repeated(self, times: int) -> "ControlRows":
        """Each row several times over, as generate does for several returned sequences."""
        if len(self.rows) == 1:
            return self
        return ControlRows(rows=tuple(row for row in self.rows for _ in range(times)))

    def gain_changes(self, batch_size: int, num_prototypes: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """g_i - 1 as a table [distinct controls, K], and for each row of the batch its line in the table [B].

        Raises ValueError for a prototype outside the bank, or when the rows are not one or batch_size many.
        """
        if len(self.rows) not in (1, batch_size):
            raise ValueError(
                f"{len(self.rows)} controls were given for {batch_size} rows: give one, or one for each row"
            )
        distinct = list(dict.fromkeys(self.rows))
        table = torch.zeros(len(distinct), num_prototypes, dtype=torch.float32)
        for line, control in enumerate(distinct):
            for prototype, gain in control.gains if control is not None else ():
                if prototype >= num_prototypes:
                    raise ValueError(
                        f"prototype {prototype} is not in the bank: its ids go from 0 to {num_prototypes - 1}"
                    )
                table[line, prototype] = gain - 1.0
        lines = torch.tensor([distinct.index(row) for row in self.rows])
        return table.to(like.device), lines.expand(batch_size).to(like.device)


class ControlEffect(NamedTuple):
    """What a control did in one forward pass, row by row."""

    tokens_touched: Tensor
    """[B] int64: positions at which an active prototype had a gain other than 1."""
    mass_removed: Tensor
    """[B]: sum over tokens and active prototypes of (1 - g_i) a_ti; negative where a control amplifies."""

    def __add__(self, other: "ControlEffect") -> "ControlEffect":  # pyrefly: ignore[bad-override]
        return ControlEffect(
            self.tokens_touched + other.tokens_touched, self.mass_removed + other.mass_removed
        )


class Edit(NamedTuple):
    """The edited states, and what the edit did."""

    states: Tensor
    effect: ControlEffect
    changes: Tensor
    """[B, T, A]: (g_i - 1) a_ti, the signed change of each active prototype's activation."""


def edit_states(
    states: Tensor, prototypes: Tensor, active_ids: Tensor, activations: Tensor, control: ControlRows
) -> Edit:
    """z'_t = z_t + sum_i (g_i - 1) a_ti p_i, equation (9).

    states [B, T, D], prototypes [K, D], active_ids and activations [B, T, A].  Selection came before the
    edit and the residual stays what it was.  A state with no edited active prototype is returned bit for bit.
    """
    table, lines = control.gain_changes(states.shape[0], prototypes.shape[0], states)
    gain_changes = table[lines.view(-1, 1, 1), active_ids]
    changes = gain_changes.to(activations.dtype) * activations
    touched = (changes != 0).any(dim=-1)
    if not bool(touched.any()):
        return Edit(states, _effect(touched, changes), changes)
    wide = torch.promote_types(states.dtype, torch.float32)
    difference = reconstruct(prototypes.to(wide), active_ids.flatten(0, 1), changes.to(wide).flatten(0, 1))
    edited = (states.to(wide) + difference.view(states.shape)).to(states.dtype)
    return Edit(torch.where(touched.unsqueeze(-1), edited, states), _effect(touched, changes), changes)


def _effect(touched: Tensor, changes: Tensor) -> ControlEffect:
    return ControlEffect(touched.sum(dim=-1), -changes.sum(dim=(-2, -1)))


def divergence_bound(changes: Tensor, active_ids: Tensor, signature_ranges: Tensor) -> Tensor:
    """(sum_i |g_i - 1| a_ti range_i)^2 / 8, the right side of (11), in nats: [B, T].

    changes and active_ids [B, T, A] as in `Edit`; signature_ranges [K]: max_v s_iv - min_v s_iv.
    """
    return (changes.abs() * signature_ranges[active_ids]).sum(dim=-1).square() / 8


def divergence(logits: Tensor, edited_logits: Tensor) -> Tensor:
    """KL(p_t || p'_t) = log E_p[exp d_t] - E_p[d_t], the left side of (11), in nats.  logits [..., V]."""
    difference = edited_logits - logits
    log_probabilities = logits.log_softmax(dim=-1)
    mean = (log_probabilities.exp() * difference).sum(dim=-1)
    return (log_probabilities + difference).logsumexp(dim=-1) - mean
