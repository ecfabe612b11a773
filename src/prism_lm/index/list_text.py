"""The leading prototypes as a table on a terminal."""

from typing import Any

from rich.table import Table
from rich.text import Text

from prism_lm.artifacts.units import format_count
from prism_lm.artifacts.visible import visible_token
from prism_lm.index.cards import words_of
from prism_lm.index.prototype_index import PrototypeIndex
from prism_lm.index.terminal import NAME, QUIET, keep_start, percent

_FIXED = 42  # cells of the columns of numbers


def prototype_list(index: PrototypeIndex, rows: list[dict[str, Any]], width: int) -> Table:
    """One line a prototype: how much it does, what it raises, what it fires on."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("prototype", "tokens", "share", "mass", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    room = max(20, width - _FIXED)
    for name in ("raises", "fires on (lift)"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=room // 2)
    for row in rows:
        table.add_row(
            Text(str(row["prototype"]), style=NAME),
            format_count(row["usage"]),
            percent(row["usage_share"]),
            percent(row["mass_share"]),
            f"{row['coverage']:.3f}",
            _raises(row, room // 2),
            _fires(index, row["prototype"]),
        )
    return table


def _raises(row: dict[str, Any], width: int) -> Text:
    shown = "  ".join(visible_token(word.text) for word in words_of(row, "raised")[:6])
    return Text(keep_start(shown, width))


def _fires(index: PrototypeIndex, prototype: int) -> Text:
    line = Text()
    for row in index.rows("triggers", prototype):
        if row["field"] == "current" and row["rank"] < 3:
            line.append(f"{visible_token(row['text'])} ").append(f"{row['lift']:.0f}x  ", style=QUIET)
    return line
