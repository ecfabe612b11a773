"""`prism drop`: a corpus without the documents of a list."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.units import format_count
from prism_lm.cli import console

if TYPE_CHECKING:
    from prism_lm.corpus.drop import DropPlan, SourceChange


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Make a corpus without some documents: those that a list names by their ids.

    Tokens are copied, not made again. The new corpus's manifest names the one it came from, and the list lies
    in its folder.
    """

    corpus: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CORPUS")]
    """The corpus to take documents from; it stays as it is."""
    list: Path
    """Ids of the documents: .txt with one a line, or .jsonl or .parquet with the field id. An entry whose
    field drop is false stays."""
    out: Path | None = None
    """The corpus folder to make. Needed unless --dry-run."""
    dry_run: bool = False
    """Count what would go from each source, and stop."""
    overwrite: bool = False
    """Replace a corpus that stands at OUT, once the new one is whole."""
    json: bool = False
    """One JSON document on stdout."""


def run(arguments: Arguments) -> None:
    """Counts what goes, makes the corpus, and says what comes next."""
    if arguments.out is None and not arguments.dry_run:
        raise UserError("--out is missing; name the corpus folder to make, or add --dry-run to count only")
    from prism_lm.corpus import Corpus
    from prism_lm.corpus.drop import DropPlan

    plan = DropPlan.of(Corpus.open(arguments.corpus), arguments.list)
    changes = plan.changes()
    counted = [asdict(change) for change in changes]
    if not arguments.json:
        _report(plan, changes)
    if arguments.dry_run or arguments.out is None:
        if arguments.json:
            console.show_json({"changes": counted, **_totals(plan, changes)})
        return
    made = plan.write(arguments.out, console.RichProgress(), overwrite=arguments.overwrite)
    if arguments.json:
        console.show_json({"path": str(made.path), "changes": counted, **asdict(made.manifest)})
        return
    documents, tokens = format_count(made.num_documents), format_count(made.num_tokens)
    console.show(f"made {made.path}: {documents} documents, {tokens} tokens")
    console.show("next")
    console.show_command(["prism", "train", "quickstart", "--corpus", str(made.path), "--out", "run"])


def _totals(plan: "DropPlan", changes: "list[SourceChange]") -> dict[str, int]:
    """What goes and what there was, over all sources; tokens without separators."""
    return {
        "documents": plan.corpus.num_documents,
        "dropped_documents": int(plan.dropped.sum()),
        "tokens": plan.corpus.num_tokens - plan.corpus.num_documents,
        "dropped_tokens": sum(change.dropped_tokens for change in changes),
    }


def _report(plan: "DropPlan", changes: "list[SourceChange]") -> None:
    rows = [
        (
            change.source,
            f"{change.dropped_documents:,} of {change.documents:,}",
            f"{change.dropped_tokens:,}",
            f"{change.dropped_tokens / change.tokens:.2%}",
        )
        for change in changes
    ]
    totals = _totals(plan, changes)
    total = (
        f"all of {plan.corpus.path.name}",
        f"{totals['dropped_documents']:,} of {totals['documents']:,}",
        f"{totals['dropped_tokens']:,}",
        f"{totals['dropped_tokens'] / totals['tokens']:.2%}",
    )
    columns = ["source", ">documents dropped", ">tokens dropped", ">of its tokens"]
    console.show(console.table(columns, [*rows, total]))
