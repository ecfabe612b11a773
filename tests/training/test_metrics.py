"""Lines of metrics: whole, in order, and honest about what is no number."""

import json
import math

import pytest

from prism_lm.artifacts.errors import UserError
from prism_lm.training.ledger import StepTerms, summarise
from prism_lm.training.metrics import Figure, MetricsFile, read_metrics


def test_what_is_no_number_is_null(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl", keep=0)
    figures = {
        "good": Figure(value=1.5, unit="u", set="s"),
        "zero": Figure(value=0.0, unit="u", set="s"),
        **{str(value): Figure(value=value, unit="u", set="s") for value in (math.nan, math.inf)},
    }
    file.write(event="train", step=1, tokens=2, figures=figures)
    file.close()
    (line,) = read_metrics(tmp_path)
    assert {name: figure["value"] for name, figure in line["figures"].items()} == {
        "good": 1.5, "zero": 0.0, "nan": None, "inf": None,
    }  # fmt: skip


def test_a_file_is_cut_to_what_the_checkpoint_knew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, keep=0)
    for step in (1, 2):
        file.write(event="train", step=step, tokens=step, figures={})
    kept = file.settle()
    file.write(event="train", step=3, tokens=3, figures={})
    file.close()
    file = MetricsFile(path, keep=kept)
    file.write(event="train", step=3, tokens=30, figures={})
    file.close()
    assert [(line["step"], line["tokens"]) for line in read_metrics(tmp_path)] == [(1, 1), (2, 2), (3, 30)]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_folder_without_metrics_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"metrics.jsonl is not there; expected the folder of a run"):
        read_metrics(tmp_path)


def terms(step, **changes):
    plain = {
        "cross_entropy": 10.0, "predicted": 5, "states": 8, "reconstruction": None,
        "prototype_coverage": None, "token_coverage": None, "gradient_norm": 1.0, "bank_gradient_norm": None,
    }  # fmt: skip
    return StepTerms(step=step, **plain | changes)


def test_a_line_weighs_by_tokens_and_leaves_steps_without_the_bank_out_of_coverage():
    clustered = {
        "reconstruction": 3.0,
        "prototype_coverage": 0.5,
        "token_coverage": 6.0,
        "bank_gradient_norm": 2.0,
    }
    shorter = clustered | {"states": 4, "token_coverage": 3.0}
    figures = summarise([terms(0, predicted=15), terms(1, **clustered), terms(2, **shorter)], micro_batch=2)
    values = {name: figure.value for name, figure in figures.items()}
    assert values == pytest.approx(
        {
            "loss": 30 / 25,
            "gradient_norm": 1.0,
            "reconstruction": 6 / 12,
            "R1": 0.5,
            "R2": 9 / 12,
            "bank_gradient_norm": 2.0,
        }
    )
    assert figures["loss"].set == "25 predicted tokens of training steps 1 to 3"
    assert figures["R2"].set == "12 tokens of training steps 2 to 3"
