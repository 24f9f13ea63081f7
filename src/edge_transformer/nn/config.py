"""Configurations: frozen dataclasses that check themselves, and their way from and to plain dictionaries."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import UserError
from ..ops.attention import KEYS, VALUES

NORMS = ("released", "paper", "pre")
Config = TypeVar("Config")


class StackConfig(Protocol):
    """What the configuration of every encoder has: the shape of a stack of layers with several heads."""

    @property
    def dim(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def min_layers(self) -> int | None: ...


@dataclass(frozen=True)
class EdgeTransformerConfig:
    """The shape of an Edge Transformer encoder."""

    dim: int
    heads: int
    layers: int
    tied: bool = True  # one set of weights for all layers
    dropout: float = 0.0
    ff_factor: int = 4  # hidden units of the feed-forward network, in multiples of dim
    attention_bias: bool = True
    norm: str = "released"  # "released" | "paper" | "pre"
    key: str = "lj"  # "ij" is the attention ablation
    value: str = "product"  # "left" is the value ablation
    min_layers: int | None = None  # in training, each call runs a random number of layers, from this many to `layers`

    def __post_init__(self) -> None:
        require_positive(self, "ff_factor")
        require_stack(self)
        require_choice(self, "norm", NORMS)
        require_choice(self, "key", KEYS)
        require_choice(self, "value", VALUES)


def require_stack(config: StackConfig) -> None:
    """Refuse a stack that cannot be built."""
    require_positive(config, "dim", "heads", "layers")
    if config.dim % config.heads:
        raise ValueError(f"dim={config.dim} is not divisible by heads={config.heads}")
    if config.min_layers is not None and not 1 <= config.min_layers <= config.layers:
        raise ValueError(f"min_layers must lie between 1 and layers={config.layers}, but is {config.min_layers}")
    require_fraction(config, "dropout")


def require_positive(config: object, *names: str) -> None:
    """Refuse a value below 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, but is {getattr(config, name)}")


def require_fraction(config: object, *names: str) -> None:
    """Refuse a value outside [0, 1)."""
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            raise ValueError(f"{name} must be at least 0 and below 1, but is {getattr(config, name)}")


def require_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if getattr(config, name) not in choices:
        raise ValueError(f"{name}={getattr(config, name)!r} is not known; choose one of {list(choices)}")


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return _plain(dataclasses.asdict(config))


def _plain(value: Any) -> Any:
    """Tuples as the lists that JSON makes of them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_dict(cls: type[Config], values: Mapping[str, Any], where: str = "") -> Config:
    """Build a configuration from plain values, naming the key that is unknown, missing or of the wrong type."""
    where = where or cls.__name__
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise UserError(f"{where}: unknown setting {name!r}; known are {', '.join(fields)}")
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


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a plain value against a type hint; lists become tuples, whole numbers become floats where one is wanted."""
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
            if not dataclasses.is_dataclass(item_hint):  # a plain value is found without counting
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
    """A type as a person who writes a YAML file would call it."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each entry of it {_describe(get_args(hint)[0])}"
    if dataclasses.is_dataclass(hint):
        return f"{_SETTINGS}, out of {', '.join(field.name for field in dataclasses.fields(hint))}"
    return _PLAIN.get(hint, str(hint))
