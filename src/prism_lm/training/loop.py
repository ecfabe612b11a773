"""The training loop: one path for one process, data parallel and fully sharded, prototype model and dense twin."""

import time
import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.progress import Progress, Silent
from prism_lm.corpus import Corpus
from prism_lm.training import folder
from prism_lm.training.batches import Batches
from prism_lm.training.build import build_model, layers_of
from prism_lm.training.checkpoints import Checkpoints, State
from prism_lm.training.config import TrainingConfig, number_of_steps
from prism_lm.training.interrupt import StopRequest, TrainingStopped, stop_on_signals
from prism_lm.training.ledger import Ledger, NotFiniteError
from prism_lm.training.metrics import FILE_NAME, Figure, MetricsFile, finite
from prism_lm.training.monitors import HeldOut
from prism_lm.training.objective import Terms, TrainingModule, read_terms, share_of_loss
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import Ranks, processes, whole
from prism_lm.training.schedule import clustering_factor, learning_rate_factor, reseeds_at, seed_step
from prism_lm.training.seeding import CANDIDATES, Usage, replace_dead, sample_states, seed_bank


def train(config: TrainingConfig, progress: Progress | None = None, *, resume: bool = False) -> Path:
    """Trains a model and leaves the folder of the run, which is returned.

    With `resume` a run that was killed goes on from its last checkpoint, to the same final weights; one that is
    finished is returned as it is. Under torchrun every process calls this with the same configuration.

    Raises:
        UserError: settings, corpus, folder or device are wrong, or the loss is not a number.
        TrainingStopped: Ctrl-C or SIGTERM; a checkpoint was written.
    """
    with processes(config.recipe.runtime) as ranks:
        corpus = Corpus.open(config.corpus)
        held_out = None if config.held_out is None else Corpus.open(config.held_out)
        _check_held_out(corpus, held_out)
        sources = {"corpus": corpus.hash} | ({} if held_out is None else {"held_out": held_out.hash})
        if resume:
            folder.check_same(config, sources)
            if folder.is_finished(config.out):
                return config.out
        else:
            folder.check_free(config.out)
        shown = progress if ranks.is_main and progress is not None else Silent()
        training = Training(config, corpus, held_out, ranks, shown)
        with ExitStack() as stack:
            ranks.by_main(lambda: stack.enter_context(folder.locked(config.out)))
            if not resume:
                ranks.by_main(lambda: folder.begin(config, sources))
            stack.callback(training.close)
            training.open()
            training.run(stack.enter_context(stop_on_signals(ranks)))
        return config.out


def _check_held_out(corpus: Corpus, held_out: Corpus | None) -> None:
    if held_out is not None and held_out.vocab_size != corpus.vocab_size:
        raise UserError(
            f"{held_out.path} has a vocabulary of {held_out.vocab_size} and {corpus.path} one of {corpus.vocab_size}; "
            f"prepare the held-out text with --tokenizer {corpus.path}"
        )


class Training:
    """A run under way: the model, its optimiser, and the step that comes next."""

    def __init__(
        self,
        config: TrainingConfig,
        corpus: Corpus,
        held_out: Corpus | None,
        ranks: Ranks,
        progress: Progress,
    ) -> None:
        self.config, self.recipe, self.corpus, self.ranks, self.progress = (
            config, config.recipe, corpus, ranks, progress,
        )  # fmt: skip
        recipe = self.recipe
        self.steps = number_of_steps(recipe.data)
        self.seed_step = seed_step(recipe.bank, self.steps)
        self.batches = Batches(
            corpus,
            recipe.data,
            seed=recipe.seed,
            rank=ranks.rank,
            world_size=ranks.world_size,
            device=ranks.device,
        )
        self.held_out = None if held_out is None else HeldOut(held_out, recipe, ranks)
        self.module = prepare_module(config, corpus, ranks)
        self.optimiser = Optimiser(
            self.module,
            recipe.optimiser,
            steps=self.steps,
            bank_multiplier=recipe.bank.learning_rate_multiplier,
        )
        self.usage = None if config.dense else Usage(recipe.bank.num_prototypes, ranks.device)
        self.checkpoints = Checkpoints(config.out, ranks, keep=recipe.monitoring.keep)
        self.step = self.tokens = self.replaced = 0
        self.clock = Clock(State(step=0))
        self.ledger = Ledger(ranks, recipe.data.micro_batch)
        self.metrics: MetricsFile | None = None
        self.shown: dict[str, str] = {}
        self.figures: dict[str, Any] = {}

    def open(self) -> None:
        """Goes to the latest checkpoint, if there is one, and opens the metrics where it left them."""
        latest = self.checkpoints.latest()
        state = State(step=0)
        if latest is not None:
            state = self.checkpoints.load(latest, self.module, self.optimiser, self.usage)
            self._compare(state)
        self.step, self.tokens, self.replaced = state.step, state.tokens, state.replaced
        self.clock, self.figures = Clock(state), state.figures
        self.ledger = Ledger(self.ranks, self.recipe.data.micro_batch, state.pending)
        path = self.config.out / FILE_NAME
        self.metrics = self.ranks.by_main(lambda: MetricsFile(path, keep=state.metrics_bytes))

    def run(self, stop: StopRequest) -> None:
        """All steps that are left, and the final folder."""
        kind = "dense twin" if self.config.dense else "prototype model"
        per_step = self.recipe.data.batch * self.recipe.data.sequence_length
        self.progress.start(f"training the {kind}", self.steps * per_step, "tokens")
        self.progress.advance(self.step * per_step)
        try:
            while self.step < self.steps:
                self.advance()
                self.progress.advance(per_step, **self.shown)
                self.report()
                if stop.heard() and self.step < self.steps:
                    raise TrainingStopped(self._stopped(self.save()))
        except NotFiniteError as problem:
            raise UserError(self._diverged(problem)) from problem
        finally:
            self.progress.finish()
        self.finish()

    def advance(self) -> None:
        """One step of the optimiser."""
        step, recipe = self.step, self.recipe
        self.clock.start()
        clustering = not self.config.dense and step >= self.seed_step
        if clustering:
            self._tend_bank(step)
        factor = clustering_factor(recipe.bank, step, self.steps) if clustering else 0.0
        totals = self.batches.totals(step)
        summed: Terms | None = None
        for index, batch in enumerate(self.batches.of_rank(step)):
            self.ranks.accumulate(self.module, last=index + 1 == self.batches.per_rank)
            with self._autocast():
                terms = self.module(
                    batch.input_ids, read_terms(batch, recipe.bank.active_prototypes if clustering else None)
                )
            share_of_loss(terms, totals, recipe.bank, factor).backward()
            if terms.active_ids is not None and self.usage is not None:
                self.usage.saw(terms.active_ids, step)
            summed = _add(summed, terms)
        assert summed is not None
        self.ledger.add(step, totals, summed, self.optimiser.advance(step))
        self.step, self.tokens = step + 1, self.tokens + totals.states
        self.clock.stop()

    def report(self) -> None:
        """What is due after a step: a line of metrics, held-out figures, a checkpoint."""
        monitoring, step = self.recipe.monitoring, self.step
        last = step == self.steps
        if last or step % monitoring.log_every == 0:
            self._log()
        if self.held_out is not None and (last or _due(step, monitoring.evaluate_every)):
            self._evaluate(self.held_out)
        if last or _due(step, monitoring.checkpoint_every):
            self.save()

    def save(self) -> Path:
        """A checkpoint of this step."""
        pending = self.ledger.pending()
        state = State(
            step=self.step,
            tokens=self.tokens,
            metrics_bytes=self._settle_metrics(),
            pending=pending,
            figures=self.figures,
            replaced=self.replaced,
            seconds=self.clock.total,
            pending_seconds=self.clock.since_log,
            logged_tokens=self.clock.logged_tokens,
            processes=self.ranks.world_size,
            threads=torch.get_num_threads(),
        )
        if self.usage is not None:
            self.ranks.largest(self.usage.last_active)
        return self.checkpoints.save(state, self.module, self.optimiser, self.usage)

    def finish(self) -> None:
        """The folder as transformers reads it, and its manifest."""
        model = whole_model(self.config, self.corpus, self.module, self.ranks)
        self._settle_metrics()
        self.ranks.by_main(lambda: folder.finish(self.config, model, self.corpus, self.figures))

    def close(self) -> None:
        """Closes what is open."""
        if self.metrics is not None:
            self.metrics.close()

    def _tend_bank(self, step: int) -> None:
        """Sets the bank from data when its time has come, and replaces dead prototypes now and then."""
        bank, usage = self.recipe.bank, self.usage
        assert usage is not None
        if step == self.seed_step:
            states = self._sample(step, bank.num_prototypes)
            seed_bank(self.module, self.optimiser, states, bank.active_prototypes)
            usage.start(step)
        elif reseeds_at(bank, step, self.steps):
            dead = usage.dead(self.ranks, step, bank.dead_after)
            if len(dead):
                states = self._sample(step, max(len(dead), CANDIDATES))
                replace_dead(self.module, self.optimiser, dead, states)
                usage.start(step, dead)
                self.replaced += len(dead)

    def _sample(self, step: int, count: int) -> Tensor:
        def forward(input_ids: Tensor) -> Tensor:
            with self._autocast():
                return self.module(input_ids, lambda states, output_embedding, bank: states)

        states = sample_states(
            forward, self.batches, self.ranks, seed=self.recipe.seed, step=step, count=count
        )
        self.ranks.settle(self.module)
        return states

    def _log(self) -> None:
        figures = self.ledger.take()
        interval = figures["loss"].set
        rate = self.recipe.optimiser.learning_rate * learning_rate_factor(
            self.recipe.optimiser, self.step - 1, self.steps
        )
        tokens, seconds = self.clock.lap(self.tokens)
        if seconds > 0:
            figures["tokens_per_second"] = Figure(
                value=tokens / seconds, unit="tokens per second, all processes", set=interval
            )
        figures["learning_rate"] = Figure(
            value=rate, unit="of the backbone", set=f"training step {self.step}"
        )
        if not self.config.dense:
            figures["clustering_factor"] = Figure(
                value=clustering_factor(self.recipe.bank, self.step - 1, self.steps),
                unit="fraction of the final weights",
                set=f"training step {self.step}",
            )
            figures["prototypes_replaced"] = Figure(
                value=self.replaced, unit="prototypes", set=f"training steps 1 to {self.step}"
            )
        self.shown |= {name: f"{figures[name].value:.3f}" for name in ("loss", "R1", "R2") if name in figures}
        self._write("train", figures)

    def _evaluate(self, held_out: HeldOut) -> None:
        with self._autocast():
            seeded = not self.config.dense and self.step > self.seed_step
            figures = held_out.measure(self.module, with_bank=seeded)
        self.ranks.settle(self.module)
        self.figures = {name: asdict(figure) for name, figure in figures.items()}
        self.shown["held-out"] = f"{figures['loss'].value:.3f}"
        self._write("held_out", figures)

    def _write(self, event: str, figures: dict[str, Figure]) -> None:
        known = finite(figures.items())

        def write() -> None:
            assert self.metrics is not None
            self.metrics.write(event=event, step=self.step, tokens=self.tokens, figures=known)

        self.ranks.by_main(write)

    def _settle_metrics(self) -> int:
        """Length of the metrics on disk, on the main process, which is the one that writes it down."""
        return self.ranks.by_main(lambda: self.metrics.settle() if self.metrics else 0) or 0

    def _compare(self, state: State) -> None:
        now, then = (self.ranks.world_size, torch.get_num_threads()), (state.processes, state.threads)
        if now != then and self.ranks.is_main:
            warnings.warn(
                f"the checkpoint was written by {then[0]} processes of {then[1]} threads and {now[0]} of {now[1]} go on: "
                "same batches, but sums round differently, so the weights will not be the same to the last bit",
                stacklevel=2,
            )

    def _autocast(self) -> AbstractContextManager[object]:
        if self.recipe.runtime.precision == "float32":
            return nullcontext()
        return torch.autocast(self.ranks.device.type, dtype=torch.bfloat16)

    def _stopped(self, checkpoint: Path) -> str:
        return (
            f"stopped at step {self.step} of {self.steps}; {checkpoint} holds everything: the same command "
            "with --resume goes on from there"
        )

    def _diverged(self, problem: NotFiniteError) -> str:
        latest = self.checkpoints.latest()
        intact = f"the last good checkpoint is {latest}" if latest else "there is no checkpoint yet"
        return f"{problem}, so training stopped; {intact}; try a lower optimiser.learning_rate"


def prepare_module(config: TrainingConfig, corpus: Corpus, ranks: Ranks) -> TrainingModule:
    """The model with its initial weights, on the device, checkpointed, compiled and sharded as configured."""
    runtime = config.recipe.runtime
    model = build_model(
        config.recipe, vocab_size=corpus.vocab_size, separator_id=corpus.separator_id, dense=config.dense
    )
    if runtime.activation_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module = TrainingModule(model.to(ranks.device)).train()
    layers = layers_of(module.backbone, config.recipe.model.layers)
    if runtime.compile:
        for layer in layers:
            layer.compile()
    ranks.spread(module, layers)
    return module


def whole_model(
    config: TrainingConfig, corpus: Corpus, module: TrainingModule, ranks: Ranks
) -> PreTrainedModel:
    """The trained language model, unsharded."""
    if ranks.mesh is None:
        return cast("PreTrainedModel", module.language_model)
    model = build_model(
        config.recipe, vocab_size=corpus.vocab_size, separator_id=corpus.separator_id, dense=config.dense
    )
    targets = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in module.language_model.named_parameters():
            targets[name].copy_(whole(parameter))
    return model


class Clock:
    """Seconds spent in steps, in all and since the last line of metrics; evaluation and checkpoints not counted."""

    def __init__(self, state: State) -> None:
        self.total, self.since_log, self.logged_tokens = (
            state.seconds,
            state.pending_seconds,
            state.logged_tokens,
        )
        self._begun = 0.0

    def start(self) -> None:
        """A step begins."""
        self._begun = time.perf_counter()

    def stop(self) -> None:
        """A step ends."""
        spent = time.perf_counter() - self._begun
        self.total += spent
        self.since_log += spent

    def lap(self, tokens: int) -> tuple[int, float]:
        """Tokens and seconds since the last lap."""
        done, seconds = tokens - self.logged_tokens, self.since_log
        self.logged_tokens, self.since_log = tokens, 0.0
        return done, seconds


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _add(summed: Terms | None, terms: Terms) -> Terms:
    """Sums over micro-batches, detached; the ids are not summed."""
    parts = [None if term is None else term.detach() for term in terms[:4]]
    if summed is None:
        return Terms(*parts)
    return Terms(
        *(None if new is None or old is None else old + new for old, new in zip(summed, parts, strict=False))
    )
