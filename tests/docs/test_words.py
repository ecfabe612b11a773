"""The README and the pages: no dead links, no unknown commands, every folder on the map."""

import re
from pathlib import Path

import pytest

from prism_lm.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    """The fragment that a code host gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        assert path.is_relative_to(ROOT), target
        if fragment:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert fragment in map(anchor, headings), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_code_exist(page):
    for command in re.findall(r"^\$? ?prism ([a-z]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert command in COMMANDS, f"{page.name}: prism {command}"


def folders() -> list[str]:
    package = ROOT / "src" / "prism_lm"
    layers = [f"src/prism_lm/{path.parent.name}" for path in sorted(package.glob("*/__init__.py"))]
    top = [name for name in ("tests", "docs", "benchmarks") if (ROOT / name).is_dir()]
    return [*layers, *top]


@pytest.mark.parametrize("folder", folders())
def test_every_folder_is_on_the_map(folder):
    assert f"| `{folder}` |" in README


def test_every_folder_on_the_map_exists():
    for folder in re.findall(r"^\| `([\w/]+)` \|", README, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command):
    assert re.search(rf"`{command}`|prism {command}", README)
