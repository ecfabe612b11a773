"""Words to Arguments, and complaints in one line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import tyro

from prism_lm.artifacts.errors import UserError
from prism_lm.cli.parsing import parse


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Do a thing."""

    recipe: Annotated[str, tyro.conf.Positional]
    """which recipe"""
    corpus: Path
    """the corpus"""
    steps: int | None = None
    """how many"""
    plan: bool = False
    """only plan"""


def complaint(words: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(Arguments, "prism train", words.split())
    text = str(caught.value)
    assert "\n" not in text
    assert not set("│╭╰─") & set(text)
    assert text.endswith("See: prism train --help")
    return text


def test_parses():
    expected = Arguments(recipe="mini", corpus=Path("c"), plan=True)
    assert parse(Arguments, "prism train", ["mini", "--corpus", "c", "--plan"]) == expected


def test_unknown_option_is_named_with_what_was_meant():
    text = complaint("mini --corpus c --stps 3")
    assert text.startswith("Unrecognized options: --stps")
    assert "Perhaps you meant: --steps" in text


def test_missing_option_is_named():
    assert complaint("mini").startswith("Missing: --corpus PATH the corpus")


def test_malformed_value_is_named():
    text = complaint("mini --corpus c --steps many")
    assert text == "--steps is 'many'; expected a whole number. See: prism train --help"


def test_a_very_long_value_stays_one_line():
    assert "--steps" in complaint(f"mini --corpus c --steps {'x' * 300}")


def test_help_goes_to_stdout(capsys):
    with pytest.raises(SystemExit) as leaving:
        parse(Arguments, "prism train", ["--help"])
    assert not leaving.value.code
    assert "only plan" in capsys.readouterr().out
