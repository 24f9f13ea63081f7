"""Longer stories out of shorter ones: they say what their parts say, and what they say is true of families."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from edge_transformer.data.relations.augment import augmented_stories, splice
from edge_transformer.data.relations.families import FamilyShape, simulate_family
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import Story
from short_stories import story, told, truth


def test_a_story_in_the_place_of_an_edge() -> None:
    long = story("0 father 1, 1 son 2", (0, 2), "brother")
    part = story("0 sister 1, 1 brother 2, 2 father 3", (0, 3), "father")
    made = splice(long, 0, part)
    assert told(made) == "0 sister 3, 3 brother 4, 4 father 1, 1 son 2"
    assert (made.query, made.target, made.size, made.k) == ((0, 2), "brother", 5, 4)
    back = splice(long, 1, story("1 mother 0, 0 brother 2", (1, 2), "son"))  # a question whose nodes are not in order
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
