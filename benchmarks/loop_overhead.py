"""What the training loop costs over a bare loop with the same dense model, loss and optimiser.

Both train in turns, a few steps each, in one process, so that whatever else the machine does meets both.
The bare loop has its batches in memory and does nothing but forward, backward, clipping and AdamW; ours
reads and orders the data, schedules, counts, notes the terms of each step and writes a line of metrics
every ten steps. Checkpoints and held-out passes are off. Printed: the ratio of the two times over rounds,
as wall time and as processor time, and, with far less noise, the processor time that our steps spend
outside the forward pass, the backward pass and the optimiser, which are all that the bare loop does.

    python benchmarks/loop_overhead.py --recipe micro --rounds 30
"""

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import torch
import tyro

from prism_lm.artifacts.progress import Silent
from prism_lm.corpus import Corpus
from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.prepare import prepare
from prism_lm.model import cross_entropy_sum
from prism_lm.training import RECIPES, TrainingConfig, folder
from prism_lm.training.build import build_model
from prism_lm.training.config import Recipe
from prism_lm.training.loop import Training
from prism_lm.training.objective import TrainingModule
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import processes

Result = TypeVar("Result")
PARTS = 100
"""Steps whose parts are timed, after the comparison."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Options of the comparison."""

    recipe: str = "micro"
    """The recipe whose dense twin is trained."""
    rounds: int = 30
    """Turns of each loop."""
    steps: int = 10
    """Steps in one turn."""
    threads: int | None = None
    """CPU threads; None: torch's choice."""
    corpus: Path | None = None
    """A corpus; None: random words are made into one."""


class Times(NamedTuple):
    """Seconds of one turn."""

    wall: float
    processor: float


def main(arguments: Arguments) -> None:
    """Runs the comparison and prints the ratios."""
    recipe = RECIPES[arguments.recipe]()
    steps = (arguments.rounds + 2) * arguments.steps + PARTS
    recipe = replace(
        recipe,
        data=replace(recipe.data, tokens=None, steps=steps),
        monitoring=replace(recipe.monitoring, checkpoint_every=0),
        runtime=replace(recipe.runtime, threads=arguments.threads),
    )
    with tempfile.TemporaryDirectory() as place, processes(recipe.runtime) as ranks:
        path = arguments.corpus or random_corpus(Path(place))
        config = TrainingConfig(recipe=recipe, corpus=path, out=Path(place) / "run", dense=True)
        corpus = Corpus.open(path)
        folder.begin(config, {"corpus": corpus.hash})
        training = Training(config, corpus, None, ranks, Silent())
        training.open()
        pairs = list(compare(loop_steps(training), bare_steps(recipe, corpus), arguments))
        spent = spend(training, PARTS)
        training.close()
        report(recipe, pairs, spent)


def random_corpus(place: Path) -> Path:
    """A corpus of 2 MB of made-up words."""
    dice = random.Random(0)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(3000)]
    (place / "words.txt").write_text("\n".join(" ".join(dice.choices(words, k=12)) for _ in range(25_000)))
    return prepare(
        PrepareConfig(sources=(str(place / "words.txt"),), out=place / "corpus", vocab_size=4096)
    ).path


class Spent:
    """Processor seconds of our steps, and the part of them inside what a bare loop does as well."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.shared: list[float] = []
        self._shared = 0.0

    def timed(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """The function, with its time counted as shared."""

        def call(*arguments: Any, **options: Any) -> Result:
            begun = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self._shared += time.process_time() - begun

        return call

    def step(self, function: Callable[[], None]) -> None:
        """Runs a step and notes both."""
        self._shared, begun = 0.0, time.process_time()
        function()
        self.steps.append(time.process_time() - begun)
        self.shared.append(self._shared)

    def share(self) -> list[float]:
        """What comes on top of the shared part, relative to it: a mean over ten steps, with one line of
        metrics.
        """
        groups = [slice(i, i + 10) for i in range(0, len(self.steps) - 9, 10)]
        return [sum(self.steps[group]) / sum(self.shared[group]) - 1 for group in groups]


def loop_steps(training: Training) -> Callable[[], None]:
    """One step of ours."""

    def step() -> None:
        training.advance()
        training.report()

    return step


def spend(training: Training, steps: int) -> Spent:
    """Some more of our steps, with the parts timed; nothing is timed inside while the loops are compared."""
    spent, step = Spent(), loop_steps(training)
    training.module.forward = spent.timed(training.module.forward)
    training.optimiser.advance = spent.timed(training.optimiser.advance)
    with mock.patch.object(torch.Tensor, "backward", spent.timed(torch.Tensor.backward)):
        for _ in range(steps):
            spent.step(step)
    return spent


def bare_steps(recipe: Recipe, corpus: Corpus) -> Callable[[], None]:
    """One step of the shortest loop that trains the same model with the same loss and optimiser."""
    model = build_model(recipe, vocab_size=corpus.vocab_size, separator_id=corpus.separator_id, dense=True)
    module = TrainingModule(model.train())
    adamw = Optimiser(module, recipe.optimiser, steps=1, bank_multiplier=1.0).adamw
    size, length = recipe.data.batch, recipe.data.sequence_length
    parameters = list(model.parameters())

    portion = size * length
    stored = [
        torch.from_numpy(corpus.tokens(i * portion, (i + 1) * portion).reshape(size, length))
        for i in range(20)
    ]
    batches = itertools.cycle(stored)

    def step() -> None:
        ids = next(batches)
        states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1].flatten(0, 1)
        labels = ids[:, 1:].flatten()
        loss = cross_entropy_sum(states, model.get_output_embeddings().weight, labels) / labels.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, recipe.optimiser.clip)
        adamw.step()
        adamw.zero_grad()

    return step


def compare(
    ours: Callable[[], None], bare: Callable[[], None], arguments: Arguments
) -> Iterator[tuple[Times, Times]]:
    """Turns of both, who begins alternating; the first two are for warming up."""
    for number in range(arguments.rounds + 2):
        first, second = (ours, bare) if number % 2 else (bare, ours)
        one, other = turn(first, arguments.steps), turn(second, arguments.steps)
        if number >= 2:
            yield (one, other) if first is ours else (other, one)


def turn(step: Callable[[], None], steps: int) -> Times:
    """The time of some steps."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return Times(time.perf_counter() - wall, time.process_time() - processor)


def report(recipe: Recipe, pairs: list[tuple[Times, Times]], spent: Spent) -> None:
    """Prints medians of the ratio with a 95 % bootstrap interval."""
    batch, threads = recipe.data.batch * recipe.data.sequence_length, torch.get_num_threads()
    print(f"{recipe.name}, dense twin, {batch} tokens a step, {threads} threads, {len(pairs)} rounds")
    for name in Times._fields:
        ratios = [getattr(ours, name) / getattr(bare, name) for ours, bare in pairs]
        low, high = interval(ratios)
        print(
            f"{name:<9}  ours/bare {median(ratios):.4f}  [{low:.4f}, {high:.4f}]  "
            f"rounds from {min(ratios):.3f} to {max(ratios):.3f}; "
            f"bare {1000 * mean(getattr(bare, name) for _, bare in pairs):.0f} ms a turn"
        )
    shares = spent.share()
    low, high = interval(shares)
    print(f"outside   forward, backward and optimiser: {median(shares):.2%} of them  [{low:.2%}, {high:.2%}]")


def interval(values: list[float], draws: int = 4000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    dice = random.Random(0)
    medians = sorted(median(dice.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


if __name__ == "__main__":
    main(tyro.cli(Arguments))
