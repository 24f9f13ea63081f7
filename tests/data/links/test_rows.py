"""Facts in memory: what is read, and what an error says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.links.rows import Entity, Fact, LinkRows, fact_of, link_rows, without_duplicates
from edge_transformer.errors import DataError, UserError

ANN = Fact("Ann", "mother", "Eve")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["Ann", "mother", "Eve"], ANN),
        (("Ann", "mother", "Eve"), ANN),
        (ANN, ANN),
        ({"head": "Ann", "relation": "mother", "tail": "Eve"}, ANN),
        ({"tail": "Eve", "relation": "mother", "head": "Ann", "id": [1]}, ANN),
        ([1, "next", 2], Fact("1", "next", "2")),
        ((0, 0, 0), Fact("0", "0", "0")),
        ((np.int64(1), np.str_("next"), torch.tensor(2)), Fact("1", "next", "2")),
        (np.array(["Ann", "mother", "Eve"]), ANN),
        ({"entity": np.int64(7), "features": np.array([1, 0.5])}, ("7", Entity((), (1.0, 0.5)))),
        ({"entity": "Ann"}, ("Ann", Entity())),
        ({"entity": 7, "types": "person", "features": 2, "id": 1}, ("7", Entity(("person",), (2.0,)))),
        ({"entity": "A", "types": ["p", "q", "p"], "features": (1, -0.5)}, ("A", Entity(("p", "q"), (1.0, -0.5)))),
        ({"entity": "A", "types": [], "features": None}, ("A", Entity())),
    ],
)
def test_rows(row: Any, expected: Any) -> None:
    found = fact_of(row, "train[3]")
    assert found == expected
    assert isinstance(found, Fact) == isinstance(expected, Fact)


@pytest.mark.parametrize(
    ("row", "found", "expected"),
    [
        (["Ann", "mother"], '["Ann", "mother"]', "a fact, such as"),
        ("Ann", '"Ann"', "a fact, such as"),
        (None, "null", "a fact, such as"),
        (["Ann", "mother", None], "null", '"tail": a text that is not empty, or a whole number'),
        (["", "mother", "Eve"], '""', '"head": a text'),
        ([True, "mother", "Eve"], "true", '"head": a text'),
        (["Ann", 1.5, "Eve"], "1.5", '"relation": a text'),
        (["Ann", np.float64(1.5), "Eve"], "1.5", '"relation": a text'),
        (["Ann", ["mother"], "Eve"], '["mother"]', '"relation": a text'),
        ({"head": "Ann", "tail": "Eve"}, 'no "relation"', '"relation": a text'),
        ({"head": "A", "relaton": "r", "tail": "E"}, 'the field "relaton"', "did you mean relation?"),
        ({"entity": ""}, '""', '"entity": a text'),
        ({"entity": "Ann", "type": "person"}, 'the field "type"', "did you mean types?"),
        ({"entity": "Ann", "types": ["person", 3]}, '["person", 3]', '"types": a text'),
        ({"entity": "Ann", "features": [1, float("nan")]}, "[1, NaN]", '"features": finite numbers'),
        ({"entity": "Ann", "features": "1"}, '"1"', '"features": finite numbers'),
        ([10**5000, "r", "b"], "a int that cannot be written as JSON", '"head": a text'),
    ],
)
def test_broken_rows(row: Any, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        fact_of(row, "train[3]")
    assert str(error.value).startswith(f"train[3]: found {found}; expected ")
    assert expected in error.value.expected


def test_rows_by_split() -> None:
    known = {"entity": "Ann", "types": ["person"], "features": [1]}
    data = link_rows({"test-long": [ANN], "dev": iter([ANN, known]), "train": ([1, "r", 2], known, [1, "r", 2])})
    assert list(data.splits) == ["train", "valid", "test-long"]
    assert data.splits["train"] == [Fact("1", "r", "2")] * 2
    assert data.splits["valid"] == [ANN]
    assert data.entities == {"Ann": Entity(("person",), (1.0,))}
    assert data.candidates == ()
    assert data.name == "rows in memory"


def test_fingerprints_of_rows() -> None:
    one, same, other = (link_rows({"train": rows}).fingerprint for rows in ([ANN], iter([ANN]), [ANN, ANN]))
    assert one == same != other


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"dev": [], "valid": []}, "found the splits dev and valid, two names for the same"),
        ({"training": []}, "found the split 'training'; expected train, valid and test"),
        ({"train": "abc"}, 'train: found "abc"; expected a list of facts'),
        ({"train": 3}, "train: found 3; expected a list of facts"),
        ({"train": [ANN, ["a", "b"]]}, 'train[1]: found ["a", "b"]; expected a fact'),
        (
            {"train": [{"entity": "A", "types": "p"}, {"entity": "A", "types": "q"}]},
            'train[1]: found the entity "A" a second time, with other values; expected each entity once',
        ),
        (
            {"train": [{"entity": "A", "features": [1, 2]}, {"entity": "C"}], "test": [{"entity": "B", "features": 1}]},
            'test[0]: found 1 features of "B"; expected 2, as many as of the entities before',
        ),
    ],
)
def test_broken_splits(splits: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        link_rows(splits)
    assert message in str(error.value)


@given(st.lists(st.builds(Fact, st.sampled_from("ab"), st.sampled_from("rs"), st.sampled_from("ab"))))
def test_without_duplicates(facts: list[Fact]) -> None:
    found = without_duplicates(facts)
    assert set(found) == set(facts)
    assert len(found) == len(set(facts))
    assert [facts.index(fact) for fact in found] == sorted(facts.index(fact) for fact in found)


_ODD: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["head", "relation", "tail", "entity"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["head", "relation", "tail", "entity", "types", "features", "id", "x"]), inner, max_size=5
        )
    ),
    max_leaves=8,
)


@given(_ODD)
def test_any_value_is_read_or_refused(value: Any) -> None:
    try:
        read = fact_of(value, "row")
    except DataError as error:
        message = str(error)
    else:
        message = "row: found "
        names = read if isinstance(read, Fact) else read[:1]
        assert all(isinstance(name, str) and name for name in names)
    assert message.startswith("row: found ")


@given(st.lists(st.tuples(*[st.text(min_size=1, max_size=3)] * 3)))
def test_facts_survive(facts: list[tuple[str, str, str]]) -> None:
    objects = [dict(zip(Fact._fields, fact, strict=True)) for fact in facts]
    assert link_rows({"train": facts}).splits == link_rows({"train": objects}).splits == {"train": facts}
    assert isinstance(link_rows({"train": facts}), LinkRows)
