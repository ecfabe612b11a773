"""A tiny run with its index, made once for the tests of this folder. Copy it before changing it."""

from pathlib import Path

import pytest
from small_run import make_corpus, make_run

from prism_lm.corpus import Corpus
from prism_lm.index import IndexConfig, PrototypeIndex, build_index


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("inside") / "corpus")


@pytest.fixture(scope="session")
def run(corpus: Corpus) -> Path:
    return make_run(corpus.path.parent / "run", corpus)


@pytest.fixture(scope="session")
def index(run: Path, corpus: Corpus) -> PrototypeIndex:
    return build_index(IndexConfig(run=run, corpus=corpus.path, neighbours=5))
