"""A trace on a terminal: the whole first, then token by token."""

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from prism_lm.artifacts.visible import visible, visible_token
from prism_lm.attribution.traces import LeadingPrototype, TokenTrace, Trace
from prism_lm.index.passages import Passage
from prism_lm.index.terminal import (
    NAME,
    QUIET,
    bar,
    in_context,
    keep_end,
    keep_start,
    percent,
    place,
    words_line,
)

_BAR = 10
_ABOUT_PASSAGES = (
    "passages are neighbours: at the ▸token◂ the prototype is active, and helps to predict what follows;",
    "near the prototype, not yet shown to be its cause. The words beside a prototype are those that it",
    "raises more than the bank does on average",
)
_LABEL = 18  # cells of "  p4211    +12.34 "


def render_trace(trace: Trace, width: int) -> Group:
    """The whole trace in lines of at most `width` cells."""
    parts: list[RenderableType] = [*_sentence(trace), Text(), *_summary(trace), Text()]
    parts += _leading(trace, width)
    for token in trace.tokens:
        parts += [Text(), *_token(trace, token, width)]
    return Group(*parts)


def _sentence(trace: Trace) -> list[Text]:
    who = "the text given, ▸marked◂, teacher-forced"
    if trace.written_by_model:
        who = f"the model wrote what is ▸marked◂, seed {trace.seed}, temperature {trace.temperature:g}"
    text = Text(visible(trace.prompt), style=QUIET).append(f"▸{visible(trace.output)}◂", style="not dim bold")
    notes = (Text(f"note: {visible(note)}", style="yellow") for note in trace.notes)
    return [Text(who, style=QUIET), text, *notes]


def _summary(trace: Trace) -> list[Text]:
    what = "logits" if trace.versus is None else f"logits over {visible_token(trace.versus)}"
    share = ""
    if trace.logit > 0 and trace.by_prototypes >= 0:
        share = f" ({percent(trace.by_prototypes / trace.logit)})"
    count = f"{len(trace.tokens)} token{'s' if len(trace.tokens) > 1 else ''}: "
    line = Text(count, style="bold").append(
        f"prototypes {trace.by_prototypes:+.1f}{share}, residual {trace.residual:+.1f}, "
        f"together {trace.logit:+.1f} {what}",
        style="not bold",
    )
    held = "holds" if trace.adds_up else "FAILS"
    check = (
        f"sum check {held}: slices and residual give each logit to {trace.largest_error:.1e} "
        f"(float32 explains {trace.tolerance:.1e})"
    )
    return [line, Text(check, style=QUIET if trace.adds_up else "bold red")]


def _leading(trace: Trace, width: int) -> list[RenderableType]:
    lines: list[RenderableType] = [Text("leading prototypes of the whole output", style="bold")]
    largest = max((abs(one.slice) for one in trace.leading), default=0.0)
    for one in trace.leading:
        line = _label(one.prototype, one.slice).append(bar(one.slice, largest, _BAR))
        line.append(f" {one.tokens:>3} of {len(trace.tokens)} tokens   ", style=QUIET)
        words = [(word.text, word.logit) for word in one.raised]
        lines.append(line.append(words_line(words, max(0, width - cell_len(line.plain)))))
        lines += [each for passage in one.neighbours for each in _passage(passage, width)]
    if any(one.neighbours for one in trace.leading):
        lines += [Text(f"    {note}", style=QUIET) for note in _ABOUT_PASSAGES]
    return lines


def _passage(passage: Passage, width: int) -> list[Text]:
    where = keep_start(place(passage), width - 6)
    return [
        Text("    ", no_wrap=True, overflow="crop").append(in_context(passage, width - 4)),
        Text(" " * 6 + where, style=QUIET, no_wrap=True, overflow="crop"),
    ]


def _token(trace: Trace, token: TokenTrace, width: int) -> list[Text]:
    largest = token.largest_part
    lines = [_head(token)]
    behind = [trace.behind[one.prototype] for one in token.leading]
    names = max((cell_len(_name(one)) for one in behind), default=0)
    for one, prototype in zip(token.leading, behind, strict=True):
        line = _label(one.prototype, one.slice).append(bar(one.slice, largest, _BAR)).append(" ")
        lines.append(line.append(_behind(prototype, width - _LABEL - _BAR - 1, names)))
    if token.num_others:
        lines.append(_part(token.named_others, token.others))
    lines.append(_part("residual", token.residual).append(bar(token.residual, largest, _BAR)))
    return lines


def _head(token: TokenTrace) -> Text:
    head = Text(no_wrap=True, overflow="ellipsis").append(visible_token(token.text), style="bold reverse")
    head.append(f"  {percent(token.probability)}, rank {token.rank:,}, logit {token.logit:+.2f}")
    if token.rival is not None:
        head.append(f" over {visible_token(token.rival.text)} ({percent(token.rival.probability)}, ")
        head.append(f"rank {token.rival.rank:,})")
    return head


def _name(one: LeadingPrototype) -> str:
    """Document and character of the nearest passage."""
    return "".join(f"{visible(passage.document_id)}:{passage.start}" for passage in one.neighbours[:1])


def _behind(one: LeadingPrototype, width: int, name_cells: int) -> Text:
    """The nearest passage and where it stands; without an index, the words that the prototype raises."""
    if not one.neighbours:
        return words_line([(word.text, word.logit) for word in one.raised], width)
    room = min(name_cells, width // 3)
    line = in_context(one.neighbours[0], width - room - 2)
    gap = " " * (width - room - cell_len(line.plain))
    return line.append(gap + keep_end(_name(one), room), style=QUIET)


def _label(prototype: int, value: float) -> Text:
    line = Text("  ", no_wrap=True, overflow="crop").append(f"p{prototype:<6}", style=NAME)
    return line.append(f"{value:+8.2f} ")


def _part(name: str, value: float) -> Text:
    line = Text("  ", no_wrap=True, overflow="crop").append(f"{name:<9}", style=QUIET)
    return line.append(f"{value:+6.2f} ")
