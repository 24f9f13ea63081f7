"""Settings as frozen dataclasses: checks, and conversion from and to plain dictionaries."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import UserError, suggestion

Settings = TypeVar("Settings")


def require_positive(settings: object, *names: str) -> None:
    """Refuse a value below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1, but is {getattr(settings, name)}")


def require_fraction(settings: object, *names: str) -> None:
    """Refuse a value outside [0, 1)."""
    for name in names:
        if not 0.0 <= getattr(settings, name) < 1.0:
            raise ValueError(f"{name} must be at least 0 and below 1, but is {getattr(settings, name)}")


def require_choice(settings: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a value outside the choices."""
    if getattr(settings, name) not in choices:
        raise ValueError(f"{name}={getattr(settings, name)!r} is not known; choose one of {list(choices)}")


def to_dict(settings: Any) -> dict[str, Any]:
    """Settings as plain JSON values."""
    return _plain(dataclasses.asdict(settings))


def _plain(value: Any) -> Any:
    """Turn tuples into lists, as JSON does."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_dict(cls: type[Settings], values: Mapping[str, Any], where: str = "") -> Settings:
    """Build settings from plain values, naming the key that is unknown, missing or of the wrong type."""
    where = where or cls.__name__
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise UserError(f"{where}: {unknown_setting(name, fields)}")
    arguments = {name: _convert(value, hints[name], f"{where}.{name}") for name, value in values.items()}
    missing = [name for name, field in fields.items() if name not in values and _is_required(field)]
    if missing:
        raise UserError(f"{where}: missing setting {missing[0]!r}")
    try:
        return cls(**arguments)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def unknown_setting(name: Any, known: Iterable[str]) -> str:
    """What an error says of a name that is not known: the nearest one that is, and all of them."""
    names = list(known)
    near = suggestion(name, names)
    return f"unknown setting {name!r}{f'{near} Known' if near else '; known'} are {', '.join(names)}"


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a plain value against a type hint; convert lists to tuples, and integers to floats where needed."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        options = get_args(hint)
        if value is None and type(None) in options:
            return None
        return _convert(value, next(option for option in options if option is not type(None)), where)
    if origin is Literal:
        if value in get_args(hint):
            return value
    elif origin is tuple:
        if isinstance(value, list | tuple):
            item_hint = get_args(hint)[0]
            places = [f"{where}, entry {number}" for number in range(1, len(value) + 1)]
            if not dataclasses.is_dataclass(item_hint):  # the error quotes a plain value
                places = [where] * len(value)
            return tuple(_convert(item, item_hint, place) for item, place in zip(value, places, strict=True))
    elif dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return from_dict(typing.cast(type, hint), value, where)
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
            return float(value)
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, hint):
        return value
    raise UserError(f"{where}: found {value!r}; expected {_describe(hint)}")


_SETTINGS = "settings as key: value"
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: _SETTINGS}


def _describe(hint: Any) -> str:
    """A type in the words of a YAML file."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each entry of it {_describe(get_args(hint)[0])}"
    if dataclasses.is_dataclass(hint):
        return f"{_SETTINGS}, out of {', '.join(field.name for field in dataclasses.fields(hint))}"
    return _PLAIN.get(hint, str(hint))
