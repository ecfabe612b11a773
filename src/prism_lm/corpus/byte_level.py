"""Character spans of byte-level tokens, computed from their lengths in bytes.

A byte-level BPE cuts the UTF-8 bytes of a text into pieces and loses none, so the lengths alone say where
each token lies. That is some ten times faster than asking the tokenizer for its list of pairs, and gives the
same spans.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Spans = NDArray[np.uint32]  # [tokens, 2]: start and end, in characters of the document


def byte_lengths(backend: "Tokenizer") -> NDArray[np.int64] | None:
    """Each token's length in bytes, by id; None where the tokenizer is not byte-level, or may lose bytes."""
    settings = json.loads(backend.to_str())
    if not _is_byte_level(settings):
        return None
    vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=False)
    if not _alphabet() <= vocabulary.keys():
        return None
    added = {entry["id"]: entry["content"] for entry in settings["added_tokens"]}
    lengths = np.zeros(max([*vocabulary.values(), *added]) + 1, dtype=np.int64)
    for token, index in vocabulary.items():
        lengths[index] = len(token)  # each byte is written as one character
    for index, content in added.items():
        lengths[index] = len(content.encode("utf-8"))
    return lengths


def byte_spans(token_lengths: NDArray[np.int64], text: bytes, characters: int) -> Spans:
    """The spans of tokens that cut `text` (UTF-8, so many characters) into pieces of these lengths in bytes.

    A token with part of a character gets the whole character.
    """
    ends = np.cumsum(token_lengths)
    starts = ends - token_lengths
    spans = np.empty((len(token_lengths), 2), dtype=np.uint32)
    if characters == len(text):
        spans[:, 0], spans[:, 1] = starts, ends
        return spans
    # Continuation bytes are 10xxxxxx; the others begin a character.
    begins = (np.frombuffer(text, dtype=np.uint8) & 0xC0) != 0x80
    character = np.cumsum(begins, dtype=np.int64) - 1
    spans[:, 0] = character[starts]
    spans[:, 1] = character[ends - 1] + 1
    return spans


def _is_byte_level(settings: Mapping[str, Any]) -> bool:
    model = settings["model"]
    plain_model = model["type"] == "BPE" and not any(
        model.get(name)
        for name in ("dropout", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
    )
    return plain_model and settings["normalizer"] is None and _splits_bytes(settings["pre_tokenizer"])


def _splits_bytes(step: Mapping[str, Any] | None) -> bool:
    if step is None:
        return False
    if step["type"] == "Sequence":
        steps: Sequence[Mapping[str, Any]] = step["pretokenizers"]
        cuts_only = all(one["type"] in ("Split", "Digits", "Punctuation") for one in steps[:-1])
        return bool(steps) and cuts_only and _splits_bytes(steps[-1])
    return step["type"] == "ByteLevel" and not step["add_prefix_space"]


def _alphabet() -> set[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return set(ByteLevel.alphabet())
