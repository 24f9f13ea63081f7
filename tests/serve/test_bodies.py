"""Bodies: any JSON is read or refused with a sentence, and what is written can be read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.errors import UserError
from edge_transformer.serve.bodies import MAX_DEPTH, Refused, as_json, depth_over, number, read_body, read_json, whole

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def attempt(work: Callable[[], Any]) -> tuple[Any, Refused | None]:
    try:
        return work(), None
    except Refused as refused:
        return None, refused


def depth(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0)


@given(VALUES, st.integers(1, 6))
def test_depth(value: Any, most: int) -> None:
    assert depth_over(value, most) == (depth(value) > most)


@given(VALUES | st.just(["\ud800", {"\udfff": "\ud83d\ude00"}]))
def test_what_is_written_is_read_again(value: Any) -> None:
    if depth(value) <= MAX_DEPTH:
        assert read_json(as_json(value)) == json.loads(json.dumps(value))


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    value, error = attempt(lambda: read_json(body))
    if error is None:
        assert as_json(value)
    else:
        assert error.status == 400
        assert error.message.startswith("body: found ")


@given(VALUES)
def test_any_value_is_a_body_or_refused(value: Any) -> None:
    found, error = attempt(lambda: read_body(value, ("top",)))
    if error is None:
        assert found.inputs
        assert found.single == (not isinstance(value, dict) or "inputs" not in value)
    else:
        assert error.status == 422
        assert "expected" in error.message


@pytest.mark.parametrize("body", [b"NaN", b"-Infinity", b"[1e999]", b"9" * 5000])
def test_numbers_that_json_has_not(body: bytes) -> None:
    with pytest.raises(Refused, match="body: found"):
        read_json(body)


@given(st.integers() | st.floats() | st.booleans() | st.text(max_size=3) | st.none())
def test_options_are_numbers_in_their_range(value: Any) -> None:
    if type(value) is int and 1 <= value <= 10:
        assert whole({"top": value}, "top", 5, 1, 10) == value
    else:
        with pytest.raises(UserError, match="top: found"):
            whole({"top": value}, "top", 5, 1, 10)
    if isinstance(value, float) and not math.isnan(value):
        assert math.isfinite(number({"x": value}, "x", 1.0))
