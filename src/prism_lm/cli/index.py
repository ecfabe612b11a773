"""`prism index`: one pass over the corpus, and what each prototype stands for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from prism_lm.cli import console
from prism_lm.index.config import IndexConfig


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Read the corpus once with a run's model and write down what each prototype stands for, into
    RUN/index."""

    run: Annotated[Path, tyro.conf.Positional]
    """A prototype model that prism train made."""
    corpus: Path
    """The corpus it was trained on."""
    other_corpus: bool = False
    """Allow a corpus that it was not trained on; its passages are then no training passages."""
    batch_tokens: int = 8192
    """Tokens in one forward pass: speed and memory, never the result."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model runs; auto: a GPU where there is one."""
    neighbours: int = 16
    """Passages at the top of each prototype, from as many documents."""
    bands: int = 5
    """Equal bands of activation that further examples are drawn from."""
    per_band: int = 2
    """Examples from each band."""
    words: int = 20
    """Raised and lowered vocabulary entries of each prototype."""
    triggers: int = 5
    """Commonest current tokens, next tokens and sources of each prototype."""
    overwrite: bool = False
    """Replace an index that is there, once the new one is whole."""
    json: bool = False
    """Print what was found as one JSON document."""


def run(arguments: Arguments) -> int | None:
    """Says what it will cost, makes the index, and says what to look at next."""
    from dataclasses import asdict

    settings: dict[str, Any] = {name: value for name, value in asdict(arguments).items() if name != "json"}
    config = IndexConfig(**settings)

    from prism_lm.index.build import IndexPlan

    plan = IndexPlan.of(config)
    console.note(plan.describe())
    index = plan.build(console.RichProgress())
    figures = index.manifest.figures
    leading = index.leading(limit=1)[0]["prototype"]
    if arguments.json:
        console.show_json({"index": str(index.path), "hash": index.manifest.hash, **figures})
    console.note(
        f"{index.path}: {figures['prototypes_used']:,} of {index.num_prototypes:,} prototypes are active "
        f"somewhere; "
        f"coverage over the whole corpus R1 {figures['prototype_coverage']:.3f}"
    )
    console.note(
        f"Next: prism show {arguments.run} {leading}   or   prism trace {arguments.run} --prompt TEXT"
    )
    return None
