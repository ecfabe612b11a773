"""A trace as self-contained HTML."""

from prism_lm.attribution.traces import LeadingPrototype, TokenTrace, Trace
from prism_lm.index import html
from prism_lm.index.terminal import percent
from prism_lm.index.visible import visible_token


def trace_html(trace: Trace) -> str:
    """What a notebook shows."""
    who = "the model wrote" if trace.written_by_model else "the text given"
    parts = [
        f'<div class="q">{who} in bold</div>',
        f'<div class="t">{html.text(trace.prompt)}<b>{html.text(trace.output)}</b></div>',
        *(f'<div class="q">note: {html.text(note)}</div>' for note in trace.notes),
        _summary(trace),
        "<h4>leading prototypes of the whole output</h4>",
        _leading(trace),
        "<h4>token by token</h4>",
        *(_token(trace, token) for token in trace.tokens),
    ]
    return html.page("".join(parts))


def _summary(trace: Trace) -> str:
    held = "holds" if trace.adds_up else "<b>FAILS</b>"
    return (
        f"<p>{len(trace.tokens)} tokens: prototypes {trace.by_prototypes:+.1f}, residual {trace.residual:+.1f}, together "
        f"{trace.logit:+.1f} logits. Sum check {held}: largest error {trace.largest_error:.1e}.</p>"
    )


def _leading(trace: Trace) -> str:
    largest = max((abs(one.slice) for one in trace.leading), default=0.0)
    rows = []
    for one in trace.leading:
        cells = [
            ("", f"prototype {one.prototype}"),
            ("n", f"{one.slice:+.2f}"),
            ("", html.bar(one.slice, largest)),
            ("q", f"{one.tokens} of {len(trace.tokens)} tokens"),
            ("", _words(one) + "<br>" + "<br>".join(map(html.passage, one.neighbours))),
        ]
        rows.append(html.row(cells))
    return f"<table>{''.join(rows)}</table>"


def _words(one: LeadingPrototype) -> str:
    return " &nbsp; ".join(
        f'<span class="t">{html.text(visible_token(word.text))}</span>' for word in one.raised[:8]
    )


def _token(trace: Trace, token: TokenTrace) -> str:
    rival = ""
    if token.rival is not None:
        rival = f' over <span class="t">{html.text(visible_token(token.rival.text))}</span> ({percent(token.rival.probability)})'
    head = (
        f'<summary><mark class="t">{html.text(visible_token(token.text))}</mark> {percent(token.probability)}, rank '
        f"{token.rank:,}, logit {token.logit:+.2f}{rival}</summary>"
    )
    largest = max(
        abs(value) for value in (*(one.slice for one in token.leading), token.others, token.residual)
    )
    rows = []
    for one in token.leading:
        behind = trace.behind[one.prototype].neighbours
        shown = html.passage(behind[0]) if behind else ""
        cells = [
            ("", f"prototype {one.prototype}"),
            ("n", f"{one.slice:+.2f}"),
            ("", html.bar(one.slice, largest)),
            ("", shown),
        ]
        rows.append(html.row(cells))
    for name, value in ((f"{token.num_others} others", token.others), ("residual", token.residual)):
        rows.append(html.row([("q", name), ("n", f"{value:+.2f}"), ("", html.bar(value, largest)), ("", "")]))
    return f"<details>{head}<table>{''.join(rows)}</table></details>"
