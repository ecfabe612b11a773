"""Every command in a ```console block of the README and the pages is run, in order, beside a tiny workspace.

In it lie notes/, corpus, corpus-heldout, run and reviewed.txt, the id of a document of corpus. What a
command makes with --out is removed before, so a page may begin from nothing. Training and quickstart are cut
to a few steps; make, pip and scripts are looked up.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from prism_lm.cli.main import main
from prism_lm.corpus import Corpus

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
    if "```console" in page.read_text(encoding="utf-8")
]
REDUCED = {
    "quickstart": ["--steps", "4", "--max-bytes", "40000"],
    "train": ["--data.tokens", "8192"],
}


def commands(page: Path) -> list[list[str]]:
    """The words of every line that begins with `$ `; a backslash at the end continues it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append(shlex.split(line[2:], comments=True))
    return found


def reduced(words: list[str]) -> list[str]:
    """The command, cut to what a test can wait for."""
    name, rest = words[0], words[1:]
    for flag, _ in zip(REDUCED.get(name, [])[::2], REDUCED.get(name, [])[1::2], strict=True):
        if flag in rest:
            place = rest.index(flag)
            rest = rest[:place] + rest[place + 2 :]
    return [name, *rest, *REDUCED.get(name, [])]


def clear_place(words: list[str]) -> None:
    """Removes what the command is about to make."""
    if "--out" in words:
        out = Path(words[words.index("--out") + 1])
        for path in (out, out.with_name(out.name + "-heldout")):
            shutil.rmtree(path, ignore_errors=True)
    elif words[0] == "index":
        shutil.rmtree(Path(words[1]) / "index", ignore_errors=True)


def run(words: list[str]) -> None:
    """Runs a prism command here; looks any other up in the repository."""
    program = words[0]
    if program == "prism":
        clear_place(words[1:])
        try:
            status = main(reduced(words[1:]))
        except SystemExit as leaving:  # --help
            status = int(leaving.code or 0)
        assert status == 0, shlex.join(words)
    elif program == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif program in ("python", "bash", "torchrun", "git", "pip"):
        for word in words[1:]:
            if re.fullmatch(r"(\.ci|benchmarks|tests|docs)/\S+|\S+\.(txt|toml|py)", word):
                assert (ROOT / word).exists(), word
    else:
        pytest.fail(f"no rule for {shlex.join(words)}: use ```text for what is not to be run")


def test_the_readme_is_among_them():
    assert ["make", "quickstart"] in commands(ROOT / "README.md")
    assert any(words[:2] == ["prism", "trace"] for words in commands(ROOT / "README.md"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page, tiny_index, tiny_workspace, tmp_path, monkeypatch):
    workspace = tmp_path / "workspace"
    shutil.copytree(tiny_workspace, workspace)
    monkeypatch.chdir(workspace)
    (workspace / "reviewed.txt").write_text(Corpus.open("corpus").document(0).id + "\n", encoding="utf-8")
    for words in commands(page):
        run(words)
