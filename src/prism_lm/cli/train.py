"""`prism train`: a corpus -> a prototype model, or its dense twin. Also under torchrun."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from prism_lm.artifacts.errors import UserError
from prism_lm.cli import console
from prism_lm.training.config import Recipe, TrainingConfig
from prism_lm.training.recipes import RECIPES

if TYPE_CHECKING:
    from prism_lm.corpus import Corpus
    from prism_lm.training.plan import Plan

    AnyRecipe = Recipe
else:
    from functools import reduce
    from operator import or_

    AnyRecipe = reduce(
        or_,
        (
            Annotated[Recipe, tyro.conf.subcommand(name, default=make(), description=make.__doc__)]
            for name, make in RECIPES.items()
        ),
    )

GPT2_VOCABULARY = 50257
INTERRUPTED = 130


@tyro.conf.configure(tyro.conf.CascadeSubcommandArgs, tyro.conf.OmitSubcommandPrefixes)
@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a model on a corpus by a recipe; every setting of the recipe is an option.

    `prism train RECIPE --help` lists them. Under torchrun: torchrun --nproc-per-node N -m prism_lm train ...
    """

    recipe: Annotated[AnyRecipe, tyro.conf.arg(name="")]
    corpus: Path | None = None
    """The corpus to train on, made by prism prepare. Needed unless --plan."""
    out: Path | None = None
    """The folder of the run. Needed unless --plan."""
    held_out: Path | None = None
    """A corpus with the same tokenizer, never trained on: figures are taken on it."""
    dense: bool = False
    """Train the plain twin, without prototypes, from the same initial weights and batches."""
    resume: bool = False
    """Go on with a run that was stopped or killed; one that is finished stays as it is."""
    plan: bool = False
    """Say what the run would need, and stop."""
    plan_device: str | None = None
    """The device to plan for: cpu (this machine), a100, h100, h200, b200, l40s, rtx4090."""
    plan_devices: int = 1
    """How many of them."""
    json: bool = False
    """With --plan: one JSON document on stdout."""


def run(arguments: Arguments) -> int | None:
    """Plans, trains, and says what was made and what comes next."""
    if arguments.plan:
        return _print_plan(arguments)
    if arguments.corpus is None or arguments.out is None:
        missing = "--corpus" if arguments.corpus is None else "--out"
        raise UserError(f"{missing} is missing; expected prism train RECIPE --corpus CORPUS --out RUN")
    config = TrainingConfig(
        recipe=arguments.recipe,
        corpus=arguments.corpus,
        out=arguments.out,
        held_out=arguments.held_out,
        dense=arguments.dense,
    )
    return _train(config, arguments)


def _train(config: TrainingConfig, arguments: Arguments) -> int | None:
    from prism_lm.corpus import Corpus
    from prism_lm.training import TrainingStopped, train

    is_main = os.environ.get("RANK", "0") == "0"
    if is_main and not arguments.resume:
        _note_plan(_plan(arguments, Corpus.open(config.corpus)))
    try:
        train(config, console.RichProgress(), resume=arguments.resume)
    except TrainingStopped as stopped:
        if is_main:
            console.note(str(stopped))
        return INTERRUPTED
    if is_main:
        _say_what_was_made(config)
    return None


def _plan(arguments: Arguments, corpus: "Corpus | None") -> "Plan":
    from prism_lm.training.plan import make_plan

    return make_plan(
        arguments.recipe,
        vocab_size=GPT2_VOCABULARY if corpus is None else corpus.vocab_size,
        corpus_tokens=None if corpus is None else corpus.num_tokens,
        dense=arguments.dense,
        device=arguments.plan_device,
        devices=arguments.plan_devices if arguments.plan else int(os.environ.get("WORLD_SIZE", "1")),
    )


def _print_plan(arguments: Arguments) -> None:
    from prism_lm.corpus import Corpus

    corpus = None if arguments.corpus is None else Corpus.open(arguments.corpus)
    plan = _plan(arguments, corpus)
    if arguments.json:
        print(json.dumps(plan.to_dict(), indent=1))
        return
    if corpus is None:
        console.note(f"no --corpus given: planned with the vocabulary of GPT-2, {GPT2_VOCABULARY:,}")
    for name, value in plan.rows():
        print(f"{name:<11} {value}")


def _note_plan(plan: "Plan") -> None:
    for name, value in plan.rows():
        console.note(f"{name:<11} {value}")


def _say_what_was_made(config: TrainingConfig) -> None:
    from prism_lm.artifacts.run import open_run

    figures = open_run(config.out).manifest.figures
    for name, figure in figures.items():
        value = "not a number" if figure["value"] is None else f"{figure['value']:.4f}"
        console.note(f"{name:<30} {value}  {figure['unit']}")
    console.note(f"\n{config.out} holds the {'dense twin' if config.dense else 'prototype model'}. Next:")
    if config.dense:
        console.note("  train the same without --dense, and compare metrics.jsonl")
    else:
        console.note(f"  prism index {config.out} --corpus {config.corpus}")
