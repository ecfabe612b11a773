"""A prototype's card as self-contained HTML."""

from collections.abc import Iterable

from prism_lm.index import html
from prism_lm.index.cards import PrototypeCard, Trigger, Word
from prism_lm.index.passages import Passage
from prism_lm.index.terminal import percent

_TRIGGER_TITLES = [("", "fires on"), ("", ""), ("n", "of its tokens"), ("n", "of the corpus"), ("n", "lift")]


def card_html(card: PrototypeCard) -> str:
    """What a notebook shows."""
    known = "" if card.is_of_training_corpus else " that the model was not trained on"
    parts = [
        f"<h3>prototype {card.prototype} <span class='q'>of {card.num_prototypes:,} in "
        f"{html.text(card.run)}</span></h3>",
        f"<div>active on {card.usage:,} tokens ({percent(card.usage_share)}), with "
        f"{percent(card.mass_share)} "
        f"of all activation (rank {card.mass_rank:,}); largest cosine {card.coverage:.3f}</div>",
        f"<table>{_words('raises', card.raised)}{_words('lowers', card.lowered)}</table>",
        _triggers(card),
        f"<h4>neighbours <span class='q'>the nearest passages of the corpus{known}, one a "
        f"document</span></h4>",
        _passages(card.neighbours),
    ]
    if card.bands:
        title = "across its activations <span class='q'>drawn by lot from equal bands, strongest first</span>"
        parts += [f"<h4>{title}</h4>", _passages(card.bands)]
    return html.page("".join(parts))


def _words(name: str, words: Iterable[Word]) -> str:
    shown = (f'{html.entry(word.text)} <span class="q">{word.logit:+.2f}</span>' for word in words)
    return html.row([("q", name), ("", " &nbsp; ".join(shown))])


def _triggers(card: PrototypeCard) -> str:
    rows = [_trigger(field, trigger) for field, triggers in card.triggers.items() for trigger in triggers]
    return f"<table>{html.row(_TRIGGER_TITLES, tag='th')}{''.join(rows)}</table>" if rows else ""


def _trigger(field: str, trigger: Trigger) -> str:
    bound = "≥ " if trigger.undercount else ""
    return html.row(
        [
            ("q", field),
            ("", html.entry(trigger.text)),
            ("n", bound + percent(trigger.share)),
            ("n", percent(trigger.corpus_share)),
            ("n", f"{trigger.lift:,.1f}x"),
        ]
    )


def _passages(passages: Iterable[Passage]) -> str:
    rows = (html.row([("n", f"{shown.activation:.3f}"), ("", html.passage(shown))]) for shown in passages)
    return f"<table>{''.join(rows)}</table>"
