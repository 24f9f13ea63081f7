"""Stories out of others: longer ones, and ones that come back to people. They say what their parts say, and what they
say is true of families.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from edge_transformer.data.relations.augment import Kinship, Visits, augmented_stories, compositions, substitute
from edge_transformer.data.relations.families import FamilyShape, simulate_family
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import ProofStep, Story
from short_stories import story, told, truth

# --- longer stories ---------------------------------------------------------------------------------------------------


def test_a_story_in_the_place_of_an_edge() -> None:
    long = story("0 father 1, 1 son 2", (0, 2), "brother")
    part = story("0 sister 1, 1 brother 2, 2 father 3", (0, 3), "father")
    made = substitute(long, 0, part)
    assert told(made) == "0 sister 3, 3 brother 4, 4 father 1, 1 son 2"
    assert (made.query, made.target, made.size, made.k) == ((0, 2), "brother", 5, 4)
    back = substitute(long, 1, story("1 mother 0, 0 brother 2", (1, 2), "son"))  # a query whose nodes are not in order
    assert told(back) == "0 father 1, 1 mother 3, 3 brother 2"


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return generate([2, 3], [2], 3000, seed=1, revisits=0.0)[0]


def test_lengths_and_numbers(stories: list[Story]) -> None:
    made = augmented_stories(stories, 400, longest=6, seed=3)
    lengths = Counter(each.k for each in made)
    assert set(lengths) == {4, 5, 6}
    assert min(lengths.values()) > 70
    assert 320 < len(made) <= 400  # some cannot grow: nobody's answer is "husband"
    for each in made:
        assert len(each.edges) == len(each.relations) == each.k
        assert {node for edge in each.edges for node in edge} == set(range(each.size))
        assert set(each.query) <= set(range(each.size))
    assert {each.target for each in made} <= {each.target for each in stories}


def test_nobody_is_a_wife_and_has_one() -> None:
    """A story takes the place of an edge only if its first person has the gender of the edge's."""
    rows = [
        replace(story("0 sister 1, 1 father 2", (0, 2), "father"), genders=("male", "female", "male")),
        replace(story("0 husband 1, 1 father 2", (0, 2), "father"), genders=("female", "male", "male")),
        replace(story("0 brother 1, 1 father 2", (0, 2), "father"), genders=("male", "male", "male")),
    ]
    made = augmented_stories(rows, 200, 6, seed=1)
    assert {len(each.edges) for each in made} == {3, 4, 5, 6}
    for each in made:
        assert len(each.genders) == each.size
        for (start, end), relation in zip(each.edges, each.relations, strict=True):
            assert each.genders[end] == ("female" if relation == "sister" else "male")
            assert relation != "husband" or each.genders[start] == "female"


def test_the_seed_decides(stories: list[Story]) -> None:
    assert augmented_stories(stories, 50, 6, seed=3) == augmented_stories(stories, 50, 6, seed=3)
    assert augmented_stories(stories, 50, 6, seed=3) != augmented_stories(stories, 50, 6, seed=4)


def test_where_nothing_can_be_made(stories: list[Story]) -> None:
    assert augmented_stories([], 5, 8, seed=1) == []
    assert augmented_stories(stories, 0, 8, seed=1) == []
    assert augmented_stories(stories, 5, 3, seed=1) == []  # the stories are that long already
    never_told = story("0 wife 1, 1 father 2", (0, 2), "father-in-law")
    assert augmented_stories([never_told], 5, 8, seed=1) == []


def test_nothing_is_told_twice_nor_what_is_asked_for() -> None:
    """Also where stories come back to people, or are no walks."""
    rows = [
        story("0 brother 1, 1 brother 0, 0 brother 2", (0, 2), "brother"),
        story("0 brother 1, 1 brother 2, 2 twin 0", (0, 2), "brother"),
    ]
    made = augmented_stories(rows, 300, 8, seed=1)
    assert made
    for each in made:
        assert len(set(each.edges)) == len(each.edges)
        assert each.query not in each.edges


def test_genders_of_both_people_must_fit() -> None:
    rows = [
        replace(story("0 cousin 1, 1 sister 2", (0, 2), "cousin"), genders=("male", "male", "female")),
        replace(story("0 cousin 1, 1 brother 2", (0, 2), "cousin"), genders=("male", "male", "male")),
    ]
    for each in augmented_stories(rows, 100, 6, seed=1):
        named = zip(each.edges, each.relations, strict=True)
        assert all(each.genders[end] == "female" for (_, end), relation in named if relation == "sister")


def test_contradictions_take_no_part() -> None:
    sure = story("0 sister 1, 1 father 2", (0, 2), "father")
    doubtful = story("0 grandfather 1, 1 son 2", (0, 2), "father")
    other = story("0 grandfather 1, 1 son 2", (0, 2), "uncle")
    made = augmented_stories([sure, doubtful, other], 30, 6, seed=1)
    assert made
    assert all("grandfather" not in each.relations and each.target == "father" for each in made)


def test_what_they_say_is_as_true_as_their_parts(stories: list[Story]) -> None:
    """In a family that was simulated anew. Not all is true even of the parts: a brother's sister may be one's wife."""
    family = simulate_family(random.Random(5), FamilyShape(3, 3, 5, 1.0, True))
    parts = truth(stories[:150], family)
    assert parts > 0.9
    assert truth(augmented_stories(stories, 150, 5, seed=2), family) > parts - 0.05


# --- stories that come back -------------------------------------------------------------------------------------------


GENDERS = {"son": "male", "brother": "male", "father": "male", "sister": "female", "mother": "female", "wife": "female"}


def with_genders(each: Story, first: str) -> Story:
    """Genders as the relations say, of all but the person of this number 0."""
    named = {end: GENDERS[relation] for (_, end), relation in zip(each.edges, each.relations, strict=True)}
    return replace(each, genders=tuple(named.get(person, first) for person in range(each.size)))


def test_compositions_where_all_agree() -> None:
    rows = [
        story("0 father 1, 1 son 2", (0, 2), "brother"),
        story("0 sister 1, 1 son 2", (0, 2), "nephew"),
        story("0 sister 1, 1 son 2", (0, 2), "grandson"),
        story("0 son 1, 1 son 2, 2 son 3", (0, 3), "x"),
        story("1 son 2, 0 wife 1", (0, 2), "son"),  # not told in the order of the walk
    ]
    assert compositions(rows) == {("father", "son"): "brother"}


def test_ways_back_that_a_story_takes() -> None:
    row = with_genders(story("0 son 1, 1 mother 0, 0 sister 2, 2 son 3", (0, 3), "nephew"), "female")
    kinship = Kinship.shown_by([row])
    assert kinship.back == {("female", "son"): "mother", ("male", "mother"): "son"}  # seen from both ends
    assert kinship.named == {"son": "male", "mother": "female", "sister": "female"}
    assert kinship.told == {"son", "mother", "sister"}
    assert Kinship.shown_by([replace(row, genders=())]).back == {}


def test_ways_back_that_change_no_answer() -> None:
    """A brother's sister's brother is a brother: the third may be the first. A father's brother's son is no father."""
    rows = [
        with_genders(story("0 brother 1, 1 sister 2, 2 brother 3", (0, 3), "brother"), "male"),
        with_genders(story("0 father 1, 1 brother 2, 2 son 3", (0, 3), "cousin"), "male"),
    ]
    assert Kinship.shown_by(rows).back == {("male", "sister"): "brother", ("female", "brother"): "sister"}
    doubtful = with_genders(story("0 father 1, 1 sister 2, 2 brother 3", (0, 3), "uncle"), "male")
    assert Kinship.shown_by([*rows, doubtful]).back == {}  # as often as not
    assert Kinship.shown_by([*rows, *rows, doubtful]).back == {}  # two in three are not enough
    assert Kinship.shown_by([*rows, *rows, *rows, doubtful]).back


def test_two_ways_back_are_none() -> None:
    rows = [
        with_genders(story("0 son 1, 1 mother 0, 0 sister 2, 2 son 3", (0, 3), "nephew"), "female"),
        with_genders(story("0 son 1, 1 wife 0, 0 sister 2, 2 son 3", (0, 3), "nephew"), "female"),
    ]
    assert ("female", "son") not in Kinship.shown_by(rows).back


KINSHIP = Kinship(
    composed={
        ("son", "brother"): "son",
        ("sister", "son"): "nephew",
        ("son", "sister"): "daughter",
        ("brother", "mother"): "mother",
    },
    back={("female", "son"): "mother", ("male", "mother"): "son", ("male", "brother"): "brother"},
    named=GENDERS,
    told=frozenset(GENDERS),
)


def test_what_is_known_without_being_told() -> None:
    visits = Visits(with_genders(story("0 son 1, 1 brother 2, 2 sister 3", (0, 3), "daughter"), "female"), KINSHIP)
    assert visits.relation(1, 0) == "mother"  # the way back
    assert visits.relation(0, 2) == "son"  # two steps
    assert visits.relation(2, 1) == "brother"
    assert visits.relation(1, 3) is None  # no rule
    assert visits.relation(1, 1) is None
    rule = replace(KINSHIP, composed={**KINSHIP.composed, ("brother", "sister"): "sister"})
    assert Visits(visits.story, rule).relation(1, 3) == "sister"
    doubt = replace(rule, composed={**rule.composed, ("mother", "daughter"): "wife"})
    over_both = Visits(visits.story, doubt)
    over_both.known[0, 3] = "daughter"
    assert over_both.relation(1, 3) is None  # over 2 a sister, over 0 another


@pytest.mark.parametrize("seed", range(40))
def test_one_visit(seed: int) -> None:
    before = with_genders(story("0 sister 1, 1 son 2, 2 brother 3", (0, 3), "nephew"), "female")
    visits = Visits(before, KINSHIP)
    most = 1 + seed % 2
    if not visits.return_once(most, random.Random(seed)):
        assert visits.story == before
        return
    after = visits.story
    assert 0 < len(after.edges) - len(before.edges) <= most
    assert (after.query, after.target) == (before.query, before.target)
    assert len(set(after.edges)) == len(after.edges)
    assert after.query not in after.edges
    assert set(after.relations) <= KINSHIP.told  # a nephew is an answer, and never told
    walk = [after.edges[0][0], *(end for _, end in after.edges)]
    assert tuple(pairwise(walk)) == after.edges
    assert len(after.genders) == after.size
    for (_, end), relation in zip(after.edges, after.relations, strict=True):
        assert after.genders[end] == GENDERS[relation]


def test_all_kinds_of_visits_are_made() -> None:
    before = with_genders(story("0 sister 1, 1 son 2, 2 brother 3", (0, 3), "nephew"), "female")
    before = replace(before, proof=(ProofStep((0, "nephew", 3), ((0, "sister", 1), (1, "son", 3))),))
    made = set()
    for seed in range(200):
        visits = Visits(before, KINSHIP)
        if visits.return_once(2, random.Random(seed)):
            assert visits.story.proof == ()  # it was that of another story
        made.add(told(visits.story))
    assert "0 sister 1, 1 son 4, 4 mother 1, 1 son 2, 2 brother 3" in made  # somebody new
    assert "0 sister 1, 1 son 2, 2 mother 1, 1 son 3" not in made  # that would leave out what was told
    assert "0 sister 1, 1 son 2, 2 brother 3, 3 brother 2, 2 brother 3" not in made  # nothing twice
    assert "0 sister 1, 1 son 3, 3 brother 2, 2 brother 3" in made  # a detour to the same
    assert "0 sister 1, 1 son 2, 2 brother 3, 3 mother 1, 1 son 3" in made  # somebody known


@pytest.fixture(scope="module")
def with_returns() -> list[Story]:
    return generate([2, 3, 4], [2], 4000, seed=1, revisits=0.3)[0]


def test_stories_that_come_back(with_returns: list[Story]) -> None:
    made = augmented_stories(with_returns, 400, longest=8, seed=3, returns=0.5)
    assert {each.k for each in made} == {5, 6, 7, 8}
    assert 0.5 < sum(each.size <= each.k for each in made) / len(made) < 0.95
    plain = augmented_stories(with_returns, 400, longest=8, seed=3)
    assert sum(each.size <= each.k for each in plain) < sum(each.size <= each.k for each in made) / 2
    for each in made:
        assert {node for edge in each.edges for node in edge} == set(range(each.size))
        assert len(set(each.edges)) == len(each.edges) == len(each.relations)
        assert each.query not in each.edges
        assert all(start != end for start, end in (*each.edges, each.query))
    told_before = {relation for each in with_returns for relation in each.relations}
    assert {relation for each in made for relation in each.relations} <= told_before


def test_what_they_say_is_as_true_as_their_parts_where_they_come_back(with_returns: list[Story]) -> None:
    """In a family that was simulated anew. Not all is true even of the parts: a brother's sister may be one's wife."""
    family = simulate_family(random.Random(5), FamilyShape(3, 3, 5, 1.0, True))
    parts = truth(with_returns[:150], family)
    assert parts > 0.9
    made = [each for each in augmented_stories(with_returns, 600, 6, seed=2, returns=0.5) if each.size <= each.k]
    assert truth(made[:150], family) > parts - 0.05
