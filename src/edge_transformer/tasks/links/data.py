"""Facts of a knowledge graph as training and scoring need them: what is hidden and asked for, loss and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data.jsonl import IN_MEMORY
from ...data.links.folder import link_fingerprint, read_links
from ...data.links.graph import HEAD, RELATION, TAIL, Known, numbered
from ...data.links.rows import Fact, LinkRows, link_rows, without_duplicates
from ...data.tensors import Vocab
from ...errors import UserError
from ...io.settings import require_fraction
from ..base import DataFacts, Progress, TaskData, TaskModel, in_full
from ..calibration import fit_temperature
from ..scores import Scores
from .chances import fit_chances
from .graph import Named
from .model import NODES_A_CANDIDATE, LinkModel, on_device, require_memory
from .scores import average_precision, ranking_scores, ranks, sample_negatives, sampled_ranks

TRAIN, VALID, TEST = "train", "valid", "test"
SIDES = ((TAIL, "tail"), (HEAD, "head"))
QUESTIONS, AROUND = 256, 4  # facts that are scored at once, on the whole graph and in neighbourhoods
MOST_HELD_OUT = 1000  # validation facts that are split off: more say little more, and each takes two passes to score
NEGATIVES_SEED = 0  # the same sampled negatives for every model


@dataclass(frozen=True)
class LinkSettings:
    """The `data:` section of a preset."""

    hidden: float = 0.3  # besides those of the batch, a random share of the facts, up to this, is hidden and asked for
    hide_pairs: bool = False  # facts between the same two nodes, in both directions, are hidden with them
    relation_loss: float = 0.0  # weight of the loss of asking for the relation of a hidden fact
    valid_share: float = 0.1  # without validation facts: the share of training facts held out
    test: bool = True  # False leaves the test files unread, for runs that choose recipes
    split: str | None = None  # of a corpus with several, such as S1 of Countries
    scored: int = 0  # at the most so many validation facts are scored; 0: all
    elsewhere: str | None = None  # folder of another graph with the same relations; its test facts are scored too
    negatives: int = 0  # also rank answers among so many sampled ones, as is usual for graphs not trained on

    def __post_init__(self) -> None:
        require_fraction(self, "hidden", "valid_share")
        for name in ("relation_loss", "scored", "negatives"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")


class LinkData(TaskData):
    """A graph of training facts; in every step some of them are hidden and asked for."""

    Settings = LinkSettings
    reading_settings = ("split", "negatives")
    scores_need_training = True  # the graph on which questions are asked

    def __init__(self, rows: LinkRows, settings: LinkSettings, seed: int, model: LinkModel | None = None) -> None:
        self._rows, self._settings, self._seed = rows, settings, seed
        splits = {name: without_duplicates(facts) for name, facts in rows.splits.items()}
        train = splits.pop(TRAIN, [])
        if not train and model is None:
            raise UserError("found no training facts; expected at least one")
        if VALID not in splits and settings.valid_share and train:
            left, held_out = _held_out(train, settings.valid_share, seed)
            if model is None or _are_facts_of(left, model):  # those that its training held out
                train, splits[VALID] = left, held_out
        if not settings.test and model is None:
            splits = {name: facts for name, facts in splits.items() if name == VALID}
        told, given = set(train), splits.get(VALID, [])  # to choose by what train tells would be to choose by memory
        splits[VALID] = [fact for fact in given if fact not in told]
        self._told = len(given) - len(splits[VALID])
        self._splits = {name: facts for name, facts in splits.items() if facts}
        self.known = self._graph(train, model)
        self._numbers = {name: self._known_numbers(facts) for name, facts in self._splits.items()}
        self._require_scored([name for name in self._splits if name != VALID or (model and len(self._splits) == 1)])
        everything = torch.cat([self.known.facts, *(numbers for numbers in self._numbers.values())])
        size = len(self.known.entities), len(self.known.relations)
        self._all_facts = everything
        self._training, self._all = Known(self.known.facts, *size), Known(everything, *size)
        self._nodes = 0  # of neighbourhoods that are trained on, as the model says
        self._elsewhere: LinkRows | None = None

    def _graph(self, train: Sequence[Fact], model: LinkModel | None) -> Named:
        """The graph on which questions are asked: that of the training facts, by default the one of the model."""
        asked = [fact for facts in self._splits.values() for fact in facts]
        nodes = [node for fact in (*train, *asked) for node in (fact.head, fact.tail)]
        about = self._rows.entities
        if model is None:
            return Named.of(train, Vocab.of(nodes), Vocab.of(fact.relation for fact in train), about)
        known = model.known
        if not train or _are_facts_of(train, model):
            grown = known.with_nodes(nodes)
            if not about:
                return grown
            same = Named.of(train or list(known.named()), grown.entities, known.relations, about, known.types)
            return replace(same, trained=grown.trained)
        usable = [fact for fact in train if fact.relation in known.relations]
        # No embeddings: a node of another graph is another node, even by the same name.
        return replace(Named.of(usable, Vocab.of(nodes), known.relations, about, known.types), trained=0)

    def _known_numbers(self, facts: Sequence[Fact]) -> Tensor:
        """The facts that can be asked for: those with known relations."""
        places = (
            {name: n for n, name in enumerate(self.known.entities)},
            {name: n for n, name in enumerate(self.known.relations)},
        )
        return numbered([fact for fact in facts if fact.relation in places[1]], *places)

    def _require_scored(self, splits: Sequence[str]) -> None:
        """Refuse facts to score of which none can be."""
        for name in splits:
            if not len(self._numbers[name]):
                asked, known = {fact.relation for fact in self._splits[name]}, self.known.relations
                found = f"{name}: found no fact with a relation that training facts have, but {_listed(asked)}"
                raise UserError(f"{found}; expected relations among {_listed(known)}")

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        data = cls(link_rows(splits), settings, seed, cast(LinkModel | None, model))
        data._read_elsewhere(model)
        return data

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: LinkSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        testing = settings.test or model is not None
        rows = read_links(folder, progress, training=model is None, testing=testing, split=settings.split)
        data = cls(rows, settings, seed, cast(LinkModel | None, model))
        data.about = {"name": rows.name, "fingerprint": rows.fingerprint}
        data._read_elsewhere(model, progress)
        return data

    def _read_elsewhere(self, model: TaskModel | None, progress: Progress | None = None) -> None:
        """Read the other graph that a training run is to be scored on, before it starts."""
        if self._settings.elsewhere is not None and self._settings.test and model is None:
            self._elsewhere = read_links(Path(self._settings.elsewhere), progress)

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        return link_fingerprint(folder, training, testing, split)

    def identity(self) -> dict[str, Any]:
        return {
            "name": self._rows.name or IN_MEMORY,
            "fingerprint": self._rows.fingerprint,
            **self.about,
            "train_rows": self.train_rows,
            "entities": len(self.known.entities),
            "relations": len(self.known.relations),
            **({"split": self._settings.split} if self._settings.split else {}),
            **({"elsewhere": self._elsewhere.fingerprint} if self._elsewhere else {}),
        }

    def facts(self) -> DataFacts:
        nodes, asked = len(self.known.entities), len(self._numbers.get(VALID, ()))
        return DataFacts(self.train_rows, asked, nodes, longest=1, labels=len(self.known.relations), classes=nodes)

    def with_settings(self, settings: LinkSettings, seed: int) -> Self:
        other = copy(self)  # what these change, such as the share of hidden facts, is used in training alone
        other._settings = settings
        return other

    def notes(self) -> list[str]:
        notes = []
        if self._told:
            notes.append(f"{VALID}: {self._told} facts stand in {TRAIN}; they are not scored")
        for name, facts in self._splits.items():
            if lost := self._lost(name):
                unseen = f"{lost} of {len(facts)} facts have a relation that no training fact has"
                notes.append(f"{name}: {unseen}; they are not scored")
        return notes

    def _lost(self, split: str) -> int:
        """How many facts of a split have a relation that no training fact has."""
        return len(self._splits[split]) - len(self._numbers[split])

    # --- training -----------------------------------------------------------------------------------------------------

    @property
    def train_rows(self) -> int:
        return len(self.known.facts)

    def new_model(self, settings: Mapping[str, Any]) -> LinkModel:
        known = self.known
        with_embeddings = len(known.entities) if settings.get("entities") else 0
        features = 0 if known.features is None else known.features.shape[1]
        model = LinkModel(settings, known, (with_embeddings, len(known.types), features))
        self._nodes = model.options.nodes
        require_memory(min(self._nodes or len(known.entities), len(known.entities)), settings, training=True)
        return model

    def batches(self, rows: Tensor) -> Iterator[Tensor]:
        """One batch: all rows are hidden in the same graph. A neighbourhood has room for what is around them too."""
        around = 0 < self._nodes < len(self.known.entities)
        yield from rows.split(max(1, self._nodes // (2 * NODES_A_CANDIDATE))) if around else (rows,)

    def loss(self, model: nn.Module, batch: Tensor, device: torch.device) -> Tensor:
        """The mean loss of all that is asked for, times the rows of the batch; a sum over the networks of a model.

        The loss of a question is the cross-entropy of its answer among all nodes but the other known answers. Each
        network gets a graph of its own, in which others of the facts are hidden.
        """
        losses = [self._loss(model, member, batch, device) for member in range(len(cast(LinkModel, model).networks))]
        return torch.stack(losses).sum()

    def _loss(self, model: nn.Module, member: int, batch: Tensor, device: torch.device) -> Tensor:
        known, facts = self.known, self.known.facts
        hidden = torch.zeros(len(facts), dtype=torch.bool)
        if model.training and self._settings.hidden:
            share = torch.rand(()) * self._settings.hidden
            hidden = torch.rand(len(facts)) < share
        hidden[batch] = True
        gone = self._with_pairs(hidden) if self._settings.hide_pairs else hidden
        nodes = None
        if self._nodes and self._nodes < len(known.entities):
            seeds = facts[batch][:, [HEAD, TAIL]].flatten()
            nodes = known.graph.around(seeds, max(self._nodes, len(torch.unique(seeds))), gone)
        return self._losses(model, member, facts[hidden], ~gone, nodes, device).mean() * len(batch)

    def _with_pairs(self, hidden: Tensor) -> Tensor:
        """With hidden facts, also those between the same two nodes, in both directions."""
        ends = self.known.facts[:, [HEAD, TAIL]].sort(dim=1).values
        pair = ends[:, 0] * len(self.known.entities) + ends[:, 1]
        return torch.isin(pair, pair[hidden])

    def _losses(
        self,
        model: nn.Module,
        member: int,
        asked: Tensor,
        visible: Tensor,
        nodes: Tensor | None,
        device: torch.device,
    ) -> Tensor:
        """The losses of the questions of each fact asked for, in a graph of the visible facts alone: `[asked]`."""
        known, count = self.known, len(self.known.entities)
        if nodes is None:
            seen, place, size = known.facts[visible], torch.arange(count), count
        else:
            seen, inside = known.graph.within(nodes)
            seen = seen[visible[inside]]
            size = len(nodes)
            place = torch.full((count,), -1)
            place[nodes] = torch.arange(size)
            asked = asked[(place[asked[:, HEAD]] >= 0) & (place[asked[:, TAIL]] >= 0)]
        about = on_device(known.inputs(nodes), device)
        placed = torch.stack([place[asked[:, HEAD]], asked[:, RELATION], place[asked[:, TAIL]]], dim=1)
        weight = self._settings.relation_loss
        scores = model(member, seen.to(device), size, placed.to(device), about, weight > 0)
        losses = torch.zeros((), device=device)
        for (side, _), found in zip(SIDES, scores, strict=False):
            others = self._training.answers(asked, side)
            others[torch.arange(len(asked)), asked[:, side]] = False
            others = others if nodes is None else others[:, nodes]
            losses = losses + _cross_entropy(found, placed[:, side].to(device), others.to(device))
        if weight:
            others = self._training.between(asked)
            others[torch.arange(len(asked)), asked[:, RELATION]] = False
            losses = losses + weight * _cross_entropy(scores[-1], placed[:, RELATION].to(device), others.to(device))
        return losses

    # --- scores -------------------------------------------------------------------------------------------------------

    def evaluation_rows(self) -> int:
        others = (len(facts) for name, facts in self._numbers.items() if name != VALID)
        return sum(others) + len(self._midway_facts())

    def midway_rows(self) -> int:
        return len(self._midway_facts())

    def _midway_facts(self) -> Tensor:
        """The validation facts that are scored."""
        facts, most = self._numbers.get(VALID, torch.empty(0, 3, dtype=torch.long)), self._settings.scored
        if not most or len(facts) <= most:
            return facts
        return facts[torch.randperm(len(facts), generator=torch.Generator().manual_seed(self._seed))[:most]]

    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> Scores:
        """Scores of the test facts first, then the main one of the validation facts."""
        scores = Scores()
        names = sorted(self._numbers, key=lambda name: (name != TEST, name == VALID, name))
        for name in names:
            facts = self._midway_facts() if name == VALID else self._numbers[name]
            found = self._score(facts, model, progress)
            not_scored = self._lost(name) + (self._told if name == VALID else 0)
            scores.details[name] = {**found.details, "not_scored": not_scored}
            main = next(iter(found), "")
            for score, value in found.items():
                if name == TEST:
                    scores[score] = value
                elif score == main or name != VALID:
                    scores[f"{name} {score}"] = value
        if self._elsewhere is not None:
            found = self._scores_elsewhere(cast(LinkModel, model), device)
            scores |= {f"elsewhere {score}": value for score, value in found.items() if not score.startswith(VALID)}
            scores.details["elsewhere"] = found.details.get(TEST, {})
        return scores

    def _scores_elsewhere(self, model: LinkModel, device: torch.device) -> Scores:
        """The scores of the other graph's test facts, as `evaluate` has them."""
        assert self._elsewhere is not None
        splits = {name: facts for name, facts in self._elsewhere.splits.items() if name in (TRAIN, VALID, TEST)}
        other = LinkData(replace(self._elsewhere, splits=splits), self._settings, self._seed, model)
        return other.evaluate(model, device)

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        if not self.midway_rows():
            return {}
        found = self._score(self._midway_facts(), model, progress)
        name, value = next(iter(found.items()))
        loss = {"valid loss": found.details["loss"]} if "loss" in found.details else {}
        return {f"{VALID} {name}": value, **loss}

    def choice(self, scores: Mapping[str, float]) -> tuple[float, float] | None:
        found = [value for name, value in scores.items() if name.startswith(f"{VALID} ") and name != "valid loss"]
        return (found[0], 0.0) if found else None  # ranks of the same questions: errors of two scores cancel out

    @torch.no_grad()
    def calibrate(self, model: TaskModel, device: torch.device) -> None:
        """Fit the temperature of answers, and the chances of links, on the validation facts."""
        facts, linked = self._numbers.get(VALID, torch.empty(0, 3, dtype=torch.long)), cast(LinkModel, model)
        linked.temperature, linked.link_scale = 1.0, None
        if not len(facts) or not linked.on(self.known).sees_whole_graph():
            return
        told = linked.on(self.known)
        linked.temperature = told.temperature = round(self._temperature(told, facts), 4)
        linked.link_scale = fit_chances(told, facts)

    def _temperature(self, model: LinkModel, facts: Tensor) -> float:
        """The temperature for which the answers of training facts alone, others left out, are likeliest."""
        logits, answers = [], []
        for side, _ in SIDES:
            given = facts[:, HEAD + TAIL - side]
            scores = model.scores(given, facts[:, RELATION], side == TAIL)
            others = self._training.answers(facts, side)
            logits.append(scores.masked_fill(others, -torch.inf))
            answers.append(facts[:, side])
        return fit_temperature(torch.cat(logits), torch.cat(answers))

    @torch.no_grad()
    def _score(self, facts: Tensor, model: nn.Module, progress: Progress | None) -> Scores:
        """The ranks of the answers of both questions of each fact, among all nodes that are not known as answers.

        Known are the facts of all splits, in validation too: so the field defines filtered ranks.
        """
        linked = cast(LinkModel, model).on(self.known)
        candidates, whole = self._candidates(), linked.sees_whole_graph()
        negatives = self._negatives(facts) if self._settings.negatives else None  # (facts, 2, count)
        found: list[Tensor] = []  # ranks among all nodes, and among sampled ones
        among: list[Tensor] = []
        losses, curves, relations, directions = [], [], [], []
        at_once = QUESTIONS if whole else AROUND
        for start in range(0, len(facts), at_once):
            some = facts[start : start + at_once]
            for place, (side, name) in enumerate(SIDES):
                if candidates is not None and side == HEAD:
                    continue
                given, answer = (some[:, HEAD], some[:, TAIL]) if side == TAIL else (some[:, TAIL], some[:, HEAD])
                relations += [self.known.relations.name(number) for number in some[:, RELATION].tolist()]
                directions += [name] * len(some)
                sampled = None if negatives is None else negatives[start : start + at_once, place]
                if sampled is not None and not whole:
                    among.append(self._among_sampled(linked, some, side, sampled))
                    continue
                scores = linked.scores(given, some[:, RELATION], side == TAIL)
                others = self._all.answers(some, side)
                others[torch.arange(len(some)), answer] = False
                found.append(ranks(scores, answer, others))
                losses.append(_cross_entropy(scores, answer, others))
                if sampled is not None:
                    among.append(sampled_ranks(scores, answer, sampled))
                if candidates is not None:
                    chances = scores[:, candidates].log_softmax(-1)  # scores of two questions have no common zero
                    curves.append((chances.flatten(), (answer[:, None] == candidates).flatten()))
            if progress:
                progress(len(some))
        scores_of = Scores()
        if curves:
            area = average_precision(*(torch.cat(parts) for parts in zip(*curves, strict=True)))
            scores_of["AUC-PR"] = area
        for each, count in ((found, None), (among, self._settings.negatives)):
            if each:
                ranked = ranking_scores(torch.cat(each), relations, directions, count)
                scores_of |= ranked
                scores_of.details = scores_of.details or ranked.details
        if losses:
            scores_of.details["loss"] = float(torch.cat(losses).mean())
        return scores_of

    def _among_sampled(self, model: LinkModel, facts: Tensor, side: int, sampled: Tensor) -> Tensor:
        """The ranks of answers among sampled nodes, in neighbourhoods of these alone."""
        found = []
        for fact, others in zip(facts, sampled, strict=True):
            among = torch.cat([fact[side : side + 1], others[others >= 0]])
            scores = model.candidate_scores(
                fact[HEAD + TAIL - side], fact[RELATION : RELATION + 1], side == TAIL, among
            )
            found.append(ranks(scores, torch.zeros(1, dtype=torch.long)))
        return torch.cat(found)

    def _negatives(self, facts: Tensor) -> Tensor:
        return sample_negatives(
            facts, self._all_facts, len(self.known.entities), self._settings.negatives, NEGATIVES_SEED
        )

    def _candidates(self) -> Tensor | None:
        """The only answers that are asked for, where the data say so."""
        if not self._rows.candidates:
            return None
        numbers = map(self.known.entities.number, self._rows.candidates)
        return torch.tensor([number for number in numbers if number is not None])


def _cross_entropy(scores: Tensor, answers: Tensor, others: Tensor) -> Tensor:
    """The loss of each answer, `[questions]`, among all candidates but other true ones."""
    scores = in_full(scores)
    return F.cross_entropy(scores.masked_fill(others, torch.finfo(scores.dtype).min), answers, reduction="none")


def _held_out(facts: list[Fact], share: float, seed: int) -> tuple[list[Fact], list[Fact]]:
    """Facts without, and those of, a validation part: no node and no relation loses its last fact."""
    wanted = min(MOST_HELD_OUT, round(share * len(facts)))
    left: dict[object, int] = {}
    for fact in facts:
        for key in ((fact.head,), (fact.tail,), fact.relation):
            left[key] = left.get(key, 0) + 1
    taken: set[int] = set()
    for number in torch.randperm(len(facts), generator=torch.Generator().manual_seed(seed)).tolist():
        fact = facts[number]
        keys = ((fact.head,), (fact.tail,), fact.relation)
        if len(taken) < wanted and all(left[key] > 1 + (fact.head == fact.tail) for key in keys):
            taken.add(number)
            for key in keys:
                left[key] -= 1
    return (
        [fact for number, fact in enumerate(facts) if number not in taken],
        [fact for number, fact in enumerate(facts) if number in taken],
    )


def _listed(names: Iterable[str], most: int = 20) -> str:
    """The first of some names, as errors list them."""
    ordered = sorted(names)
    return ", ".join(map(repr, ordered[:most])) + ", ..." * (len(ordered) > most)


def _are_facts_of(train: Sequence[Fact], model: LinkModel) -> bool:
    """Whether these are the facts of the model's graph, and no others."""
    return len(train) == len(model.known.facts) and set(train) == set(model.known.named())
