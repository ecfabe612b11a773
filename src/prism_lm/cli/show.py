"""`prism show`: the card of one prototype, or the list of the leading ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from prism_lm.artifacts.errors import UserError
from prism_lm.cli import console

if TYPE_CHECKING:
    from prism_lm.index.prototype_index import PrototypeIndex


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What one prototype raises, what sets it off, and the passages it stands for; without a number, a
    list."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run with an index."""
    prototype: Annotated[int | None, tyro.conf.Positional] = None
    """The prototype's id; leave it out to list the leading prototypes."""
    sort: Literal["mass", "usage", "coverage"] = "mass"
    """What the list is sorted by."""
    limit: int | None = None
    """Prototypes in the list (default 20), or neighbours on the card (default 6)."""
    corpus: Path | None = None
    """Where the corpus is now, if it was moved."""
    json: bool = False
    """Print one JSON document: everything, whatever the limit of a card."""


def run(arguments: Arguments) -> int | None:
    """Prints the card or the list."""
    from prism_lm.index.prototype_index import PrototypeIndex

    if arguments.limit is not None and arguments.limit < 1:
        raise UserError(f"--limit is {arguments.limit}; expected 1 or more")
    index = PrototypeIndex.open(arguments.run, corpus=arguments.corpus)
    if arguments.prototype is None:
        _list(index, arguments)
    else:
        _card(index, arguments, arguments.prototype)
    return None


def _card(index: "PrototypeIndex", arguments: Arguments, prototype: int) -> None:
    card = index.card(prototype)
    if arguments.json:
        console.show_json(card.to_dict())
        return
    console.show(card.render(console.width(), neighbours=arguments.limit or 6))
    console.note(f"\nNext: prism trace {arguments.run} --prompt TEXT   shows where prototypes act")


def _list(index: "PrototypeIndex", arguments: Arguments) -> None:
    rows = index.leading(by=arguments.sort, limit=arguments.limit or 20)
    if arguments.json:
        console.show_json({"run": str(arguments.run), "sorted_by": arguments.sort, "prototypes": rows})
        return
    from prism_lm.index.list_text import prototype_list

    console.show(prototype_list(index, rows, console.width()))
    console.note(f"\nNext: prism show {arguments.run} {rows[0]['prototype']}   shows a card")
