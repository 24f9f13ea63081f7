"""Facts of a graph in training and scoring: what is hidden, losses and ranks against plain computations, splits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import edge_transformer as et
from edge_transformer.data.links.folder import link_fingerprint
from edge_transformer.data.links.rows import Fact, read_fact
from edge_transformer.tasks.links.data import LinkData, LinkSettings, _held_out
from edge_transformer.tasks.links.scores import average_precision
from edge_transformer.tasks.scores import Scores
from link_cases import CPU, PEOPLE, RING, link_data, link_model, network_of

pytestmark = pytest.mark.usefixtures("one_thread")
TINY: dict[str, Any] = {"dim": 8, "heads": 2, "layers": 1, "epochs": 2, "batch_size": 8, "progress": False}
EXTRA = [["p0", "next", "p4"], ["p1", "skips", "p0"]]  # asks for what has other answers too
VALID = [["p0", "next", "p6"]]
RUN = {"train": RING, "valid": VALID, "test": EXTRA}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, int, torch.Tensor]]:
    """The facts, numbers of nodes, and facts asked for of every forward pass in training."""
    seen: list[tuple[torch.Tensor, int, torch.Tensor]] = []
    forward = et.LinkModel.forward

    def noting(
        self: et.LinkModel, member: int, facts: torch.Tensor, nodes: int, asked: torch.Tensor, *rest: Any
    ) -> Any:
        seen.append((facts, nodes, asked))
        return forward(self, member, facts, nodes, asked, *rest)

    monkeypatch.setattr(et.LinkModel, "forward", noting)
    return seen


def rows(facts: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(fact) for fact in facts.tolist()]


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hide_pairs", [False, True])
def test_hidden_facts_are_not_seen(hide_pairs: bool, calls: list[Any]) -> None:
    data = link_data({"train": RING}, hidden=0.5, hide_pairs=hide_pairs)
    model = link_model(data=data, members=2).train()
    everything = set(rows(data.known.facts))
    batch = torch.tensor([3, 7, 11])
    for seed in range(5):
        torch.manual_seed(seed)
        data.loss(model, batch, CPU)
    assert len(calls) == 10
    assert len({len(asked) for _, _, asked in calls}) > 2  # a random share besides those of the batch
    for seen, nodes, asked in calls:
        facts, hidden = set(rows(seen)), set(rows(asked))
        assert nodes == len(PEOPLE)
        assert set(rows(data.known.facts[batch])) <= hidden
        assert not facts & hidden
        pairs = {frozenset((head, tail)) for head, _, tail in hidden}
        others = {(head, relation, tail) for head, relation, tail in everything if {head, tail} in pairs}
        assert facts == everything - (others if hide_pairs else hidden)
    assert hide_pairs != any(
        {head, tail} == {one, other}
        for seen, _, asked in calls
        for head, _, tail in rows(seen)
        for one, _, other in rows(asked)
    )


def test_in_eval_mode_the_batch_alone_is_hidden(calls: list[Any]) -> None:
    data = link_data({"train": RING})
    data.loss(link_model(data=data), torch.tensor([3, 7]), CPU)
    ((seen, _, asked),) = calls
    assert rows(asked) == rows(data.known.facts[[3, 7]])
    assert len(seen) == len(RING) - 2


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_loss_is_a_plain_sum_of_logarithms(weight: float) -> None:
    """Of the chance of each answer among all nodes but the other known answers, of tails, of heads and of relations."""
    data = link_data({"train": [*RING, *EXTRA, ["p0", "skips", "p1"]]}, relation_loss=weight)
    model = link_model(data=data)
    known, batch = data.known, torch.tensor([0, 24, 25])
    gone = set(batch.tolist())
    visible = known.facts[[number for number in range(len(known.facts)) if number not in gone]]
    network = network_of(model)
    with torch.no_grad():
        states = network(visible, len(PEOPLE))
        logits = network.head.forth(states) + network.head.back(states.transpose(0, 1))  # (heads, tails, relations)
    total, facts = 0.0, known.facts_known
    for head, relation, tail in rows(known.facts[batch]):
        tails = [n for n in range(8) if n == tail or (head, relation, n) not in facts]
        heads = [n for n in range(8) if n == head or (n, relation, tail) not in facts]
        names = [r for r in range(3) if r == relation or (head, r, tail) not in facts]
        score = logits[head, tail, relation]
        total -= float(score - logits[head, tails, relation].logsumexp(0))
        total -= float(score - logits[heads, tail, relation].logsumexp(0))
        total -= weight * float(score - logits[head, tail, names].logsumexp(0))
    loss = data.loss(model, batch, CPU)
    assert loss.item() == pytest.approx(total, rel=1e-5)
    loss.backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in model.parameters())


def test_networks_side_by_side_are_trained_on_their_own(calls: list[Any]) -> None:
    data = link_data({"train": RING}, hidden=0.0)
    model = link_model(data=data, members=2)
    batch = torch.arange(5)
    data.loss(model, batch, CPU).backward()
    found = [[each.grad for each in network.parameters()] for network in model.networks]
    for network, gradients in zip(model.networks, found, strict=True):
        alone = link_model(data=data)
        alone.networks[0].load_state_dict(network.state_dict())
        data.loss(alone, batch, CPU).backward()
        torch.testing.assert_close([each.grad for each in alone.parameters()], gradients)


def test_neighbourhoods_in_training(calls: list[Any]) -> None:
    ring = [[f"n{i}", "next", f"n{(i + 1) % 40}"] for i in range(40)]
    data = link_data({"train": ring})
    model = link_model(data=data, nodes=12).train()
    batches = list(data.batches(torch.arange(30)))
    assert [len(batch) for batch in batches] == [2] * 15  # room for what is around them
    for batch in batches:
        assert data.loss(model, batch, CPU).isfinite()
    assert len(calls) == 15
    for seen, nodes, asked in calls:
        assert nodes <= 12
        assert len(asked) >= 2
        assert not set(rows(seen)) & set(rows(asked))


def test_a_neighbourhood_of_all_nodes_has_the_loss_of_the_whole_graph() -> None:
    data = link_data({"train": RING}, hidden=0.0, relation_loss=0.5)
    model = link_model(data=data)
    batch = torch.tensor([0, 8, 17])
    whole = data.loss(model, batch, CPU)
    data._nodes = 7  # of eight: all but one, which no question is about
    around = data.known.graph.around
    data.known.graph.around = lambda *_: torch.tensor([5, 3, 7, 1, 0, 2, 4, 6])  # type: ignore[method-assign]
    torch.testing.assert_close(data.loss(model, batch, CPU), whole)
    data.known.graph.around = around  # type: ignore[method-assign]


# --- splits -----------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from("abcdef")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(Fact, NAMES, st.sampled_from("rst"), NAMES), min_size=1, max_size=25, unique=True),
    st.integers(0, 3),
)
def test_a_held_out_part_loses_no_node_and_no_relation(facts: list[Fact], seed: int) -> None:
    left, held_out = _held_out(facts, 0.4, seed)
    assert sorted([*left, *held_out]) == sorted(facts)
    assert len(held_out) <= round(0.4 * len(facts))

    def named(some: list[Fact]) -> set[tuple[str, str]]:
        return {pair for h, r, t in some for pair in (("node", h), ("relation", r), ("node", t))}

    assert named(left) == named(facts)
    assert _held_out(facts, 0.4, seed) == (left, held_out)


def test_facts_that_cannot_be_asked_for_are_told_of() -> None:
    data = link_data({"train": RING, "valid": [["p0", "likes", "p1"]], "test": [*EXTRA, ["p0", "likes", "p1"]]})
    assert data.notes() == [
        "valid: 1 of 1 facts have a relation that no training fact has; they are not scored",
        "test: 1 of 3 facts have a relation that no training fact has; they are not scored",
    ]
    model = link_model(data=data)
    assert data.evaluate_midway(model, CPU) == {}
    assert set(data.evaluate(model, CPU)) == {"MRR", "Hits@1", "Hits@3", "Hits@10"}
    assert data.identity()["relations"] == 3


def test_validation_facts_that_training_has_are_not_scored() -> None:
    data = link_data({"train": RING, "valid": [RING[3], *VALID]})
    assert data.notes() == ["valid: 1 facts stand in train; they are not scored"]
    assert data.midway_rows() == 1


def test_a_graph_without_facts_is_refused() -> None:
    with pytest.raises(et.UserError, match="found no training facts"):
        link_data({"train": [{"entity": "p0", "types": ["a"]}]})
    for name in ("negatives", "scored", "relation_loss"):
        wrong: dict[str, Any] = {name: -1}
        with pytest.raises(ValueError, match=f"{name} must not be negative"):
            LinkSettings(**wrong)


def test_without_the_test_part() -> None:
    data = link_data({**RUN, "test": [["p0", "next", "far"]]}, test=False)
    assert set(data.evaluate(link_model(data=data), CPU)) == {"valid MRR"}
    assert "far" not in data.known.entities


# --- scores -----------------------------------------------------------------------------------------------------------


def plain_rank(model: et.LinkModel, question: dict[str, str], answer: str, others: set[str]) -> float:
    """From 1, among all nodes but other answers; by scores of questions asked one by one."""
    tails = "head" in question
    node = model.entities.number(question["head" if tails else "tail"])
    relation = model.relations.number(question["relation"])
    scores = model.scores(torch.tensor([node]), torch.tensor([relation]), tails)[0]
    mine = float(scores[model.entities.number(answer)])
    counted = [
        float(score) for name, score in zip(model.entities, scores, strict=True) if name not in others - {answer}
    ]
    return 1 + sum(score > mine for score in counted) + (sum(score == mine for score in counted) - 1) / 2


def test_facts_of_unknown_relations_are_counted_or_refused() -> None:
    model = link_model()
    unknown = [["p0", "zz", "p1"], ["p1", "yy", "p2"]]
    data = link_data({"train": RING, "test": [*EXTRA, *unknown], "valid": unknown}, model=model)
    details = data.evaluate(model, CPU).details
    assert (details["test"]["not_scored"], details["valid"]["not_scored"]) == (2, 2)
    assert "test: 2 of 4 facts have a relation that no training fact has; they are not scored" in data.notes()
    assert link_data(RUN).evaluate(model, CPU).details["test"]["not_scored"] == 0
    told = link_data({**RUN, "valid": [*VALID, RING[0]]}).evaluate(model, CPU).details
    assert told["valid"]["not_scored"] == 1
    message = "found no fact with a relation that training facts have, but 'yy', 'zz'; expected relations among "
    for split in ("test", "test-far", "valid"):
        with pytest.raises(et.UserError, match=f"{split}: {message}'before', 'next'"):
            et.evaluate(model, {"train": RING, split: unknown}, progress=False)
    with pytest.raises(et.UserError, match=f"test: {message}"):
        et.train("links", {"train": RING, "test": unknown}, **TINY)


def test_ranks_are_filtered_by_the_facts_of_all_splits() -> None:
    data = link_data(RUN)
    model = link_model(data=data)
    scores = data.evaluate(model, CPU)
    for split, facts, prefix in (("test", EXTRA, ""), ("valid", VALID, "valid ")):
        known = {tuple(fact) for fact in (*RING, *VALID, *EXTRA)}
        ranks = []
        for head, relation, tail in facts:
            tails = {name for name in PEOPLE if (head, relation, name) in known}
            heads = {name for name in PEOPLE if (name, relation, tail) in known}
            ranks.append(plain_rank(model, {"head": head, "relation": relation}, tail, tails))
            ranks.append(plain_rank(model, {"relation": relation, "tail": tail}, head, heads))
        assert scores[f"{prefix}MRR"] == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
        assert scores.details[split]["queries"] == 2 * len(facts)
    assert list(scores) == ["MRR", "Hits@1", "Hits@3", "Hits@10", "valid MRR"]
    midway = data.evaluate_midway(model, CPU)
    assert midway["valid MRR"] == scores["valid MRR"]
    assert data.choice(midway) == (scores["valid MRR"], 0.0)


def test_the_validation_loss_is_that_of_questions() -> None:
    data = link_data({"train": RING, "valid": [["p0", "next", "p4"]]})
    model = link_model(data=data)
    losses = []
    for given_, answer, tails, other in (("p0", "p4", True, "p1"), ("p4", "p0", False, "p3")):
        place = model.entities.number
        scores = model.scores(torch.tensor([place(given_)]), torch.tensor([1]), tails)[0]  # "next" is number 1
        scores[place(other)] = -torch.inf  # known
        losses.append(-float(F.log_softmax(scores, 0)[place(answer)]))
    assert data.evaluate_midway(model, CPU)["valid loss"] == pytest.approx(sum(losses) / 2)


def test_a_part_of_the_validation_facts_is_scored_midway() -> None:
    valid = [["p0", "next", f"p{number}"] for number in range(2, 8)]
    data = link_data({"train": RING, "valid": valid}, scored=2)
    model = link_model(data=data)
    advanced: list[int] = []
    assert data.midway_rows() == 2
    data.evaluate_midway(model, CPU, advanced.append)
    assert sum(advanced) == 2
    assert data.evaluate(model, CPU).details["valid"]["queries"] == 4


@pytest.mark.parametrize("nodes", [0, 8])
def test_sampled_negatives(nodes: int) -> None:
    facts = [[f"n{i}", "next", f"n{(i + 1) % 20}"] for i in range(20)]
    data = link_data({"train": facts, "valid": [["n0", "next", "n7"]], "test": [["n3", "next", "n9"]]}, negatives=5)
    model = link_model(data=data, nodes=nodes, whole=0)
    scores = data.evaluate(model, CPU)
    assert {"MRR among 5", "Hits@10 among 5", "valid MRR among 5" if nodes else "valid MRR"} <= set(scores)
    assert ("MRR" in scores) == (nodes == 0)  # in neighbourhoods not all nodes are scored
    assert data.evaluate(model, CPU) == scores
    assert scores["Hits@10 among 5"] == 1
    assert ("valid loss" in data.evaluate_midway(model, CPU)) == (nodes == 0)


def test_countries(tmp_path: Path) -> None:
    """Their questions are for tails alone, among the regions, and have an AUC-PR."""
    located = [
        ("France", "Western"),
        ("Ghana", "Southern"),
        ("Chad", "Middle"),
        ("Spain", "Western"),
        ("Mali", "Middle"),
    ]
    facts = [("Western", "Europe"), ("Southern", "Africa"), ("Middle", "Africa"), *located, ("France", "Europe")]
    for version in ("S1", "S2"):
        text = "".join(f"{country}\tlocatedIn\t{region}\n" for country, region in facts)
        (tmp_path / f"countries_{version}.tsv").write_text(text)
    for name, names in (("dev", "Spain\n"), ("test", "Ghana\nMali\n"), ("regions", "Africa\nEurope\n")):
        (tmp_path / f"{name}.txt").write_text(names)
    with pytest.raises(et.UserError, match=r"expected one of them to be named .*data.split"):
        et.train("links", tmp_path, **TINY)
    model = et.train("links", tmp_path, **TINY, split="S2", out=tmp_path / "run")
    assert list(model.record.metrics)[:3] == ["AUC-PR", "MRR", "Hits@1"]
    africa, europe, ghana, mali = (model.entities.number(name) for name in ("Africa", "Europe", "Ghana", "Mali"))
    given, relation = torch.tensor([ghana, mali]), torch.tensor([model.relations.number("locatedIn")] * 2)
    chances = model.on(model.known.with_nodes(["Ghana", "Mali"])).scores(given, relation, True)[:, [africa, europe]]
    right = torch.tensor([[True, False]] * 2)
    area = average_precision(chances.softmax(-1).flatten(), right.flatten())  # of probabilities among the regions
    assert model.record.metrics["AUC-PR"] == pytest.approx(area)
    assert model.record.data["split"] == "S2"
    again = et.evaluate(tmp_path / "run", progress=False)
    assert again == {name: model.record.metrics[name] for name in again}
    assert isinstance(again, Scores)
    assert again.details["test"]["queries"] == 2


# --- runs and other graphs --------------------------------------------------------------------------------------------


def write(folder: Path, **splits: list[Any]) -> Path:
    folder.mkdir()
    for name, facts in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in facts))
    return folder


@pytest.mark.parametrize("options", [{}, {"nodes": 8, "whole": 0}, {"entities": True}, {"members": 2}], ids=str)
def test_a_run_with_facts_held_out_is_scored_again_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "data", train=RING, test=EXTRA)
    model = et.train("links", folder, **TINY, **options, out=tmp_path / "run", seed=3)
    assert model.record.data["train_rows"] == 22  # two of 24 are held out
    assert "valid MRR" in model.record.metrics
    again = et.evaluate(tmp_path / "run", progress=False)
    assert again == {name: model.record.metrics[name] for name in again}
    assert "valid MRR" in again


def test_another_graph_with_the_same_relations(tmp_path: Path) -> None:
    model = et.train("links", RUN, **TINY)
    train, test = [["a", "next", "b"], ["b", "skips", "c"], ["a", "likes", "c"]], [["b", "next", "c"]]
    from_memory = et.evaluate(model, {"train": train, "test": test}, progress=False)
    assert et.evaluate(model, write(tmp_path / "data", train=train, test=test), progress=False) == from_memory
    other = model.with_facts(train[:2], replacing=True)
    ranks = [
        plain_rank(other, {"head": "b", "relation": "next"}, "c", set()),
        plain_rank(other, {"relation": "next", "tail": "c"}, "b", set()),
    ]
    assert from_memory["MRR"] == pytest.approx(sum(1 / rank for rank in ranks) / 2)
    own = et.evaluate(model, {"test": EXTRA}, progress=False)
    assert own != from_memory
    # More facts of the same graph are known, and are not asked for.
    more = et.evaluate(model, {"train": [*RING, ["p4", "next", "p0"]], "test": EXTRA}, progress=False)
    with_more = model.with_facts([["p4", "next", "p0"]])
    assert more == et.evaluate(with_more, {"test": EXTRA}, progress=False) != own
    new = et.evaluate(model, {"test": [["p0", "next", "nobody"]]}, progress=False)
    assert new["MRR"] < 1  # a node that no fact tells of is still a candidate


def test_a_run_scores_a_graph_elsewhere(tmp_path: Path) -> None:
    train, test = [["a", "next", "b"], ["b", "skips", "c"], ["a", "skips", "c"]], [["b", "next", "c"]]
    there = write(tmp_path / "there", train=train, test=test)
    model = et.train("links", RUN, **TINY, **{"data.elsewhere": str(there), "data.negatives": 2})
    metrics = model.record.metrics
    found = et.evaluate(model, there, progress=False)
    assert metrics["elsewhere MRR"] == pytest.approx(found["MRR"])
    assert [name for name in metrics if name.startswith("elsewhere")] == [
        *(f"elsewhere {name}" for name in ("MRR", "Hits@1", "Hits@3", "Hits@10")),
        *(f"elsewhere {name} among 2" for name in ("MRR", "Hits@1", "Hits@3", "Hits@10")),
    ]
    assert model.record.data["elsewhere"] == link_fingerprint(there)
    nothing = write(tmp_path / "nothing", train=train)
    with pytest.raises(et.UserError, match="nothing: found no test file"):
        et.train("links", RUN, **TINY, **{"data.elsewhere": str(nothing)})


def test_another_graph_is_scored_among_sampled_nodes_on_demand() -> None:
    model = link_model()
    there = {"train": RING, "test": EXTRA}
    own, sampled = (et.evaluate(model, there, negatives=count, progress=False) for count in (None, 2))
    assert sampled == own | {name: sampled[name] for name in sampled if name.endswith(" among 2")}
    assert sampled["MRR among 2"] >= own["MRR"]
    assert sampled.keys() > own.keys()
    with pytest.raises(et.UserError, match="negatives: found -1; expected 0, for none, or more"):
        et.evaluate(model, there, negatives=-1)
    with pytest.raises(et.UserError, match="negatives 50: found a RelationModel; expected a model of links"):
        et.evaluate("clutrr-small", [], negatives=50)


def test_what_is_known_of_nodes_when_scored_again(tmp_path: Path) -> None:
    about = [{"entity": name, "types": ["even" if n % 2 else "odd"]} for n, name in enumerate(PEOPLE)]
    folder = write(tmp_path / "data", train=RING, valid=VALID, test=EXTRA, entities=about)
    model = et.train("links", folder, **TINY, out=tmp_path / "run")
    again = et.evaluate(tmp_path / "run", progress=False)
    assert again == {name: model.record.metrics[name] for name in again}
    (folder / "entities.jsonl").write_text("".join(json.dumps({**row, "types": ["odd"]}) + "\n" for row in about))
    assert et.evaluate(tmp_path / "run", folder, progress=False) != again


@pytest.mark.parametrize("kind", ["edge", "rat", "rrat", "gat"])
def test_encoders_of_graphs(kind: str, tmp_path: Path) -> None:
    preset = tmp_path / "preset.yaml"
    norm = "norm: null" if kind == "gat" else ""
    preset.write_text(f"task: links\nbase: links/cpu\nmodel:\n  kind: {kind}\n  {norm}\n")
    model = et.train("links", {**RUN, "train": RING[:-4]}, preset=str(preset), **TINY)  # no two nodes are alike
    answer, *_ = model.predict([{"head": "p0", "relation": "next"}])
    assert {each["tail"] for each in answer["candidates"]} == set(PEOPLE)
    assert len({each["probability"] for each in answer["candidates"]}) > 1


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_precisions(precision: str) -> None:
    options = {**TINY, "dropout": 0.0}
    single = et.train("links", RUN, **options).record.metrics["loss"]
    other = et.train("links", RUN, **options, precision=precision).record.metrics["loss"]
    assert other == pytest.approx(single, rel=1e-5 if precision == "64-true" else 0.05)
    assert other != single or precision == "64-true"


def test_a_run_that_was_stopped_in_the_middle_ends_like_one_that_was_not(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stopping(at: int) -> Callable[[Any], None]:
        def stop(step: Any) -> None:
            if step.step == at:
                raise Stop

        return stop

    options = {**TINY, "dropout": 0.1, "nodes": 8, "whole": 0, "members": 2}
    facts = {"train": [*RING, ["p0", "next", "x"], ["x", "next", "y"], ["y", "next", "p1"]]}  # more nodes than eight
    whole = et.train("links", facts, **options, out=tmp_path / "whole")
    for at in (1, 4):
        with pytest.raises(Stop):
            et.train("links", facts, **options, out=tmp_path / "stopped", callback=stopping(at))
    resumed = et.train("links", facts, **options, out=tmp_path / "stopped")
    assert resumed.record.metrics == whole.record.metrics
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_learned_by_heart() -> None:
    """What follows from two facts is found: near and far neighbours in a ring."""
    held_out = [fact for fact in RING if fact[1] == "skips"][:2]
    facts = {"train": [fact for fact in RING if fact not in held_out], "test": held_out}
    model = et.train("links", facts, valid_share=0.0, **{**TINY, "dim": 16, "layers": 2, "epochs": 40, "lr": 0.01})
    assert model.record.metrics["MRR"] > 0.9
    top = {(each["head"], each["relation"], each["tail"]) for each in model.missing(top=4)}
    assert {tuple(fact) for fact in held_out} <= top


def test_rows_may_be_lists_or_objects() -> None:
    as_objects = [read_fact(row, "here")._asdict() for row in RING]  # type: ignore[union-attr]
    assert isinstance(link_data({"train": as_objects}), LinkData)
    assert link_data({"train": as_objects}).known.facts.tolist() == link_data({"train": RING}).known.facts.tolist()
