"""A knowledge graph in, the probabilities of its missing links out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from ...data.links.graph import HEAD, TAIL
from ...data.links.rows import Fact, fact_of
from ...data.tensors import Vocab
from ...errors import UserError
from ...io.process import free_memory
from ...io.settings import from_dict, require_positive, to_dict
from ...io.streams import answered, never, read_json_lines
from ...nn.baselines.config import StoryConfig
from ...nn.encoder import find_encoder
from ...nn.links import LinkNetwork
from ..base import DEFAULT_KIND, STREAM_ROWS, TaskModel, answering, build_encoder, in_full, model_options, require_list
from .chances import LinkScale, chances_between, most_probable
from .graph import Named, unknown_relation
from .questions import Question, read_question

STATES = 14  # vectors a pair that a layer computes at once, or keeps for its backward pass
SCORED = 1 << 26  # numbers that are scored at once
NODES_A_CANDIDATE = 3  # nodes of a neighbourhood for each candidate that is scored in it
TOP, MOST_LISTED = 10, 1000  # candidates of an answer


@dataclass(frozen=True)
class LinkOptions:
    """Settings of a model of links besides those of its encoder."""

    entities: bool = False  # nodes have embeddings, and scores of their own: for a graph that stays the same
    members: int = 1  # networks that are trained side by side; answers are by the mean of their scores
    nodes: int = 0  # the most nodes of a neighbourhood, where these are looked at; 0: always the whole graph
    whole: int = 1500  # with neighbourhoods: graphs of up to so many nodes are still answered as a whole

    def __post_init__(self) -> None:
        require_positive(self, "members")
        if self.whole < 0:
            raise ValueError(f"whole must not be negative, but is {self.whole}")
        if self.nodes and self.nodes < 8:
            raise ValueError(f"nodes must be 0, for whole graphs, or at least 8, but is {self.nodes}")


class LinkModel(TaskModel):
    """Predicts the missing links of a knowledge graph; the graph it was trained on is a part of it.

    `predict` takes questions that leave out a tail, a head or a relation:

    {"head": "Ann", "relation": "aunt"}    {"relation": "aunt", "tail": "Eve"}    {"head": "Ann", "tail": "Eve"}
    """

    task = "links"
    Options = LinkOptions
    facts: Tensor  # buffers, so that they are saved with the weights: [facts, 3]
    node_types: Tensor
    node_type_starts: Tensor
    features: Tensor

    def __init__(
        self, settings: Mapping[str, Any], known: Named, sizes: tuple[int, int, int], temperature: float = 1.0
    ) -> None:
        """`sizes` are the numbers of entities with embeddings, of types, and of features."""
        super().__init__()
        _require_states_of_pairs(settings)
        self.settings, self.temperature, self.sizes = dict(settings), temperature, sizes
        self.options: LinkOptions = model_options(settings, LinkOptions)
        self.link_scale: LinkScale | None = None  # fitted after training
        entities, types, features = sizes
        self.networks = nn.ModuleList(
            LinkNetwork(
                build_encoder(settings, LinkOptions),
                len(known.relations),
                entities=entities,
                types=types,
                features=features,
            )
            for _ in range(self.options.members)
        )
        self._names = known.entities, known.relations, known.types
        self._trained = known.trained
        self.register_buffer("facts", known.facts.to(torch.int32))
        empty = torch.empty(0, dtype=torch.int32)
        flat, starts = (empty, empty) if known.node_types is None else known.node_types
        self.register_buffer("node_types", flat.to(torch.int32))
        self.register_buffer("node_type_starts", starts.to(torch.int32))
        self.register_buffer("features", torch.empty(0) if known.features is None else known.features)
        self._of: tuple[Any, Named] | None = None
        self._states: tuple[Any, list[Tensor]] | None = None  # of the whole graph, and what they were computed with

    # --- the graph ----------------------------------------------------------------------------------------------------

    @property
    def entities(self) -> Vocab:
        """The nodes of the graph."""
        return self._names[0]

    @property
    def relations(self) -> Vocab:
        """The relations that the training facts have."""
        return self._names[1]

    @property
    def known(self) -> Named:
        """The graph, with names."""
        buffers = (self.facts, self.node_types, self.node_type_starts, self.features)
        key = _state_of(buffers)
        if self._of is None or self._of[0] != key:
            facts, flat, starts, features = (each.detach().cpu() for each in buffers)
            named = Named(
                *self._names[:2],
                facts.long(),
                self._names[2],
                (flat.long(), starts.long()) if len(starts) else None,
                features.float() if features.numel() else None,
                self._trained,
            )
            self._of = key, named
        return self._of[1]

    def on(self, known: Named) -> Self:
        """The same model, with the same weights, on another graph."""
        width = self.sizes[2]
        if width and known.features is not None and known.features.shape[1] != width:
            found = f"{known.features.shape[1]} features a node"
            raise UserError(f"entities: found {found}; expected {width}, as in training")
        other = copy(self)
        other._buffers = dict(self._buffers)
        other._names, other._trained = (known.entities, known.relations, known.types), known.trained
        other.facts = known.facts.to(torch.int32).to(self.facts.device)
        none = torch.empty(0, dtype=torch.int32)
        flat, starts = (none, none) if known.node_types is None else known.node_types
        other.node_types, other.node_type_starts = flat.to(torch.int32), starts.to(torch.int32)
        other.features = torch.empty(0) if known.features is None else known.features
        other._of, other._states = None, None
        return other

    def with_facts(self, facts: Iterable[Any], replacing: bool = False) -> Self:
        """The same model on its graph and more facts, or with `replacing` on these alone; nothing is trained.

        Args:
            facts: rows such as ["Ann", "mother", "Eve"]; they may have new nodes, but no new relations.
            replacing: whether to forget the facts of the graph.
        """
        rows = [fact_of(row, f"facts[{number}]") for number, row in enumerate(facts)]
        told = [row for row in rows if isinstance(row, Fact)]
        if len(told) < len(rows):
            raise UserError("facts: found a row about a node; expected links, such as [head, relation, tail]")
        return self.on(self.known.with_facts(told, replacing))

    # --- states and scores --------------------------------------------------------------------------------------------

    def forward(
        self, member: int, facts: Tensor, nodes: int, asked: Tensor, about: Mapping[str, Any], relations: bool
    ) -> list[Tensor]:
        """What a network that knows `facts`, `[facts, 3]`, says of those that are asked for, `[asked, 3]`.

        These are the scores of all nodes as tails, and as heads, `[asked, nodes]` each, and where `relations` are asked
        for too those of them, `[asked, relations]`.
        """
        network = cast(LinkNetwork, self.networks[member])
        states = network(facts, nodes, **about)
        head, relation, tail = asked.unbind(1)
        sides = ((head, True), (tail, False))
        ends = [network.scores(states, given, relation, tails, about["entities"]) for given, tails in sides]
        if relations:
            ends.append(network.pair_scores(states, asked[:, [HEAD, TAIL]], about["entities"]))
        return ends

    def encode(self, nodes: Tensor | None = None) -> list[Tensor]:
        """The states of all pairs of nodes of the graph, or of the part that some nodes are: `[n, n, dim]` each."""
        known, device = self.known, next(self.parameters()).device
        facts = known.facts if nodes is None else known.graph.within(nodes)[0]
        about = on_device(known.inputs(nodes), device)
        count = len(self.entities) if nodes is None else len(nodes)
        return [network(facts.to(device), count, **about) for network in self.networks]

    @torch.no_grad()
    def whole(self) -> list[Tensor]:
        """The states of all pairs of the whole graph by each network, computed once."""
        weights = _state_of((*self.parameters(), *self.buffers()))
        if self._states is None or self._states[0] != weights:
            require_memory(len(self.entities), self.settings)
            with answering(self):
                self._states = weights, self.encode()
        return self._states[1]

    def score(
        self, states: Sequence[Tensor], nodes: Tensor, relations: Tensor, tails: bool, entities: Tensor
    ) -> Tensor:
        """The mean of the networks' scores of all nodes, `[questions, n]`; see `LinkNetwork.scores`."""
        parts = [
            cast(LinkNetwork, network).scores(each, nodes, relations, tails, entities)
            for network, each in zip(self.networks, states, strict=True)
        ]
        return torch.stack(parts).mean(0)

    def sees_whole_graph(self) -> bool:
        """Whether answers are computed on the whole graph, not on neighbourhoods."""
        nodes, count = self.options.nodes, len(self.entities)
        return not nodes or count <= max(nodes, self.options.whole)

    @torch.no_grad()
    def scores(self, nodes: Tensor, relations: Tensor, tails: bool) -> Tensor:
        """Scores of all nodes as the tails, or the heads, of links with these nodes and relations: `[questions, n]`."""
        if not self.sees_whole_graph():
            return self._scores_around(nodes, relations, tails)
        states, device = self.whole(), next(self.parameters()).device
        entities = self.known.inputs()["entities"].to(device)
        at_once = max(1, SCORED // (len(self.entities) * states[0].shape[-1]))
        with answering(self):
            parts = [
                in_full(self.score(states, some.to(device), of.to(device), tails, entities)).cpu()
                for some, of in zip(nodes.split(at_once), relations.split(at_once), strict=True)
            ]
        return torch.cat(parts) if parts else torch.empty(0, len(self.entities))

    def _scores_around(self, nodes: Tensor, relations: Tensor, tails: bool) -> Tensor:
        """The same by neighbourhoods of a given node and of a part of the candidates at a time."""
        every = torch.arange(len(self.entities))
        scores = torch.empty(len(nodes), len(every))
        for node in torch.unique(nodes):  # all its relations share the neighbourhoods
            here = nodes == node
            scores[here] = self.candidate_scores(node, relations[here], tails, every).to(scores)
        return scores

    @torch.no_grad()
    def candidate_scores(self, node: Tensor, relations: Tensor, tails: bool, candidates: Tensor) -> Tensor:
        """Scores of some candidates for one node and some relations, in neighbourhoods: `[relations, candidates]`."""
        device, most = next(self.parameters()).device, self.options.nodes
        found = []
        with answering(self):
            parts = -(-len(candidates) // max(1, most // NODES_A_CANDIDATE))
            for some in candidates.tensor_split(max(1, parts)):
                seeds = torch.cat([node[None], some])
                # The same question has the same answer.
                around = self.known.graph.around(seeds, most, generator=torch.Generator().manual_seed(0))
                place = torch.empty(len(self.entities), dtype=torch.long)
                place[around] = torch.arange(len(around))
                entities = self.known.inputs(around)["entities"].to(device)
                start = place[node].expand(len(relations)).to(device)
                scores = in_full(self.score(self.encode(around), start, relations.to(device), tails, entities)).cpu()
                found.append(scores[:, place[some]])
        return torch.cat(found, dim=1)

    @torch.no_grad()
    def relations_between(self, head: int, tail: int) -> Tensor:
        """The log probabilities of all relations between two nodes, if there is one: `[relations]`."""
        device, pair = next(self.parameters()).device, torch.tensor([[head, tail]])
        around, place = None, pair
        if not self.sees_whole_graph():
            around = self.known.graph.around(pair[0], self.options.nodes, generator=torch.Generator().manual_seed(0))
            place = torch.stack([torch.where(around == node)[0][0] for node in pair[0]])[None]
        with answering(self):
            states = self.whole() if around is None else self.encode(around)
            entities = self.known.inputs(around)["entities"].to(device)
            parts = [
                cast(LinkNetwork, network).pair_scores(each, place.to(device), entities)
                for network, each in zip(self.networks, states, strict=True)
            ]
            return in_full(torch.stack(parts).mean(0)[0]).log_softmax(-1).cpu()

    @torch.no_grad()
    def relation_scores(self, relation: int) -> Tensor:
        """The scores of one relation between all nodes of the whole graph: `[heads, tails]`."""
        entities = self.known.inputs()["entities"].to(next(self.parameters()).device)
        with answering(self):
            parts = [
                cast(LinkNetwork, network).relation_scores(each, relation, entities)
                for network, each in zip(self.networks, self.whole(), strict=True)
            ]
            return in_full(torch.stack(parts).mean(0)).cpu()

    # --- answers ------------------------------------------------------------------------------------------------------

    def predict(
        self, inputs: Sequence[Any], facts: Iterable[Any] | None = None, top: int = TOP
    ) -> list[dict[str, Any]]:
        """Answer questions, in their order, with the most probable candidates; known links are marked.

        Args:
            inputs: {"head": ..., "relation": ...}, {"relation": ..., "tail": ...} or {"head": ..., "tail": ...}; a
                question may bring facts of its own, {"facts": [[head, relation, tail], ...]}.
            facts: more facts for all questions; they may have new nodes. Nothing is trained.
            top: how many candidates to list.
        """
        require_list(inputs, "question")
        if not 1 <= top <= MOST_LISTED:
            raise UserError(f"top: found {top}; expected a number from 1 to {MOST_LISTED}")
        model = self if facts is None else self.with_facts(facts)
        questions = [read_question(value, f"input {number}") for number, value in enumerate(inputs)]
        return model._answer_all([question.checked(model.known) for question in questions], top)

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        known = self.known
        questions = (
            read_question(value, f"{source}:{number}").checked(known)
            for number, value in read_json_lines(lines, source)
        )
        return answered(questions, self._answer_all, lambda _: 1, STREAM_ROWS, pausing)

    def _answer_all(self, questions: Sequence[Question], top: int = TOP) -> list[dict[str, Any]]:
        """Answer checked questions, those with the same facts of their own together."""
        answers: list[dict[str, Any]] = [{}] * len(questions)
        by_facts: dict[tuple[Fact, ...], list[int]] = {}
        for number, question in enumerate(questions):
            by_facts.setdefault(question.facts, []).append(number)
        for more, numbers in by_facts.items():
            on = self.on(self.known.with_facts(more)) if more else self
            for number, answer in zip(numbers, on._answer([questions[n] for n in numbers], top), strict=True):
                answers[number] = answer
        return answers

    def _answer(self, questions: Sequence[Question], top: int) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = [{}] * len(questions)
        for asked in ("tail", "head", "relation"):
            numbers = [number for number, question in enumerate(questions) if question.asked == asked]
            some = [questions[number] for number in numbers]
            found = self._relations(some, top) if asked == "relation" else self._ends(some, asked, top)
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
        return answers

    def _ends(self, questions: Sequence[Question], asked: str, top: int) -> list[dict[str, Any]]:
        """Answers to questions for tails, or for heads."""
        tails, (entities, relations) = asked == "tail", (self.entities, self.relations)
        given = [entities.number(cast(str, q.head if tails else q.tail)) for q in questions]
        of = [relations.number(cast(str, q.relation)) for q in questions]
        facts = torch.tensor([(n, r, n) for n, r in zip(given, of, strict=True)], dtype=torch.long).view(-1, 3)
        answers = []
        for some, which in zip(facts.split(256), torch.arange(len(facts)).split(256), strict=True):
            scores = self.scores(some[:, 0], some[:, 1], tails)
            chances = (scores / self.temperature).softmax(-1)
            marked = self.known.known.answers(some, TAIL if tails else HEAD)
            best = chances.topk(min(top, len(entities)))
            for row, number in enumerate(which.tolist()):
                listed = [
                    {asked: entities.name(node), "probability": round(chance, 6), "known": bool(marked[row, node])}
                    for node, chance in zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
                ]
                answers.append(questions[number].said() | {"answer": listed[0][asked], "candidates": listed})
        return answers

    def _relations(self, questions: Sequence[Question], top: int) -> list[dict[str, Any]]:
        """Answers to questions for relations."""
        answers = []
        for question in questions:
            head, tail = (cast(int, self.entities.number(cast(str, node))) for node in (question.head, question.tail))
            found = chances_between(self, head, tail)
            order = found.argsort(descending=True)[:top].tolist()
            listed = [
                {
                    "relation": self.relations.name(relation),
                    "probability": round(float(found[relation]), 6),
                    "known": (head, relation, tail) in self.known.facts_known,
                }
                for relation in order
            ]
            answers.append(question.said() | {"answer": listed[0]["relation"], "candidates": listed})
        return answers

    def missing(self, top: int = 100, relations: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """The most probable links that the graph does not have, most probable first; none from a node to itself.

        Args:
            top: how many.
            relations: which relations to look at; all unless given.
        """
        if not 1 <= top <= 100 * MOST_LISTED:
            raise UserError(f"top: found {top}; expected a number from 1 to {100 * MOST_LISTED}")
        if not self.sees_whole_graph():
            found = f"a graph of {len(self.entities):,} nodes, which is answered neighbourhood by neighbourhood"
            raise UserError(
                f"missing: found {found}; expected one of at most {self.options.whole:,}; ask for some nodes"
            )
        if relations is not None:
            require_list(relations, "relation")
        numbers = []
        for name in dict.fromkeys(self.relations if relations is None else relations):
            number = self.relations.number(name)
            if number is None:
                raise unknown_relation(name, self.relations)
            numbers.append(number)
        return [
            {
                "head": self.entities.name(head),
                "relation": self.relations.name(relation),
                "tail": self.entities.name(tail),
                "probability": round(chance, 6),
            }
            for chance, head, relation, tail in most_probable(self, numbers, top)
        ]

    # --- on disk ------------------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        known = self.known
        return {
            "model": self.settings,
            "entities": list(self.entities),
            "relations": list(self.relations),
            "types": list(known.types),
            "sizes": list(self.sizes),
            "features": known.features is not None,
            "facts": len(known.facts),
            "temperature": self.temperature,
            **({} if self.link_scale is None else {"link_scale": to_dict(self.link_scale)}),
            **({} if self._trained is None else {"trained_entities": self._trained}),
            **({} if known.node_types is None else {"node_types": len(known.node_types[0])}),
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        entities, relations, types = (Vocab(description[name]) for name in ("entities", "relations", "types"))
        with_embeddings, with_types, features = map(int, description["sizes"])
        temperature = float(description["temperature"])
        if not temperature > 0:
            raise UserError(f"temperature: found {temperature}; expected a number above 0")
        count = len(entities)
        node_types = None
        if "node_types" in description:
            flat = torch.zeros(int(description["node_types"]), dtype=torch.long)
            node_types = flat, torch.zeros(count, dtype=torch.long)
        known = Named(
            entities,
            relations,
            torch.zeros(int(description["facts"]), 3, dtype=torch.long),
            types,
            node_types,
            torch.zeros(count, features) if description["features"] else None,
            description.get("trained_entities"),
        )
        model = cls(description["model"], known, (with_embeddings, with_types, features), temperature)
        if "link_scale" in description:
            model.link_scale = from_dict(LinkScale, description["link_scale"], "link_scale")
        return model


def _require_states_of_pairs(settings: Mapping[str, Any]) -> None:
    """Refuse an encoder that says nothing of two nodes without an edge."""
    kind = settings.get("kind", DEFAULT_KIND)
    if issubclass(find_encoder(kind, LinkModel.reads).config, StoryConfig):
        expected = "one that tells of all pairs of nodes, such as edge, rrat, rat or gat"
        raise UserError(f"model.kind: found {kind}, which tells of known links alone; expected {expected}")


def _state_of(tensors: Iterable[Tensor]) -> list[tuple[Any, ...]]:
    """What changes where tensors are given other values; those made in inference mode do not count their versions."""
    return [(id(each), each.data_ptr(), each.dtype, 0 if each.is_inference() else each._version) for each in tensors]


def on_device(inputs: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """The inputs of a graph, on the device of a model."""
    return {
        name: tuple(each.to(device) for each in value) if isinstance(value, tuple) else value.to(device)
        for name, value in inputs.items()
    }


def require_memory(nodes: int, settings: Mapping[str, Any], training: bool = False) -> None:
    """Refuse a whole graph whose states would not fit into the free memory, before anything is computed."""
    needed, free = memory_of(nodes, settings, training), free_memory()
    if free is not None and needed > free:
        raise UserError(
            f"a graph of {nodes:,} nodes as a whole needs about {needed / 1e9:.1f} GB; found {free / 1e9:.1f} GB of "
            "free memory; expected neighbourhoods of at most so many nodes (--set model.nodes=200), a smaller "
            "model.dim, or more memory"
        )


def memory_of(nodes: int, settings: Mapping[str, Any], training: bool = False) -> int:
    """About how many bytes the states of a graph take at the most."""
    dim, layers, members = (
        int(settings.get(name, least)) for name, least in (("dim", 64), ("layers", 1), ("members", 1))
    )
    return nodes**2 * dim * 4 * (STATES * (layers * members if training else 1) + members)
