"""`prism index`: plan the pass, say what it will cost, make it, and write the index whole or not at all."""

import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.folders import new_folder
from prism_lm.artifacts.manifest import write_manifest
from prism_lm.artifacts.progress import Progress, Silent
from prism_lm.artifacts.run import Run
from prism_lm.artifacts.units import format_bytes, format_count, format_seconds
from prism_lm.corpus import Corpus
from prism_lm.index.collect import Statistics, memory_bytes
from prism_lm.index.config import BLOCK_TOKENS, IndexConfig
from prism_lm.index.loading import load_model, open_prototype_run, sequence_length
from prism_lm.index.passages import spans
from prism_lm.index.prototype_index import FOLDER, PrototypeIndex
from prism_lm.index.reading import Reader
from prism_lm.index.signature_words import signature_words
from prism_lm.index.tables import write_table
from prism_lm.index.words import TokenTexts
from prism_lm.model import PrismForCausalLM

_TOKENIZER_FILE = "tokenizer.json"


def build_index(config: IndexConfig, progress: Progress | None = None) -> PrototypeIndex:
    """One pass of the run's model over the corpus; writes RUN/index and returns it opened.

    Raises:
        UserError: the run is dense or unfinished, the corpus is another one, or an index is there already.
    """
    return IndexPlan.of(config).build(progress or Silent())


@dataclass(frozen=True, kw_only=True)
class IndexPlan:
    """A pass that was checked and can start: what it reads, and about what it costs."""

    config: IndexConfig
    run: Run
    corpus: Corpus
    model: PrismForCausalLM

    @classmethod
    def of(cls, config: IndexConfig) -> "IndexPlan":
        """Opens run and corpus and checks that they belong together. Raises UserError as `build_index`
        does."""
        run = open_prototype_run(config.run)
        if (run.path / FOLDER).exists() and not config.overwrite:
            raise UserError(
                f"{run.path} has an index already; look at it with prism show, or add --overwrite"
            )
        corpus = Corpus.open(config.corpus)
        _check_corpus(run, corpus, other_corpus=config.other_corpus)
        return cls(config=config, run=run, corpus=corpus, model=load_model(run, config.device))

    @cached_property
    def reader(self) -> Reader:
        """The model over the corpus, in the run's own sequence length."""
        length = sequence_length(self.run)
        return Reader(
            model=self.model,
            corpus=self.corpus,
            sequence_length=length,
            batch_tokens=self.config.batch_tokens,
        )

    def describe(self) -> str:
        """Two lines on what will be read and what it costs; runs the model for a moment to measure its
        speed."""
        model, corpus = self.model, self.corpus
        config = model.config
        held = memory_bytes(self.config, config.num_prototypes, config.active_prototypes, config.vocab_size)
        weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        what = (
            f"{format_count(corpus.num_tokens)} tokens of {format_count(corpus.num_documents)} documents, "
            f"{format_count(config.num_prototypes)} prototypes, on {model.device.type}"
        )
        cost = (
            f"about {format_seconds(self.estimated_seconds())}; memory at most {format_bytes(held)} for "
            f"statistics "
            f"beside {format_bytes(weights)} of model; disk about {format_bytes(self.estimated_disk())}"
        )
        return f"{what}\n{cost}"

    def estimated_seconds(self) -> float:
        """The time of the pass, from a piece of it: the first tokens are read twice and the second time
        counts."""
        stop = min(self.corpus.num_tokens, max(self.reader.sequence_length, self.config.batch_tokens))
        self.reader.block(0, min(stop, BLOCK_TOKENS), Silent())
        begun = time.perf_counter()
        self.reader.block(0, min(stop, BLOCK_TOKENS), Silent())
        return (time.perf_counter() - begun) * self.corpus.num_tokens / max(1, stop) * _STATISTICS_OVERHEAD

    def estimated_disk(self) -> int:
        """Bytes of the tables: rows at their typical compressed size."""
        config = self.config
        examples = config.neighbours + config.bands * config.per_band
        return int(
            self.model.config.num_prototypes * (45 * examples + 15 * 3 * config.triggers + 20 * config.words)
        )

    def build(self, progress: Progress) -> PrototypeIndex:
        """Makes the pass and writes the index."""
        with new_folder(self.run.path / FOLDER, overwrite=self.config.overwrite) as folder:
            begun = time.perf_counter()
            statistics = self._read(progress)
            seconds = time.perf_counter() - begun
            self._write(folder, statistics, progress)
            self._sign(folder, statistics, seconds)
        return PrototypeIndex.open(self.run.path, corpus=self.config.corpus)

    def _read(self, progress: Progress) -> Statistics:
        names = len(self.corpus.source_names)
        config = self.model.config
        statistics = Statistics(self.config, config.num_prototypes, config.vocab_size, names)
        sources = np.asarray(self.corpus.sources)
        progress.start("reading the corpus", self.corpus.num_tokens, "tokens")
        for block in self.reader.blocks(progress):
            statistics.update(block, sources[block.documents].astype(np.int64))
        progress.finish()
        return statistics

    def _write(self, folder: Path, statistics: Statistics, progress: Progress) -> None:
        texts = TokenTexts(self.corpus.tokenizer)
        progress.start("writing the tables", 3, "tables")
        mass, occurring = statistics.totals.mass, statistics.occurring()
        words = signature_words(self.model, mass, self.config.words, occurring)
        write_table(folder, "prototypes", statistics.prototypes(words, texts))
        progress.advance()
        write_table(folder, "triggers", statistics.triggers(texts, list(self.corpus.source_names)))
        progress.advance()
        examples = statistics.examples()
        write_table(folder, "examples", examples | spans(self.corpus, examples["position"]))
        progress.advance()
        progress.finish()

    def _sign(self, folder: Path, statistics: Statistics, seconds: float) -> None:
        totals = statistics.totals
        settings = {name: value for name, value in asdict(self.config).items() if name not in _NOT_CONTENT}
        write_manifest(
            folder,
            kind="index",
            configuration={
                **settings,
                "corpus": str(self.corpus.path.resolve()),
                "sequence_length": self.reader.sequence_length,
                "num_prototypes": self.model.config.num_prototypes,
                "active_prototypes": self.model.config.active_prototypes,
                "trained_on_this_corpus": self.corpus.hash == self.run.corpus_hash,
            },
            sources={"run": self.run.hash, "corpus": self.corpus.hash},
            figures=_figures(statistics, seconds)
            | {"documents": self.corpus.num_documents, "tokens": totals.tokens},
        )


_STATISTICS_OVERHEAD = 1.15
_NOT_CONTENT = {"run", "corpus", "batch_tokens", "device", "overwrite", "other_corpus"}


def _figures(statistics: Statistics, seconds: float) -> dict[str, Any]:
    totals = statistics.totals
    return {
        "prototype_coverage": float(totals.coverage.mean()),
        "prototypes_used": int((totals.usage > 0).sum()),
        "largest_trigger_undercount": statistics.largest_undercount(),
        "seconds": seconds,
        "tokens_per_second": totals.tokens / seconds,
    }


def _check_corpus(run: Run, corpus: Corpus, *, other_corpus: bool) -> None:
    if corpus.num_tokens == 0:
        raise UserError(f"{corpus.path} holds no token; give the corpus that {run.path} was trained on")
    if corpus.hash == run.corpus_hash:
        return
    if not other_corpus:
        raise UserError(
            f"{run.path} was not trained on {corpus.path}: its corpus has the hash {run.corpus_hash[:12]} "
            f"and this "
            f"one {corpus.hash[:12]}; give its own, or add --other-corpus to index text that it did not "
            f"learn from"
        )
    own, other = (Path(place) / _TOKENIZER_FILE for place in (run.path, corpus.tokenizer_path))
    if own.read_bytes() != other.read_bytes():
        raise UserError(
            f"{corpus.path} was prepared with another tokenizer than the model's; prepare it again with "
            f"--tokenizer {run.path}"
        )
