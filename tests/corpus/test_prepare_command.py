import json
from pathlib import Path

import pytest

from prism_lm.cli.main import main
from prism_lm.corpus import Corpus, PrepareConfig
from prism_lm.corpus.estimate import estimate


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("the fox ran over the hill " * 40)
    (tmp_path / "notes" / "b.jsonl").write_text('{"text": "the dog"}\n{"text": ""}\n')
    return tmp_path / "notes"


def words(notes: Path, *more: str) -> list[str]:
    return ["prepare", str(notes), "--out", str(notes.parent / "corpus"), "--vocab-size", "270", *more]


def test_says_what_it_takes_what_it_made_and_what_comes_next(
    notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(notes, "--on-error", "skip")) == 0
    said = capsys.readouterr()
    assert "reading  2 files" in said.err
    assert "memory about" in said.err
    out = " ".join(said.out.split())
    assert "2 documents from 1 sources" in out
    assert "skipped 1 of kind 0-token document" in out
    assert "b.jsonl:2: the text is empty" in out
    assert f"next prism train quickstart --corpus {notes.parent / 'corpus'} --out run" in out


def test_bad_input_is_one_line_and_status_2(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(notes)) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert "b.jsonl:2: the text is empty" in line
    assert sorted(path.name for path in notes.parent.iterdir()) == ["notes"]


def test_json_is_one_document_with_the_held_out_part(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (notes / "b.jsonl").write_text("".join(f'{{"text": "the dog {i}"}}\n' for i in range(80)))
    assert main(words(notes, "--held-out", "0.2", "--json")) == 0
    made = json.loads(capsys.readouterr().out)
    assert [Path(part["path"]).name for part in made] == ["corpus", "corpus-heldout"]
    for part in made:
        corpus = Corpus.open(part["path"])
        assert part["hash"] == corpus.hash
        assert part["figures"]["documents"] == corpus.num_documents > 0


def test_plan_makes_nothing(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(notes, "--plan", "--json")) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["files"] == 2
    assert planned["bytes_in"] == sum(path.stat().st_size for path in notes.iterdir())
    assert not (notes.parent / "corpus").exists()


def test_estimate_knows_what_it_cannot_know(notes: Path, tmp_path: Path) -> None:
    def of(*sources: str, **limits: int) -> tuple[int | None, int | None]:
        found = estimate(PrepareConfig(sources=sources, out=tmp_path / "deep" / "out", **limits))
        assert found.disk_free > 0
        assert found.memory_bytes > 0
        return found.text_bytes, found.disk_bytes

    assert of("hf:fineweb") == (None, None)
    assert of("hf:fineweb", max_bytes=1000)[0] == 1000
    text, disk = of(str(notes), "hf:fineweb", max_bytes=1000)
    assert text == 2000
    assert disk is not None
    assert disk > text
    assert (of("installed")[0] or 0) > 1_000_000
