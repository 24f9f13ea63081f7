"""Ways of decoding that make no sense are refused, with what would."""

from __future__ import annotations

import math
from typing import Any

import pytest

from edge_transformer.errors import UserError
from edge_transformer.tasks.seq2seq.questions import Decoding, beams_for


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beams": 0}, "a beam of 0; expected 1 to 64"),
        ({"beams": 1000}, "a beam of 1000; expected 1 to 64"),
        ({"beams": 2.5}, "a beam of 2.5; expected 1 to 64, a whole number"),
        ({"beams": True}, "a beam of True"),
        ({"beams": "4"}, "a beam of 4; expected 1 to 64, a whole number"),
        ({"beams": 2, "n_best": 3}, "3 translations of a beam of 2; expected 1 to 2"),
        ({"n_best": 0}, "0 translations"),
        ({"limit": 0}, "a limit of 0 words; expected 1 to 512"),
        ({"limit": 513}, "a limit of 513 words"),
        *(
            ({"beams": 4, "length_penalty": value}, "expected -5 to 5")
            for value in (1000, -1000, math.nan, math.inf, "1", None)
        ),
        ({"length_penalty": 0.6}, "a length penalty of 0.6 with greedy decoding.*expected a beam of 2 or more"),
        ({"sample": -1}, "-1 samples; expected 1 to 1000"),
        ({"sample": 2, "beams": 4}, "found samples and a beam"),
        ({"sample": 2, "beams": 4, "n_best": 2}, "found samples and a beam"),
        ({"sample": 2, "length_penalty": 1.0}, "found samples and a beam, n-best or length penalty"),
        ({"temperature": 0.5}, "without samples"),
        ({"top_k": 5}, "without samples"),
        ({"sample": 1, "temperature": 0.0}, "a temperature of 0.0; expected a number above 0"),
        ({"sample": 1, "temperature": math.nan}, "a temperature of nan"),
        ({"sample": 1, "temperature": math.inf}, "a temperature of inf"),
        ({"sample": 1, "top_k": 0}, "a top-k of 0"),
        ({"sample": 1, "top_k": 1.5}, "a top-k of 1.5"),
        ({"sample": 1, "top_p": 1.1}, "a top-p of 1.1"),
        ({"sample": 1, "seed": -1}, "a seed of -1"),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Decoding(**values)


def test_what_is_allowed() -> None:
    assert Decoding().count == 1
    assert Decoding(beams=4, n_best=3, length_penalty=-5).count == 3
    assert Decoding(sample=7, temperature=0.1, top_k=3, top_p=0.5, seed=0).count == 7
    assert [beams_for(count) for count in (1, 2, 4, 9)] == [1, 4, 4, 9]
