"""What a run says while it goes on: lines of metrics, figures beside the bar, time spent in steps."""

import math
import time

from prism_lm.training.checkpoints import State
from prism_lm.training.config import TrainingConfig
from prism_lm.training.ledger import Ledger, NotFiniteError
from prism_lm.training.metrics import FILE_NAME, Figure, MetricsFile, plain
from prism_lm.training.parallel import Ranks
from prism_lm.training.schedule import clustering_factor, learning_rate_factor


class Reporter:
    """The metrics of one run, continued from the state of a checkpoint."""

    def __init__(self, config: TrainingConfig, ranks: Ranks, steps: int, state: State) -> None:
        self._config, self._ranks, self._steps = config, ranks, steps
        self.clock = Clock(state)
        self.ledger = Ledger(ranks, config.recipe.data.micro_batch, state.pending)
        self.figures = state.figures
        self.shown: dict[str, str] = {}
        path = config.out / FILE_NAME
        self._file = ranks.by_main(lambda: MetricsFile(path, keep=state.metrics_bytes))

    def log(self, *, step: int, tokens: int, replaced: int) -> None:
        """A line over the steps since the last one.

        Raises:
            NotFiniteError: the loss or the gradient of one of them is not a number.
        """
        figures = self.ledger.take()
        figures |= self._speed(tokens, figures["loss"].set) | self._schedule(step)
        if not self._config.dense:
            figures["prototypes_replaced"] = Figure(
                value=replaced, unit="prototypes", set=f"training steps 1 to {step}"
            )
        self.shown |= {
            name: f"{figures[name].value or 0.0:.3f}" for name in ("loss", "R1", "R2") if name in figures
        }
        self._write("train", step, tokens, figures)

    def held_out(self, figures: dict[str, Figure], *, step: int, tokens: int) -> None:
        """A line of held-out figures; the last one also goes into the manifest.

        Raises:
            NotFiniteError: the loss is not a number.
        """
        loss = figures["loss"].value or 0.0
        if not math.isfinite(loss):
            raise NotFiniteError(step, "held-out loss", loss)
        self.figures = plain(figures)
        self.shown["held-out"] = f"{loss:.3f}"
        self._write("held_out", step, tokens, figures)

    def settle(self) -> int:
        """Forces the lines to the disk; their length, on the main process, which is the one that notes it."""
        return self._ranks.by_main(lambda: self._file.settle() if self._file else 0) or 0

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()

    def _speed(self, tokens: int, where: str) -> dict[str, Figure]:
        done, seconds = self.clock.lap(tokens)
        unit = "tokens per second, all processes"
        return {"tokens_per_second": Figure(value=done / seconds, unit=unit, set=where)} if seconds else {}

    def _schedule(self, step: int) -> dict[str, Figure]:
        recipe, where = self._config.recipe, f"training step {step}"
        rate = recipe.optimiser.learning_rate * learning_rate_factor(recipe.optimiser, step - 1, self._steps)
        figures = {"learning_rate": Figure(value=rate, unit="of the backbone", set=where)}
        if not self._config.dense:
            factor = clustering_factor(recipe.bank, step - 1, self._steps)
            figures["clustering_factor"] = Figure(
                value=factor, unit="fraction of the final weights", set=where
            )
        return figures

    def _write(self, event: str, step: int, tokens: int, figures: dict[str, Figure]) -> None:
        def write() -> None:
            assert self._file is not None
            self._file.write(event=event, step=step, tokens=tokens, figures=figures)

        self._ranks.by_main(write)


class Clock:
    """Seconds spent in steps, in all and since the last line of metrics; evaluation and checkpoints not
    counted.
    """

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
