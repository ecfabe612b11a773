"""`prism trace` as typed."""

import json
from pathlib import Path

import pytest

from prism_lm.attribution import trace
from prism_lm.cli.main import main


def test_a_given_output(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", str(run), "--prompt", "the cat", "--output", " sat", "--top", "2"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "sum check holds" in shown.out
    assert "Next: prism show" in shown.err
    assert main([*words, "--json"]) == 0
    found = trace(run, prompt="the cat", output=" sat", top=2).to_dict()
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))


def test_a_rival_and_a_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "trace.html"
    words = [
        "trace",
        str(run),
        "--prompt",
        "the cat",
        "--output",
        " sat",
        "--versus",
        " on",
        "--html",
        str(page),
    ]
    assert main(words) == 0
    assert "over ·on" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_the_model_writes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", str(run), "--prompt", "the cat", "--tokens", "4", "--seed", "3", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["written_by_model"]
    assert (found["seed"], found["temperature"]) == (3, 1.0)
    assert 1 <= len(found["tokens"]) <= 4


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--prompt", "a", "--output", "b", "--versus", "naïve"],
            "error: the rival 'naïve' is 6 tokens, not one",
        ),
        (["--prompt", "a", "--tokens", "200"], "error: the prompt takes 1 of the 48 tokens"),
        (["--prompt", "a", "--output", ""], "error: the output is empty"),
        (["--output", "a"], "error: "),
    ],
)
def test_wrong_input_is_one_line(
    run: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(run), *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(line)
    assert shown.err.count("\n") == 1


def test_a_page_that_cannot_be_written_stops_before_the_work(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "t.html", "there is no folder")):
        assert main(["trace", str(run), "--prompt", "the cat", "--html", str(place)]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
