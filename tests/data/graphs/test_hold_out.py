"""Words held out but for one row: what a place is, and that training keeps one and is asked for the others."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from edge_transformer.data.graphs.cogs import read_cogs
from edge_transformer.data.graphs.hold_out import INSIDE_ITS_LIKE, HeldOut, hold_out, is_nested, places
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

COGS = benchmark("cogs")
NAMES = ("Ann", "Bob", "Cem", "Dan", "Eva")


def graph(tokens: str, parents: tuple[int, ...], roles: str) -> TokenGraph:
    labels = tuple(role.strip("-") for role in roles.split())
    return TokenGraph(tuple(tokens.split()), parents, {"role": labels})


def saw(who: str, verb: str, whom: str) -> TokenGraph:
    return graph(f"{who} {verb} {whom} .", (1, 1, 1, 3), "agent - theme -")


def ran(who: str) -> TokenGraph:
    return graph(f"{who} ran .", (1, 1, 2), "agent - -")


SAID = graph("Ann said that Bob ran .", (1, 1, 2, 4, 1, 5), "agent - - agent that -")
DEEP = graph("Ann said Bob said Cem ran .", (1, 1, 3, 1, 5, 3, 6), "agent - agent that agent that -")
ROWS = [
    *(saw(who, verb, whom) for who, verb, whom in product(NAMES, ("saw", "met"), NAMES)),
    *map(ran, NAMES),
    SAID,
    DEEP,
    TokenGraph(("Ann",), (0,), {"role": ("",)}),
]


def test_what_a_place_is() -> None:
    assert places(ROWS[0], "role") == ["agent", "[agent _ theme]", "theme", None]
    assert places(SAID, "role") == ["agent", "[agent _ that]", None, "agent", "that [agent _]", None]
    assert places(ROWS[-1], "role") == ["alone"]
    bare = TokenGraph(("a", "b"), (1, 1), {"role": ("", "")})
    assert places(bare, "role") == ["-", "[- _]"]


def test_what_is_inside_its_like() -> None:
    assert [is_nested(row, "role") for row in (ROWS[0], SAID, DEEP, ROWS[-1])] == [False, False, True, False]
    circle = TokenGraph(("a", "b", "c"), (1, 0, 0), {"role": ("x", "y", "x")})
    assert is_nested(circle, "role")
    assert not is_nested(TokenGraph(("a", "b"), (1, 0), {"role": ("", "")}), "role")


def check(rows: list[TokenGraph], held: HeldOut, most: int) -> int:
    """All that must be so, whatever was drawn; the number of words that are asked for."""
    train, dev, test = set(held.train), set(held.dev), set(held.test)
    assert len(held.train) == len(train)
    assert not train & dev
    assert not train & test
    assert not dev & test
    assert not any(is_nested(rows[row], "role") for row in train | dev)
    in_train = Counter(word for row in train for word in set(rows[row].tokens))
    assert all(in_train[word] for row in dev for word in rows[row].tokens)
    known: dict[str, set[str | None]] = {}
    for row in train:
        for word, place in zip(rows[row].tokens, places(rows[row], "role"), strict=True):
            known.setdefault(word, set()).add(place)
    asked = Counter[str]()
    for row, group in held.test.items():
        if group == INSIDE_ITS_LIKE:
            assert is_nested(rows[row], "role")
            continue
        words = rows[row].tokens
        new = [
            word
            for word, place in zip(words, places(rows[row], "role"), strict=True)
            if place not in known[word] and known[word] == {group} and in_train[word] == 1
        ]
        assert new, (rows[row], group)
        asked.update(set(new))
    assert max(asked.values(), default=0) <= most
    return len(asked)


def test_one_row_of_a_word_stays_and_other_places_are_asked() -> None:
    words = 0
    for seed in range(20):
        held = hold_out(ROWS, "role", 2, seed, scored=4, dev=3)
        words += check(ROWS, held, 4)
        known = {word for row in held.train for word in ROWS[row].tokens}
        assert (ROWS.index(DEEP) in held.test) == (set(DEEP.tokens) <= known)
        assert held == hold_out(ROWS, "role", 2, seed, scored=4, dev=3)
    assert words > 10  # at times what is drawn leaves nothing to ask in so few rows


def test_words_of_many_rows_are_not_chosen() -> None:
    held = hold_out(ROWS, "role", 9, 1, most=12)
    gone = set(range(len(ROWS))) - set(held.train) - set(held.dev) - set(held.test)
    assert not gone  # every word with several places has more rows than that; only the nested row is held out
    assert list(held.test) == [ROWS.index(DEEP)]


def test_nothing_to_hold_out() -> None:
    with pytest.raises(
        UserError, match=r"^here: column of places: found kind; expected one of the columns of .*: role$"
    ):
        hold_out(ROWS, "kind", 2, 1, source="here")
    with pytest.raises(DataError, match=r"^here: found no words with several places in role to hold out; expected"):
        hold_out([ran(name) for name in NAMES], "role", 2, 1, source="here")
    with pytest.raises(DataError, match=r"^here:1: found no rows; expected at least one graph a line$"):
        hold_out([], "role", 2, 1, source="here")


@pytest.mark.skipif(not COGS.is_dir(), reason=f"needs the COGS files in {COGS}")
def test_cogs() -> None:
    rows = [row.graph() for row in read_cogs(COGS, ("train",)).splits["train"]]
    held = hold_out(rows, "role", 60, 1)
    assert check(rows, held, 50) > 40
    groups = Counter(held.test.values())
    assert {"alone", "agent", "theme", "[agent _ theme]", "[theme _ agent]", INSIDE_ITS_LIKE} <= set(groups)
    assert len(held.train) > 15_000
    assert len(held.dev) == 500
