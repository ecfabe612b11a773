"""The command `prism`: finds the file of the command asked for, runs it, turns errors into one line.

Exit statuses: 0 fine, 1 a gate failed, 2 the input was wrong, 130 interrupted. An exception that nobody
foresaw is a bug of ours and keeps its traceback (status 1), so that it can be reported.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prism_lm import __version__
from prism_lm.artifacts.errors import GateFailed, UserError
from prism_lm.cli import console, parsing

OK, GATE_FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: the module with its `Arguments` and `run`, and the line that the overview shows."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "quickstart": Command(
        module="prism_lm.cli.quickstart", summary="text to traced output and control, nothing to download"
    ),
    "prepare": Command(module="prism_lm.cli.prepare", summary="files, folders, data sets -> a corpus"),
    "drop": Command(module="prism_lm.cli.drop", summary="a corpus without the documents of a list"),
    "train": Command(module="prism_lm.cli.train", summary="a corpus -> a prototype model, or its dense twin"),
    "index": Command(
        module="prism_lm.cli.index", summary="one pass over the corpus: what each prototype stands for"
    ),
    "show": Command(module="prism_lm.cli.show", summary="the card of one prototype"),
    "trace": Command(
        module="prism_lm.cli.trace",
        summary="token by token: which prototypes, which passages and documents",
    ),
}


def overview() -> str:
    """What `prism --help` prints. Built without importing any command, so it is instant."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: prism COMMAND [options]",
            "",
            "Which training text made a language model say what it said, and how to switch it off.",
            "",
            *lines,
            "",
            "  prism COMMAND --help   the options of a command",
            "  prism --version        the version",
            "",
            "New here? prism quickstart",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of the process) and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` say, has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return OK if words else WRONG_INPUT
    if words[0] in ("-V", "--version"):
        print(f"prism-lm {__version__}")
        return OK
    if words[0] not in COMMANDS:
        console.error(_unknown(words[0]))
        return WRONG_INPUT
    return _run(words[0], words[1:])


def _unknown(word: str) -> str:
    close = difflib.get_close_matches(word, COMMANDS, n=1)
    hint = f"Did you mean `prism {close[0]}`?" if close else f"Commands: {', '.join(COMMANDS)}."
    return f"prism has no command {word!r}. {hint}"


def _run(name: str, words: list[str]) -> int:
    """Parse `words` for command `name`, run it, and translate what it raises."""
    console.quiet_libraries()
    try:
        module: Any = importlib.import_module(COMMANDS[name].module)
        arguments = parsing.parse(module.Arguments, f"prism {name}", words)
        return int(module.run(arguments) or OK)
    except UserError as problem:
        console.error(str(problem))
        return WRONG_INPUT
    except GateFailed as problem:
        console.error(str(problem))
        return GATE_FAILED
    except KeyboardInterrupt:
        console.error("interrupted")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
