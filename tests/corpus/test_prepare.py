import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_lm.artifacts import UserError
from prism_lm.corpus import Corpus, PrepareConfig, layout
from prism_lm.corpus import shards as shards_module
from prism_lm.corpus.prepare import prepare

MakeCorpus = Callable[..., Corpus]


def test_metadata_travels_with_the_document(make_corpus: MakeCorpus) -> None:
    record = {
        "id": "novel/1",
        "text": "the fox",
        "source": "books",
        "url": "http://a",
        "license": "CC0",
        "title": "T\u0000",
        "authors": ["A", "B"],
        "year": 1901,
    }
    document = make_corpus([record]).document(0)
    assert (document.id, document.source, document.url, document.licence, document.title) == (
        *("novel/1", "books", "http://a", "CC0", "T\u0000"),
    )
    assert document.metadata == {"authors": ["A", "B"], "year": 1901}


def test_documents_without_an_id_are_named_by_file_and_line(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["the fox", "the dog"])
    assert [document.id for document in corpus.documents()] == ["records.jsonl:1", "records.jsonl:2"]
    assert corpus.document(0).source == "records"


def test_duplicates_do_not_collapse(make_corpus: MakeCorpus) -> None:
    same = {"id": "a", "text": "the fox"}
    corpus = make_corpus([same, same, {"id": "b", "text": "the fox"}, "the fox", "the fox"])
    ids = [document.id for document in corpus.documents()]
    assert ids == ["a", "a#records.jsonl:2", "b", "records.jsonl:4", "records.jsonl:5"]
    assert [document.text for document in corpus.documents()] == ["the fox"] * 5


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the fox and the dog, the fox and the hill. " * 20)
    corpora = [
        prepare(PrepareConfig(sources=(str(tmp_path / "a.txt"),), out=tmp_path / name, vocab_size=270))
        for name in ("first", "second")
    ]
    assert corpora[0].hash == corpora[1].hash
    assert corpora[0].vocab_size == 270
    assert (
        corpora[0]
        .tokenizer.decode(corpora[0].tokens(0, corpora[0].document_range(0)[1]))
        .startswith("the fox")
    )


def test_vocabulary_that_the_text_cannot_fill_is_smaller(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab")
    corpus = prepare(PrepareConfig(sources=(str(tmp_path / "a.txt"),), out=tmp_path / "out", vocab_size=5000))
    assert corpus.vocab_size == 258


def test_no_text_becomes_a_separator(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["a<|endoftext|>b", "<|endoftext|>"])
    ids = corpus.tokens(0, corpus.num_tokens)
    ends = [corpus.document_range(i)[1] for i in range(2)]
    assert np.flatnonzero(ids == corpus.separator_id).tolist() == ends


BAD = ["the fox", "", {"body": "no"}, {"text": "half \ud83e"}, "the dog"]


def test_bad_documents_stop_or_are_counted_and_shift_nothing(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"records\.jsonl:3: no field 'text'"):
        make_corpus(BAD)
    assert not (tmp_path / "corpus").exists()
    corpus = make_corpus(BAD, on_error="skip")
    assert [document.id for document in corpus.documents()] == ["records.jsonl:1", "records.jsonl:5"]
    assert corpus.locate(corpus.document_range(1)[0]).document_id == "records.jsonl:5"
    figures = corpus.manifest.figures
    assert figures["skipped"] == {"missing field": 1, "not Unicode": 1, "0-token document": 1}
    (example,) = figures["skipped_examples"]["0-token document"]
    assert example.endswith("records.jsonl:2: the text is empty, so there is nothing to train on")


def test_a_text_of_white_space_only_is_no_document(make_corpus: MakeCorpus) -> None:
    with pytest.raises(UserError, match=r"records\.jsonl:2: the text is white space only"):
        make_corpus(["the fox", " \n\t "])
    assert make_corpus(["the fox", " \n\t ", "the dog"], on_error="skip").num_documents == 2


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("", r"records\.jsonl:2: the text is empty.*--on-error skip"),
        ({"text": "a\ud800"}, r"records\.jsonl:2: character 2 of the text is half of a surrogate pair"),
    ],
)
def test_first_bad_document_is_named(make_corpus: MakeCorpus, record: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_corpus(["x", record])


def test_text_that_the_tokenizer_drops_is_a_document_without_tokens(
    make_corpus: MakeCorpus, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"fox": 0, "[UNK]": 1, "[SEP]": 2}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Replace("~", "")
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, sep_token="[SEP]").save_pretrained(
        str(tmp_path / "words")
    )
    with pytest.raises(UserError, match=r"records\.jsonl:2: the tokenizer makes no token of the text"):
        make_corpus(["fox", "~~"], tokenizer=str(tmp_path / "words"))
    corpus = make_corpus(["fox", "~~", "a fox"], tokenizer=str(tmp_path / "words"), on_error="skip")
    assert corpus.tokens(0, corpus.num_tokens).tolist() == [0, 2, 1, 0, 2]
    assert corpus.locate(3).start == 2
    assert corpus.locate(3).document_id == "records.jsonl:3"


def test_nothing_left_is_an_error(make_corpus: MakeCorpus) -> None:
    with pytest.raises(UserError, match=r"no document is left of .*\(2 skipped\)"):
        make_corpus(["", ""], on_error="skip")


def test_existing_corpus_is_kept_unless_overwritten(make_corpus: MakeCorpus) -> None:
    first = make_corpus(["the fox"])
    with pytest.raises(UserError, match="exists already"):
        make_corpus(["the dog"])
    with pytest.raises(UserError, match="the text is empty"):
        make_corpus([""], overwrite=True)
    assert Corpus.open(first.path).document(0).text == "the fox"
    assert make_corpus(["the dog"], overwrite=True).document(0).text == "the dog"


def test_held_out_documents_are_parted_by_id_alone(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    records = [{"id": f"d{i}", "text": f"the fox {i}", "source": f"s{i % 10}"} for i in range(200)]
    corpus = make_corpus(records, held_out=0.2)
    held_out = Corpus.open(tmp_path / "corpus-heldout")
    ids, held_ids = ({document.id for document in part.documents()} for part in (corpus, held_out))
    assert not ids & held_ids
    assert len(ids | held_ids) == 200
    assert 20 < len(held_ids) < 60
    assert held_out.hash != corpus.hash
    assert held_out.tokenizer.get_vocab() == corpus.tokenizer.get_vocab()
    shutil.rmtree(corpus.path)
    shutil.rmtree(held_out.path)
    fewer = make_corpus(records[::-3], held_out=0.2)
    assert {document.id for document in fewer.documents()} <= ids


def test_held_out_sources_are_held_out_whole(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    records = [{"text": f"the fox {i}", "source": f"s{i % 10}"} for i in range(100)]
    corpus = make_corpus(records, held_out=0.3, held_out_by="source")
    held_out = Corpus.open(tmp_path / "corpus-heldout")
    assert not set(corpus.source_names) & set(held_out.source_names)
    assert corpus.num_documents + held_out.num_documents == 100


def test_empty_side_is_an_error(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no document fell to the held-out side.*by source"):
        make_corpus(["the fox"] * 5, held_out=0.000001, held_out_by="source")
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]


def test_tokenizer_is_not_trained_on_what_is_held_out(tmp_path: Path) -> None:
    lines = [{"id": f"d{i}", "text": f"{word(i)} " * 5} for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = prepare(
        PrepareConfig(
            sources=(str(tmp_path / "a.jsonl"),), out=tmp_path / "out", vocab_size=5000, held_out=0.3
        )
    )
    tokens = set(corpus.tokenizer.get_vocab())
    for part, expected in ((corpus, True), (Corpus.open(tmp_path / "out-heldout"), False)):
        words = [document.text.split()[0] for document in part.documents()]
        assert sum(f"Ġ{word}" in tokens for word in words) == (len(words) if expected else 0)


def word(number: int) -> str:
    return f"word{chr(97 + number // 26)}{chr(97 + number % 26)}"


def test_tokenizer_of_another_corpus(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    first = make_corpus(["the fox and the hill"])
    second = make_corpus(["the dog"], tokenizer=str(first.path), out=tmp_path / "second")
    assert (second.path / "tokenizer" / "tokenizer.json").read_bytes() == (
        first.path / "tokenizer" / "tokenizer.json"
    ).read_bytes()


@pytest.mark.parametrize("sample", [300, 10_000])
def test_bounded_sample_for_the_tokenizer_changes_no_document(tmp_path: Path, sample: int) -> None:
    texts = [f"{i} the fox and the hill" for i in range(100)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    config = PrepareConfig(
        sources=(str(tmp_path / "a.jsonl"),),
        out=tmp_path / "out",
        vocab_size=300,
        tokenizer_sample_bytes=sample,
    )
    assert [document.text for document in prepare(config).documents()] == texts


class StopsHere:
    """A progress that says where the work is and then waits to be killed."""

    script = """
import sys, time
from pathlib import Path
from prism_lm.corpus import PrepareConfig
from prism_lm.corpus.prepare import prepare

class Progress:
    def start(self, description, total, unit): self.description = description
    def finish(self): pass
    def advance(self, amount=1, **figures):
        if self.description == "tokenising":
            print("writing", flush=True)
            time.sleep(60)

prepare(PrepareConfig(sources=(sys.argv[1],), out=Path(sys.argv[2]), tokenizer=sys.argv[3]), Progress())
"""


@pytest.mark.slow
def test_kill_in_the_middle_leaves_no_corpus_and_the_next_run_cleans_up(
    make_corpus: MakeCorpus, tmp_path: Path, tokenizer_folder: Path
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("the fox " * 1000)
    words = [
        sys.executable,
        "-c",
        StopsHere.script,
        str(source),
        str(tmp_path / "corpus"),
        str(tokenizer_folder),
    ]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "src"}
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "writing\n"
        child.send_signal(signal.SIGKILL)
    (part,) = tmp_path.glob(".corpus.part-*")
    assert (part / "tokens-00000.bin").exists()
    assert not (tmp_path / "corpus").exists()
    with pytest.raises(UserError, match="does not exist"):
        Corpus.open(tmp_path / "corpus")
    make_corpus(["the fox"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "corpus", "records.jsonl"]


def test_full_disk_is_one_line_and_leaves_nothing(
    make_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Any, values: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards_module, "write_array", full)
    with pytest.raises(UserError, match=r"disk is full.*corpus could not be written"):
        make_corpus(["the fox"])
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from prism_lm.artifacts import UserError
from prism_lm.corpus import PrepareConfig
from prism_lm.corpus.prepare import prepare
try:
    prepare(PrepareConfig(sources=(sys.argv[1],), out=Path(sys.argv[2]) / "corpus", tokenizer=sys.argv[3]))
except UserError as error:
    print(error)
print([path.name for path in Path(sys.argv[2]).iterdir()])
"""


@pytest.mark.slow
def test_disk_that_really_fills(tmp_path: Path, tokenizer_folder: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    prefix = f"mount -t tmpfs -o size=1m tmpfs {disk}"
    if shutil.which("unshare") is None or subprocess.run([*mount, prefix], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here without privileges")
    (tmp_path / "a.txt").write_text("the fox ran over the hill " * 20_000)
    words = [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path / "a.txt"), str(disk), str(tokenizer_folder)]
    ran = subprocess.run(
        [*mount, f'{prefix} && exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
        check=False,
    )
    said, left = ran.stdout.splitlines()
    assert said.startswith("the disk is full")
    assert left == "[]"


def test_command_makes_the_corpus_again(make_corpus: MakeCorpus, tokenizer_folder: Path) -> None:
    from prism_lm.cli.parsing import parse
    from prism_lm.cli.prepare import Arguments, configuration

    corpus = make_corpus(
        [{"b": "the fox"}], fields=_fields(), on_error="skip", max_documents=9, follow_links=True
    )
    words = corpus.manifest.command.split()
    assert words[:2] == ["prism", "prepare"]
    again = configuration(parse(Arguments, "prism prepare", words[2:]))
    assert again.content() == {
        k: _listed(v) for k, v in corpus.manifest.configuration.items() if k in again.content()
    }
    assert again.out == corpus.path


def _fields() -> Any:
    from prism_lm.corpus.config import FieldNames

    return FieldNames(text="b")


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_layout_names_every_file(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["the fox"])
    names = {name for name in corpus.manifest.files if not name.startswith("tokenizer/")}
    assert names == {
        layout.tokens_name(0),
        layout.spans_name(0),
        layout.documents_name(0),
        layout.DOCUMENT_STARTS,
        layout.DOCUMENT_SOURCES,
        layout.SOURCES_NAME,
    }
