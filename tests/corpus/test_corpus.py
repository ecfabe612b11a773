import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_lm.artifacts import UserError
from prism_lm.corpus import Corpus
from prism_lm.corpus import layout as on_disk
from prism_lm.corpus.batches import Batch
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.encode import Encoder
from prism_lm.corpus.tokenizer import CorpusTokenizer
from prism_lm.corpus.writer import CorpusWriter

MakeCorpus = Callable[..., Corpus]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["x", "the fox", "the fox", "e\u0301", "🏽\u200d🦊", "\r\n", "\0", "<|endoftext|>", "東京"]
)


def write(folder: Path, tokenizer: CorpusTokenizer, texts: list[str]) -> Corpus:
    with CorpusWriter(folder, tokenizer) as writer:
        for start in range(0, len(texts), 3):
            documents = [
                RawDocument(position=f"f:{i}", place="f", text=text, source=f"s{i % 2}", metadata={"i": i})
                for i, text in enumerate(texts[start : start + 3], start)
            ]
            batch = Batch(documents=documents, sizes=[len(document.text.encode()) for document in documents])
            encoded = Encoder(tokenizer).encode([document.text for document in documents])
            writer.append([document.position for document in documents], batch, encoded)
        writer.finish(configuration={}, sources={}, figures={}, command="test")
    return Corpus.open(folder)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXT, min_size=1, max_size=9), shard=st.sampled_from([1, 3, 5, 2**26]))
def test_every_position_leads_back_to_its_document_and_characters(
    tokenizer: CorpusTokenizer,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    shard: int,
) -> None:
    """Against a plain loop, whatever the shards; duplicates and one-token documents included."""
    monkeypatch.setattr(on_disk, "TOKENS_PER_SHARD", shard)
    corpus = write(tmp_path_factory.mktemp("corpus"), tokenizer, texts)
    position = 0
    for index, text in enumerate(texts):
        alone = Encoder(tokenizer).encode([text])
        first, stop = corpus.document_range(index)
        assert (first, stop) == (position, position + len(alone.ids))
        assert corpus.tokens(first, stop).tolist() == alone.ids.tolist()
        assert corpus.spans(first, stop).tolist() == alone.spans.tolist()
        assert corpus.document(index).text == text
        assert corpus.tokenizer.decode(corpus.tokens(first, stop)) == text
        for offset, (start, end) in enumerate(alone.spans.tolist()):
            found = corpus.locate(first + offset)
            assert (found.document_index, found.document_id) == (index, f"f:{index}")
            assert (found.start, found.end, found.is_separator) == (start, end, False)
        separator = corpus.locate(stop)
        assert (separator.start, separator.end, separator.is_separator) == (len(text), len(text), True)
        assert corpus.tokens(stop, stop + 1).tolist() == [corpus.separator_id]
        position = stop + 1
    assert corpus.num_tokens == position
    owners = [corpus.document_index(i) for i in range(position)]
    assert corpus.documents_of(np.arange(position)).tolist() == owners
    assert [corpus.source_names[i] for i in corpus.sources] == [f"s{i % 2}" for i in range(len(texts))]
    assert [document.metadata for document in corpus.documents()] == [{"i": i} for i in range(len(texts))]


def test_documents_of_keeps_shapes_and_refuses_what_is_outside(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["the fox", "x"])
    last = corpus.num_tokens - 1
    assert corpus.documents_of(np.array([[0, last], [last, 0]])).tolist() == [[0, 1], [1, 0]]
    assert corpus.documents_of(np.empty(0, dtype=np.int64)).tolist() == []
    for wrong in (-1, corpus.num_tokens):
        with pytest.raises(IndexError):
            corpus.documents_of(np.array([wrong]))
        with pytest.raises(IndexError):
            corpus.document_index(wrong)
        with pytest.raises(IndexError):
            corpus.locate(wrong)
    for start, stop in ((-1, 1), (2, 1), (0, corpus.num_tokens + 1)):
        with pytest.raises(IndexError):
            corpus.tokens(start, stop)
    for index in (-1, 2):
        with pytest.raises(IndexError):
            corpus.document(index)
        with pytest.raises(IndexError):
            corpus.document_range(index)
    assert corpus.tokens(1, 1).tolist() == []


def test_documents_are_found_across_row_groups_and_files(
    make_corpus: MakeCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prism_lm.corpus import shards

    monkeypatch.setattr(shards, "GROUP_ROWS", 3)
    monkeypatch.setattr(shards, "FILE_BYTES", 60)
    texts = [f"document number {i}" for i in range(40)]
    corpus = make_corpus(texts)
    assert len(list(corpus.path.glob("documents-*.parquet"))) > 3
    order = np.random.default_rng(0).permutation(40).tolist()
    assert [corpus.document(i).text for i in order] == [texts[i] for i in order]
    assert [corpus.document(i).index for i in order] == order
    assert [document.text for document in corpus.documents()] == texts


def test_table_of_documents_says_where_their_tokens_are(make_corpus: MakeCorpus) -> None:
    """Documented columns: other tools read this file without prism-lm."""
    import pyarrow.parquet as pq

    corpus = make_corpus([{"text": "the fox", "id": "a", "title": "T", "year": 1}, "x"])
    rows = pq.read_table(corpus.path / "documents-00000.parquet").to_pylist()
    assert list(rows[0]) == [
        *("id", "text", "source", "url", "licence", "title", "metadata", "first_token", "token_count"),
    ]
    for index, row in enumerate(rows):
        first, stop = corpus.document_range(index)
        assert (row["first_token"], row["token_count"]) == (first, stop - first)
    assert rows[0]["metadata"] == '{"year": 1}'


def damaged(corpus: Corpus, folder: Path, damage: Callable[[Path], Any]) -> Path:
    shutil.copytree(corpus.path, folder)
    damage(folder)
    return folder


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda folder: (folder / "tokens-00000.bin").unlink(),
            r"not whole: tokens-00000\.bin is missing; make it",
        ),
        (lambda folder: (folder / "spans-00000.bin").write_bytes(b"0"), r"spans-00000\.bin has 1 bytes"),
        (
            lambda folder: (folder / "tokenizer" / "tokenizer.json").unlink(),
            r"tokenizer/tokenizer\.json is missing",
        ),
        (
            lambda folder: (folder / "manifest.json").unlink(),
            r"holds no manifest\.json, so it is not finished",
        ),
    ],
)
def test_corpus_that_is_not_whole_is_refused(
    make_corpus: MakeCorpus, tmp_path: Path, damage: Callable[[Path], Any], said: str
) -> None:
    folder = damaged(make_corpus(["the fox"]), tmp_path / "damaged", damage)
    with pytest.raises(UserError, match=said):
        Corpus.open(folder)


def test_altered_bytes_are_found_when_asked(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus(["the fox"])

    def flip(folder: Path) -> None:
        raw = bytearray((folder / "tokens-00000.bin").read_bytes())
        raw[0] ^= 1
        (folder / "tokens-00000.bin").write_bytes(raw)

    folder = damaged(corpus, tmp_path / "damaged", flip)
    Corpus.open(folder)
    with pytest.raises(UserError, match="damaged"):
        Corpus.open(folder, deep=True)
    Corpus.open(corpus.path, deep=True)


def test_copy_for_another_process_is_small_and_reads_the_same(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["the fox"] * 300)
    corpus.document(0)
    sent = pickle.dumps(corpus)
    assert len(sent) < 1000
    assert pickle.loads(sent).tokens(0, 10).tolist() == corpus.tokens(0, 10).tolist()
    assert "300 documents" in repr(corpus)
