"""A prototype's card on a terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prism_lm.artifacts.units import format_count
from prism_lm.artifacts.visible import visible, visible_token
from prism_lm.index.cards import PrototypeCard, Trigger
from prism_lm.index.passages import Passage
from prism_lm.index.terminal import NAME, QUIET, in_context, keep_start, percent, place, words_line

_FIELD_TITLES = {"current": "on the token", "next": "before the token", "source": "in the source"}


def render_card(card: PrototypeCard, width: int, neighbours: int | None = None) -> Group:
    """The card in lines of at most `width` cells."""
    parts: list[RenderableType] = [_head(card), Text(), *_signature(card, width)]
    if card.usage:
        parts += [Text(), _triggers(card, width)]
    parts += [Text(), *_neighbours(card, width, neighbours)]
    if card.bands:
        parts += [Text(), *_bands(card, width)]
    return Group(*parts)


def _head(card: PrototypeCard) -> Text:
    text = Text().append(f"prototype {card.prototype}", style=NAME)
    text.append(f" of {card.num_prototypes:,} in {visible(card.run)}\n")
    if not card.is_of_training_corpus:
        text.append(f"read in {visible(card.corpus)}, which the model was not trained on\n", style="yellow")
    if not card.usage:
        cosine = f"the largest cosine with any token of the corpus is {card.coverage:.3f}"
        return text.append(f"never active; {cosine}")
    text.append(
        f"active on {format_count(card.usage)} tokens ({percent(card.usage_share)}), with "
        f"{percent(card.mass_share)} of all activation: rank {card.mass_rank:,} of {card.num_prototypes:,}\n"
    )
    levels = card.activation_quantiles
    spread = f"usually {levels['0.1']:.3f} to {levels['0.9']:.3f}, median {levels['0.5']:.3f}"
    return text.append(f"activation at most {card.coverage:.3f}, {spread}")


def _signature(card: PrototypeCard, width: int) -> list[RenderableType]:
    label = 9
    lines: list[RenderableType] = []
    for name, words in (("raises", card.raised), ("lowers", card.lowered)):
        line = Text(name.ljust(label), style="bold", no_wrap=True, overflow="crop")
        lines.append(line.append(words_line([(word.text, word.logit) for word in words], width - label)))
    lines.append(
        Text(" " * label + "logits for each unit of activation, less the bank's average", style=QUIET)
    )
    return lines


def _triggers(card: PrototypeCard, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("fires", style=QUIET)
    table.add_column("", overflow="ellipsis", no_wrap=True, max_width=max(12, width // 3))
    for name in ("of its tokens", "of the corpus", "lift"):
        table.add_column(name, justify="right")
    for field, triggers in card.triggers.items():
        for order, trigger in enumerate(triggers):
            title = _FIELD_TITLES[field] if order == 0 else ""
            shown = visible_token(trigger.text) if field != "source" else visible(trigger.text)
            table.add_row(
                title, Text(shown), _share(trigger), percent(trigger.corpus_share), _lift(trigger.lift)
            )
    return table


def _share(trigger: Trigger) -> str:
    return percent(trigger.share) if trigger.undercount == 0 else f"≥ {percent(trigger.share)}"


def _lift(lift: float) -> Text:
    shown = f"{lift:,.0f}x" if lift >= 10 else f"{lift:.1f}x"
    return Text(shown, style="bold green" if lift >= 10 else "")


def _neighbours(card: PrototypeCard, width: int, number: int | None) -> list[RenderableType]:
    note = "  the nearest passages, one a document; active at the ▸token◂; not yet shown to be its cause"
    title = Text("neighbours", style="bold").append(note, style=QUIET)
    if not card.usage:
        title = Text("nearest token", style="bold").append(
            "  though the prototype is not active on it", style=QUIET
        )
    return [title, *(line for passage in card.neighbours[:number] for line in _passage(passage, width))]


def _bands(card: PrototypeCard, width: int) -> list[RenderableType]:
    bands = 1 + max(passage.band or 0 for passage in card.bands)
    title = Text("across its activations", style="bold").append(
        f"  drawn by lot from {bands} equal bands, strongest first", style=QUIET
    )
    return [title, *(line for passage in card.bands for line in _passage(passage, width))]


def _passage(passage: Passage, width: int) -> list[Text]:
    label = f"{passage.activation:6.3f}  "
    first = Text(label, style=NAME, no_wrap=True, overflow="crop").append(
        in_context(passage, width - len(label))
    )
    second = " " * len(label) + keep_start(place(passage) + _repeats(passage), width - len(label))
    return [first, Text(second, style=QUIET, no_wrap=True, overflow="crop")]


def _repeats(passage: Passage) -> str:
    notes = ""
    if passage.copies is not None and passage.copies > 1:
        notes += f" · the same in {passage.copies - 1:,} other documents"
    if passage.firings_in_document is not None and passage.firings_in_document > 1:
        notes += f" · active {passage.firings_in_document:,} times in it"
    return notes
