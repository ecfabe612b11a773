"""Documents of a Hugging Face data set, by name or in a local folder, streamed: never downloaded whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.fields import FieldReader
from prism_lm.corpus.problems import Problems, printable
from prism_lm.corpus.recipes import Recipe, recipe_for, recipe_named

ROWS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class HubDataset:
    """What `hf:NAME[:CONFIG]` means: `name` is what its documents are called after."""

    path: str
    config: str | None
    name: str
    recipe: Recipe | None


def resolve(given: str, recipe: str | None) -> HubDataset:
    """The data set that `NAME[:CONFIG]` stands for; a known one has a default configuration.

    Raises:
        UserError: there is no recipe of the name given.
    """
    path, config = _split(given)
    known = recipe_for(path)
    chosen = recipe_named(recipe) if recipe is not None else known[1] if known else None
    if known is not None:
        path, config = known[1].path, config or known[1].config
    name = Path(path).name if Path(path).is_dir() else path
    return HubDataset(path=path, config=config, name=f"{name}:{config}" if config else name, recipe=chosen)


def hub_documents(given: str, config: PrepareConfig, problems: Problems) -> Iterator[RawDocument]:
    """The documents of `NAME[:CONFIG]` in its own order; ids that records do not bring are their rows.

    Raises:
        UserError: the data set, its configuration or its split cannot be reached.
    """
    dataset = resolve(given, config.recipe)
    reader = FieldReader(config.fields, dataset.name, problems, dataset.recipe)
    row = 0
    try:
        for row, record in enumerate(_records(dataset, config.split)):
            position = f"{dataset.name}/{config.split}:{row}"
            document = reader.document(record, position, f"hf:{position}")
            if document is not None:
                yield document
    except (GeneratorExit, UserError):
        raise
    except Exception as error:
        # What a data set raises half-way is up to its host, its builder and its files.
        reason = printable(str(error).strip().split("\n")[0])[:200]
        place = f"hf:{dataset.name}/{config.split}:{row + 1}"
        place = f"hf:{dataset.name}/{config.split}:{row + 1}"
        problems.report("unreadable data set", place, f"no more is read: {reason}")


def _records(dataset: HubDataset, split: str) -> Iterator[dict[str, Any]]:
    for batch in _open(dataset, split).iter(batch_size=ROWS_AT_ONCE):
        names = list(batch)
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(names, values, strict=True))


def _open(dataset: HubDataset, split: str) -> Any:
    from datasets import load_dataset

    try:
        return load_dataset(dataset.path, name=dataset.config, split=split, streaming=True)
    except Exception as error:
        reason = printable(str(error).strip().split("\n")[0])[:200]
        raise UserError(
            f"the data set {printable(dataset.name)}, split {printable(split)}, cannot be reached "
            f"({reason}); check the name, the configuration (hf:NAME:CONFIG), --split, the network, and "
            "HF_TOKEN if it is gated"
        ) from error


def _split(given: str) -> tuple[str, str | None]:
    if Path(given).is_dir():
        return given, None
    path, colon, config = given.partition(":")
    return (path, config) if colon else (given, None)
