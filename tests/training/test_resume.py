"""Killed at any moment and resumed, a run ends with the weights of an undisturbed one, bit for bit."""

import json
import random
import signal
import time

import pytest
from safetensors.torch import load_file

from prism_lm.training import read_metrics

TIMED = {"tokens_per_second"}
SHARDINGS = pytest.mark.parametrize(
    ("processes", "sharding"), [(1, "data"), (2, "data"), (2, "full")], ids=["one", "two-data", "two-full"]
)


def weights(config):
    return load_file(config.out / "model.safetensors")


def assert_same_weights(first, second):
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].equal(other[name]), name


def lines(config):
    """Metrics without what depends on the clock."""
    return [
        {**line, "figures": {n: f for n, f in line["figures"].items() if n not in TIMED}}
        for line in read_metrics(config.out)
    ]


def kill_soon(launched, config, dice):
    """SIGKILL to all processes at a random moment after the run has begun to write."""
    deadline = time.monotonic() + 60
    while not (config.out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(dice.uniform(0.0, 1.5))
    launched.kill()
    return launched.wait()


@SHARDINGS
def test_killed_at_random_moments_ends_with_the_same_weights(configure, launcher, processes, sharding):
    runtime = {"sharding": sharding}
    undisturbed, disturbed = (
        configure("undisturbed", runtime=runtime),
        configure("disturbed", runtime=runtime),
    )
    launcher.run(undisturbed, processes=processes)
    seed = time.time_ns()
    dice = random.Random(seed)
    print(f"seed of the moments: {seed}")
    resume = False
    for _ in range(3):
        kill_soon(launcher.start(disturbed, processes=processes, resume=resume), disturbed, dice)
        resume = (disturbed.out / "training.json").exists()
    launcher.run(disturbed, processes=processes, resume=resume)
    assert_same_weights(undisturbed, disturbed)
    assert lines(undisturbed) == lines(disturbed)


FAULTS = [
    {"fault": "kill_while_writing", "checkpoint": 1, "file": "weights.safetensors"},
    {"fault": "kill_while_writing", "checkpoint": 3, "file": "exp_avg_sq.safetensors"},
    {"fault": "kill_before_pointing", "checkpoint": 1},
    {"fault": "kill_before_pointing", "checkpoint": 2},
    {"fault": "kill_while_finishing"},
]


@pytest.fixture(scope="module")
def undisturbed(launcher, corpora, tmp_path_factory):
    """A run that nobody killed."""
    from prism_lm.training import TrainingConfig

    from .conftest import tiny_recipe

    out = tmp_path_factory.mktemp("undisturbed") / "run"
    config = TrainingConfig(recipe=tiny_recipe(), corpus=corpora[0], held_out=corpora[1], out=out)
    launcher.run(config)
    return config


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, fault.values())))
def test_killed_while_writing_ends_with_the_same_weights(configure, launcher, undisturbed, fault):
    config = configure()
    launcher.run(config, status=-signal.SIGKILL, **fault)
    assert not (config.out / "manifest.json").exists()
    launcher.run(config, resume=True)
    assert_same_weights(undisturbed, config)
    assert lines(undisturbed) == lines(config)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(configure, launcher, undisturbed, number):
    config = configure()
    stopped = launcher.run(config, status=130, fault="stop_signal", step=5, number=number)
    assert "stopped at step 6 of 16" in stopped.output()
    assert "--resume" in stopped.output()
    state = json.loads((config.out / "checkpoints/step-000006/state.json").read_text())
    assert state["step"] == 6
    launcher.run(config, resume=True)
    assert_same_weights(undisturbed, config)


def test_two_processes_stop_after_the_same_step(configure, launcher):
    config = configure()
    stopped = launcher.run(
        config, processes=2, status=130, fault="stop_signal", step=5, number=signal.SIGTERM
    )
    assert stopped.output(0) == stopped.output(1)
    launcher.run(config, processes=2, resume=True)


def test_resume_of_a_finished_run_changes_nothing(configure, launcher):
    config = configure()
    launcher.run(config)
    before = {path: path.stat().st_mtime_ns for path in config.out.rglob("*")}
    launcher.run(config, resume=True)
    assert before == {path: path.stat().st_mtime_ns for path in config.out.rglob("*")}


BANK_STEP = 5 * 1e-2  # of AdamW, at the learning rate of tiny_recipe and the bank's multiplier


def test_one_process_goes_on_with_what_two_began(configure, launcher, undisturbed):
    config = configure(runtime={"sharding": "full"})
    launcher.run(config, processes=2, status=130, fault="stop_signal", step=5, number=signal.SIGTERM)
    launched = launcher.run(config, resume=True)
    assert "the last bits will differ" in launched.output()
    one, other = weights(undisturbed), weights(config)
    apart = {name: (one[name] - other[name]).abs() for name in one}
    bank = apart.pop("bank.weight")
    assert all(difference.max() < 1e-3 for difference in apart.values())
    # A prototype that has hardly a gradient moves by a step of AdamW in a direction that rounding decides.
    assert (bank.amax(-1) > 1e-3).sum() <= 3
    assert bank.max() < 2 * BANK_STEP


def test_old_checkpoints_go_and_the_newest_stay(configure, launcher):
    config = configure()
    launcher.run(config)
    names = sorted(path.name for path in (config.out / "checkpoints").iterdir())
    assert names == ["LATEST", "step-000012", "step-000016"]
