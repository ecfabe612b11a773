"""Pieces of self-contained HTML for notebooks and files: every text escaped, no script, nothing requested."""

from html import escape

from prism_lm.artifacts.visible import visible, visible_token
from prism_lm.index.passages import Passage
from prism_lm.index.terminal import END_OF_DOCUMENT, place

# Scoped under .prism, and readable on light and dark pages alike.
STYLE = """<style>
.prism{font:14px/1.45 system-ui,sans-serif;max-width:70em}
.prism table{border-collapse:collapse;margin:.4em 0}
.prism td,.prism th{padding:.15em .7em .15em 0;text-align:left;vertical-align:top;border:0;background:none}
.prism .n{text-align:right;font-variant-numeric:tabular-nums}
.prism .q{opacity:.65;font-size:90%}
.prism .t{font-family:ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.prism mark{background:#ffd54a;color:#000;padding:0 .1em;border-radius:2px}
.prism h3,.prism h4{margin:.8em 0 .2em}
.prism .b{display:inline-block;height:.7em;border-radius:2px}
</style>"""


def text(value: object) -> str:
    """Any value as safe text: control characters spelled out, then escaped."""
    return escape(visible(str(value)))


def entry(text_of_token: str) -> str:
    """A vocabulary entry, its spaces shown."""
    return f'<span class="t">{text(visible_token(text_of_token))}</span>'


def page(body: str) -> str:
    """A fragment with its style, as notebooks take it."""
    return f'{STYLE}<div class="prism">{body}</div>'


def document(title: str, body: str) -> str:
    """A whole file that opens from disk."""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{text(title)}</title>'
    return f"{head}<body>{page(body)}</body></html>\n"


def row(cells: list[tuple[str, str]], *, tag: str = "td") -> str:
    """A table row of (class, ready HTML) cells."""
    return "<tr>" + "".join(f'<{tag} class="{kind}">{content}</{tag}>' for kind, content in cells) + "</tr>"


def passage(shown: Passage) -> str:
    """A passage in context with its token marked, and where it stands."""
    token = END_OF_DOCUMENT if shown.is_separator else shown.token
    context = f"{text(shown.before)}<mark>{text(token)}</mark>{text(shown.after)}"
    return f'<span class="t">{context}</span><br><span class="q">{text(place(shown))}</span>'


def bar(value: float, largest: float) -> str:
    """A bar whose length is the share of the largest value, green above zero and red below."""
    width = 0.0 if largest <= 0 else 8 * min(1.0, abs(value) / largest)
    colour = "#2e9e5b" if value >= 0 else "#d1495b"
    return f'<span class="b" style="width:{width:.2f}em;background:{colour}"></span>'
