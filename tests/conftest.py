"""What all tests share: one thread a process, no network, one tiny workspace built once for all workers."""

import os
from pathlib import Path

import pytest
from filelock import FileLock

# Before torch or transformers can be imported: both are read at import.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes/ (text), corpus, corpus-heldout and run with its index: a few seconds, made once.

    All test processes share it: read it, and copy it before writing.
    """
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    workspace = root / "tiny-workspace"
    with FileLock(root / "tiny-workspace.lock"):
        if not (workspace / "whole").exists():
            from tiny_workspace import build

            build(workspace)
            (workspace / "whole").touch()
    return workspace


@pytest.fixture(scope="session")
def tiny_corpus(tiny_workspace: Path) -> Path:
    """A corpus of a few hundred short documents from three sources, vocabulary 384."""
    return tiny_workspace / "corpus"


@pytest.fixture(scope="session")
def tiny_run(tiny_workspace: Path) -> Path:
    """A prototype model trained on `tiny_corpus` until it writes its phrases: D 32, K 32, A 4."""
    return tiny_workspace / "run"


@pytest.fixture(scope="session")
def tiny_index(tiny_run: Path) -> Path:
    """The index of `tiny_run` over `tiny_corpus`."""
    return tiny_run / "index"
