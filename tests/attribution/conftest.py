"""A tiny indexed run, made once for the tests of this folder. Copy it before changing it."""

from pathlib import Path

import pytest
from small_run import make_corpus, make_run

from prism_lm.attribution.tracing import Tracer
from prism_lm.corpus import Corpus
from prism_lm.index import IndexConfig, build_index


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("attribution") / "corpus")


@pytest.fixture(scope="session")
def run(corpus: Corpus) -> Path:
    folder = make_run(corpus.path.parent / "run", corpus)
    build_index(IndexConfig(run=folder, corpus=corpus.path))
    return folder


@pytest.fixture(scope="session")
def tracer(run: Path) -> Tracer:
    return Tracer.open(run)
