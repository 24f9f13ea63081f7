"""Bodies: any JSON is read or refused with a sentence, and what is written can be read."""

from __future__ import annotations

import json
import math
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
    try:
        value = read_json(body)
    except Refused as refused:
        assert refused.status == 400
        assert refused.message.startswith("body: found ")
    else:
        assert as_json(value)


@given(VALUES)
def test_any_value_is_a_body_or_refused(value: Any) -> None:
    try:
        found = read_body(value, ("top",))
    except Refused as refused:
        assert refused.status == 422
        assert "expected" in refused.message
    else:
        assert found.inputs
        assert found.single == (not isinstance(value, dict) or "inputs" not in value)


@pytest.mark.parametrize("body", [b"NaN", b"-Infinity", b"[1e999]", b"9" * 5000])
def test_numbers_that_json_has_not(body: bytes) -> None:
    with pytest.raises(Refused, match="body: found"):
        read_json(body)


@given(st.integers() | st.floats() | st.booleans() | st.text(max_size=3) | st.none())
def test_options_are_numbers_in_their_range(value: Any) -> None:
    try:
        assert 1 <= whole({"top": value}, "top", 5, 1, 10) <= 10
        assert type(value) is int
    except UserError as error:
        assert f"{error}".startswith("top: found")
    if isinstance(value, float) and not math.isnan(value):
        assert math.isfinite(number({"x": value}, "x", 1.0))
