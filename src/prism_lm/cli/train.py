"""`prism train`: a corpus -> a prototype model, or its dense twin. Also under torchrun."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from prism_lm.cli import console
from prism_lm.training.config import Recipe, TrainingConfig
from prism_lm.training.recipes import RECIPES

AnyRecipe = Recipe
if not TYPE_CHECKING:
    from functools import reduce
    from operator import or_

    AnyRecipe = reduce(
        or_,
        (
            Annotated[
                Recipe,
                tyro.conf.subcommand(name, default=make(), description=(make.__doc__ or "").strip()),
            ]
            for name, make in RECIPES.items()
        ),
    )


@tyro.conf.configure(tyro.conf.CascadeSubcommandArgs, tyro.conf.OmitSubcommandPrefixes)
@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a model on a corpus by a recipe; every setting of the recipe is an option."""

    recipe: Annotated[AnyRecipe, tyro.conf.arg(name="")]
    corpus: Path
    """The corpus to train on, made by prism prepare."""
    out: Path
    """The folder of the run."""
    held_out: Path | None = None
    """A corpus with the same tokenizer, never trained on: figures are taken on it."""
    dense: bool = False
    """Train the plain twin, without prototypes, from the same weights and batches."""
    resume: bool = False
    """Go on with a run that was stopped."""


def run(arguments: Arguments) -> int | None:
    """Trains, and says what was made and what comes next."""
    config = TrainingConfig(
        recipe=arguments.recipe,
        corpus=arguments.corpus,
        out=arguments.out,
        held_out=arguments.held_out,
        dense=arguments.dense,
    )
    from prism_lm.training import TrainingStopped, train

    try:
        train(config, console.RichProgress(), resume=arguments.resume)
    except TrainingStopped as stopped:
        console.note(str(stopped))
        return 130
    console.note(f"{config.out} holds the model. Next: prism index {config.out} --corpus {config.corpus}")
    return None
