"""How texts and tokens are made visible, and hostile ones harmless."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.artifacts.visible import visible, visible_token


@given(st.text(st.characters(codec=None)))
def test_nothing_unseen_is_left(text: str) -> None:
    shown = visible(text)
    harmless = {"\u200c", "\u200d"}
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert all(
        unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn"} for c in shown if c not in harmless
    )


@pytest.mark.parametrize("text", ["plain", "naïve café", "日本語", "emoji 👩\u200d👧"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_escape_sequences_and_direction_overrides_are_spelled_out() -> None:
    assert visible("a\x1b[0m\u202e\u2028b") == "a␛[0m\\u202e\\u2028b"


def test_spaces_of_tokens() -> None:
    assert visible_token(" the") == "·the"
    assert visible_token("  ") == "··"
    assert visible_token("a b ") == "a b·"
    assert visible_token("\n\n") == "⏎⏎"
