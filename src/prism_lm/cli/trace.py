"""`prism trace`: token by token, which prototypes made it and which passages stand behind them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prism_lm.artifacts.errors import GateFailed, UserError
from prism_lm.cli import console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Take an output apart: what the model writes after a prompt, or a text that you give."""

    run: Annotated[Path, tyro.conf.Positional]
    """A prototype model that prism train made; with an index, passages are shown too."""
    prompt: str
    """The text before the output; may be empty."""
    output: str | None = None
    """The text to take apart; leave it out and the model writes one."""
    versus: str | None = None
    """One token: explain why the output's tokens and not this one."""
    tokens: int = 24
    """Tokens that the model writes, at most."""
    seed: int = 0
    """Of the writing."""
    temperature: float = 1.0
    """Of the writing; 0: always the likeliest token."""
    top: int = 4
    """Prototypes shown for each token."""
    passages: int = 2
    """Neighbours shown of each leading prototype."""
    corpus: Path | None = None
    """Where the corpus is now, if it was moved."""
    html: Path | None = None
    """Also write the trace into this file, which opens in a browser."""
    json: bool = False
    """Print one JSON document."""


def run(arguments: Arguments) -> int | None:
    """Prints the trace; exit status 1 if its sums do not add up."""
    if arguments.html is not None:
        _check_place(arguments.html)
    from prism_lm.artifacts.folders import write_file_atomic
    from prism_lm.attribution import trace

    found = trace(
        arguments.run,
        prompt=arguments.prompt,
        output=arguments.output,
        versus=arguments.versus,
        tokens=arguments.tokens,
        seed=arguments.seed,
        temperature=arguments.temperature,
        top=arguments.top,
        passages=arguments.passages,
        corpus=arguments.corpus,
    )
    if arguments.html is not None:
        write_file_atomic(arguments.html, found.html_document())
        console.note(f"wrote {arguments.html}")
    if arguments.json:
        console.show_json(found.to_dict())
    else:
        console.show(found.render(console.width()))
        if found.leading and found.corpus is not None:
            leading = found.leading[0].prototype
            console.note(f"\nNext: prism show {arguments.run} {leading}   shows the leading prototype")
    if not found.adds_up:
        raise GateFailed(
            f"the slices miss a logit by {found.largest_error:.1e}; float32 explains {found.tolerance:.1e}"
        )
    return None


def _check_place(html: Path) -> None:
    """Before the work is done: the file can be written there."""
    if html.is_dir():
        raise UserError(f"--html {html} is a folder; name a file in it, as {html / 'trace.html'}")
    if not html.absolute().parent.is_dir():
        raise UserError(f"--html {html}: there is no folder {html.parent}; make it, or name another place")
