"""`prism train` from the outside: plans, refusals, and a run under torchrun."""

import json
import os
import subprocess
import sys

import pytest

from prism_lm.artifacts.run import open_run
from prism_lm.cli.main import main

TINY = [
    "--model.hidden-size", "16", "--model.layers", "2", "--model.heads", "2", "--bank.num-prototypes", "32",
    "--bank.active-prototypes", "2", "--data.sequence-length", "32", "--data.batch", "4",
    "--data.micro-batch", "2", "--data.steps", "8", "--runtime.threads", "1",
    "--monitoring.held-out-tokens", "200",
]  # fmt: skip


def test_a_plan_of_this_machine_without_a_corpus(capsys):
    assert main(["train", "micro", "--plan"]) == 0
    shown = capsys.readouterr()
    for name in ("parameters", "tokens", "operations", "memory", "time"):
        assert f"\n{name}" in shown.out
    assert "an estimate: 50% of the" in shown.out
    assert "planned with the vocabulary of GPT-2" in shown.err


def test_a_plan_as_json_with_a_corpus(capsys, corpora):
    words = ["train", "gpt2_124m", "--plan", "--json", "--corpus", str(corpora[0])]
    assert main([*words, "--plan-device", "h200", "--plan-devices", "4", "--dense"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["devices"] == 4
    assert plan["parameters"]["bank"] == 0
    assert plan["seconds"] > 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["micro"], "--corpus is missing; expected prism train RECIPE --corpus CORPUS --out RUN"),
        (["micro", "--corpus", "c"], "--out is missing"),
        (
            ["micro", "--corpus", "nowhere", "--out", "o"],
            "nowhere does not exist; a corpus folder was expected",
        ),
        (["micro", "--plan", "--data.batch", "17"], "data.batch is 17; expected a multiple of"),
        (["micro", "--plan", "--plan-device", "abacus"], "device 'abacus' is not known"),
        (["macro", "--plan"], "macro"),
        (["micro", "--plan", "--bank.num-prototype", "3"], "--bank.num-prototype"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(capsys, words, line):
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert line in error
    assert "\n" not in error


def test_a_run_with_options_its_twin_and_its_resumption(capsys, corpora, tmp_path):
    words = ["train", "micro", *TINY, "--corpus", str(corpora[0]), "--held-out", str(corpora[1])]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().err
    assert "parameters" in shown
    assert f"prism index {tmp_path / 'run'} --corpus {corpora[0]}" in shown
    assert "loss_without_residual" in shown
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "holds a finished run" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path / "run"), "--resume"]) == 0
    assert main([*words, "--out", str(tmp_path / "twin"), "--dense"]) == 0
    assert open_run(tmp_path / "twin").is_dense


def test_under_torchrun(corpora, tmp_path):
    out = tmp_path / "run"
    words = [
        "train",
        "micro",
        *TINY,
        "--corpus",
        str(corpora[0]),
        "--out",
        str(out),
        "--runtime.sharding",
        "full",
    ]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "prism_lm", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("holds the prototype model") == 1
    command = open_run(out).manifest.command
    assert command.startswith("torchrun --nproc-per-node 2 -m prism_lm train micro")
