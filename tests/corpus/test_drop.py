"""A corpus without some documents: nothing else moves, and the list is taken at its word or refused."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_lm.artifacts.errors import UserError
from prism_lm.cli.main import main
from prism_lm.corpus import Corpus
from prism_lm.corpus.drop import DropPlan

from .conftest import PROSE, MakeCorpus

RECORDS = [
    {"text": text, "id": f"d{number}", "source": "ab"[number % 2], "url": f"u{number}", "stars": number}
    for number, text in enumerate([*PROSE, PROSE[0], "x"])
]


@pytest.fixture
def corpus(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus(RECORDS)


def write_list(folder: Path, ids: list[str], name: str = "list.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{id}\n" for id in ids), encoding="utf-8")
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(chosen=st.sets(st.integers(0, len(RECORDS) - 1), min_size=1, max_size=len(RECORDS) - 1))
def test_what_stays_is_as_it_was(corpus: Corpus, tmp_path: Path, chosen: set[int]) -> None:
    drop_list = write_list(tmp_path, [f"d{number}" for number in chosen])
    made = DropPlan.of(corpus, drop_list).write(tmp_path / "less", overwrite=True)
    kept = [number for number in range(len(RECORDS)) if number not in chosen]
    assert made.num_documents == len(kept)
    for place, number in enumerate(kept):
        one, other = made.document(place), corpus.document(number)
        assert (one.id, one.text, one.source, one.url, one.metadata) == (
            other.id, other.text, other.source, other.url, other.metadata,
        )  # fmt: skip
        (start, stop), (was_start, was_stop) = made.document_range(place), corpus.document_range(number)
        assert np.array_equal(made.tokens(start, stop + 1), corpus.tokens(was_start, was_stop + 1))
        assert np.array_equal(made.spans(start, stop + 1), corpus.spans(was_start, was_stop + 1))
    assert made.manifest.sources == {"parent": corpus.hash}
    assert "dropped.txt" in made.manifest.files
    assert Corpus.open(made.path, deep=True).hash == made.hash


def test_counts_by_source_are_those_of_a_plain_loop(corpus: Corpus, tmp_path: Path) -> None:
    plan = DropPlan.of(corpus, write_list(tmp_path, ["d1", "d2", "d3"]))
    for change in plan.changes():
        numbers = [n for n, record in enumerate(RECORDS) if record["source"] == change.source]
        sizes = {n: len(range(*corpus.document_range(n))) for n in numbers}
        assert (change.documents, change.tokens) == (len(sizes), sum(sizes.values()))
        assert change.dropped_tokens == sum(sizes[n] for n in numbers if n in (1, 2, 3))
        assert change.dropped_documents == len({1, 2, 3} & set(numbers))
    assert {change.source for change in plan.changes()} == {"a", "b"}


def test_lists_of_every_kind_and_entries_that_were_reviewed(corpus: Corpus, tmp_path: Path) -> None:
    entries = [{"id": "d0", "score": 2.5}, {"id": "d2", "drop": False}, {"id": "d4", "drop": True}]
    lines = tmp_path / "list.jsonl"
    lines.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    rows = tmp_path / "list.parquet"
    pq.write_table(pa.table({"id": ["d0", "d2", "d4"], "drop": [True, False, True]}), rows)
    for path in (lines, rows, write_list(tmp_path, ["d0", "d4", "d0"])):
        assert np.flatnonzero(DropPlan.of(corpus, path).dropped).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("l.txt", "d0\nnone\n", "names documents that .* has not: none;"),
        ("l.txt", "", "names no document"),
        ("l.txt", "".join(f"d{n}\n" for n in range(len(RECORDS))), "nothing would be left"),
        ("l.csv", "id\nd0\n", "is of kind '.csv'; expected .txt, .jsonl, .parquet"),
        ("l.jsonl", '{"id": "d0"}\n{"id": 3}\n', r"l.jsonl:2: no field 'id'"),
        ("l.jsonl", '{"id": "d0"}\n{"id"\n', r"l.jsonl:2: no JSON"),
        ("l.jsonl", '{"id": "d0", "drop": "no"}\n', r"l.jsonl:1: the field 'drop' is 'no'"),
        ("l.parquet", "PAR", "is no parquet file"),
    ],
)
def test_a_bad_list_is_refused(corpus: Corpus, tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said):
        DropPlan.of(corpus, tmp_path / name)


def test_the_parent_is_not_replaced(corpus: Corpus, tmp_path: Path) -> None:
    plan = DropPlan.of(corpus, write_list(tmp_path, ["d1"]))
    with pytest.raises(UserError, match="stays as it is"):
        plan.write(corpus.path, overwrite=True)
    assert Corpus.open(corpus.path, deep=True).hash == corpus.hash


def test_the_command(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["drop", str(corpus.path), "--list", str(write_list(tmp_path, ["d1"]))]
    assert main([*words, "--dry-run"]) == 0
    assert "1 of 3" in capsys.readouterr().out
    assert main(words) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path / "less")]) == 0
    assert f"made {tmp_path / 'less'}: 5 documents" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--out", str(tmp_path / "less")]) == 2
    capsys.readouterr()
    assert main([*words, "--out", str(tmp_path / "less"), "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["dropped_documents"] == 1
