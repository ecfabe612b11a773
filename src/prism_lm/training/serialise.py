"""Settings as plain JSON and back, strictly: an unknown or a missing key, or another type, is an error."""

import dataclasses
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from prism_lm.artifacts.errors import UserError

Settings = TypeVar("Settings")


def to_dict(settings: object) -> dict[str, Any]:
    """A dataclass of settings as nested dictionaries of plain values; paths become text."""
    assert dataclasses.is_dataclass(settings)
    assert not isinstance(settings, type)
    return {entry.name: _plain(getattr(settings, entry.name)) for entry in dataclasses.fields(settings)}


def from_dict(kind: type[Settings], raw: Mapping[str, Any], *, where: str = "") -> Settings:
    """The inverse of to_dict.

    Raises:
        UserError: a key is unknown or missing, or a value is of another type; the line names it.
    """
    assert dataclasses.is_dataclass(kind)
    hints = get_type_hints(kind)
    names = {entry.name for entry in dataclasses.fields(kind)}
    for name in raw:
        if name not in names:
            raise UserError(f"unknown setting {where}{name}; known here: {', '.join(sorted(names))}")
    for entry in dataclasses.fields(kind):
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and entry.name not in raw:
            raise UserError(f"the setting {where}{entry.name} is missing")
    values = {name: _value(hints[name], value, f"{where}{name}") for name, value in raw.items()}
    return kind(**values)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, where: str = "") -> list[str]:
    """Lines "name: old, not new" for every leaf in which two nested dictionaries differ."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, where=f"{where}{name}.")
        elif before != after:
            lines.append(f"{where}{name}: {before}, not {after}")
    return lines


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return str(value) if isinstance(value, Path) else value


def _value(hint: Any, value: Any, name: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        (hint,) = [option for option in get_args(hint) if option is not type(None)]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_dict(hint, value, where=f"{name}.")
    if get_origin(hint) is Literal:
        expected = get_args(hint)
        if value in expected:
            return value
        raise UserError(f"{name} is {value!r}; expected one of {', '.join(map(str, expected))}")
    return _scalar(hint, value, name)


def _scalar(hint: Any, value: Any, name: str) -> Any:
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is hint:
        return value
    raise UserError(f"{name} is {value!r}; expected {getattr(hint, '__name__', hint)}")
