"""What `prism quickstart` shows: a sentence, what made it, and the sentence without its leading prototype."""

import difflib
from pathlib import Path

from rich.table import Table
from rich.text import Text

from prism_lm.artifacts.errors import GateFailed
from prism_lm.artifacts.visible import visible
from prism_lm.attribution.apart import TakenApart
from prism_lm.attribution.tracing import Tracer
from prism_lm.cli import console
from prism_lm.cli.sentence import (
    TEMPERATURE,
    Change,
    Reach,
    Word,
    Writer,
    first_change,
    leaders,
    reach,
    words,
)
from prism_lm.index.cards import words_of
from prism_lm.index.prototype_index import PrototypeIndex
from prism_lm.index.terminal import NAME, QUIET, in_context, keep_start, percent, place, words_line

SHOWN_WORDS = 14
SHOWN_PROTOTYPES = 3
SHOWN_PASSAGES = 2
OPENING, CLOSING = "\u2039", "\u203a"  # around a word that differs
SPEAKERS = 3  # prototypes named in the row of a word


def tell(run: Path, corpus: Path, *, prompt: str, seed: int) -> None:
    """Writes, traces, switches off, compares, and says what to try next."""
    tracer = Tracer.open(run, corpus=corpus)
    assert tracer.index is not None
    writer = Writer(tracer=tracer, prompt=prompt, seed=seed)
    before = writer.sentence()
    apart = writer.apart(before)
    ranked = leaders(apart)
    change = first_change(writer, before, ranked)
    text = tracer.encoder.decode(before)

    _heading("A sentence that it wrote")
    console.show(Text("  ").append(visible(prompt), style=QUIET).append(visible(text.rstrip()), style="bold"))
    _heading("What made each word", "logits, centred over the vocabulary; a row adds up")
    console.show(_table(apart))
    _heading(
        "What those prototypes stand for", "the nearest passages of the training text, with file and offset"
    )
    named = ranked[:SHOWN_PROTOTYPES]
    if change is not None and len(change.prototypes) == 1 and change.prototypes[0] not in named:
        named = [*named, *change.prototypes]
    for prototype in named:
        _show_prototype(tracer.index, apart, prototype)
    _show_change(writer, before, apart, ranked, change)
    _heading("Next")
    for command in _next(run, writer, len(before), ranked, change):
        console.show_command(command)


def _heading(title: str, remark: str = "") -> None:
    console.show()
    console.show(Text(title, style="bold underline").append(f"  {remark}" if remark else "", style=QUIET))


def _table(apart: TakenApart) -> Table:
    columns = ("  word", ">likely", "prototypes for it, against it", ">others", ">residual", ">sum")
    shown = words(apart)
    rows = [_row(word) for word in shown[:SHOWN_WORDS]]
    if len(shown) > SHOWN_WORDS:
        rows.append((f"  … and {len(shown) - SHOWN_WORDS} more", "", Text(), "", "", ""))
    return console.table(columns, rows)


def _row(word: Word) -> tuple[str, str, Text, str, str, str]:
    loudest = sorted(word.slices, key=lambda prototype: (-abs(word.slices[prototype]), prototype))[:SPEAKERS]
    speakers = Text()
    for prototype in loudest:
        speakers.append(f"p{prototype}", style=NAME).append(f" {word.slices[prototype]:+.1f}".ljust(7))
    others = sum(value for prototype, value in word.slices.items() if prototype not in loudest)
    return (
        f"  {visible(word.text.strip(' '))}",
        percent(word.probability),
        speakers,
        f"{others:+.1f}",
        f"{word.residual:+.1f}",
        f"{word.logit:+.1f}",
    )


def _show_prototype(index: PrototypeIndex, apart: TakenApart, prototype: int) -> None:
    width = console.stdout().width
    (row,) = index.rows("prototypes", prototype)
    line = Text("  ", no_wrap=True, overflow="crop").append(f"p{prototype}", style=NAME)
    line.append(f"  {apart.totals[prototype]:+.1f} in the sentence, raises  ", style=QUIET)
    raised = [(word.text, word.logit) for word in words_of(row, "raised")]
    console.show(line.append(words_line(raised, max(0, width - len(line.plain)))))
    for passage in index.neighbours(prototype, SHOWN_PASSAGES):
        console.show(Text("      ").append(in_context(passage, width - 6, aligned=False)))
        console.show(Text("        ").append(keep_start(place(passage), width - 8), style=QUIET))


def _show_change(
    writer: Writer, before: list[int], apart: TakenApart, ranked: list[int], change: Change | None
) -> None:
    if change is None:
        _heading("The same seed, with prototypes switched off")
        _say("It writes the same even without all of those that speak for this sentence.")
        return
    names = ", ".join(f"p{prototype}" for prototype in change.prototypes)
    _heading(f"The same seed, with {names} switched off")
    _say(_why(change, apart))
    texts = [writer.tracer.encoder.decode(ids).rstrip() for ids in (before, change.after)]
    for name, line in zip(("with", "without"), marked(*texts), strict=True):
        _labelled(name, Text(visible(writer.prompt), style=QUIET).append(line))
    for line in _what_it_did(names, reach(writer, before, change.prototypes)):
        _say(line)


def _say(text: str) -> None:
    """A paragraph, indented."""
    for line in Text(text, style=QUIET).wrap(console.stdout(), console.stdout().width - 2):
        console.show(Text("  ").append(line))


def _labelled(name: str, text: Text) -> None:
    """A text beside its name, its further lines below its first."""
    for number, line in enumerate(text.wrap(console.stdout(), console.stdout().width - 11)):
        console.show(Text(f"  {name if number == 0 else '':<9}").append(line))


def _why(change: Change, apart: TakenApart) -> str:
    if len(change.prototypes) > 1:
        return (
            f"No prototype alone changes the text, of the {change.rank - 1} with the largest say in it. "
            f"The first {len(change.prototypes)} together do."
        )
    total = f"{apart.totals[change.prototypes[0]]:+.1f}"
    if change.rank == 1:
        return f"The prototype with the largest say in the sentence: its slices add up to {total}."
    before = "the one before it" if change.rank == 2 else f"any one of the {change.rank - 1} before it"
    return (
        f"Number {change.rank} by its say in the sentence (its slices add up to {total}), and the first that "
        f"changes the text: without {before}, it stays."
    )


def _what_it_did(names: str, reached: Reach) -> list[str]:
    if not reached.elsewhere_equal:
        raise GateFailed(f"switching {names} off changed tokens at which it is not active: this is a bug")
    others = reached.tokens - reached.touched
    equal = f"At the other {others} tokens the prediction is the same, bit for bit. " if others else ""
    return [
        f"Along the first text it is active at {reached.touched} of {reached.tokens} tokens. There "
        f"{reached.mass_removed:.2f} of activation is gone, and the prediction moves by up to "
        f"{reached.largest_divergence:.2g} nats.",
        f"{equal}What comes after the first other word follows from that word.",
    ]


def marked(before: str, after: str) -> tuple[Text, Text]:
    """Both texts, the words that differ between ‹ and ›."""
    pieces = [text.split(" ") for text in (before, after)]
    same = difflib.SequenceMatcher(a=pieces[0], b=pieces[1], autojunk=False).get_matching_blocks()
    kept_before = {block.a + step for block in same for step in range(block.size)}
    kept_after = {block.b + step for block in same for step in range(block.size)}
    return _mark(pieces[0], kept_before, "bold red"), _mark(pieces[1], kept_after, "bold green")


def _mark(pieces: list[str], kept: set[int], style: str) -> Text:
    text = Text()
    for place_, piece in enumerate(pieces):
        text.append(" " if place_ else "")
        if place_ in kept or not piece:
            text.append(visible(piece))
        else:
            text.append(OPENING + visible(piece) + CLOSING, style=style)
    return text


def _next(
    run: Path, writer: Writer, tokens: int, ranked: list[int], change: Change | None
) -> list[list[str]]:
    prototype = change.prototypes[0] if change is not None else ranked[0]
    return [
        ["prism", "show", str(run), str(prototype)],
        ["prism", "trace", str(run), "--prompt", writer.prompt, *_again(writer, tokens)],
        ["prism", "trace", str(run), "--prompt", "Raises", "--html", "trace.html"],
        ["prism", "prepare", "YOUR_TEXT", "--out", "corpus", "--held-out", "0.05"],
        [
            "prism",
            "train",
            "quickstart",
            "--corpus",
            "corpus",
            "--held-out",
            "corpus-heldout",
            "--out",
            "run",
        ],
    ]


def _again(writer: Writer, tokens: int) -> list[str]:
    """The options with which `prism trace` writes this very sentence."""
    return ["--seed", str(writer.seed), "--temperature", str(TEMPERATURE), "--tokens", str(tokens)]
