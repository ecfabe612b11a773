"""A prototype's card as self-contained HTML."""

from collections.abc import Iterable

from prism_lm.index import html
from prism_lm.index.cards import PrototypeCard, Word
from prism_lm.index.passages import Passage
from prism_lm.index.terminal import percent
from prism_lm.index.visible import visible_token


def card_html(card: PrototypeCard) -> str:
    """What a notebook shows."""
    where = (
        "of the training corpus"
        if card.is_of_training_corpus
        else "of a corpus that the model was not trained on"
    )
    parts = [
        f"<h3>prototype {card.prototype} <span class='q'>of {card.num_prototypes:,} in {html.text(card.run)}</span></h3>",
        f"<div>active on {card.usage:,} tokens ({percent(card.usage_share)}), with {percent(card.mass_share)} of all "
        f"activation (rank {card.mass_rank:,}); largest cosine {card.coverage:.3f}</div>",
        f"<table>{_words('raises', card.raised)}{_words('lowers', card.lowered)}</table>",
        _triggers(card),
        f"<h4>neighbours <span class='q'>the nearest passages {where}, one a document</span></h4>",
        _passages(card.neighbours),
    ]
    if card.bands:
        parts += [
            "<h4>across its activations <span class='q'>strongest band first</span></h4>",
            _passages(card.bands),
        ]
    return html.page("".join(parts))


def _words(name: str, words: Iterable[Word]) -> str:
    shown = " &nbsp; ".join(
        f'<span class="t">{html.text(visible_token(word.text))}</span> <span class="q">{word.logit:+.2f}</span>'
        for word in words
    )
    return html.row([("q", name), ("", shown)])


def _triggers(card: PrototypeCard) -> str:
    rows = [
        html.row(
            [("", "fires on"), ("", ""), ("n", "of its tokens"), ("n", "of the corpus"), ("n", "lift")],
            tag="th",
        )
    ]
    for field, triggers in card.triggers.items():
        for trigger in triggers:
            bound = "≥ " if trigger.undercount else ""
            cells = [
                ("q", field),
                ("t", html.text(visible_token(trigger.text))),
                ("n", bound + percent(trigger.share)),
                ("n", percent(trigger.corpus_share)),
                ("n", f"{trigger.lift:,.1f}x"),
            ]
            rows.append(html.row(cells))
    return f"<table>{''.join(rows)}</table>" if len(rows) > 1 else ""


def _passages(passages: Iterable[Passage]) -> str:
    rows = [html.row([("n", f"{shown.activation:.3f}"), ("", html.passage(shown))]) for shown in passages]
    return f"<table>{''.join(rows)}</table>"
