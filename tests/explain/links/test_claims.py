"""Explanations of links as text: every line, and names that cannot be printed."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import edge_transformer as et
from edge_transformer.data.links.rows import Fact
from edge_transformer.explain import LinkExplanation
from edge_transformer.explain.links.claims import LinkReason, Step
from edge_transformer.explain.links.view import Standing
from links_of_rules import ASKED, transitive


def standing(probability: float, ranks: tuple[int, ...]) -> Standing:
    return Standing(math.log(probability), ranks)


def explanation() -> LinkExplanation:
    """Made by hand: two reasons, of which the second is read from tail to head."""
    first = Step(0, 3, (Fact("Ann", "son", "Bob"), Fact("Bob", "mother", "Ann")))
    inner = Step(0, 2, (), 1, 0.25, 0.5, (first, Step(3, 2, (Fact("Bob", "son", "Tom"),))))
    one = Step(0, 1, (), 2, 0.75, 0.9, (inner, Step(2, 1, (Fact("Eve", "son", "Tom"),))))
    back = (Step(1, 2, (Fact("Eve", "son", "Tom"),)), Step(2, 0, (Fact("Tom", "aunt", "Ann"),)))
    other = Step(1, 0, (), 1, 0.125, 0.4, back)
    without = standing(0.25, (2, 4))
    return LinkExplanation(
        Fact("Ann", "aunt", "Eve"),
        (0, 1),
        "link",
        False,
        standing(0.9, (1, 3)),
        (LinkReason(one, without), LinkReason(other, without)),
        standing(0.12, (3, 5)),
        (((2, 0.5, 0.75), (3, 0.25, 0.5)), ((2, 0.75, 0.9),)),
        {0: "Ann", 1: "Eve", 2: "Tom", 3: "Bob"},
        (4, 4),
    )


def test_every_line() -> None:
    assert explanation().text(layers=True).splitlines() == [
        "probably: (Ann, aunt, Eve)  (0.90; tail number 1, head number 3)",
        "  because (Ann, son, Bob), (Bob, mother, Ann), (Bob, son, Tom) and (Eve, son, Tom)",
        "    through Tom (layer 2, strength 0.90, weight 0.75) and Bob (layer 1, strength 0.50, weight 0.25); "
        "without these 0.25; tail number 2, head number 4",
        "  and because (Tom, aunt, Ann) and (Eve, son, Tom)",
        "    through Tom (layer 1, strength 0.40, weight 0.12); without these 0.25; tail number 2, head number 4",
        "  without all of these facts 0.12; tail number 3, head number 5",
        "  layer 1: strongest pivots Tom (strength 0.75, weight 0.50), Bob (strength 0.50, weight 0.25)",
        "  layer 2: strongest pivots Tom (strength 0.90, weight 0.75)",
    ]


def test_facts_and_triangles_of_all_reasons() -> None:
    made = explanation()
    assert made.triangles == {(0, 2, 1), (0, 3, 2), (1, 2, 0)}
    assert len(made.facts) == 5  # one of six is in both reasons
    assert [(step.start, step.end) for step in made.reasons[1].walk(0)] == [(0, 2), (2, 1)]


def test_known_improbable_and_one_sided_links() -> None:
    made = explanation()
    known, improbable = replace(made, known=True), replace(made, standing=standing(0.3, (1,)), asked="tail")
    assert known.title() == "known: (Ann, aunt, Eve)  (without this fact 0.90; tail number 1, head number 3)"
    assert improbable.title() == "possibly: (Ann, aunt, Eve)  (0.30; tail number 1)"
    part = replace(made, size=(4, 2000), reasons=())
    assert part.text().splitlines()[1] == (
        "  note: the 4 nodes around the link were looked at, of 2,000; "
        "found no facts on a path from head to tail without which it would be less probable"
    )


def test_a_single_reason_is_not_summed_up() -> None:
    lines = et.explain(transitive(), ASKED).text().splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"possibly: \(city 0, in, continent 0\)  \(0\.\d\d; tail number 1, head number 1\)", lines[0])
    assert lines[1] == "  because (city 0, in, region 0) and (region 0, in, continent 0)"
    assert lines[2].startswith("    through region 0 (layer 1, strength ")


def test_names_that_cannot_be_shown_are_escaped() -> None:
    bad = Fact("Ann\n", "so\x1bn", "Bob")
    step = Step(0, 1, (bad,))
    made = replace(explanation(), reasons=(LinkReason(step, standing(0.1, (2, 2))),), names={0: "Ann\n", 1: "Bob"})
    shown = replace(made, link=Fact("Ann\n", "aunt", "Bob")).text()
    assert r"(Ann\x0a, so\x1bn, Bob)" in shown
    assert r"(Ann\x0a, aunt, Bob)" in shown
    assert "\x1b" not in shown
