"""The statistics of a pass, gathered: blocks go in, columns of the index's tables come out."""

from collections.abc import Callable

import numpy as np

from prism_lm.index.arrays import Doubles, Integers, Mask
from prism_lm.index.config import BLOCK_TOKENS, IndexConfig
from prism_lm.index.examples import Columns, choose_examples
from prism_lm.index.firings import Block
from prism_lm.index.neighbours import Neighbours
from prism_lm.index.samples import Samples, quantiles
from prism_lm.index.signature_words import SignatureWords
from prism_lm.index.tables import FIELDS, LEVELS
from prism_lm.index.totals import Totals
from prism_lm.index.triggers import TriggerCounts
from prism_lm.index.words import TokenTexts

KEPT_FOR_EACH_NEIGHBOUR = (
    4  # a passage is remembered while it is this far from the top, so that copies are counted
)
SAMPLED_FIRINGS = 128


class Statistics:
    """All statistics of a pass over a corpus, in memory that does not grow with the corpus."""

    def __init__(self, config: IndexConfig, num_prototypes: int, vocab_size: int, num_sources: int) -> None:
        self._config = config
        self._num_prototypes = num_prototypes
        self.totals = Totals(num_prototypes)
        self._neighbours = Neighbours(num_prototypes, KEPT_FOR_EACH_NEIGHBOUR * config.neighbours)
        self._samples = Samples(num_prototypes, SAMPLED_FIRINGS)
        sizes = dict(zip(FIELDS, (vocab_size, vocab_size, num_sources), strict=True))
        self._triggers = {name: TriggerCounts(num_prototypes, size) for name, size in sizes.items()}
        self._corpus_counts = {name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()}

    def update(self, block: Block, sources: Integers) -> None:
        """Adds one block; `sources` [T] is the source of each of its tokens."""
        self.totals.update(block)
        self._neighbours.update(block)
        self._samples.update(block)
        places = block.firings.positions - block.start
        for name, values in zip(FIELDS, (block.tokens[:-1], block.tokens[1:], sources), strict=True):
            counts = self._corpus_counts[name]
            counts += np.bincount(values[values >= 0], minlength=counts.shape[0])
            fired = values[places]
            known = fired >= 0  # nothing follows the last token of the corpus
            self._triggers[name].update(block.firings.prototypes[known], fired[known])

    def occurring(self) -> Mask:
        """[V]: the vocabulary entries that the corpus has."""
        return self._corpus_counts["current"] > 0

    def prototypes(self, words: SignatureWords, texts: TokenTexts) -> Columns:
        """Columns of the prototypes table."""
        totals = self.totals
        return {
            "prototype": np.arange(self._num_prototypes),
            "usage": totals.usage,
            "usage_share": totals.usage / max(1, totals.tokens),
            "mass": totals.mass,
            "mass_share": totals.mass / max(float(totals.mass.sum()), np.finfo(np.float64).tiny),
            "coverage": totals.coverage,
            "nearest_position": totals.nearest,
            "activation_quantiles": self._quantiles(),
            "raised_tokens": list(words.raised),
            "raised_words": [[texts.text(int(token)) for token in row] for row in words.raised],
            "raised_logits": list(words.raised_logits),
            "lowered_tokens": list(words.lowered),
            "lowered_words": [[texts.text(int(token)) for token in row] for row in words.lowered],
            "lowered_logits": list(words.lowered_logits),
        }

    def examples(self) -> Columns:
        """Columns of the examples table, without where they stand in documents."""
        config = self._config
        return choose_examples(
            self._neighbours.result(),
            self._samples.result(),
            self.totals,
            neighbours=config.neighbours,
            num_bands=config.bands,
            per_band=config.per_band,
        )

    def triggers(self, texts: TokenTexts, source_names: list[str]) -> Columns:
        """Columns of the triggers table: the commonest values of each field, beside their share in the
        corpus."""
        labels = {"current": texts.text, "next": texts.text, "source": source_names.__getitem__}
        parts = [self._trigger_columns(name, labels[name]) for name in FIELDS]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(columns["prototype"], kind="stable")
        return {name: column[order] for name, column in columns.items()}

    def largest_undercount(self) -> float:
        """By how much any trigger's share may be too small; 0: all counts are exact."""
        return max(float((c.undercount / np.maximum(1, c.pairs)).max()) for c in self._triggers.values())

    def _trigger_columns(self, name: str, label: Callable[[int], str]) -> Columns:
        counts = self._triggers[name]
        found = counts.commonest(self._config.triggers)
        corpus_counts = self._corpus_counts[name][found.values]
        share = found.counts / counts.pairs[found.prototypes]
        corpus_share = corpus_counts / self._corpus_counts[name].sum()
        return {
            "prototype": found.prototypes,
            "field": np.full(found.values.shape[0], name, dtype=object),
            "rank": found.ranks,
            "value": found.values,
            "text": np.array([label(int(value)) for value in found.values], dtype=object),
            "count": found.counts,
            "undercount": counts.undercount[found.prototypes],
            "share": share,
            "corpus_count": corpus_counts,
            "corpus_share": corpus_share,
            "lift": share / corpus_share,
        }

    def _quantiles(self) -> list[list[float] | None]:
        table: Doubles = quantiles(self._samples.result(), self._num_prototypes, LEVELS)
        return [None if np.isnan(row).any() else row.tolist() for row in table]


def memory_bytes(config: IndexConfig, num_prototypes: int, active_prototypes: int, vocab_size: int) -> int:
    """An upper estimate of what `Statistics` and one block hold at a time, model and batch not counted."""
    tables = num_prototypes * (
        28 + 2 * 56 * KEPT_FOR_EACH_NEIGHBOUR * config.neighbours + 2 * 28 * SAMPLED_FIRINGS
    )
    pairs = 3 * 3 * 16 * TriggerCounts.limit_for(num_prototypes)
    return tables + pairs + 16 * vocab_size + block_bytes(active_prototypes)


def block_bytes(active_prototypes: int) -> int:
    """Arrays of one block's firings."""
    return BLOCK_TOKENS * active_prototypes * 80
