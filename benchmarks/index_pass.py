"""What the statistics of `prism index` cost beside the model's own forward pass, and the memory they take.

    python benchmarks/index_pass.py RUN CORPUS [--blocks 2]      time on a run, in CPU seconds
    python benchmarks/index_pass.py --bank 16384                  statistics alone at a large bank

CPU seconds of this process are compared, so that other work on the machine matters less.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch

from prism_lm.artifacts.progress import Silent
from prism_lm.index.build import IndexPlan
from prism_lm.index.collect import Statistics, memory_bytes
from prism_lm.index.config import BLOCK_TOKENS, IndexConfig
from prism_lm.index.firings import Block, Firings
from prism_lm.index.words import TokenTexts


def on_a_run(run: Path, corpus: Path, blocks: int) -> dict[str, float]:
    """CPU seconds a million tokens: backbone alone, with selection, and the statistics."""
    config = IndexConfig(run=run, corpus=corpus, other_corpus=True, overwrite=True)
    plan = IndexPlan.of(config)
    model, reader = plan.model, plan.reader
    statistics = Statistics(
        config, model.config.num_prototypes, model.config.vocab_size, len(plan.corpus.source_names)
    )
    sources = np.asarray(plan.corpus.sources)
    spent = {"backbone": 0.0, "whole_forward": 0.0, "backbone_and_selection": 0.0, "statistics": 0.0}
    tokens = 0
    for number in range(blocks):
        start = number * BLOCK_TOKENS
        stop = min(start + BLOCK_TOKENS, plan.corpus.num_tokens)
        ids = torch.from_numpy(plan.corpus.tokens(start, stop))
        ids = ids[: ids.shape[0] // reader.sequence_length * reader.sequence_length]
        batches = ids.view(-1, reader.sequence_length).split(config.batch_tokens // reader.sequence_length)
        with torch.inference_mode():
            begun = time.process_time()
            for batch in batches:
                model.model(input_ids=batch)
            spent["backbone"] += time.process_time() - begun
            begun = time.process_time()
            for batch in batches:
                model(input_ids=batch)
            spent["whole_forward"] += time.process_time() - begun
        begun = time.process_time()
        block = reader.block(start, stop, Silent())
        spent["backbone_and_selection"] += time.process_time() - begun
        begun = time.process_time()
        statistics.update(block, sources[block.documents].astype(np.int64))
        spent["statistics"] += time.process_time() - begun
        tokens += stop - start
    begun = time.process_time()
    statistics.examples()
    statistics.triggers(TokenTexts(plan.corpus.tokenizer), list(plan.corpus.source_names))
    spent["tables_once"] = time.process_time() - begun
    return {
        name: seconds if name == "tables_once" else seconds * 1e6 / tokens for name, seconds in spent.items()
    }


def on_a_large_bank(bank: int, blocks: int) -> dict[str, float]:
    """Random firings with a long tail: V 50,257, A 32, documents of 500 tokens."""
    vocabulary, active = 50_257, 32
    config = IndexConfig(run=Path("run"), corpus=Path("corpus"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    statistics = Statistics(config, bank, vocabulary, 100)
    dice = np.random.default_rng(0)
    spent = 0.0
    for number in range(blocks):
        block = _block(number, bank, vocabulary, active, dice)
        begun = time.process_time()
        statistics.update(block, block.documents % 100)
        spent += time.process_time() - begun
    begun = time.process_time()
    statistics.examples()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "statistics_cpu_seconds_a_million_tokens": spent * 1e6 / (blocks * BLOCK_TOKENS),
        "examples_once": time.process_time() - begun,
        "peak_mib_over_start": (peak - before) / 2**20,
        "stated_bound_mib": memory_bytes(config, bank, active, vocabulary) / 2**20,
        "largest_trigger_undercount": statistics.largest_undercount(),
    }


def _block(number: int, bank: int, vocabulary: int, active: int, dice: np.random.Generator) -> Block:
    start = number * BLOCK_TOKENS
    positions = np.repeat(np.arange(start, start + BLOCK_TOKENS), active)
    skewed = (bank * dice.random(positions.shape[0]) ** 2).astype(np.int64)
    tokens = np.minimum(dice.zipf(1.2, BLOCK_TOKENS + 1) - 1, vocabulary - 1)
    return Block(
        start=start,
        tokens=tokens,
        documents=np.arange(start, start + BLOCK_TOKENS) // 500,
        contexts=dice.integers(0, 1 << 62, BLOCK_TOKENS).astype(np.uint64),
        firings=Firings(
            positions=positions,
            prototypes=skewed,
            activations=dice.random(positions.shape[0], dtype=np.float32),
        ),
        nearest_cosines=dice.random(bank, dtype=np.float32),
        nearest_positions=dice.integers(start, start + BLOCK_TOKENS, bank),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--bank", type=int)
    arguments = parser.parse_args()
    if arguments.bank:
        figures = on_a_large_bank(arguments.bank, arguments.blocks)
    else:
        figures = on_a_run(*arguments.folders, arguments.blocks)
    print(json.dumps(figures, indent=1))
