"""Bodies of requests: JSON with limits, in the forms that the command line reads, one input or several."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UserError, suggestion
from ..io.streams import shown

MAX_DEPTH = 32  # of lists and objects in each other
_FORM = 'one input, or {"inputs": [...]} with several'


class Refused(Exception):
    """A request that gets no answer: the status, and a sentence that says what to change."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class Body(NamedTuple):
    """The inputs of a request, and its options."""

    inputs: list[Any]
    options: dict[str, Any]
    single: bool  # whether the body is itself the only input, and is answered without a list


def read_json(body: bytes) -> Any:
    """The value of a body; what is no JSON, or no finite number, is refused."""
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_number, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise Refused(400, f"body: found bytes that are no text ({error.reason}); expected JSON in UTF-8") from error
    except RecursionError as error:
        raise Refused(400, f"body: found lists in lists without end; expected at most {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise Refused(400, f"body: found what is no JSON ({error}); expected {_FORM}") from error
    if depth_over(value, MAX_DEPTH):
        raise Refused(400, f"body: found lists in lists; expected at most {MAX_DEPTH} levels")
    return value


def read_body(value: Any, known_options: Sequence[str]) -> Body:
    """The inputs of a request; `known_options` may stand beside them."""
    if not isinstance(value, dict) or "inputs" not in value:
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            raise Refused(422, f'body: found a list; expected several inputs as {{"inputs": [...]}}, or {_FORM}')
        return Body([value], {}, single=True)
    inputs = value["inputs"]
    if not isinstance(inputs, list) or not inputs:
        raise Refused(422, f"inputs: found {_short(inputs)}; expected a list with at least one input")
    known = ("inputs", *known_options)
    for name in value:
        if name not in known:
            expected = ", ".join(known)
            raise Refused(422, f"body: found the field {_short(name)}; expected {expected}{suggestion(name, known)}")
    return Body(inputs, {name: each for name, each in value.items() if name != "inputs"}, single=False)


def as_json(value: Any) -> bytes:
    """An answer as JSON; halves of surrogate pairs, which UTF-8 cannot have, stay escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def whole(options: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """An option that is a whole number."""
    value = options.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{name}: found {_short(value)}; expected a whole number from {least} to {most}")
    return value


def number(options: Mapping[str, Any], name: str, default: float) -> float:
    """An option that is a number."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{name}: found {_short(value)}; expected a number")
    return float(value) if abs(value) < 1e30 else math.copysign(1e30, value)


def depth_over(value: Any, most: int) -> bool:
    """Whether lists and objects stand in each other more than so many levels deep."""
    level = [value]
    for _ in range(most):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def _short(value: Any, limit: int = 120) -> str:
    text = shown(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
