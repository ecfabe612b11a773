"""Text of documents as it is safe and useful to show: nothing in it drives a terminal, and white space can
be seen."""

import unicodedata

_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛"}
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_JOINERS = {"\u200c", "\u200d"}  # part of how many scripts and emoji are written, and harmless


def visible(text: str) -> str:
    """The text in one line: line ends and tabs as signs, every other unseen character spelled out as
    \\uXXXX."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def visible_token(text: str) -> str:
    """A token, whose leading and trailing spaces matter: they are shown as `·`."""
    shown = visible(text)
    core = shown.strip(" ")
    if not core:
        return "·" * len(shown)
    lead = len(shown) - len(shown.lstrip(" "))
    return "·" * lead + core + "·" * (len(shown) - lead - len(core))


def _visible_character(character: str) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    if character not in _JOINERS and unicodedata.category(character) in _UNSEEN:
        code = ord(character)
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character
