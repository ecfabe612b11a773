"""A trace as self-contained HTML."""

from prism_lm.attribution.traces import LeadingPrototype, SliceOfLogit, TokenTrace, Trace
from prism_lm.index import html
from prism_lm.index.terminal import percent


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
        "<h4>token by token <span class='q'>passages are neighbours: near the prototype, not yet shown to be "
        "its cause</span></h4>",
        *(_token(trace, token) for token in trace.tokens),
    ]
    return html.page("".join(parts))


def _summary(trace: Trace) -> str:
    held = "holds" if trace.adds_up else "<b>FAILS</b>"
    over = "" if trace.versus is None else f" over {html.entry(trace.versus)}"
    return (
        f"<p>{len(trace.tokens)} tokens: prototypes {trace.by_prototypes:+.1f}, residual "
        f"{trace.residual:+.1f}, "
        f"together {trace.logit:+.1f} logits{over}. Sum check {held}: largest error "
        f"{trace.largest_error:.1e}.</p>"
    )


def _leading(trace: Trace) -> str:
    largest = max((abs(one.slice) for one in trace.leading), default=0.0)
    return f"<table>{''.join(_leading_row(trace, one, largest) for one in trace.leading)}</table>"


def _leading_row(trace: Trace, one: LeadingPrototype, largest: float) -> str:
    words = " &nbsp; ".join(html.entry(word.text) for word in one.raised[:8])
    return html.row(
        [
            ("", f"prototype {one.prototype}"),
            ("n", f"{one.slice:+.2f}"),
            ("", html.bar(one.slice, largest)),
            ("q", f"{one.tokens} of {len(trace.tokens)} tokens"),
            ("", "<br>".join([words, *map(html.passage, one.neighbours)])),
        ]
    )


def _token(trace: Trace, token: TokenTrace) -> str:
    rival = ""
    if token.rival is not None:
        rival = f" over {html.entry(token.rival.text)} ({percent(token.rival.probability)})"
    head = (
        f"<summary><mark>{html.entry(token.text)}</mark> {percent(token.probability)}, rank {token.rank:,}, "
        f"logit {token.logit:+.2f}{rival}</summary>"
    )
    largest = token.largest_part
    rows = [_slice_row(trace, one, largest) for one in token.leading]
    others, residual = f"{token.others:+.2f}", f"{token.residual:+.2f}"
    rows.append(html.row([("q", token.named_others), ("n", others), ("", ""), ("", "")]))
    drawn = html.bar(token.residual, largest)
    rows.append(html.row([("q", "residual"), ("n", residual), ("", drawn), ("", "")]))
    return f"<details>{head}<table>{''.join(rows)}</table></details>"


def _slice_row(trace: Trace, one: SliceOfLogit, largest: float) -> str:
    behind = trace.behind[one.prototype].neighbours
    return html.row(
        [
            ("", f"prototype {one.prototype}"),
            ("n", f"{one.slice:+.2f}"),
            ("", html.bar(one.slice, largest)),
            ("", html.passage(behind[0]) if behind else ""),
        ]
    )
