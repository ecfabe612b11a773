"""The training loop: one path for one process, data parallel and fully sharded, and for the dense twin."""

import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import torch
from torch import Tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.progress import Progress, Silent
from prism_lm.corpus import Corpus
from prism_lm.training import folder
from prism_lm.training.batches import Batches
from prism_lm.training.build import prepare_module, whole_model
from prism_lm.training.checkpoints import Checkpoints, State
from prism_lm.training.config import TrainingConfig, number_of_steps
from prism_lm.training.interrupt import StopRequest, TrainingStopped, stop_on_signals
from prism_lm.training.ledger import NotFiniteError
from prism_lm.training.monitors import HeldOut
from prism_lm.training.objective import Terms, added, read_states, read_terms, share_of_loss
from prism_lm.training.optimiser import Optimiser
from prism_lm.training.parallel import Ranks, processes
from prism_lm.training.reporter import Reporter
from prism_lm.training.schedule import clustering_factor, reseeds_at, seed_step
from prism_lm.training.seeding import (
    CANDIDATES,
    CANDIDATES_EACH,
    TOKENS_PER_PROTOTYPE,
    Usage,
    replace_dead,
    sample_states,
    seed_bank,
)


def train(config: TrainingConfig, progress: Progress | None = None, *, resume: bool = False) -> Path:
    """Trains a model and leaves the folder of the run, which is returned.

    With `resume` a run that was killed goes on from its last checkpoint, to the same final weights; one
    that is finished is returned as it is. Under torchrun every process calls this with the same
    configuration.

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
            training.open()
            stack.callback(training.close)
            training.run(stack.enter_context(stop_on_signals(ranks)))
        return config.out


def _check_held_out(corpus: Corpus, held_out: Corpus | None) -> None:
    if held_out is not None and held_out.hash == corpus.hash:
        raise UserError(
            f"{held_out.path} is the corpus that is trained on, so nothing in it is held out; leave "
            "--held-out away, or set text apart with prism prepare --held-out 0.02"
        )
    if held_out is not None and _tokenizer(held_out) != _tokenizer(corpus):
        raise UserError(
            f"{held_out.path} was made with another tokenizer than {corpus.path}; "
            f"prepare the held-out text with --tokenizer {corpus.path}"
        )


def _tokenizer(corpus: Corpus) -> tuple[int, int, str]:
    """What tells tokenizers apart: size, separator, and the hash of the vocabulary with its merges."""
    return corpus.vocab_size, corpus.separator_id, corpus.manifest.files["tokenizer/tokenizer.json"].hash


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
        self.config, self.recipe, self.corpus = config, config.recipe, corpus
        self.ranks, self.progress = ranks, progress
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

    def open(self) -> None:
        """Goes to the latest checkpoint, if there is one, and opens the metrics where it left them."""
        latest, state = self.checkpoints.latest(), State(step=0)
        if latest is not None:
            state = self.checkpoints.load(latest, self.module, self.optimiser, self.usage)
            self._compare(state)
        self.step, self.tokens, self.replaced = state.step, state.tokens, state.replaced
        self.reporter = Reporter(self.config, self.ranks, self.steps, state)

    def run(self, stop: StopRequest) -> None:
        """All steps that are left, and the final folder."""
        kind = "dense twin" if self.config.dense else "prototype model"
        per_step = self.recipe.data.batch * self.recipe.data.sequence_length
        self.progress.start(f"training the {kind}", self.steps * per_step, "tokens")
        self.progress.advance(self.step * per_step)
        try:
            while self.step < self.steps:
                self.advance()
                self.report()
                self.progress.advance(per_step, **self.reporter.shown)
                if stop.heard() and self.step < self.steps:
                    raise TrainingStopped(self._stopped(self.save()))
        except NotFiniteError as problem:
            raise UserError(self._diverged(problem)) from problem
        finally:
            self.progress.finish()
        self.finish()

    def advance(self) -> None:
        """One step of the optimiser."""
        self.reporter.clock.start()
        step, bank = self.step, self.recipe.bank
        clustering = not self.config.dense and step >= self.seed_step
        if clustering:
            self._tend_bank(step)
        factor = clustering_factor(bank, step, self.steps) if clustering else 0.0
        totals = self.batches.totals(step)
        summed: Terms | None = None
        for index, batch in enumerate(self.batches.of_rank(step)):
            self.ranks.accumulate(self.module, last=index + 1 == self.batches.per_rank)
            with self._autocast():
                terms = self.module(
                    batch.input_ids, read_terms(batch, bank.active_prototypes if clustering else None)
                )
            share_of_loss(terms, totals, bank, factor).backward()
            if self.usage is not None and terms.active_ids is not None:
                self.usage.saw(terms.active_ids, step)
            summed = added(summed, terms)
        norms = self.optimiser.advance(step)
        assert summed is not None
        self.reporter.ledger.add(step, totals, summed, norms)
        self.step, self.tokens = step + 1, self.tokens + totals.states
        self.reporter.clock.stop()

    def report(self) -> None:
        """What is due after a step: a line of metrics, held-out figures, a checkpoint."""
        monitoring, last = self.recipe.monitoring, self.step == self.steps
        if last or self._due(monitoring.log_every):
            self.reporter.log(step=self.step, tokens=self.tokens, replaced=self.replaced)
        if self.held_out is not None and (last or self._due(monitoring.evaluate_every)):
            self._evaluate(self.held_out)
        if last or self._due(monitoring.checkpoint_every):
            self.save()

    def save(self) -> Path:
        """A checkpoint of this step."""
        reporter = self.reporter
        state = State(
            step=self.step,
            tokens=self.tokens,
            pending=reporter.ledger.pending(),
            metrics_bytes=reporter.settle(),
            figures=reporter.figures,
            replaced=self.replaced,
            seconds=reporter.clock.total,
            pending_seconds=reporter.clock.since_log,
            logged_tokens=reporter.clock.logged_tokens,
            processes=self.ranks.world_size,
            threads=torch.get_num_threads(),
        )
        if self.usage is not None:
            self.ranks.largest(self.usage.last_active)
        return self.checkpoints.save(state, self.module, self.optimiser, self.usage)

    def finish(self) -> None:
        """The folder as transformers reads it, and its manifest."""
        model = whole_model(self.config, self.corpus, self.module, self.ranks)
        self.reporter.settle()
        self.ranks.by_main(lambda: folder.finish(self.config, model, self.corpus, self.reporter.figures))

    def close(self) -> None:
        """Closes what is open."""
        self.reporter.close()

    def _tend_bank(self, step: int) -> None:
        """Sets the bank from data when its time has come, and replaces dead prototypes now and then."""
        bank, usage = self.recipe.bank, self.usage
        assert usage is not None
        if step == self.seed_step:
            states = self._sample(step, bank.num_prototypes, TOKENS_PER_PROTOTYPE * bank.num_prototypes)
            seed_bank(self.module, self.optimiser, states, bank.active_prototypes)
            usage.start(step)
        elif reseeds_at(bank, step, self.steps):
            dead = usage.dead(self.ranks, step, bank.dead_after)
            if len(dead):
                candidates = min(CANDIDATES, self.batches.totals(step).states)
                candidates = max(candidates, CANDIDATES_EACH * len(dead))
                states = self._sample(step, candidates, candidates)
                replace_dead(self.module, self.optimiser, dead, states)
                usage.start(step, dead)
                self.replaced += len(dead)

    def _sample(self, step: int, count: int, among: int) -> Tensor:
        def forward(input_ids: Tensor) -> Tensor:
            with self._autocast():
                return self.module(input_ids, read_states)

        states = sample_states(
            forward, self.batches, self.ranks, seed=self.recipe.seed, step=step, count=count, among=among
        )
        self.ranks.settle(self.module)
        return states

    def _evaluate(self, held_out: HeldOut) -> None:
        with self._autocast():
            seeded = not self.config.dense and self.step > self.seed_step
            figures = held_out.measure(self.module, with_bank=seeded)
        self.ranks.settle(self.module)
        self.reporter.held_out(figures, step=self.step, tokens=self.tokens)

    def _due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _compare(self, state: State) -> None:
        now, then = (self.ranks.world_size, torch.get_num_threads()), (state.processes, state.threads)
        if now != then and self.ranks.is_main:
            warnings.warn(
                f"the checkpoint was written by {then[0]} processes of {then[1]} threads and {now[0]} of "
                f"{now[1]} go on: same batches, but sums round differently, so the last bits will differ",
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
