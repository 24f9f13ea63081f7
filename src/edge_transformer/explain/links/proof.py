"""The explanation of a link: which link a question is about, and the reasons for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch

from ...data.links.graph import HEAD, TAIL
from ...data.links.rows import Fact
from ...errors import UserError
from ...nn.links import LinkNetwork
from ...tasks.base import TaskModel
from ...tasks.links.chances import chances_between
from ...tasks.links.model import LinkModel
from ...tasks.links.questions import Question, read_question
from ..proof import TOP_PIVOTS, Derivation, encoder_with_triangles
from .claims import LinkExplanation, LinkReason, Step
from .search import Path, find_reasons
from .view import View


def explain_link(model: LinkModel, question: Mapping[str, Any], where: str = "the question") -> LinkExplanation:
    """Explain why a link is probable.

    Args:
        model: a model of Edge Transformer layers.
        question: {"head": ..., "relation": ..., "tail": ...}; without one of the three, the best candidate that is not
            known is explained. It may bring facts of its own, as for `predict`.
        where: what errors call the question.
    """
    check_link_model(model)
    asked = read_question(question, where, complete=True).checked(model.known)
    if asked.facts:
        model = model.on(model.known.with_facts(asked.facts))
    return explain_numbers(model, _completed(model, asked), "link" if asked.is_complete else asked.asked)


def check_link_model(model: TaskModel) -> LinkModel:
    """Check that a model of links has triangles to show."""
    assert isinstance(model, LinkModel)
    for network in model.networks:
        encoder_with_triangles(cast(LinkNetwork, network).encoder, model.settings)
    return model


def explain_numbers(model: LinkModel, link: tuple[int, int, int], asked: str = "link") -> LinkExplanation:
    """Explain a link by the numbers of head, relation and tail."""
    view = View(model, link, asked)
    traced, standing = view.trace(), view.standing()
    found = find_reasons(view, traced, standing)
    weights, strengths = traced.pivots(view.link[HEAD], view.link[TAIL])  # (layers, n) both
    numbers = view.nodes.tolist()
    layers = tuple(
        tuple((numbers[pivot], weight[pivot], strength[pivot]) for pivot in _strongest(strength))
        for weight, strength in zip(weights.tolist(), strengths.tolist(), strict=True)
    )
    reasons = tuple(LinkReason(_step(view, reason.path), reason.without) for reason in found)
    mentioned = {link[HEAD], link[TAIL], *(pivot for pivots in layers for pivot, _, _ in pivots)}
    mentioned |= {node for reason in reasons for leaf in reason.step.leaves() for node in (leaf.start, leaf.end)}
    head, relation, tail = link
    return LinkExplanation(
        Fact(model.entities.name(head), model.relations.name(relation), model.entities.name(tail)),
        (head, tail),
        asked,
        view.is_known,
        standing,
        reasons,
        found[-1].left if found else standing,
        layers,
        {node: model.entities.name(node) for node in sorted(mentioned)},
        (len(numbers), len(model.entities)),
    )


def _strongest(strengths: list[float]) -> list[int]:
    return sorted(range(len(strengths)), key=lambda pivot: -strengths[pivot])[:TOP_PIVOTS]


def _step(view: View, path: Path) -> Step:
    """A path with names and the numbers of nodes in the graph."""
    entities, relations, nodes = view.model.entities, view.model.relations, view.nodes.tolist()
    leaves = iter(path.facts)

    def fact(number: int) -> Fact:
        head, relation, tail = view.facts[number].tolist()
        return Fact(entities.name(nodes[head]), relations.name(relation), entities.name(nodes[tail]))

    def step(each: Derivation) -> Step:
        start, end = nodes[each.start], nodes[each.end]
        if not each.premises:
            return Step(start, end, tuple(map(fact, next(leaves))))
        premises = tuple(map(step, each.premises))
        weight, strength = path.weights[each.layer, *each.triangle]
        return Step(start, end, (), each.layer, weight, strength, premises)

    return step(path.derivation)


def _completed(model: LinkModel, question: Question) -> tuple[int, int, int]:
    """The link that a question is about; what it leaves out is the best candidate that is not known."""
    entities, relations = model.entities, model.relations
    head, tail = (None if name is None else entities.number(name) for name in (question.head, question.tail))
    relation = None if question.relation is None else relations.number(question.relation)
    if relation is None:
        assert head is not None
        assert tail is not None
        chances = chances_between(model, head, tail)
        told = [each for each in range(len(relations)) if (head, each, tail) in model.known.facts_known]
        chances[told] = -torch.inf
        relation = _best(chances, question, "relation")
    elif head is None or tail is None:
        side = HEAD if head is None else TAIL
        given = tail if head is None else head
        assert given is not None
        scores = model.scores(torch.tensor([given]), torch.tensor([relation]), side == TAIL)[0]
        scores[model.known.known.answers(torch.tensor([[given, relation, given]]), side)[0]] = -torch.inf
        scores[given] = -torch.inf
        best = _best(scores, question, "node")
        head, tail = (best, given) if head is None else (given, best)
    assert tail is not None
    assert head is not None
    return head, relation, tail


def _best(scores: torch.Tensor, question: Question, what: str) -> int:
    if not bool((scores > -torch.inf).any()):
        raise UserError(f"{question.where}: found that every {what} is a known answer; expected one that is not")
    return int(scores.argmax())
