"""`prism index` and `prism show` as typed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prism_lm.cli.main import main
from prism_lm.corpus import Corpus
from prism_lm.index import PrototypeIndex


def test_index(run: Path, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index"))
    words = ["index", str(copy), "--corpus", str(corpus.path)]
    assert main([*words, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["tokens"] == corpus.num_tokens
    assert "3,224 tokens of 65 documents" in shown.err
    assert f"Next: prism show {copy}" in shown.err
    assert main(words) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0


def test_show_a_card(index: PrototypeIndex, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "5", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"prototype 5 of {index.num_prototypes}")
    assert main(["show", str(run), "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(index.card(5).to_dict()))


def test_show_the_list(index: PrototypeIndex, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--sort", "usage", "--limit", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["prototypes"]
    assert [row["prototype"] for row in rows] == [row["prototype"] for row in index.leading("usage", 4)]
    assert main(["show", str(run)]) == 0
    assert "raises" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["99"], "error: prototype 99 is not in the bank of"),
        (["5", "--limit", "0"], "error: --limit is 0; expected 1 or more"),
        (["5", "--corpus", "nowhere"], "error: nowhere, the corpus that"),
    ],
)
def test_wrong_input_is_one_line(
    index: PrototypeIndex, run: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(run), *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(line)
    assert shown.err.count("\n") == 1


def test_showing_needs_no_torch(index: PrototypeIndex, run: Path) -> None:
    program = (
        "import sys; from prism_lm.cli.main import main; code = main(['show', sys.argv[1], '5']); "
        "sys.exit(code or ('torch' in sys.modules or 'transformers' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("Next:")) == (0, 1)
