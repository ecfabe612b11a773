"""A small corpus, a recipe of a second, and a launcher of training processes that can be killed."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from prism_lm.corpus.config import PrepareConfig
from prism_lm.training import (
    BankSettings,
    DataSettings,
    ModelShape,
    MonitoringSettings,
    OptimiserSettings,
    Recipe,
    RuntimeSettings,
    TrainingConfig,
)
from prism_lm.training.serialise import to_dict


def tiny_recipe(**parts):
    """Sixteen steps of two micro-batches; the bank is set at step 4, dead prototypes are replaced every 3."""
    recipe = Recipe(
        name="tiny",
        model=ModelShape(hidden_size=16, layers=2, heads=2),
        bank=BankSettings(
            num_prototypes=96,
            active_prototypes=2,
            reconstruction_weight=0.3,
            prototype_coverage_weight=0.3,
            token_coverage_weight=0.3,
            dead_after=2,
            reseed_every=3,
            reseed_until=0.95,
        ),
        optimiser=OptimiserSettings(learning_rate=1e-2),
        data=DataSettings(sequence_length=32, batch=4, micro_batch=2, steps=16),
        monitoring=MonitoringSettings(
            log_every=3, evaluate_every=8, checkpoint_every=4, held_out_tokens=400, keep=2
        ),
        runtime=RuntimeSettings(device="cpu", threads=1),
    )
    return replace(
        recipe,
        **{
            name: replace(getattr(recipe, name), **part) if isinstance(part, dict) else part
            for name, part in parts.items()
        },
    )


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """A corpus of some thousand tokens, its last sequence short, and a held-out one."""
    from prism_lm.corpus.prepare import prepare

    folder = tmp_path_factory.mktemp("corpora")
    dice = random.Random(1)
    words = ["ant", "bee", "crow", "deer", "eel", "frog", "goat", "hen", "ibis", "jay"]
    lines = [" ".join(dice.choices(words, k=dice.randint(3, 40))) + "." for _ in range(220)]
    (folder / "text.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))
    prepare(
        PrepareConfig(
            sources=(str(folder / "text.jsonl"),), out=folder / "corpus", vocab_size=280, held_out=0.2
        )
    )
    return folder / "corpus", folder / "corpus-heldout"


@pytest.fixture
def configure(corpora, tmp_path):
    """Makes the configuration of a run in this test's folder from parts of the tiny recipe."""

    def make(name="run", *, dense=False, held_out=True, **parts):
        return TrainingConfig(
            recipe=tiny_recipe(**parts),
            corpus=corpora[0],
            held_out=corpora[1] if held_out else None,
            out=tmp_path / name,
            dense=dense,
        )

    return make


@dataclass
class Launched:
    """The processes of one run."""

    launcher: "Launcher"
    pids: list
    log: Path

    def kill(self, number=signal.SIGKILL):
        for pid in self.pids:
            os.kill(pid, number)

    def wait(self):
        """Exit statuses; a negative one is the signal that ended the process."""
        return self.launcher.ask({"wait": self.pids})

    def output(self, rank=0):
        return Path(f"{self.log}.{rank}").read_text()


class Launcher:
    """Starts training processes by forking one that has imported everything."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "training.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": _tests()},
        )

    def ask(self, order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, config, *, processes=1, resume=False, fault=None, **arguments):
        log = config.out.with_name(f"{config.out.name}-{time.monotonic_ns()}.log")
        environment = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        pids = self.ask(
            {
                "config": to_dict(config),
                "resume": resume,
                "log": str(log),
                "environment": environment,
                "fault": {"name": fault, "arguments": arguments} if fault else None,
            }
        )
        return Launched(self, pids, log)

    def run(self, config, *, status=0, **options):
        """Starts a run, waits for it and checks how it ended, process for process alike."""
        launched = self.start(config, **options)
        statuses = launched.wait()
        assert statuses == [status] * len(statuses), launched.output()
        return launched

    def close(self):
        with self._process:  # closes its pipes, at which it ends
            pass


@pytest.fixture(scope="session")
def launcher():
    """One for each test process."""
    made = Launcher()
    yield made
    made.close()


def _tests():
    return str(Path(__file__).parent.parent)


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
