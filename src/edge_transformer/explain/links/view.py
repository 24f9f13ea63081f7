"""A link in its graph: how probable it is, what speaks for it, and what is left when facts are hidden."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ...data.links.graph import HEAD, RELATION, TAIL
from ...io.process import free_memory
from ...nn.encoder import EdgeTransformer
from ...nn.links import LinkNetwork
from ...tasks.base import answering, in_full
from ...tasks.links.model import LinkModel, memory_of, on_device
from .trace import GraphTrace

AROUND = 400  # the most nodes that are looked at: a search runs some thirty passes over all their triangles
LEAST = 50  # nodes, however little memory there is
SIDES = {"tail": (TAIL,), "head": (HEAD,), "relation": (TAIL, HEAD), "link": (TAIL, HEAD)}  # what is ranked, by what
# is asked: two questions tell how probable a relation or a link is


class Standing(NamedTuple):
    """How a link stands among the answers that are not known: the others share no probability, as in training."""

    likelihood: float  # the logarithm of its probability, by which facts are judged
    ranks: tuple[int, ...]  # of the tail, or of the head, or of both

    @property
    def probability(self) -> float:
        """The probability; where tail and head are ranked, the geometric mean of two."""
        return math.exp(self.likelihood)


class View:
    """A link and the facts that it is explained by, those of the whole graph or of a neighbourhood.

    The link itself is hidden if it is known: the question is what the other facts say. Facts are named by their
    numbers in `facts`, nodes by their numbers in `nodes`.
    """

    def __init__(self, model: LinkModel, link: tuple[int, int, int], asked: str = "link") -> None:
        known, count = model.known, len(model.entities)
        self.model, self.sides = model, SIDES[asked]
        self.device = next(model.parameters()).device
        self.nodes, self.is_whole = _nodes(model, link)
        # facts: [facts, 3], with the numbers that nodes have in `nodes`
        self.facts = known.facts if self.is_whole else known.graph.within(self.nodes)[0]
        self.inputs = on_device(known.inputs(None if self.is_whole else self.nodes), self.device)
        place = torch.full((count,), -1)
        place[self.nodes] = torch.arange(len(self.nodes))
        self.link = int(place[link[HEAD]]), link[RELATION], int(place[link[TAIL]])
        self.open = ~(self.facts == torch.tensor(self.link)).all(1)  # all but the link itself: bool [facts]
        fact = torch.tensor([link])
        self.others = {}  # the other known answers, bool [n]
        for side in self.sides:
            answers = known.known.answers(fact, side)[0]
            answers[link[side]] = False
            self.others[side] = answers[self.nodes]

    @property
    def is_known(self) -> bool:
        """Whether the link is a fact."""
        return not bool(self.open.all())

    @torch.no_grad()
    def standing(self, hidden: Iterable[int] = ()) -> Standing:
        """How the link stands without these facts."""
        with answering(self.model):
            facts = self._visible(hidden).to(self.device)
            scores = self._scores([network(facts, len(self.nodes), **self.inputs) for network in self.model.networks])
        ranks = tuple(
            1 + int(((each > each[self.link[side]]) & ~self.others[side]).sum()) for side, each in scores.items()
        )
        return Standing(float(self._likelihood(scores)), ranks)

    def _visible(self, hidden: Iterable[int]) -> Tensor:
        visible = self.open.clone()
        visible[list(hidden)] = False
        return self.facts[visible]

    def _scores(self, states: list[Tensor]) -> dict[int, Tensor]:
        """The scores of all nodes as the tail, or as the head, `[n]`, at the model's temperature."""
        relation = torch.tensor([self.link[RELATION]], device=self.device)
        scores = {}
        for side in self.sides:
            given = torch.tensor([self.link[HEAD + TAIL - side]], device=self.device)
            found = self.model.score(states, given, relation, side == TAIL, self.inputs["entities"])[0]
            scores[side] = in_full(found).cpu() / self.model.temperature
        return scores

    def _likelihood(self, scores: dict[int, Tensor]) -> Tensor:
        """The mean logarithm of the probabilities among nodes that are not known as answers."""
        found = [
            each.masked_fill(self.others[side], -torch.inf).log_softmax(-1)[self.link[side]]
            for side, each in scores.items()
        ]
        return torch.stack(found).mean()

    def trace(self, hidden: Iterable[int] = ()) -> Traced:
        """The triangles behind the link without these facts, and how much every other fact speaks for it.

        What a fact speaks is the gradient of the likelihood times the vectors that the fact adds to the input: to the
        first order, what is lost without it.
        """
        visible = self._visible(hidden).to(self.device)
        head, relation, tail = visible.unbind(1)
        model, traces, inputs = self.model, [], []
        with answering(model), torch.enable_grad():
            for each in model.networks:
                network = cast(LinkNetwork, each)
                edges = network.input(visible, len(self.nodes), **self.inputs).detach().requires_grad_()
                inputs.append(edges)
                traces.append(GraphTrace(cast(EdgeTransformer, network.encoder), edges))
            likelihood = self._likelihood(self._scores([trace.states for trace in traces]))
            gradients = torch.autograd.grad(likelihood, inputs)
        speaks = torch.zeros(len(visible), device=self.device)
        with torch.no_grad():
            for each, gradient in zip(model.networks, gradients, strict=True):
                told = cast(LinkNetwork, each).input
                speaks += (gradient[0, head, tail] * told.forth(relation)).sum(-1)
                speaks += (gradient[0, tail, head] * told.back(relation)).sum(-1)
        every = torch.full((len(self.facts),), -torch.inf)
        left = self.open.clone()
        left[list(hidden)] = False
        every[left] = speaks.float().cpu()
        return Traced(traces, every)


class Traced(NamedTuple):
    """The triangles behind a link, and how much each fact speaks for it."""

    traces: list[GraphTrace]  # of each network
    speaks: Tensor  # [facts]; -inf where hidden

    def among(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and strengths of all triangles of m nodes, means over networks: `[layers, m, m, m]` both."""
        return _means([trace.among(nodes) for trace in self.traces])

    def pivots(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Weights and strengths of all pivots of one edge, means over networks: `[layers, n]` both."""
        return _means([trace.pivots(start, end) for trace in self.traces])


def _means(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    weights, strengths = zip(*pairs, strict=True)
    return torch.stack(weights).mean(0).cpu(), torch.stack(strengths).mean(0).cpu()


def _nodes(model: LinkModel, link: tuple[int, int, int]) -> tuple[Tensor, bool]:
    """The nodes of the graph on which a link is explained, and whether these are all nodes."""
    count = len(model.entities)
    most = min(count, AROUND if model.sees_whole_graph() else model.options.nodes)
    free = free_memory()
    while free is not None and most > LEAST and memory_of(most, model.settings, training=True) > free:
        most //= 2
    if most >= count:
        return torch.arange(count), True
    seeds = torch.tensor([link[HEAD], link[TAIL]])
    # The same neighbourhood for the same link.
    return model.known.graph.around(seeds, most, generator=torch.Generator().manual_seed(0)), False
