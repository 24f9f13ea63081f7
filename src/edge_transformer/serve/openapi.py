"""What the API's description says of each operation: a sentence, an example, and the forms of inputs and answers."""

from __future__ import annotations

from typing import Any

FAMILY = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
LINK = {"head": "Ann", "relation": "aunt"}
EXAMPLES: dict[str, tuple[str, Any]] = {
    "predict": ("Answer questions, as `edge-transformer predict` does", FAMILY),
    "explain": ("Explain answers by the edges that they were composed from, as `explain --json` does", FAMILY),
    "attention": (
        'The weights of all triangles of the edges under "pairs", by layer and head; by default of the query',
        {**FAMILY, "pairs": [["Ann", "Eve"]]},
    ),
    "parse": ("Parse sentences, as `parse --json` does", {"inputs": ["A cat ran .", "Emma slept ."]}),
    "translate": (
        "Translate texts, as `translate --json` does; the options have the names of the command's",
        {"inputs": ["jump twice"], "beam": 4, "nbest": 2},
    ),
    "missing": ("The most probable links that the graph does not have", {"inputs": [{"relation": "aunt"}], "top": 10}),
}
ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "what was found, and what was expected"}},
    "required": ["error"],
}
STATUSES = {
    "400": "The body is no JSON",
    "401": "The token is missing or wrong",
    "404": "There is no such model, or it cannot do this",
    "413": "The body is too large, or has too many inputs",
    "415": "The body is not of the type application/json",
    "422": "The only input cannot be answered; several inputs have an error each in its place",
    "503": "The queue is full, or the time was over: ask again after the seconds in Retry-After",
}


def about() -> str:
    """The beginning of the description."""
    return (
        "Models that answer, explain, parse and translate. A body is one input, in the form of a line that the command "
        'line reads, and is answered with one object; or it is {"inputs": [...]}, and is answered with {"answers": '
        '[...]}, in which each input has its answer, or {"error": "..."}.'
    )


def describe(verb: str) -> tuple[str, dict[str, Any]]:
    """The summary of an operation, and what its route adds to the description."""
    summary, example = EXAMPLES[verb]
    several = {
        "type": "object",
        "properties": {"inputs": {"type": "array", "items": {}, "minItems": 1}},
        "required": ["inputs"],
    }
    body = {
        "required": True,
        "content": {"application/json": {"schema": {"anyOf": [several, {}]}, "example": example}},
    }
    found = {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": {"type": "object"}}},
        "description": "the answer to a single input, or the answers to several",
    }
    responses: dict[str, Any] = {"200": {"description": "Answered", "content": {"application/json": {"schema": found}}}}
    for status, said in STATUSES.items():
        responses[status] = {"description": said, "content": {"application/json": {"schema": ERROR}}}
    return summary, {"requestBody": body, "responses": responses}
