import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_lm.artifacts import UserError
from prism_lm.corpus import Corpus, PrepareConfig
from prism_lm.corpus.hub import hub_documents, resolve
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.recipes import RECIPES

FINEWEB = {
    "text": "the fox",
    "id": "<urn:uuid:1>",
    "dump": "CC-MAIN-2024-10",
    "url": "http://a/fox",
    "date": "2024-03-01T00:00:00Z",
    "file_path": "s3://commoncrawl/x.warc.gz",
    "language": "en",
    "language_score": 0.9,
    "token_count": 2,
}
EDU = {key: value for key, value in FINEWEB.items() if key != "date"} | {"score": 3.5, "int_score": 4}
NEMOTRON = {
    "warc_record_id": "<urn:uuid:1>",
    "text": "the fox",
    "url": "http://a/fox",
    "language": "en",
    "quality": "high",
}


def rows(record: dict[str, Any], name: str, count: int = 150) -> list[dict[str, Any]]:
    return [{**record, name: f"<urn:uuid:{i}>", "text": f"the fox {i}"} for i in range(count)]


def write_parquet(folder: Path, records: list[dict[str, Any]]) -> str:
    (folder / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(records), folder / "data" / "train-00000-of-00001.parquet")
    return f"hf:{folder}"


def write_jsonl(folder: Path, records: list[dict[str, Any]]) -> str:
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return f"hf:{folder}"


@pytest.mark.parametrize(
    ("recipe", "record", "id_field", "source", "metadata", "write"),
    [
        ("fineweb", FINEWEB, "id", "CC-MAIN-2024-10", ["date", "file_path", "language"], write_parquet),
        ("fineweb-edu", EDU, "id", "CC-MAIN-2024-10", ["score", "int_score", "token_count"], write_parquet),
        ("nemotron-cc", NEMOTRON, "warc_record_id", "local", ["language", "quality"], write_jsonl),
    ],
)
def test_recipes_on_a_local_data_set_of_the_same_schema(
    make_corpus: Callable[..., Corpus],
    tmp_path: Path,
    recipe: str,
    record: dict[str, Any],
    id_field: str,
    source: str,
    metadata: list[str],
    write: Callable[[Path, list[dict[str, Any]]], str],
) -> None:
    given = write(tmp_path / "local", rows(record, id_field))
    corpus = make_corpus([], sources=(given,), recipe=recipe)
    assert corpus.num_documents == 150
    document = corpus.document(140)
    assert (document.id, document.text, document.url) == ("<urn:uuid:140>", "the fox 140", "http://a/fox")
    assert (document.source, document.licence) == (source, RECIPES[recipe].licence)
    assert {name: document.metadata[name] for name in metadata} == {name: record[name] for name in metadata}


def test_data_set_without_ids_is_named_by_its_rows_and_limited_early(
    make_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    given = write_jsonl(tmp_path / "local", [{"body": f"the fox {i}"} for i in range(500)])
    corpus = make_corpus([], sources=(given,), max_documents=70)
    assert [document.id for document in corpus.documents()] == [f"local/train:{i}" for i in range(70)]


def test_known_data_sets_have_short_names_and_defaults() -> None:
    short, whole = resolve("fineweb", None), resolve("HuggingFaceFW/fineweb", None)
    assert short == whole
    assert (short.path, short.config, short.recipe) == (
        "HuggingFaceFW/fineweb",
        "sample-10BT",
        RECIPES["fineweb"],
    )
    assert resolve("fineweb:CC-MAIN-2024-10", None).config == "CC-MAIN-2024-10"
    assert resolve("fineweb-edu", None).path == "HuggingFaceFW/fineweb-edu"
    assert resolve("nemotron-cc", None).path == "nvidia/Nemotron-CC-v2"
    other = resolve("someone/mirror:small", "fineweb")
    assert (other.path, other.config, other.recipe) == ("someone/mirror", "small", RECIPES["fineweb"])
    assert resolve("someone/other", None).recipe is None
    with pytest.raises(UserError, match="'c4' is no recipe; there are fineweb,"):
        resolve("x", "c4")


def read(given: str, on_error: Any = "stop", **settings: Any) -> list[str]:
    config = PrepareConfig(sources=(f"hf:{given}",), out=Path("x"), on_error=on_error, **settings)
    return [document.text for document in hub_documents(given, config, Problems(on_error))]


def test_data_set_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be reached .*HF_TOKEN") as caught:
        read("nobody/nothing")
    assert "\n" not in str(caught.value)
    given = write_jsonl(tmp_path / "local", [{"text": "x"}]).removeprefix("hf:")
    with pytest.raises(UserError, match=r"split test, cannot be reached"):
        read(given, split="test")


def test_data_set_that_breaks_half_way(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "local", [{"text": "x"}]).removeprefix("hf:")
    (tmp_path / "local" / "train.jsonl").write_text('{"text": "a"}\n{"text": \n')
    with pytest.raises(UserError, match=r"hf:local/train:\d+: no more is read"):
        read(given)
    assert read(given, "skip") in ([], ["a"])
