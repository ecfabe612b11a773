"""Builds the tiny workspace of conftest.py through the public API: text, corpus, run, index."""

import random
from pathlib import Path

from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.prepare import prepare
from prism_lm.index.build import build_index
from prism_lm.index.config import IndexConfig
from prism_lm.training import (
    BankSettings,
    DataSettings,
    ModelShape,
    MonitoringSettings,
    OptimiserSettings,
    Recipe,
    TrainingConfig,
    train,
)

SENTENCES = {
    "kitchen": (
        "The cook puts the {a} into the {b}.",
        "A warm {b} with {a} is ready, and the naïve guest says “danke”.",
    ),
    "harbour": ("The ship with the {a} leaves for the {b}.", "Rain falls on the {b}; the {a} is wet."),
    "garden": ("The gardener plants a {a} beside the {b}.", "In May the {a} grows taller than the {b} 🌱."),
}
WORDS = {
    "kitchen": ("onion", "bread", "soup", "salt", "pan", "oven"),
    "harbour": ("cargo", "island", "pier", "flag", "coast", "lantern"),
    "garden": ("rose", "fence", "apple tree", "lily", "hedge", "bean"),
}


def build(workspace: Path) -> None:
    """Writes notes/, and makes corpus, corpus-heldout, run and run/index beside it."""
    write_notes(workspace / "notes")
    corpus, run = workspace / "corpus", workspace / "run"
    prepare(PrepareConfig(sources=(str(workspace / "notes"),), out=corpus, vocab_size=384, held_out=0.1))
    train(TrainingConfig(recipe=recipe(), corpus=corpus, held_out=workspace / "corpus-heldout", out=run))
    build_index(IndexConfig(run=run, corpus=corpus))


def write_notes(folder: Path) -> None:
    """A folder for each source, with a text file for each document."""
    dice = random.Random(0)
    for source, patterns in SENTENCES.items():
        (folder / source).mkdir(parents=True)
        for number in range(60):
            sentences = [
                dice.choice(patterns).format(a=dice.choice(WORDS[source]), b=dice.choice(WORDS[source]))
                for _ in range(dice.randint(1, 6))
            ]
            (folder / source / f"{number:03}.txt").write_text(" ".join(sentences), encoding="utf-8")


def recipe() -> Recipe:
    """A second of training."""
    return Recipe(
        name="tiny",
        model=ModelShape(hidden_size=32, layers=2, heads=2),
        bank=BankSettings(num_prototypes=32, active_prototypes=4),
        optimiser=OptimiserSettings(learning_rate=1e-2),
        data=DataSettings(sequence_length=64, batch=4, micro_batch=4, steps=150),
        monitoring=MonitoringSettings(checkpoint_every=0, held_out_tokens=2_000),
    )
