"""Peak memory of `prepare` as the corpus grows: it should not grow with it.

    python benchmarks/prepare_memory.py [TEXT.jsonl.gz] [--gigabytes 2]

Without a file the text is `installed`, the docstrings on this machine. Documents are cut from that text at
other places each time and given a number, so no two are equal, until the size is reached. A process prepares
them with a tokenizer that it trains, and its memory is read every few megabytes: `anonymous` is what it
holds, `resident` counts pages of mapped files too, which the system takes back when it needs them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from random import Random

GIBIBYTE = 2**30
ROWS = 8


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="a .jsonl or .jsonl.gz file with text")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--child", type=Path, help="prepare this folder's text.jsonl in this process")
    arguments = parser.parse_args()
    if arguments.child:
        prepare_and_watch(arguments.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_text(
            Path(folder) / "text.jsonl", base_text(arguments.file), int(arguments.gigabytes * GIBIBYTE)
        )
        subprocess.run([sys.executable, __file__, "--child", folder], check=True)


def base_text(file: str | None) -> str:
    """Some text to cut from: 2 MiB at most."""
    from prism_lm.corpus.config import PrepareConfig
    from prism_lm.corpus.problems import Problems
    from prism_lm.corpus.sources import find_sources

    config = PrepareConfig(sources=(file or "installed",), out=Path("unused"), max_bytes=2 * 2**20)
    problems = Problems("skip")
    documents = chain.from_iterable(s.documents(config, problems) for s in find_sources(config, problems))
    return "\n".join(document.text for document in documents)


def write_text(path: Path, base: str, size: int) -> None:
    random, written, number = Random(0), 0, 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            start, length = random.randrange(len(base)), random.randrange(200, 8000)
            line = json.dumps(
                {"text": f"Document {number}. {base[start : start + length]}"}, ensure_ascii=False
            )
            file.write(line + "\n")
            written += len(line.encode())
            number += 1
    print(f"{number:,} documents, {written / GIBIBYTE:.2f} GiB", flush=True)


class Watch:
    """A progress that writes a row of memory each time another part of the text is done."""

    def start(self, description: str, total: int | None, unit: str) -> None:
        self.description, self.total, self.done, self.next = description, total or 1, 0, 0.0
        print(f"{description}: {memory()}", flush=True)

    def advance(self, amount: int = 1, **figures: float | str) -> None:
        self.done += amount
        if self.description == "tokenising" and self.done >= self.next:
            self.next += self.total / ROWS
            print(f"{self.done / 2**20:8.0f} MiB of text: {memory()}", flush=True)

    def finish(self) -> None:
        print(f"{self.description} ends: {memory()}", flush=True)


def memory() -> str:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    anonymous, resident = (int(fields[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS"))
    return f"anonymous {anonymous:6.0f} MiB, resident {resident:6.0f} MiB"


def prepare_and_watch(folder: Path) -> None:
    from prism_lm.corpus.config import PrepareConfig
    from prism_lm.corpus.prepare import prepare

    begun = time.perf_counter()
    config = PrepareConfig(sources=(str(folder / "text.jsonl"),), out=folder / "corpus")
    corpus = prepare(config, Watch())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{corpus.num_tokens:,} tokens in {time.perf_counter() - begun:.0f} s; peak resident {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
