"""Known data sets: where they lie, what their fields are called, and under which licence they come."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prism_lm.artifacts.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A data set on the Hugging Face hub: what is read unless the user says otherwise.

    `fields` maps a role to the field names that play it, the first that a record has; other fields become
    metadata under their own names.
    """

    path: str
    config: str
    licence: str
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_FINEWEB_FIELDS = {"text": ("text",), "id": ("id",), "url": ("url",), "source": ("dump",)}

RECIPES: Mapping[str, Recipe] = {
    # Metadata: date, file_path, language, language_score, token_count.
    "fineweb": Recipe(
        path="HuggingFaceFW/fineweb", config="sample-10BT", licence="ODC-By-1.0", fields=_FINEWEB_FIELDS
    ),
    # The same, and score, int_score: how educational a classifier found it.
    "fineweb-edu": Recipe(
        path="HuggingFaceFW/fineweb-edu", config="sample-10BT", licence="ODC-By-1.0", fields=_FINEWEB_FIELDS
    ),
    # Gated: the licence is accepted on the hub, and HF_TOKEN set. Common Crawl's copy of the first version
    # (jsonl) has the same fields.
    "nemotron-cc": Recipe(
        path="nvidia/Nemotron-CC-v2",
        config="High-Quality",
        licence="NVIDIA Data Agreement for Model Training",
        fields={
            "text": ("text",),
            "id": ("warc_record_id", "id", "uuid"),
            "url": ("url",),
            "source": ("dump", "snapshot", "warc_file"),
        },
    ),
}


def recipe_named(name: str) -> Recipe:
    """The recipe with this name.

    Raises:
        UserError: there is none.
    """
    if name not in RECIPES:
        raise UserError(f"{name!r} is no recipe; there are {', '.join(RECIPES)}")
    return RECIPES[name]


def recipe_for(path: str) -> tuple[str, Recipe] | None:
    """Name and recipe of a data set, by its short name or its name on the hub; None where it has none."""
    for name, recipe in RECIPES.items():
        if path in (name, recipe.path):
            return name, recipe
    return None
