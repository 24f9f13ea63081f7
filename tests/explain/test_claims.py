"""What explanations say: text and JSON tell the same, and a guess is called one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

import edge_transformer as et
from edge_transformer.explain.claims import Reading
from explanation_cases import CHAIN, model


def test_text_and_json_tell_the_same_proof() -> None:
    explained = et.explain(model(), CHAIN)
    text, plain = explained.text(), explained.to_dict()
    lines = text.splitlines()
    assert lines[0] == f"Ann -{explained.answer}-> Tom  {explained.reading.likelihood()}"
    for told in ("Ann -son-> Bob  (told)", "Bob -sister-> Eve  (told)", "Eve -son-> Tom  (told)"):
        assert text.count(told) == 1
    assert json.loads(json.dumps(plain)) == plain
    assert plain["proof"]["edge"] == ["Ann", explained.answer, "Tom"]
    step = plain["proof"]
    how = f"layer {step['layer']}, strength {step['strength']:.2f}, weight {step['weight']:.2f}"
    assert lines[1] == f"  because, through {step['pivot']} ({how}):"
    assert len(plain["layers"]) == 3
    pivots = plain["layers"][0]["pivots"]
    assert {pivot["pivot"] for pivot in pivots} == {"Ann", "Bob", "Eve", "Tom"}
    assert pivots == sorted(pivots, key=lambda pivot: -pivot["strength"])


def test_a_second_answer_is_named_where_it_is_likely() -> None:
    unsure = et.explain(model(), CHAIN)  # random weights, three answers
    [predicted] = model().predict([CHAIN])
    first, second, _ = predicted["probabilities"].items()
    assert second[1] > 0.1
    assert unsure.text().splitlines()[0].endswith(f"  ({first[1]:.2f}; or {second[0]}, {second[1]:.2f})")
    plain = unsure.to_dict()
    assert plain["or"]["answer"] == plain["proof"]["or"]["answer"] == plain["layers"][-1]["or"]["answer"] == second[0]
    assert plain["or"]["probability"] == pytest.approx(second[1], abs=1e-5)
    [inner] = [step for step in plain["proof"]["because"] if not step["told"]]
    likelihood = f"({inner['probability']:.2f}; or {inner['or']['answer']}, {inner['or']['probability']:.2f})"
    assert f"{inner['edge'][0]} -{inner['edge'][1]}-> {inner['edge'][2]}  {likelihood}" in unsure.text()


def test_unlikely_answers_are_not_named() -> None:
    sure = model()
    with torch.no_grad():
        for parameter in sure.head.parameters():
            parameter.mul_(1000)
    explained = et.explain(sure, CHAIN)
    assert explained.probability > 0.9
    assert explained.reading.second is None
    assert explained.text().startswith(f"Ann -{explained.answer}-> Tom  ({explained.probability:.2f})\n")
    assert "or" not in explained.to_dict()


def test_names_cannot_move_the_cursor_or_forge_lines() -> None:
    bad = "Bob\n    Bob -son-> Eve  (told)\x1b[2J"
    graph = {"edges": [["Ann", "son", bad], [bad, "sister", "\ud800"]], "query": ["Ann", "\ud800"]}
    explained = et.explain(model(), graph)
    shown = r"Bob\x0a    Bob -son-> Eve  (told)\x1b[2J"
    *_, first, second = explained.text().split("\n")
    assert first == f"    Ann -son-> {shown}  (told)"
    assert second == rf"    {shown} -sister-> \ud800  (told)"
    assert explained.to_dict()["query"] == graph["query"]  # JSON has escapes of its own
    told = et.explain(model(), {**graph, "query": ["Ann", bad]}).text()
    assert len(told.split("\n")) == 3  # the answer, a note with the name in it, the told edge
    assert "\x1b" not in told


def test_names_are_written_in_letters_that_the_output_has() -> None:
    explained = et.explain(model(), {"edges": [["Ann", "son", "Éva"]], "query": ["Ann", "Éva"]})
    assert explained.text().endswith("  Ann -son-> Éva  (told)")
    assert explained.text("ascii").endswith(r"  Ann -son-> \xc9va  (told)")


def test_answers_that_cannot_be_shown_are_escaped() -> None:
    hidden = replace(et.explain(model(), CHAIN), reading=Reading("a\r", 0.5, ("b\x07", 0.4)))
    assert hidden.text().startswith(r"Ann -a\x0d-> Tom  (0.50; or b\x07, 0.40)")


def test_a_told_query_needs_no_proof() -> None:
    explained = et.explain(model(), {"edges": [["Ann", "son", "Bob"]], "query": ["Ann", "Bob"]})  # two nodes only
    assert explained.triangles == frozenset()
    note = "a guess, however sure: Ann -son-> Bob is told, and CLUTRR never asks for what is told"
    assert explained.text().splitlines()[1:] == [f"  note: {note}", "  Ann -son-> Bob  (told)"]
    assert explained.to_dict()["proof"] == {"edge": ["Ann", "son", "Bob"], "told": True, "used_backwards": False}
    assert explained.to_dict()["note"] == explained.note == note


def test_a_question_as_clutrr_asks_them_has_no_note() -> None:
    explained = et.explain(model(), CHAIN)
    assert explained.note is None
    assert "note" not in explained.to_dict()


@pytest.mark.parametrize("query", [["Bob", "Ann"], ["Ann", "Tom"], ["Ann", "Ann"]])
def test_where_nothing_leads_to_the_query_the_answer_is_called_a_guess(query: list[str]) -> None:
    explained = et.explain(model(), {"edges": [["Ann", "son", "Bob"], ["Eve", "son", "Tom"]], "query": query})
    assert explained.proof is None
    assert explained.triangles == frozenset()
    plain = explained.to_dict()
    assert plain["proof"] is None
    lines = explained.text().splitlines()
    assert lines[1] == f"  note: {plain['note']}"
    if query[0] == query[1]:
        assert plain["note"] == "a guess, however sure: both ends of the question are Ann, as they never are in CLUTRR"
    else:
        assert plain["note"].startswith(f"a guess, however sure: no told edges lead from {query[0]} to {query[1]}, ")
    assert [line.split(":")[0] for line in lines[2:]] == ["  layer 1", "  layer 2", "  layer 3"]
    pivot = plain["layers"][0]["pivots"][0]
    first = f"{pivot['pivot']} (strength {pivot['strength']:.2f}, weight {pivot['weight']:.2f})"
    assert f"; strongest pivots {first}, " in lines[2]


def test_a_chain_too_long_for_the_layers_is_not_called_untold() -> None:
    chain: dict[str, Any] = {"edges": [[f"{node}", "son", f"{node + 1}"] for node in range(9)], "query": ["0", "9"]}
    explained = et.explain(model(), chain)
    assert explained.proof is None
    too_long = "the shortest chain from 0 to 9 has 9 told edges, which 3 layers cannot compose"
    assert explained.note == too_long
    looped = et.explain(model(), {**chain, "edges": [*chain["edges"], ["5", "son", "5"]]}).note
    assert looped is not None
    assert looped.startswith("a guess, however sure: an edge leads from 5 to 5, ")
    assert looped.endswith(f"; {too_long}")
    assert et.explain(model(), {**chain, "query": ["0", "8"]}).note is None


def test_inverse_edges_may_be_used_from_their_end() -> None:
    graph = {"edges": [["Bob", "son", "Ann"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
    assert et.explain(model(), graph).proof is None
    explained = et.explain(model(inverse_edges=True), graph)
    assert explained.triangles == {(1, 0, 2)}  # Bob is 0, Ann 1, Eve 2
    assert explained.text().splitlines()[-2:] == [
        "    Ann <-son- Bob  (told the other way round)",
        "    Bob -sister-> Eve  (told)",
    ]
    first, second = explained.to_dict()["proof"]["because"]
    assert first == {"edge": ["Bob", "son", "Ann"], "told": True, "used_backwards": True}
    assert second == {"edge": ["Bob", "sister", "Eve"], "told": True, "used_backwards": False}
    assert explained.note is not None  # nothing is told from Ann on: no question that CLUTRR trains
    assert explained.text().splitlines()[1] == f"  note: {explained.note}"


def test_an_edge_told_both_ways_is_used_as_told() -> None:
    graph = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Ann"]], "query": ["Ann", "Bob"]}
    lines = et.explain(model(inverse_edges=True), graph).text().splitlines()
    assert lines[2:] == ["  Ann -son-> Bob  (told)"]


def test_layers_are_told_where_they_are_asked_for() -> None:
    explained = et.explain(model(), CHAIN)
    plain, more = explained.text(), explained.text(layers=True)
    assert more.startswith(plain + "\n  layer 1: ")
    told = more.removeprefix(plain).strip().splitlines()
    assert len(told) == len(explained.layers)
    for line, layer in zip(told, explained.layers, strict=True):
        pivot, weight, strength = layer.pivots[0]
        strongest = f"{explained.story.names[pivot]} (strength {strength:.2f}, weight {weight:.2f})"
        assert f"{layer.reading.answer} {layer.reading.likelihood()}; strongest pivots {strongest}" in line
