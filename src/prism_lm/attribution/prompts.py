"""Text to token ids for a prompt, a given output and a rival, tokenised as the corpus was.

The prompt is always tokenised by itself, so a model that writes and a text that is given meet the same
prompt. A given output is what follows the prompt's tokens when both are tokenised together. Where the
tokenizer would merge across the border (prompt "Hello wor", output "ld"), the prompt's tokens stay what
they are and the output is tokenised by itself; the trace says so. No special token is read out of a text,
none is added; an empty prompt is the separator alone, which is how every document of a corpus begins.
"""

from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.encode import Encoder
from prism_lm.corpus.tokenizer import as_corpus_tokenizer
from prism_lm.index.words import TokenTexts


class Encoded(NamedTuple):
    """Token ids of a text, and what was special about making them."""

    ids: list[int]
    note: str | None


class PromptEncoder:
    """Encodes prompts, outputs and rivals with a run's tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, separator_id: int) -> None:
        self.separator_id = separator_id
        self.texts = TokenTexts(tokenizer)
        separator = str(tokenizer.convert_ids_to_tokens(separator_id))
        self._tokenizer = as_corpus_tokenizer(tokenizer, separator, "the run's tokenizer")
        self._encoder = Encoder(self._tokenizer)

    def prompt(self, text: str) -> Encoded:
        """The prompt's tokens; the separator for an empty one."""
        ids = self._encode(text, "prompt")
        if ids:
            return Encoded(ids, None)
        return Encoded(
            [self.separator_id],
            "the prompt is empty: the model starts from the separator, as a document does",
        )

    def output(self, prompt: str, prompt_ids: list[int], text: str) -> Encoded:
        """The tokens of an output that follows the prompt."""
        if not text:
            raise UserError(
                "the output is empty; give a text, or leave --output out so that the model writes one"
            )
        alone = self._encode(text, "output")
        if not prompt:
            return Encoded(alone, None)
        together = self._encode(prompt + text, "output")
        if together[: len(prompt_ids)] == prompt_ids:
            return Encoded(together[len(prompt_ids) :], None)
        if self.texts.text(alone[0]).startswith(" ") and not text.startswith(" "):
            raise UserError(
                f"prompt and output meet inside a word ({prompt[-12:]!r} + {text[:12]!r}), where this "
                f"tokenizer "
                "puts a space; end the prompt with a whole word and begin the output with its space"
            )
        return Encoded(
            alone,
            "prompt and output were tokenised apart, as the model meets them when it writes: in one text the "
            "tokenizer would have joined them across the border",
        )

    def rival(self, text: str) -> int:
        """The one token that `text` is.

        Raises:
            UserError: it is no token, or several; the line lists them.
        """
        ids = self._encode(text, "rival")
        if len(ids) == 1:
            return ids[0]
        if not ids:
            raise UserError('the rival is empty; give one token, such as " the", its leading space included')
        pieces = ", ".join(repr(self.texts.text(token)) for token in ids)
        raise UserError(f"the rival {text!r} is {len(ids)} tokens, not one: {pieces}; give one of them")

    def _encode(self, text: str, what: str) -> list[int]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"the {what} is not valid UTF-8 at character {error.start}; give text in UTF-8"
            ) from error
        return self._encoder.encode([text]).ids.tolist()

    def decode(self, ids: list[int]) -> str:
        """The text of an output; a separator that ends it is no part of the text."""
        end = len(ids) - (ids[-1:] == [self.separator_id])
        return self._tokenizer.backend.decode(ids[:end], skip_special_tokens=False)


def encode_prompt(tokenizer: PreTrainedTokenizerFast, prompt: str, separator_id: int) -> list[int]:
    """The ids that `trace` starts from for a prompt."""
    return PromptEncoder(tokenizer, separator_id).prompt(prompt).ids
