"""How fast `prepare` is, beside `datasets.map` with the same tokenizer on the same cores, in one run.

    python benchmarks/prepare_speed.py [TEXT.jsonl.gz] [--megabytes 16] [--repeats 5]

Without a file the text is `installed`, the docstrings on this machine. The rival is the usual recipe:
tokenise with `map(batched=True)`, then join and cut into sequences with a second `map`, from a data set that
is already in Arrow; it is given 1 process (whose tokenizer uses all cores) and 2, and the better counts.
`prepare` is given a .jsonl file, and does more: it reads and checks the file, stores the documents and, for
each token, its characters. Each measurement has a process of its own, imports are not counted, repeats
alternate, and ratios are of pairs.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

SEQUENCE = 512
WAYS = ("prepare", "datasets-1", "datasets-2")


def main() -> None:
    arguments = parsed()
    quieten()
    if arguments.way:
        print(json.dumps(once(arguments.way, arguments.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        size = set_up(Path(folder), arguments)
        report(measure(Path(folder), arguments.repeats), size)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="a .jsonl or .jsonl.gz file with text")
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vocab-size", type=int, default=4096)
    parser.add_argument("--way", choices=WAYS, help="one measurement in a process of its own")
    parser.add_argument("--folder", type=Path)
    return parser.parse_args()


def quieten() -> None:
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.filterwarnings("ignore", message="This process .* is multi-threaded")


def read_texts(file: str | None, limit: int) -> list[str]:
    from prism_lm.corpus.config import PrepareConfig
    from prism_lm.corpus.problems import Problems
    from prism_lm.corpus.sources import find_sources

    config = PrepareConfig(
        sources=(file or "installed",), out=Path("unused"), max_bytes=limit, on_error="skip"
    )
    problems = Problems("skip")
    documents = chain.from_iterable(
        source.documents(config, problems) for source in find_sources(config, problems)
    )
    return [document.text for document in documents if document.text.strip()]


def set_up(root: Path, arguments: argparse.Namespace) -> int:
    """Writes the text as .jsonl and as an Arrow data set, and the tokenizer; returns the size of the text."""
    import datasets

    from prism_lm.corpus.tokenizer import train_tokenizer

    texts = read_texts(arguments.file, arguments.megabytes * 2**20)
    lines = (json.dumps({"text": text}) + "\n" for text in texts)
    (root / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(str(root / "arrow"))
    train_tokenizer(texts[:: max(1, len(texts) // 4000)], arguments.vocab_size).save(root / "tokenizer")
    size = sum(len(text.encode()) for text in texts)
    print(f"{len(texts):,} documents, {size / 2**20:.1f} MiB, vocabulary {arguments.vocab_size}", flush=True)
    return size


def once(way: str, root: Path) -> tuple[float, float]:
    """Wall and processor seconds of one way, imports and opening of the data set not counted."""
    run = prepared_prism(root) if way == "prepare" else prepared_rival(root, int(way[-1]))
    wall, processor = time.perf_counter(), processor_seconds()
    run()
    return time.perf_counter() - wall, processor_seconds() - processor


def prepared_prism(root: Path) -> Callable[[], Any]:
    import pandas  # noqa: F401 - pyarrow imports it where it is installed

    from prism_lm.corpus.config import PrepareConfig
    from prism_lm.corpus.prepare import prepare
    from prism_lm.corpus.tokenizer import load_tokenizer

    load_tokenizer(str(root / "tokenizer"))
    out = Path(tempfile.mkdtemp(dir=root)) / "corpus"
    config = PrepareConfig(sources=(str(root / "texts.jsonl"),), out=out, tokenizer=str(root / "tokenizer"))
    return lambda: prepare(config)


def prepared_rival(root: Path, processes: int) -> Callable[[], Any]:
    import datasets
    from transformers import AutoTokenizer

    os.environ["TOKENIZERS_PARALLELISM"] = "true" if processes == 1 else "false"
    datasets.disable_caching()
    dataset = datasets.load_from_disk(str(root / "arrow"))
    tokenizer = AutoTokenizer.from_pretrained(str(root / "tokenizer"))
    return lambda: rival(dataset, tokenizer, processes)


def rival(dataset: Any, tokenizer: Any, processes: int) -> None:
    def tokenise(batch: dict[str, list[str]]) -> dict[str, Any]:
        ids = tokenizer(batch["text"], add_special_tokens=False, return_attention_mask=False).input_ids
        return {"input_ids": [[*one, tokenizer.eos_token_id] for one in ids]}

    def pack(batch: dict[str, list[list[int]]]) -> dict[str, Any]:
        stream = list(chain.from_iterable(batch["input_ids"]))
        return {"input_ids": [stream[i : i + SEQUENCE] for i in range(0, len(stream), SEQUENCE)]}

    settings = {"batched": True, "num_proc": processes if processes > 1 else None}
    dataset.map(tokenise, remove_columns=["text"], **settings).map(pack, **settings)


def measure(root: Path, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Wall and processor seconds of each way, in fresh processes; repeats alternate."""
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            words = [sys.executable, __file__, "--way", way, "--folder", str(root)]
            ran = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            seconds[way].append(tuple(json.loads(ran.stdout.splitlines()[-1])))
            print(
                f"{way:12} {seconds[way][-1][0]:7.2f} s wall, {seconds[way][-1][1]:7.2f} s processor",
                flush=True,
            )
    return seconds


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def report(seconds: dict[str, list[tuple[float, float]]], size: int) -> None:
    for name, pairs in seconds.items():
        wall = statistics.median(wall for wall, _ in pairs)
        processor = statistics.median(processor for _, processor in pairs)
        print(
            f"{name:12} median {wall:7.2f} s, {size / 2**20 / wall:6.2f} MiB/s, {processor:7.2f} processor s"
        )
    names = [name for name in seconds if name != "prepare"]
    best = min(names, key=lambda name: statistics.median(wall for wall, _ in seconds[name]))
    for label, place in (("wall", 0), ("processor", 1)):
        ratios = sorted(r[place] / o[place] for r, o in zip(seconds[best], seconds["prepare"], strict=True))
        print(
            f"speed of prepare over {best}, {label} time: median {statistics.median(ratios):.2f}, "
            f"from {ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} pairs"
        )


if __name__ == "__main__":
    main()
