"""Ctrl-C and SIGTERM end a run after the step that is under way, on all processes after the same step."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import torch
import torch.distributed as dist

from prism_lm.artifacts.errors import PrismError
from prism_lm.training.parallel import Ranks


class TrainingStopped(PrismError):  # noqa: N818 - what the user asked for, not a fault
    """Training ended early on request; the line says where the checkpoint is and how to go on."""


class StopRequest:
    """Whether any process was asked to stop. Asking is one tiny exchange that overlaps the next step."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks, self._asked = ranks, False
        self._flag = torch.zeros(1, dtype=torch.int32)
        self._exchange: dist.Work | None = None

    def ask(self) -> None:
        """From a signal handler."""
        self._asked = True

    def heard(self) -> bool:
        """Called once a step by every process; all get the same answer, one step late where there are
        several.
        """
        if self._ranks.mesh is None:
            return self._asked
        heard = False
        if self._exchange is not None:
            self._exchange.wait()
            heard = bool(self._flag)
        self._flag = torch.tensor([int(self._asked)], dtype=torch.int32)
        self._exchange = dist.all_reduce(self._flag, op=dist.ReduceOp.MAX, async_op=True)
        return heard

    def finish(self) -> None:
        """Waits for an exchange that is under way."""
        if self._exchange is not None:
            self._exchange.wait()


@contextmanager
def stop_on_signals(ranks: Ranks) -> Generator[StopRequest]:
    """Listens for SIGINT and SIGTERM; a second Ctrl-C ends at once, as does one before training begins."""
    request = StopRequest(ranks)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: FrameType | None) -> None:
        request.ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        request.finish()
