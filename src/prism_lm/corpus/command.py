"""The command line that makes a corpus again."""

import shlex
from dataclasses import fields

from prism_lm.corpus.config import FIELD_ROLES, PrepareConfig

_NOT_FLAGS = {"sources", "out", "fields", "overwrite", "vocab_size", "tokenizer_sample_bytes"}


def command_of(config: PrepareConfig) -> str:
    """The shell command with every setting that is not the default."""
    words = ["prism", "prepare", *config.sources, "--out", str(config.out)]
    names = [entry.name for entry in fields(config) if entry.name not in _NOT_FLAGS]
    if config.tokenizer is None:
        names += ["vocab_size", "tokenizer_sample_bytes"]
    defaults = {entry.name: entry.default for entry in fields(config)}
    for name in names:
        value = getattr(config, name)
        if value != defaults[name]:
            words += _flag(name, value)
    for role in FIELD_ROLES:
        given = getattr(config.fields, role)
        if given is not None:
            words += _flag(f"{role}_field", given)
    return shlex.join(words)


def _flag(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [flag] if value is True else [flag, str(value)]
