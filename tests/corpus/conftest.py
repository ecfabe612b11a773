import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.corpus import Corpus
from prism_lm.corpus.prepare import prepare
from prism_lm.corpus.tokenizer import CorpusTokenizer, train_tokenizer

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("corpus", deadline=None)
settings.load_profile("corpus")

PROSE = [
    "The fox ran over the hill and the dog ran after the fox.",
    "A prototype stands for the passages that made it, and the passages stand in their documents.",
    "Größe, naïveté und Übermut; 東京タワーは高い。 🦊🦊 e\u0301 \r\n\r\n\ttabs   and    blanks",
    "def locate(position):\n    return document[position]\n",
]

MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="session")
def tokenizer() -> CorpusTokenizer:
    """A byte-level BPE with some merges, of ASCII and of multi-byte characters."""
    return train_tokenizer(PROSE * 3, 400)


@pytest.fixture(scope="session")
def tokenizer_folder(tokenizer: CorpusTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(folder)
    return folder


@pytest.fixture
def make_corpus(tmp_path: Path, tokenizer_folder: Path) -> MakeCorpus:
    """Prepares a corpus from texts, or from records, with the session's tokenizer."""

    def make(records: Sequence[str | dict[str, Any]], **settings: Any) -> Corpus:
        source = tmp_path / "records.jsonl"
        rows = [{"text": record} if isinstance(record, str) else record for record in records]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        given = {"sources": (str(source),), "out": tmp_path / "corpus", "tokenizer": str(tokenizer_folder)}
        return prepare(PrepareConfig(**{**given, **settings}))

    return make
