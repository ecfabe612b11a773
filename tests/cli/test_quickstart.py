"""The main job, reduced: from installed documentation to a control, and once more from what is there."""

import json
import re
import shutil

import pytest

from prism_lm.cli.main import main

REDUCED = ["--steps", "6", "--max-bytes", "40000", "--prompt", "Return the"]


def quickstart(out, capsys, *more):
    status = main(["quickstart", "--out", str(out), *REDUCED, *more])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_quickstart_tells_its_story_and_reuses_what_is_whole(tmp_path, capsys):
    out = tmp_path / "quick start"
    status, story, notes = quickstart(out, capsys)
    assert status == 0
    assert [line.split()[:2] for line in notes.splitlines() if re.match(r"\d ", line)] == [
        ["1", "corpus"],
        ["2", "model"],
        ["3", "index"],
    ]
    for heading in (
        "A sentence that it wrote",
        "What made each word",
        "What those prototypes stand for",
        "Next",
    ):
        assert heading in story
    assert re.search(r"\.py:\S*\d+.* · characters \d+", story)
    assert f"prism show '{out}/run'" in story
    for kind, folder in (("corpus", "corpus"), ("run", "run"), ("index", "run/index")):
        assert json.loads((out / folder / "manifest.json").read_text())["kind"] == kind

    status, again, notes = quickstart(out, capsys)
    assert status == 0
    assert again == story
    assert notes.count("used again") == 3

    shutil.rmtree(out / "run" / "index")
    status, again, notes = quickstart(out, capsys)
    assert status == 0
    assert again == story
    assert notes.count("used again") == 2

    (out / "run" / "index" / "examples.parquet").write_bytes(b"short")
    status, again, notes = quickstart(out, capsys)
    assert status == 0
    assert again == story
    assert "it is made again" in notes

    status, again, notes = quickstart(out, capsys, "--max-bytes", "70000")
    assert status == 2
    assert notes.splitlines()[-1].startswith("error: ")
    assert "other settings" in notes


@pytest.mark.parametrize("words", [["--steps", "0"], ["--max-bytes", "0"]])
def test_options_out_of_range(words, capsys, tmp_path):
    assert main(["quickstart", "--out", str(tmp_path / "q"), *words]) == 2
    assert words[0] in capsys.readouterr().err
    assert not (tmp_path / "q").exists()


def test_a_file_in_the_place_of_the_folder(capsys, tmp_path):
    (tmp_path / "q").write_text("mine")
    assert main(["quickstart", "--out", str(tmp_path / "q")]) == 2
    assert "not a folder" in capsys.readouterr().err
