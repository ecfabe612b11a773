"""A trace on a terminal: the whole first, then token by token."""

from rich.console import Group, RenderableType
from rich.text import Text

from prism_lm.attribution.traces import LeadingPrototype, TokenTrace, Trace
from prism_lm.index.terminal import NAME, QUIET, bar, in_context, keep_start, percent, place, words_line
from prism_lm.index.visible import visible, visible_token

_BAR = 10
_LABEL = 17  # "  p4211   +12.34 "


def render_trace(trace: Trace, width: int) -> Group:
    """The whole trace in lines of at most `width` cells."""
    parts: list[RenderableType] = [
        *_sentence(trace),
        Text(),
        *_summary(trace),
        Text(),
        *_leading(trace, width),
    ]
    for token in trace.tokens:
        parts += [Text(), *_token(trace, token, width)]
    return Group(*parts)


def _sentence(trace: Trace) -> list[Text]:
    who = "the model wrote" if trace.written_by_model else "the text given"
    how = (
        f", seed {trace.seed}, temperature {trace.temperature:g}"
        if trace.written_by_model
        else ", teacher-forced"
    )
    text = Text(visible(trace.prompt), style=QUIET).append(visible(trace.output), style="not dim bold")
    return [
        Text(f"{who} in bold{how}", style=QUIET),
        text,
        *(Text(f"note: {note}", style="yellow") for note in trace.notes),
    ]


def _summary(trace: Trace) -> list[Text]:
    what = f"logits over {trace.tokens[0].rival.text!r}" if trace.tokens[0].rival else "logits"
    text = Text(f"{len(trace.tokens)} tokens: ", style="bold")
    share = (
        f" ({percent(trace.by_prototypes / trace.logit)})" if 0 <= trace.by_prototypes <= trace.logit else ""
    )
    text.append(
        f"prototypes {trace.by_prototypes:+.1f}{share}, residual {trace.residual:+.1f}, together {trace.logit:+.1f} {what}",
        style="not bold",
    )
    held = "holds" if trace.adds_up else "FAILS"
    style = QUIET if trace.adds_up else "bold red"
    check = f"sum check {held}: slices and residual give each logit to {trace.largest_error:.1e} (float32 explains "
    return [text, Text(f"{check}{trace.tolerance:.1e})", style=style)]


def _leading(trace: Trace, width: int) -> list[RenderableType]:
    lines: list[RenderableType] = [Text("leading prototypes of the whole output", style="bold")]
    largest = max((abs(one.slice) for one in trace.leading), default=0.0)
    for one in trace.leading:
        line = _label(one.prototype, one.slice).append(bar(one.slice, largest, _BAR))
        line.append(f" {one.tokens:>3} of {len(trace.tokens)} tokens   ", style=QUIET)
        line.append(
            words_line([(word.text, word.logit) for word in one.raised], max(0, width - len(line.plain)))
        )
        lines.append(line)
        for passage in one.neighbours:
            lines.append(Text("    ").append(in_context(passage, width - 4)))
            lines.append(
                Text(
                    " " * 6 + keep_start(place(passage), width - 6),
                    style=QUIET,
                    no_wrap=True,
                    overflow="crop",
                )
            )
    if any(one.neighbours for one in trace.leading):
        lines.append(
            Text(
                "    the passages are neighbours: near the prototype, not yet shown to be its cause",
                style=QUIET,
            )
        )
    return lines


def _token(trace: Trace, token: TokenTrace, width: int) -> list[Text]:
    head = Text(visible_token(token.text), style="bold reverse", no_wrap=True, overflow="ellipsis")
    head.append(
        f"  {percent(token.probability)}, rank {token.rank:,}, logit {token.logit:+.2f}",
        style="not bold not reverse",
    )
    if token.rival is not None:
        rival = f" over {visible_token(token.rival.text)} ({percent(token.rival.probability)}, rank {token.rival.rank:,})"
        head.append(rival, style="not bold not reverse")
    sizes = [*(one.slice for one in token.leading), token.others, token.residual]
    largest = max(map(abs, sizes))
    lines = [head]
    for one in token.leading:
        line = _label(one.prototype, one.slice).append(bar(one.slice, largest, _BAR)).append(" ")
        lines.append(line.append(_behind(trace.behind[one.prototype], width - _LABEL - _BAR - 1)))
    if token.num_others:
        lines.append(_part(f"{token.num_others} others", token.others, largest))
    lines.append(_part("residual", token.residual, largest))
    return lines


def _behind(one: LeadingPrototype, width: int) -> Text:
    if not one.neighbours:
        return words_line([(word.text, word.logit) for word in one.raised], width)
    passage = one.neighbours[0]
    name = keep_start(f" {visible(passage.document_id)}:{passage.start}", width // 3)
    return in_context(passage, width - len(name)).append(name, style=QUIET)


def _label(prototype: int, value: float) -> Text:
    line = Text("  ", no_wrap=True, overflow="crop").append(f"p{prototype:<6}", style=NAME)
    return line.append(f"{value:+8.2f} ")


def _part(name: str, value: float, largest: float) -> Text:
    line = Text("  ", no_wrap=True, overflow="crop").append(f"{name:<10}"[:10], style=QUIET)
    return line.append(f"{value:+5.2f} ").append(bar(value, largest, _BAR))
