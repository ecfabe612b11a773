"""A sentence that a model writes, its parts by prototype, and the same sentence with one prototype off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from prism_lm.artifacts.errors import UserError
from prism_lm.attribution.apart import TakenApart, take_apart
from prism_lm.attribution.tracing import Tracer
from prism_lm.attribution.writing import write_tokens
from prism_lm.model import Control

TOKENS = 40
SHORTEST = 6
TEMPERATURE = 0.35  # a small model makes up words when likelier ones are not favoured
TRIES = 40  # prototypes that are switched off alone, before several are together


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Writes from one prompt and one seed, with and without a control."""

    tracer: Tracer
    prompt: str
    seed: int

    def __post_init__(self) -> None:
        if self.room < SHORTEST:
            raise UserError(
                f"the prompt takes {len(self.prompt_ids):,} tokens, which leaves {max(0, self.room)} for the "
                "sentence; give a shorter --prompt"
            )

    @property
    def room(self) -> int:
        """Tokens that the model can still write after the prompt."""
        return int(self.tracer.model.config.text_config.max_position_embeddings) - len(self.prompt_ids)

    @property
    def prompt_ids(self) -> list[int]:
        """The tokens of the prompt."""
        return self.tracer.encoder.prompt(self.prompt).ids

    def texts(self, ids: Sequence[int]) -> list[str]:
        """What each token reads like."""
        return [self.tracer.encoder.texts.text(token) for token in ids]

    def sentence(self, control: Control | None = None) -> list[int]:
        """The tokens of one sentence: up to the first full stop, empty line or end of document."""
        ids = write_tokens(
            self.tracer.model,
            self.prompt_ids,
            tokens=min(TOKENS, self.room),
            seed=self.seed,
            temperature=TEMPERATURE,
            control=control,
            stop_at=self.tracer.encoder.separator_id,
        )
        if ids[-1] == self.tracer.encoder.separator_id and len(ids) > 1:
            ids = ids[:-1]
        return ids[: end_of_sentence(self.texts(ids))]

    def apart(self, ids: list[int]) -> TakenApart:
        """Every token as its slices, all active prototypes named."""
        every = self.tracer.model.config.active_prototypes
        return take_apart(
            self.tracer.model, self.prompt_ids, ids, rival=None, top=every, texts=self.tracer.encoder.texts
        )


def end_of_sentence(texts: Sequence[str]) -> int:
    """How many of the tokens make the first sentence."""
    written = ""
    for number, text in enumerate(texts, start=1):
        ahead = texts[number] if number < len(texts) else ""
        written += text
        ends = written.rstrip(" ").endswith((".", "!", "?")) and ahead[:1] in (" ", "\n", "")
        if number >= SHORTEST and (ends or "\n\n" in written + ahead):
            return number
    return len(texts)


class Word(NamedTuple):
    """One word of the sentence: the tokens it is written with, added up."""

    text: str
    probability: float
    slices: dict[int, float]
    residual: float
    logit: float


def words(apart: TakenApart) -> list[Word]:
    """Tokens joined to words: a word begins at white space."""
    groups: list[list[int]] = []
    for place, token in enumerate(apart.tokens):
        if not groups or token.text[:1].isspace() or apart.tokens[place - 1].text[-1:].isspace():
            groups.append([])
        groups[-1].append(place)
    return [_word(apart, group) for group in groups]


def _word(apart: TakenApart, group: list[int]) -> Word:
    tokens = [apart.tokens[place] for place in group]
    slices: dict[int, float] = {}
    probability = 1.0
    for token in tokens:
        probability *= token.probability
        for one in token.leading:
            slices[one.prototype] = slices.get(one.prototype, 0.0) + one.slice
    return Word(
        text="".join(token.text for token in tokens),
        probability=probability,
        slices=slices,
        residual=sum(token.residual for token in tokens),
        logit=sum(token.logit for token in tokens),
    )


def leaders(apart: TakenApart) -> list[int]:
    """Prototypes by their say for the sentence: the sum of their slices, largest first."""
    for_it = {prototype: total for prototype, total in apart.totals.items() if total > 0}
    return sorted(for_it, key=lambda prototype: (-for_it[prototype], prototype))


class Change(NamedTuple):
    """What has to be off for the model to write something else."""

    prototypes: tuple[int, ...]
    """One, or the first few by their say where no single one is enough."""
    rank: int
    """1 for the one with the largest say. Any single prototype before it leaves the text as it was."""
    after: list[int]


def first_change(writer: Writer, before: list[int], ranked: Sequence[int]) -> Change | None:
    """Switches prototypes off until the text differs: each alone, in order; then the first 2, 3, 4 ..."""
    alone = [(prototype,) for prototype in ranked[:TRIES]]
    together = [tuple(ranked[:number]) for number in range(2, len(ranked) + 1)]
    for tried, prototypes in enumerate([*alone, *together], start=1):
        after = writer.sentence(Control.off(prototypes))
        if after != before:
            return Change(prototypes, tried if len(prototypes) == 1 else len(alone) + 1, after)
    return None


class Reach(NamedTuple):
    """What switching prototypes off does to the next-token predictions along a text, by (11)."""

    tokens: int
    touched: int
    mass_removed: float
    largest_divergence: float
    """Nats, over the touched tokens."""
    elsewhere_equal: bool
    """Whether at all other tokens the logits are the same, bit for bit."""


@torch.inference_mode()
def reach(writer: Writer, ids: list[int], prototypes: Sequence[int]) -> Reach:
    """One forward pass without and one with the control, compared token by token."""
    model = writer.tracer.model
    text = torch.tensor([writer.prompt_ids + ids], device=model.device)
    plain = model(input_ids=text, output_prototypes=True)
    edited = model(input_ids=text, control=Control.off(prototypes))
    edited_ids = torch.tensor(prototypes, device=model.device)
    active = (torch.isin(plain.active_ids, edited_ids) & (plain.activations > 0)).any(dim=-1)[0]
    before, after = (out.logits[0].double().log_softmax(dim=-1) for out in (plain, edited))
    divergence = (before.exp() * (before - after)).sum(dim=-1)
    return Reach(
        tokens=text.shape[1],
        touched=int(edited.control_effect.tokens_touched[0]),
        mass_removed=float(edited.control_effect.mass_removed[0]),
        largest_divergence=float(divergence[active].max()) if active.any() else 0.0,
        elsewhere_equal=torch.equal(plain.logits[0][~active], edited.logits[0][~active]),
    )
