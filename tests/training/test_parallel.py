"""One process that accumulates, data parallel and fully sharded: the same loss, the same weights."""

import pytest
from safetensors.torch import load_file

from prism_lm.training import read_metrics


def weights(config):
    return load_file(config.out / "model.safetensors")


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def losses(config):
    return [line["figures"]["loss"]["value"] for line in read_metrics(config.out)]


@pytest.mark.parametrize("dense", [False, True], ids=["prism", "dense"])
@pytest.mark.parametrize("sharding", ["data", "full"])
def test_two_processes_agree_with_one_that_accumulates(configure, launcher, sharding, dense):
    model = {"backbone": "qwen3", "tied": False} if dense else {}
    parts = {"runtime": {"sharding": sharding}, "model": model}
    alone, together = configure("alone", dense=dense, **parts), configure("together", dense=dense, **parts)
    launcher.run(alone)
    launcher.run(together, processes=2)
    # The same terms in another order of addition: what rounding makes of that in sixteen steps.
    assert losses(together) == pytest.approx(losses(alone), rel=1e-5)
    assert largest_difference(weights(alone), weights(together)) < 1e-4
    for name in ("R1", "R2", "prototypes_replaced"):
        one, other = (
            [line["figures"][name]["value"] for line in read_metrics(run.out) if name in line["figures"]]
            for run in (alone, together)
        )
        assert one == pytest.approx(other, rel=1e-4)
        assert bool(one) != dense


def test_replaced_prototypes_are_there_to_be_compared(configure, launcher):
    config = configure()
    launcher.run(config)
    last = [line for line in read_metrics(config.out) if line["event"] == "train"][-1]
    assert last["figures"]["prototypes_replaced"]["value"] > 0


@pytest.mark.parametrize(
    "runtime",
    [{"activation_checkpointing": True}, {"activation_checkpointing": True, "sharding": "full"}],
    ids=["one", "two-full"],
)
def test_activation_checkpointing_changes_nothing(configure, launcher, runtime):
    plain, lean = configure("plain"), configure("lean", runtime=runtime)
    launcher.run(plain)
    launcher.run(lean, processes=2 if "sharding" in runtime else 1)
    assert largest_difference(weights(plain), weights(lean)) < 1e-4


def test_bfloat16_follows_float32(configure, launcher):
    exact, narrow = configure("exact"), configure("narrow", runtime={"precision": "bfloat16"})
    launcher.run(exact)
    launcher.run(narrow)
    assert losses(narrow) == pytest.approx(losses(exact), rel=0.02)
    assert losses(narrow) != losses(exact)
    assert {tensor.dtype for tensor in weights(narrow).values()} == {
        next(iter(weights(exact).values())).dtype
    }


@pytest.mark.parametrize("processes", [1, 2])
def test_compiled_layers_train_the_same_model_under_the_same_names(configure, launcher, processes):
    plain, compiled = configure("plain"), configure("compiled", runtime={"compile": True, "sharding": "full"})
    launcher.run(plain)
    launcher.run(compiled, processes=processes, fault="compile_without_code")
    assert largest_difference(weights(plain), weights(compiled)) < 1e-4
