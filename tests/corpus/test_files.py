import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_lm.artifacts import UserError
from prism_lm.corpus import files as files_module
from prism_lm.corpus.config import FieldNames
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.files import SourceFile, read_file
from prism_lm.corpus.problems import Problems

Write = Callable[[Path], None]


def read(path: Path, problems: Problems | None = None) -> list[RawDocument]:
    file = SourceFile(path=path, name=f"folder/{path.name}", source="folder")
    return list(read_file(file, FieldNames(), problems or Problems()))


def test_plain_file_is_one_document_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffé\r\n\0end".encode())
    (document,) = read(path)
    assert document.text == "é\r\n\0end"
    assert (document.position, document.source, document.title) == ("folder/a.txt", "folder", "a")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_lines_are_documents(tmp_path: Path, name: str) -> None:
    lines = [
        json.dumps({"text": "the fox", "id": "i"}),
        "",
        json.dumps({"text": "東\u2028京"}, ensure_ascii=False),
    ]
    raw = "\ufeff" + "\r\n".join(lines)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wb") as file:
        file.write(raw.encode())
    first, second = read(tmp_path / name)
    assert (first.text, first.id) == ("the fox", "i")
    assert (second.text, second.id, second.position) == ("東\u2028京", None, f"folder/{name}:3")
    assert second.place == f"{tmp_path / name}:3"


def test_rows_are_documents(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(200)]
    pq.write_table(pa.table({"text": texts, "n": list(range(200))}), tmp_path / "a.parquet")
    documents = read(tmp_path / "a.parquet")
    assert [document.text for document in documents] == texts
    assert documents[150].metadata == {"n": 150}
    assert documents[150].position == "folder/a.parquet:150"


def put(raw: bytes) -> Write:
    return lambda path: path.write_bytes(raw) and None


def put_gzip_cut_short(path: Path) -> None:
    whole = gzip.compress(b'{"text": "good"}\n' * 50 + bytes(range(256)) * 200, compresslevel=0)
    path.write_bytes(whole[:30_000])


def put_parquet_that_is_not_utf8(path: Path) -> None:
    column = pa.array([b"good", b"\xff\xfe", b"good"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": column}), path)


BAD = [
    ("empty.txt", put(b""), 0, "empty file", r"empty\.txt: the file is empty"),
    ("empty.jsonl", put(b""), 0, "empty file", r"empty\.jsonl: the file is empty"),
    (
        "bad.txt",
        put(b"one\ntwo \xff"),
        0,
        "not UTF-8",
        r"bad\.txt:2: byte 5 of the line \(0xff\) is not UTF-8",
    ),
    (
        "bad.jsonl",
        put(b'{"text": "a"}\n{"text": \n{"text": "b"}\n'),
        2,
        "broken JSON",
        r"bad\.jsonl:2: not JSON",
    ),
    ("list.jsonl", put(b'[1]\n{"text": "b"}\n'), 1, "broken JSON", r"list\.jsonl:1: .*not an object"),
    ("deep.jsonl", put(b"[" * 100_000 + b'\n{"text": "b"}'), 1, "broken JSON", r"deep\.jsonl:1: not JSON"),
    (
        "utf.jsonl",
        put(b'{"text": "a"}\n{"text": "\xe9"}\n'),
        1,
        "not UTF-8",
        r"utf\.jsonl:2: byte 11 of the line",
    ),
    (
        "none.jsonl",
        put(b'{"text": "a"}\n{"t": "b"}\n'),
        1,
        "missing field",
        r"none\.jsonl:2: no field 'text'",
    ),
    ("cut.jsonl.gz", put_gzip_cut_short, 50, "broken", r"cut\.jsonl\.gz:51"),
    ("not.jsonl.gz", put(b"plain text"), 0, "broken gzip", r"not\.jsonl\.gz:1: the gzip stream is broken"),
    ("bad.parquet", put(b"PAR1 no"), 0, "broken parquet", r"bad\.parquet:0: cannot be read from this row on"),
    (
        "utf.parquet",
        put_parquet_that_is_not_utf8,
        2,
        "not UTF-8",
        r"utf\.parquet:1: field 'text' is not UTF-8",
    ),
]


@pytest.mark.parametrize(("name", "write", "good", "kind", "said"), BAD, ids=[case[0] for case in BAD])
def test_bad_input_stops_with_file_and_line_or_is_skipped_and_counted(
    tmp_path: Path, name: str, write: Write, good: int, kind: str, said: str
) -> None:
    write(tmp_path / name)
    with pytest.raises(UserError, match=said) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("--on-error skip")
    problems = Problems("skip")
    assert len(read(tmp_path / name, problems)) == good
    assert [found for found in problems.counts if found.startswith(kind)]
    assert sum(problems.counts.values()) >= 1


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.txt: cannot be read: No such file"):
        read(tmp_path / "gone.txt")


def test_file_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n.txt"
    path.write_bytes(b"")
    with pytest.raises(UserError) as caught:
        read(path)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_endless_line_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_DOCUMENT_BYTES", 64)
    (tmp_path / "a.jsonl").write_text('{"text": "' + "x" * 1000 + '"}\n{"text": "good"}\n')
    (tmp_path / "a.txt").write_text("x" * 65)
    problems = Problems("skip")
    assert [document.text for document in read(tmp_path / "a.jsonl", problems)] == ["good"]
    assert read(tmp_path / "a.txt", problems) == []
    assert problems.counts == {"too long": 2}
    assert "the limit is 64 B; split it" in problems.examples["too long"][0]


def test_only_the_first_examples_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("no\n" * 100)
    problems = Problems("skip")
    assert read(tmp_path / "a.jsonl", problems) == []
    assert problems.counts == {"broken JSON": 100}
    assert len(problems.examples["broken JSON"]) == 3
