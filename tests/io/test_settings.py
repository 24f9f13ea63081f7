"""Settings: what they refuse, and their way from and to plain dictionaries."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

import pytest

from edge_transformer.errors import UserError
from edge_transformer.io.settings import from_dict, to_dict


@dataclass(frozen=True)
class Inner:
    size: int
    name: str = "inner"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be at least 1, but is {self.size}")


@dataclass(frozen=True)
class Outer:
    """One field of every kind that a configuration may have."""

    inner: Inner
    rate: float = 0.5
    flag: bool = False
    colour: Literal["red", "green"] = "red"
    sizes: tuple[int, ...] = (1, 2)
    parts: tuple[Inner, ...] = ()
    limit: int | None = None
    older: Optional[float] = None  # noqa: UP045
    choices: tuple[int, ...] | None = None
    other: Inner | None = None
    changes: dict = field(default_factory=dict)


def refusal(cls: type, values: dict[str, Any], where: str = "") -> str:
    """The message with which values are refused."""
    with pytest.raises(UserError) as error:
        from_dict(cls, values, where)
    return str(error.value)


@pytest.mark.parametrize(
    "config",
    [
        Outer(Inner(1)),
        Outer(
            inner=Inner(3, "three"),
            rate=2.0,
            flag=True,
            colour="green",
            sizes=(),
            parts=(Inner(1), Inner(2, "two")),
            limit=7,
            older=1.5,
            choices=(4,),
            other=Inner(9),
            changes={"a.b": [1]},
        ),
    ],
    ids=lambda config: type(config).__name__,
)
def test_round_trip_through_json(config: Any) -> None:
    assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def test_to_dict_is_plain_to_the_bottom() -> None:
    assert to_dict(Outer(Inner(3)))["inner"] == {"size": 3, "name": "inner"}
    parts = to_dict(Outer(Inner(3), parts=(Inner(1),), sizes=(4, 5)))
    assert parts["parts"] == [{"size": 1, "name": "inner"}]
    assert parts["sizes"] == [4, 5]
    assert json.loads(json.dumps(parts)) == parts


def test_what_is_not_given_keeps_its_default() -> None:
    assert from_dict(Outer, {"inner": {"size": 4}}) == Outer(inner=Inner(4))


def test_lists_become_tuples_and_whole_numbers_floats() -> None:
    config = from_dict(Outer, {"inner": {"size": 4}, "sizes": [5, 6], "rate": 1, "older": 2})
    assert config.sizes == (5, 6)
    assert isinstance(config.rate, float)
    assert isinstance(config.older, float)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"colours": 3}, "Outer: unknown setting 'colours'; did you mean colour? Known are inner, rate, flag, colour, "),
    ({"dept": 3}, "Outer: unknown setting 'dept'; known are inner, rate, flag, colour, sizes, parts, limit, older"),
    ({"inner": {"size": 1, "colour": 2}}, "Outer.inner: unknown setting 'colour'; known are size, name"),
    ({"inner": {}}, "Outer.inner: missing setting 'size'"),
    ({"inner": {"size": "4"}}, "Outer.inner.size: found '4'; expected a whole number"),
    ({"inner": {"size": 4.0}}, "Outer.inner.size: found 4.0; expected a whole number"),
    ({"inner": {"size": True}}, "Outer.inner.size: found True; expected a whole number"),
    ({"inner": {"size": None}}, "Outer.inner.size: found None; expected a whole number"),
    ({"inner": {"size": 0}}, "Outer.inner: size must be at least 1, but is 0"),
    ({"inner": {"size": 1, "name": 5}}, "Outer.inner.name: found 5; expected a text"),
    ({"inner": 3}, "Outer.inner: found 3; expected settings as key: value, out of size, name"),
    ({"rate": "fast"}, "Outer.rate: found 'fast'; expected a number"),
    ({"rate": True}, "Outer.rate: found True; expected a number"),
    ({"flag": 1}, "Outer.flag: found 1; expected true or false"),
    ({"flag": "true"}, "Outer.flag: found 'true'; expected true or false"),
    ({"colour": "blue"}, "Outer.colour: found 'blue'; expected one of 'red', 'green'"),
    ({"colour": ["red"]}, "Outer.colour: found ['red']; expected one of 'red', 'green'"),
    ({"sizes": 3}, "Outer.sizes: found 3; expected a list, each entry of it a whole number"),
    ({"sizes": "12"}, "Outer.sizes: found '12'; expected a list, each entry of it a whole number"),
    ({"sizes": [1, "2"]}, "Outer.sizes: found '2'; expected a whole number"),
    ({"parts": [{"size": 1}, {"size": 0}]}, "Outer.parts, entry 2: size must be at least 1, but is 0"),
    ({"limit": "none"}, "Outer.limit: found 'none'; expected a whole number"),
    ({"older": "none"}, "Outer.older: found 'none'; expected a number"),
    ({"choices": [None]}, "Outer.choices: found None; expected a whole number"),
    ({"changes": [1]}, "Outer.changes: found [1]; expected settings as key: value"),
    ({"other": {"size": False}}, "Outer.other.size: found False; expected a whole number"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_wrong_values_are_named(changed: dict[str, Any], message: str) -> None:
    assert refusal(Outer, {"inner": {"size": 1}} | changed).startswith(message)


def test_a_missing_setting_is_named() -> None:
    assert refusal(Outer, {}) == "Outer: missing setting 'inner'"


def test_the_place_is_named_as_the_caller_calls_it() -> None:
    assert refusal(Inner, {"size": "x"}, "runs.yaml").startswith("runs.yaml.size: found 'x'")
    assert refusal(Inner, {"sise": 1}, "runs.yaml").startswith("runs.yaml: unknown setting 'sise'")
