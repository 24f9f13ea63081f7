"""Models of links: states that are computed once, answers, new facts, neighbourhoods, and models on disk."""

from __future__ import annotations

import json
from math import cbrt
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import edge_transformer as et
from edge_transformer.nn.links import LinkNetwork
from edge_transformer.tasks.links import model as model_module
from edge_transformer.tasks.links.model import LinkOptions, memory_of, require_memory
from link_cases import CPU, PEOPLE, RING, link_data, link_model, network_of

pytestmark = pytest.mark.usefixtures("one_thread")
QUESTIONS: list[dict[str, Any]] = [
    {"head": "p0", "relation": "next"},
    {"relation": "before", "tail": "p3", "id": "b"},
    {"head": "p1", "tail": "p2"},
]
ABOUT = [{"entity": "p0", "types": ["first"], "features": [1, 2]}, {"entity": "p5", "types": ["odd", "first"]}]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the graphs that networks were run on."""
    sizes: list[int] = []
    forward = LinkNetwork.forward

    def counting(self: LinkNetwork, facts: torch.Tensor, nodes: int, **about: Any) -> torch.Tensor:
        sizes.append(nodes)
        return forward(self, facts, nodes, **about)

    monkeypatch.setattr(LinkNetwork, "forward", counting)
    return sizes


def chances(model: et.LinkModel, question: dict[str, Any], top: int = 99) -> dict[str, float]:
    (answer,) = model.predict([question], top=top)
    asked = next(name for name in ("head", "relation", "tail") if name not in question)
    return {each[asked]: each["probability"] for each in answer["candidates"]}


# --- states -----------------------------------------------------------------------------------------------------------


def test_a_thousand_questions_share_one_pass(passes: list[int]) -> None:
    model = link_model()
    answers = model.predict([QUESTIONS[n % 3] for n in range(1000)])
    assert passes == [8]
    assert answers[:3] == answers[3:6] == model.predict(QUESTIONS)
    model.missing(top=5)
    assert passes == [8]


def test_states_are_computed_again_when_weights_change(passes: list[int]) -> None:
    model, other = link_model(), link_model(seed=1)
    before = model.predict(QUESTIONS)
    model.load_state_dict(other.state_dict())
    assert model.predict(QUESTIONS) == other.predict(QUESTIONS) != before
    found = [model.predict(QUESTIONS)]
    link_data({"train": RING}).loss(model, torch.arange(4), CPU).backward()
    with torch.no_grad():
        torch._foreach_sub_(
            list(model.parameters()), [cast(torch.Tensor, each.grad) for each in model.parameters()]
        )  # as optimizers do
    found.append(model.predict(QUESTIONS))
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    found.append(model.predict(QUESTIONS))
    assert found[0] != found[1] != found[2]
    runs = len(passes)
    model.double()
    assert model.whole()[0].dtype == torch.float64
    assert model.scores(torch.tensor([0]), torch.tensor([0]), True).dtype == torch.float64
    assert len(passes) == runs + 1
    model.facts[0] = model.facts[1]  # a graph with other facts
    model.predict(QUESTIONS)
    assert len(passes) == runs + 2


def test_answers_of_a_model_in_training_are_those_in_eval_mode() -> None:
    model = link_model(dropout=0.5)
    answers = model.predict(QUESTIONS)
    model.train()
    model.whole()
    fresh = model.on(model.known)  # computes its states anew
    assert fresh.predict(QUESTIONS) == answers
    assert model.predict(QUESTIONS) == answers
    assert model.training
    assert model.networks[0].training


def test_answers_in_inference_mode() -> None:
    model = link_model()
    answers = model.predict(QUESTIONS, facts=[["new", "next", "p0"]])
    with torch.inference_mode():
        assert model.predict(QUESTIONS, facts=[["new", "next", "p0"]]) == answers
        assert link_model().predict(QUESTIONS) == model.predict(QUESTIONS)


def test_double_precision_of_everything_that_is_known_of_nodes() -> None:
    data = link_data({"train": [*RING, *ABOUT]})
    model = link_model(data=data, entities=True)
    single = chances(model, QUESTIONS[0])
    assert chances(model.double(), QUESTIONS[0]) == pytest.approx(single, abs=1e-4)


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"members": 2}, {"entities": True}], ids=str)
def test_answers_are_those_of_the_scores(settings: dict[str, Any]) -> None:
    model = link_model(**settings)
    number, relation = model.entities.number, model.relations.number
    tails = model.scores(torch.tensor([number("p0")]), torch.tensor([relation("next")]), True).softmax(1)[0]
    assert chances(model, QUESTIONS[0]) == pytest.approx(dict(zip(PEOPLE, tails.tolist(), strict=True)), abs=1e-6)
    (answer,) = model.predict(QUESTIONS[:1], top=3)
    best = [PEOPLE[place] for place in tails.argsort(descending=True)[:3].tolist()]
    assert [each["tail"] for each in answer["candidates"]] == best
    assert answer["answer"] == best[0]
    for question in QUESTIONS[:2]:
        assert sum(chances(model, question).values()) == pytest.approx(1, abs=1e-5)
    heads = chances(model, QUESTIONS[1])
    assert list(heads.values()) == sorted(heads.values(), reverse=True)


def between(model: et.LinkModel, head: str, tail: str) -> dict[str, float]:
    """How probable each relation is between two nodes, if there is one."""
    places = [model.entities.number(node) for node in (head, tail)]
    logs = model.relations_between(*cast(list[int], places))
    return dict(zip(model.relations, logs.exp().tolist(), strict=True))


def test_the_chance_of_a_relation_is_the_geometric_mean_of_three_probabilities() -> None:
    model = link_model()
    expected = {
        name: cbrt(
            chances(model, {"head": "p1", "relation": name})["p2"]
            * chances(model, {"relation": name, "tail": "p2"})["p1"]
            * between(model, "p1", "p2")[name]
        )
        for name in model.relations
    }
    assert chances(model, QUESTIONS[2]) == pytest.approx(expected, abs=1e-5)


def test_known_links_are_marked() -> None:
    model = link_model([*RING, ["p0", "next", "p4"]])
    marked = [
        {each[asked] for each in answer["candidates"] if each["known"]}
        for asked, answer in zip(("tail", "head", "relation"), model.predict(QUESTIONS), strict=True)
    ]
    assert marked == [{"p1", "p4"}, {"p4"}, {"next"}]


def test_missing_links_against_asking_for_all() -> None:
    model = link_model([*RING, ["p0", "next", "p4"]])
    facts = {tuple(fact) for fact in model.known.named()}
    expected = {}
    for relation in model.relations:
        tails = {head: chances(model, {"head": head, "relation": relation}) for head in PEOPLE}
        heads = {tail: chances(model, {"relation": relation, "tail": tail}) for tail in PEOPLE}
        for head in PEOPLE:
            for tail in PEOPLE:
                if head != tail and (head, relation, tail) not in facts:
                    of_relation = between(model, head, tail)[relation]
                    expected[head, relation, tail] = cbrt(tails[head][tail] * heads[tail][head] * of_relation)
    found = model.missing(top=1000)
    listed = {(each["head"], each["relation"], each["tail"]): each["probability"] for each in found}
    assert listed == pytest.approx(expected, abs=1e-5)
    assert list(listed.values()) == sorted(listed.values(), reverse=True)
    assert model.missing(top=7) == found[:7]
    some = [each for each in found if each["relation"] == "next"]
    assert model.missing(top=1000, relations=["next", "next"]) == some


def test_questions_in_lines() -> None:
    model = link_model()
    lines = [json.dumps(question) + "\n" for question in QUESTIONS]
    assert list(model.predict_lines(lines, "q")) == model.predict(QUESTIONS)
    found = model.predict_lines([*lines, '{"head": "nobody", "relation": "next"}\n'], "q")
    assert [next(found) for _ in QUESTIONS] == model.predict(QUESTIONS)
    with pytest.raises(et.DataError, match=r"^q:4: found the node 'nobody'"):
        next(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.predict(QUESTIONS[0]), "found a single question; expected a list of them"),
        (lambda model: model.predict(QUESTIONS, top=0), "top: found 0; expected a number from 1 to 1000"),
        (lambda model: model.predict([{"head": "x", "relation": "next"}]), "^input 0: found the node 'x'"),
        (lambda model: model.predict(QUESTIONS, facts=[["a", "b", "c"]]), "found the relation 'b'; expected one of be"),
        (lambda model: model.predict(QUESTIONS, facts=[["a", "b"]]), r"^facts\[0\]: found"),
        (lambda model: model.with_facts([{"entity": "a"}]), "facts: found a row about a node; expected links"),
        (lambda model: model.missing(top=0), "top: found 0; expected a number from 1 to 100000"),
        (lambda model: model.missing(relations="next"), "found a single relation; expected a list"),
        (lambda model: model.missing(relations=["nex"]), "found the relation 'nex'.*did you mean"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(et.UserError, match=message):
        call(link_model())


# --- new facts --------------------------------------------------------------------------------------------------------


def test_new_facts_are_answered_without_training() -> None:
    model = link_model()
    facts = [["new", "next", "p0"], ["p7", "skips", "new"]]
    before = model.predict(QUESTIONS)
    told = model.with_facts(facts)
    question = {"head": "new", "relation": "skips"}
    answer = chances(told, question)
    assert set(answer) == {*PEOPLE, "new"}
    # The same as if the facts had been there from the beginning: the model knows no entities.
    trained_with = link_model([*RING, *facts])
    trained_with.networks.load_state_dict(model.networks.state_dict())
    assert answer == pytest.approx(chances(trained_with, question), abs=1e-5)
    for same in (model.predict([question], facts=facts), model.predict([{**question, "facts": facts}])):
        assert same == told.predict([question])
    assert model.predict(QUESTIONS) == before
    assert "new" not in model.entities
    mixed = [{**question, "facts": facts}, *QUESTIONS]
    assert model.predict(mixed) == [*told.predict([question]), *before]
    with pytest.raises(et.DataError, match="found the node 'new'"):
        model.predict([question])


def test_another_graph_alone() -> None:
    model = link_model()
    other = model.with_facts([["a", "next", "b"], ["b", "before", "a"]], replacing=True)
    assert list(other.entities) == ["a", "b"]
    answers = chances(other, {"head": "a", "relation": "next"})
    fresh = link_model([["a", "next", "b"], ["b", "before", "a"], ["a", "skips", "b"]])
    fresh.networks.load_state_dict(model.networks.state_dict())
    again = fresh.with_facts([["a", "next", "b"], ["b", "before", "a"]], replacing=True)
    assert answers == chances(again, {"head": "a", "relation": "next"})
    assert chances(fresh, {"head": "a", "relation": "next"}) != answers


def test_new_nodes_beside_embeddings() -> None:
    model = link_model(entities=True)
    table = network_of(model).input.entities
    assert table is not None
    told = model.with_facts([["new", "next", "p0"]])
    before = chances(told, {"head": "new", "relation": "next"})
    assert "new" in before
    with torch.no_grad():
        table.weight[3] += 1  # of p3, which is still itself
    assert chances(told, {"head": "p3", "relation": "next"}) != before
    alone = model.with_facts([["x", "next", "y"], ["y", "next", "p3"]], replacing=True)
    known = chances(alone, {"head": "x", "relation": "next"})
    with torch.no_grad():
        table.weight.add_(1)  # no node of another graph has an embedding
    assert chances(alone, {"head": "x", "relation": "next"}) == known


def test_features_of_another_graph_must_be_as_many() -> None:
    model = link_model(data=link_data({"train": [*RING, *ABOUT]}))
    others = {"train": [["a", "next", "b"], {"entity": "a", "features": [1, 2, 3]}], "test": [["b", "next", "a"]]}
    with pytest.raises(et.UserError, match="entities: found 3 features a node; expected 2, as in training"):
        et.evaluate(model_of_links(model), others, progress=False)


def model_of_links(model: et.LinkModel) -> et.LinkModel:
    model.task = "links"
    return model


# --- neighbourhoods ---------------------------------------------------------------------------------------------------


def test_a_neighbourhood_with_room_for_the_whole_graph_gives_its_answers() -> None:
    model = link_model(data=link_data({"train": [*RING, *ABOUT]}), nodes=30, entities=True, members=2)
    assert model.sees_whole_graph()
    every = torch.arange(len(PEOPLE))
    for tails in (True, False):
        relations = torch.tensor([0, 2])
        whole = model.scores(torch.tensor([4, 4]), relations, tails)
        torch.testing.assert_close(model.candidate_scores(every[4], relations, tails, every), whole)
        some = model.candidate_scores(every[4], relations, tails, torch.tensor([6, 1]))
        torch.testing.assert_close(some, whole[:, [6, 1]])


@pytest.fixture
def ring_of_40() -> et.LinkModel:
    facts = [[f"n{i}", "next", f"n{(i + 1) % 40}"] for i in range(40)]
    return link_model([*facts, *RING[:3]], nodes=12, whole=0)


def test_neighbourhoods_are_bounded(ring_of_40: et.LinkModel, passes: list[int]) -> None:
    model = ring_of_40
    assert not model.sees_whole_graph()
    questions = [{"head": "n0", "relation": name} for name in ("next", "before")]
    answers = model.predict(questions)
    assert max(passes) == 12
    assert len(passes) == 11  # of 43 candidates four at a time; both relations share them
    torch.manual_seed(9)
    assert model.predict(questions) == answers  # whatever chance does elsewhere
    assert sum(chances(model, questions[0], top=50).values()) == pytest.approx(1, abs=1e-4)


def test_graphs_up_to_a_size_are_answered_as_a_whole(passes: list[int]) -> None:
    model = link_model(nodes=8, whole=10, facts=[*RING, ["x", "next", "p0"]])
    assert model.sees_whole_graph()
    model.predict(QUESTIONS)
    assert passes == [9]


def test_settings() -> None:
    with pytest.raises(ValueError, match="nodes must be 0, for whole graphs, or at least 8, but is 7"):
        LinkOptions(nodes=7)
    with pytest.raises(ValueError, match="members"):
        LinkOptions(members=0)
    with pytest.raises(ValueError, match="whole must not be negative"):
        LinkOptions(whole=-1)
    with pytest.raises(et.UserError, match=r"model.kind: found transformer, which tells of known links alone"):
        link_model(kind="transformer")


def test_graphs_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"dim": 32, "layers": 3, "members": 1}
    monkeypatch.setattr(model_module, "free_memory", lambda: 10**9)
    require_memory(200, settings, training=True)
    message = r"a graph of 20,000 nodes as a whole needs about .* GB; found 1.0 GB .*--set model.nodes=200"
    with pytest.raises(et.UserError, match=message):
        require_memory(20_000, settings)
    assert memory_of(200, settings, training=True) > memory_of(200, settings) > memory_of(100, settings)
    monkeypatch.setattr(model_module, "free_memory", lambda: None)  # unknown: nothing is refused
    require_memory(20_000, settings)
    monkeypatch.setattr(model_module, "free_memory", lambda: 1000)
    with pytest.raises(et.UserError, match="a graph of 8 nodes"):
        link_model()


# --- on disk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", [[], ABOUT], ids=["facts alone", "nodes too"])
@pytest.mark.parametrize("settings", [{}, {"entities": True, "members": 2}], ids=str)
def test_a_saved_model_gives_the_same_answers(about: list[Any], settings: dict[str, Any], tmp_path: Path) -> None:
    model = model_of_links(link_model(data=link_data({"train": [*RING, *about]}), **settings))
    grown = model.with_facts([["new", "next", "p0"], ["p1", "before", "new"]])
    other = model.with_facts([["p1", "next", "p2"], ["p0", "next", "p3"]], replacing=True)
    for number, each in enumerate((model, grown, other, grown.with_facts([["newer", "next", "new"]]))):
        each.save(tmp_path / str(number))
        again = et.LinkModel.load(tmp_path / str(number))
        assert json.dumps(again.predict(QUESTIONS, top=99)) == json.dumps(each.predict(QUESTIONS, top=99))
        assert again.missing() == each.missing()
        assert list(again.known.named()) == list(each.known.named())
        again.save(tmp_path / "again")
        for file in ("config.json", "model.safetensors"):
            assert (tmp_path / "again" / file).read_bytes() == (tmp_path / str(number) / file).read_bytes()
