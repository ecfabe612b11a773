"""Pieces that cards and traces put on a terminal. Text is never read as markup, and never drives the
terminal."""

import io
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from prism_lm.artifacts.visible import visible, visible_token
from prism_lm.index.passages import Passage

HIGHLIGHT = "bold reverse"
QUIET = "dim"
NAME = "bold cyan"
POSITIVE, NEGATIVE = "green", "red"
END_OF_DOCUMENT = "⟨end of document⟩"


def plain_text(renderable: RenderableType, width: int) -> str:
    """What a terminal of this width would show, without colours."""
    console = Console(
        file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False, emoji=False
    )
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def keep_end(text: str, width: int) -> str:
    """The end of a text that fits in `width` cells, with … where something was left out."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for character in reversed(text):
        if cell_len(character + kept) > width - 1:
            break
        kept = character + kept
    return "…" + kept if width > 0 else ""


def keep_start(text: str, width: int) -> str:
    """The start of a text that fits in `width` cells, with … where something was left out."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for character in text:
        if cell_len(kept + character) > width - 1:
            break
        kept += character
    return kept + "…" if width > 0 else ""


def in_context(passage: Passage, width: int, *, aligned: bool = True) -> Text:
    """A passage in one line of `width` cells with its token highlighted; `aligned`: tokens stand below
    each other."""
    token = END_OF_DOCUMENT if passage.is_separator else visible(passage.token)
    token = f"▸{keep_start(token, max(1, width // 2))}◂"
    room = max(0, width - cell_len(token))
    before = keep_end(visible(passage.before), room * 3 // 5)
    after = keep_start(visible(passage.after), room - (room * 3 // 5 if aligned else cell_len(before)))
    pad = " " * (room * 3 // 5 - cell_len(before)) if aligned else ""
    line = Text(no_wrap=True, overflow="crop")
    return line.append(pad + before).append(token, style=HIGHLIGHT).append(after)


def place(passage: Passage) -> str:
    """Where a passage stands: document, characters, and what is known of its origin."""
    parts = [passage.document_id, f"characters {passage.start:,}-{passage.end:,}"]
    parts += [
        part for part in (passage.source, passage.title, passage.url) if part and part != passage.document_id
    ]
    return visible(" · ".join(parts))


def words_line(words: Iterable[tuple[str, float]], width: int) -> Text:
    """Vocabulary entries with their logits, as many as fit in `width` cells."""
    line = Text(no_wrap=True, overflow="crop")
    for text, logit in words:
        piece = f"{visible_token(text)} "
        value = f"{logit:+.2f}   "
        if cell_len(line.plain) + cell_len(piece) + len(value) - 3 > width:
            break
        line.append(piece, style="bold").append(value, style=QUIET)
    return line


def bar(value: float, largest: float, cells: int) -> Text:
    """A bar of up to `cells` cells, in eighths, coloured by sign."""
    eighths = 0 if largest <= 0 else round(min(1.0, abs(value) / largest) * cells * 8)
    drawn = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
    return Text(drawn.ljust(cells), style=POSITIVE if value >= 0 else NEGATIVE)


def percent(share: float) -> str:
    """A share as a person reads it: three digits, never rounded to nothing."""
    value = 100 * share
    if value == 0:
        return "0 %"
    if value < 0.01:
        return "<0.01 %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"
