"""`prism trace`: write or take an output, and take each of its tokens apart by equation (4)."""

from dataclasses import dataclass
from pathlib import Path

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.run import Run
from prism_lm.attribution.apart import TakenApart, take_apart
from prism_lm.attribution.prompts import Encoded, PromptEncoder
from prism_lm.attribution.traces import LeadingPrototype, Trace
from prism_lm.attribution.writing import write_tokens
from prism_lm.index.cards import Word, words_of
from prism_lm.index.loading import load_model, load_tokenizer, open_prototype_run, sequence_length
from prism_lm.index.prototype_index import FOLDER, PrototypeIndex
from prism_lm.model import PrismForCausalLM


def trace(
    run: str | Path,
    *,
    prompt: str,
    output: str | None = None,
    versus: str | None = None,
    tokens: int = 24,
    seed: int = 0,
    temperature: float = 1.0,
    top: int = 5,
    passages: int = 2,
    corpus: str | Path | None = None,
) -> Trace:
    """Trace one output of a run: see `Tracer.trace`. For several, open a `Tracer` once."""
    tracer = Tracer.open(run, corpus=corpus)
    return tracer.trace(
        prompt=prompt,
        output=output,
        versus=versus,
        tokens=tokens,
        seed=seed,
        temperature=temperature,
        top=top,
        passages=passages,
    )


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """A run opened for tracing: model, tokenizer, and the index if there is one."""

    run: Run
    model: PrismForCausalLM
    encoder: PromptEncoder
    index: PrototypeIndex | None

    @classmethod
    def open(cls, run: str | Path, *, corpus: str | Path | None = None) -> "Tracer":
        """Opens a run; `corpus` says where its corpus is now, if it was moved.

        Raises:
            UserError: the run is dense or not finished, or its index is of another model or corpus.
        """
        opened = open_prototype_run(run)
        index = PrototypeIndex.open(opened, corpus=corpus) if (opened.path / FOLDER).exists() else None
        if index is not None:
            _ = index.corpus  # opened now: a wrong corpus is refused before anything is computed
        model = load_model(opened)
        tokenizer, separator = load_tokenizer(opened, model)
        return cls(run=opened, model=model, encoder=PromptEncoder(tokenizer, separator), index=index)

    def trace(
        self,
        *,
        prompt: str,
        output: str | None = None,
        versus: str | None = None,
        tokens: int = 24,
        seed: int = 0,
        temperature: float = 1.0,
        top: int = 5,
        passages: int = 2,
    ) -> Trace:
        """The output's tokens as sums of slices.

        output: the text to take apart, teacher-forced; None: the model writes up to `tokens` tokens from
        the seed at the temperature (0: always the likeliest). versus: one token; slices are then those of
        the difference of the logits, "why this and not that". top: prototypes shown for each token.
        passages: neighbours of each. Raises UserError for a text that the model cannot read, or a rival
        that is not one token.
        """
        _check(tokens=tokens, top=top, passages=passages, temperature=temperature)
        rival = None if versus is None else self.encoder.rival(versus)
        start = self.encoder.prompt(prompt)
        if output is None:
            made = self._written(start.ids, tokens=tokens, seed=seed, temperature=temperature)
        else:
            made = self._given(prompt, start.ids, output)
        length = len(start.ids) + len(made.ids)
        notes = (start.note, made.note, self._beyond_training(length), self._about_index())
        apart = take_apart(self.model, start.ids, made.ids, rival=rival, top=top, texts=self.encoder.texts)
        behind = self._behind(apart, top, passages)
        return Trace(
            run=str(self.run.path),
            corpus=None if self.index is None else str(self.index.corpus_path),
            is_of_training_corpus=self.index is not None and self.index.is_of_training_corpus,
            prompt=prompt,
            output=self.encoder.decode(made.ids) if output is None else output,
            prompt_tokens=tuple(map(self.encoder.texts.text, start.ids)),
            written_by_model=output is None,
            seed=seed if output is None else None,
            temperature=temperature if output is None else None,
            versus=versus,
            tokens=apart.tokens,
            leading=tuple(behind[prototype] for prototype in apart.largest(top)),
            behind=behind,
            notes=tuple(note for note in notes if note),
            tolerance=apart.tolerance,
        )

    def _written(self, prompt: list[int], *, tokens: int, seed: int, temperature: float) -> Encoded:
        self._check_room(len(prompt), tokens, given=False)
        stop = self.encoder.separator_id
        ids = write_tokens(
            self.model, prompt, tokens=tokens, seed=seed, temperature=temperature, stop_at=stop
        )
        return Encoded(ids, None)

    def _given(self, prompt: str, prompt_ids: list[int], output: str) -> Encoded:
        encoded = self.encoder.output(prompt, prompt_ids, output)
        self._check_room(len(prompt_ids), len(encoded.ids), given=True)
        return encoded

    def _behind(self, apart: TakenApart, top: int, passages: int) -> dict[int, LeadingPrototype]:
        wanted = {one.prototype for token in apart.tokens for one in token.leading} | set(apart.largest(top))
        return {
            prototype: LeadingPrototype(
                prototype=prototype,
                slice=apart.totals[prototype],
                tokens=apart.active_tokens[prototype],
                raised=self._raised(prototype),
                neighbours=() if self.index is None else tuple(self.index.neighbours(prototype, passages)),
            )
            for prototype in sorted(wanted)
        }

    def _raised(self, prototype: int) -> tuple[Word, ...]:
        if self.index is None:
            return ()
        (row,) = self.index.rows("prototypes", prototype)
        return words_of(row, "raised")

    def _check_room(self, prompt: int, output: int, *, given: bool) -> None:
        """Nothing is cut off in silence: what does not fit is refused."""
        room = int(self.model.config.text_config.max_position_embeddings)
        if prompt + output <= room:
            return
        if given:
            raise UserError(
                f"prompt and output take {prompt:,} + {output:,} tokens and the model reads {room:,}; "
                f"shorten them by {prompt + output - room:,}"
            )
        if prompt >= room:
            raise UserError(
                f"the prompt takes {prompt:,} tokens and the model reads {room:,} in all; shorten it"
            )
        raise UserError(
            f"the prompt takes {prompt:,} of the {room:,} tokens that the model reads; ask for at most "
            f"{room - prompt:,} with --tokens, not {output:,}"
        )

    def _beyond_training(self, length: int) -> str | None:
        trained = sequence_length(self.run)
        if length <= trained:
            return None
        return (
            f"prompt and output are {length:,} tokens and the model was trained on sequences of {trained:,}"
        )

    def _about_index(self) -> str | None:
        if self.index is None:
            given = self.run.configuration.get("corpus", "CORPUS")
            return f"no index, so no passages; make one with: prism index {self.run.path} --corpus {given}"
        if not self.index.is_of_training_corpus:
            return "the index is of a corpus that the model was not trained on: no training passages here"
        return None


def _check(*, tokens: int, top: int, passages: int, temperature: float) -> None:
    if tokens < 1:
        raise UserError(f"--tokens is {tokens}; expected 1 or more")
    if top < 1:
        raise UserError(f"--top is {top}; expected 1 or more")
    if passages < 0:
        raise UserError(f"--passages is {passages}; expected 0 or more")
    if not 0 <= temperature < float("inf"):
        raise UserError(f"--temperature is {temperature}; expected 0 (always the likeliest token) or more")
