"""What a vocabulary entry reads like, including entries that are a piece of a character only."""

import json
import re
from functools import cache
from typing import Any

_BYTE_ENTRY = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenTexts:
    """Token id -> text.

    An entry that is no whole character reads ⟨E2 80⟩: its bytes. An id beyond the tokenizer's vocabulary
    (padding of the embedding) reads ⟨id 50300⟩.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._size = len(tokenizer)
        self._special = set(tokenizer.all_special_ids)
        decoder = json.dumps(json.loads(tokenizer.backend_tokenizer.to_str())["decoder"])
        self._byte_level = '"ByteLevel"' in decoder
        self._known: dict[int, str] = {}

    def __len__(self) -> int:
        return self._size

    def text(self, token: int) -> str:
        """What the entry contributes to a text, its leading space included."""
        if token not in self._known:
            self._known[token] = self._read(token)
        return self._known[token]

    def _read(self, token: int) -> str:
        entry = self._tokenizer.convert_ids_to_tokens(token) if 0 <= token < self._size else None
        if entry is None:
            return f"⟨id {token}⟩"
        if token in self._special:
            return str(entry)
        raw = self._bytes(entry)
        if raw is None:
            return str(entry).replace("▁", " ")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return f"⟨{raw.hex(' ').upper()}⟩"

    def _bytes(self, entry: str) -> bytes | None:
        if single := _BYTE_ENTRY.fullmatch(entry):
            return bytes.fromhex(single[1])
        if not self._byte_level:
            return None
        table = byte_alphabet()
        return bytes(table[c] for c in entry) if all(c in table for c in entry) else None


@cache
def byte_alphabet() -> dict[str, int]:
    """The characters that byte-level BPE writes bytes with: printable ones stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(256 + order): byte for order, byte in enumerate(others)}
