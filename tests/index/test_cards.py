"""A card, its list, and how both are shown."""

import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from small_run import NUM_PROTOTYPES

from prism_lm.artifacts.errors import UserError
from prism_lm.index import PrototypeCard, PrototypeIndex, card
from prism_lm.index.terminal import keep_end, keep_start, percent


@pytest.fixture(scope="module")
def cards(index: PrototypeIndex) -> list[PrototypeCard]:
    return [index.card(prototype) for prototype in range(NUM_PROTOTYPES)]


def test_a_card_says_what_the_tables_say(
    index: PrototypeIndex, cards: list[PrototypeCard], run: Path
) -> None:
    table = index.table("prototypes").to_pylist()
    for row, found in zip(table, cards, strict=True):
        assert (found.usage, found.mass, found.coverage) == (row["usage"], row["mass"], row["coverage"])
        assert [word.text for word in found.raised] == row["raised_words"]
        assert [word.logit for word in found.lowered] == row["lowered_logits"]
        assert len(found.neighbours) + len(found.bands) == len(index.rows("examples", found.prototype))
        assert list(found.neighbours) == index.neighbours(found.prototype)
    assert sorted(found.mass_rank for found in cards) == list(range(1, NUM_PROTOTYPES + 1))
    assert max(cards, key=lambda found: found.mass).mass_rank == 1
    assert card(run, 5) == cards[5]


def test_leading_prototypes(index: PrototypeIndex) -> None:
    table = index.table("prototypes").to_pylist()
    for by in ("mass", "usage", "coverage"):
        found = index.leading(by=by, limit=7)  # type: ignore[arg-type]
        expected = sorted(table, key=lambda row: (-row[by], row["prototype"]))[:7]
        assert [row["prototype"] for row in found] == [row["prototype"] for row in expected]
    with pytest.raises(UserError, match="mass, usage, coverage"):
        index.leading(by="name")  # type: ignore[arg-type]


@pytest.mark.parametrize("prototype", [-1, NUM_PROTOTYPES])
def test_a_prototype_that_does_not_exist(index: PrototypeIndex, prototype: int) -> None:
    with pytest.raises(UserError, match=f"expected 0 to {NUM_PROTOTYPES - 1}"):
        index.card(prototype)


def test_plain_values(cards: list[PrototypeCard]) -> None:
    for found in cards:
        plain = json.loads(json.dumps(found.to_dict()))
        assert plain["prototype"] == found.prototype
        assert len(plain["neighbours"]) == len(found.neighbours)


def test_frames(index: PrototypeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    assert index.to_frame().num_rows == NUM_PROTOTYPES


@pytest.mark.parametrize("width", [50, 80, 160])
def test_no_line_is_wider_than_the_terminal_and_nothing_drives_it(
    cards: list[PrototypeCard], width: int
) -> None:
    for found in cards:
        text = found.text(width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert "\x1b" not in text


def test_text_is_shown_as_it_is(cards: list[PrototypeCard]) -> None:
    everything = "".join(found.text(200) for found in cards)
    for expected in ("[bold]nobody[/bold]", "<b>it</b>", "日本語", "🙂", "␛[31mred", "▸", "neighbours"):
        assert expected in everything


def test_html_is_escaped_and_asks_for_nothing(cards: list[PrototypeCard]) -> None:
    everything = "".join(found._repr_html_() for found in cards)
    assert "&lt;b&gt;it&lt;/b&gt;" in everything
    for forbidden in ("<b>it", "\x1b", "<script", "http:", "https:", " src=", "url("):
        assert forbidden not in everything


def test_a_source_that_spells_markup(cards: list[PrototypeCard]) -> None:
    assert {trigger.text for found in cards for trigger in found.triggers["source"]} >= {"copies", "source-0"}


@pytest.mark.parametrize(
    ("text", "width", "start", "end"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdef", 4, "abc…", "…def"),
        ("日本語", 5, "日本…", "…本語"),
        ("ab", 0, "", ""),
    ],
)
def test_fitting(text: str, width: int, start: str, end: str) -> None:
    assert keep_start(text, width) == start
    assert keep_end(text, width) == end


def test_percent() -> None:
    shares = (0.0, 0.00001, 0.0004, 0.012, 0.3, 1.0)
    assert [percent(share) for share in shares] == ["0 %", "<0.01 %", "0.04 %", "1.2 %", "30 %", "100 %"]
