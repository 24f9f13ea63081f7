"""Mutated bodies at every operation of models: answered or refused in a sentence, never by a mistake of ours."""

from __future__ import annotations

import random
from typing import Any

import pytest

import edge_transformer as et
from link_cases import link_model
from serve import mutated  # benchmarks/serve.py, which sends many more
from served import serving

pytestmark = pytest.mark.usefixtures("one_thread")
PLACES = [
    *(("clutrr-small", verb) for verb in ("predict", "explain", "attention")),
    *(("cogs-small", verb) for verb in ("predict", "parse")),
    *(("ring", verb) for verb in ("predict", "explain", "missing")),
]


def test_no_mutated_body_is_a_mistake_of_ours() -> None:
    models: dict[str, Any] = {name: et.load(name) for name in ("clutrr-small", "cogs-small")}
    chance, seen = random.Random(5), set()
    with serving({**models, "ring": link_model()}) as (client, _):
        for number in range(600):
            body = mutated(chance)
            if number % 4 == 0:
                body = body.replace(b"edges", b"head").replace(b"query", b"relation").replace(b"p0", b"next")
            model, verb = chance.choice(PLACES)
            found = client.post(
                f"/v1/models/{model}/{verb}", content=body, headers={"content-type": "application/json"}
            )
            seen.add(found.status_code)
            assert found.status_code in (200, 400, 413, 422), (verb, body, found.text)
            assert b"its log says why" not in found.content, (verb, body)
            assert found.json()
    assert {200, 400, 422} <= seen
