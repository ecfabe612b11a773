"""The tokens of whole words, looked up: the same as the tokenizer's, several times faster.

A GPT-2 style tokenizer cuts a text by a regular expression and then each part into tokens by itself. The
expression always cuts before a blank that follows a visible character, and where blanks end in anything but
a space. So a text falls into words (a space and what follows up to the next blank) and runs of blanks, whose
tokens do not depend on what stands around them, and need to be found only once.
"""

import json
import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_WORDS = 2**18  # some 50 MB
LONGEST_KEPT = 64  # characters; longer ones are keys or lack blanks, and do not come again
# Unicode's White_Space, spelled out: Python's \s has four control characters more.
_BLANK = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WORD = re.compile(f" ?[^{_BLANK}]+|[{_BLANK}]+(?![^{_BLANK}])|[{_BLANK}]+")


def cuts_like_gpt2(backend: "Tokenizer") -> bool:
    """Whether a byte-level tokenizer cuts by the expression of GPT-2, and by no entry before it."""
    settings = json.loads(backend.to_str())
    step = settings["pre_tokenizer"]
    all_special = all(entry["special"] for entry in settings["added_tokens"])
    return step["type"] == "ByteLevel" and step["use_regex"] and not step["add_prefix_space"] and all_special


class WordCache:
    """Word -> the bytes of its token ids as uint32. When it is full, the words of the latest batch stay."""

    def __init__(self, backend: "Tokenizer") -> None:
        self._backend = backend
        self._known: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._known)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.uint32]]:
        """The token ids of each text. Words that are not known are tokenised together, on all cores."""
        words = list(map(_WORD.findall, texts))
        distinct = set[str]().union(*words)
        missing = distinct.difference(self._known)
        if len(self._known) + len(missing) > MAX_WORDS:
            self._known = {word: self._known[word] for word in distinct.difference(missing)}
        self._learn(list(missing))
        look_up = self._known.__getitem__
        found = [np.frombuffer(b"".join(map(look_up, each)), dtype=np.uint32) for each in words]
        for word in missing:
            if len(word) > LONGEST_KEPT:
                del self._known[word]
        return found

    def _learn(self, words: list[str]) -> None:
        encodings = self._backend.encode_batch_fast(words, add_special_tokens=False)
        for word, encoding in zip(words, encodings, strict=True):
            self._known[word] = array("I", encoding.ids).tobytes()
