"""How far explanations can be believed: do they agree with gold proofs, and does the answer hang on what they name?

Agreement counts composition steps (i, l, j), against two controls: a random proof, found by the same search with random
strengths (it too leads from told edges to the query), and uniform pivots, by their expected value. A gold proof is one
of several right ones: the search may join the same relations in another order.

Faithfulness takes the named triangles away in all layers (`trace.run`) and counts how often the answer changes, against
taking away as many others.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields

import torch

from ..data.clutrr import Story
from ..errors import UserError
from ..inputs import NULL_LABEL
from ..tasks.base import TaskModel
from ..tasks.clutrr import labelled_edges
from .proof import (
    Explanation,
    Triangle,
    best_pivots,
    check_model,
    derivation,
    equal_sizes,
    explain_stories,
    graph_labels,
    read_edges,
)
from .trace import run

Rule = tuple[str, str, str]  # two relations and the one they make


@dataclass(frozen=True)
class Scores:
    """Sums over the rows of one length: fractions of them are what the table shows."""

    rows: int = 0
    right: int = 0  # answers
    derivable: int = 0  # rows whose query follows from told edges: the others have no proof
    steps: int = 0  # composition steps that explanations name
    gold_steps: int = 0
    agreeing: int = 0  # steps that are gold too
    whole: int = 0  # explanations with just the gold steps
    known_rules: int = 0  # steps that read as a rule of some gold proof
    random_steps: int = 0
    random_agreeing: int = 0
    uniform_agreeing: float = 0.0  # expected number, with pivots drawn uniformly for the edges that were composed
    changed: int = 0  # answers that change without the named triangles
    changed_gold: int = 0  # without those of the gold proof
    changed_random: int = 0  # without those of the random proof
    changed_other: int = 0  # without as many other pivots

    def __add__(self, other: Scores) -> Scores:
        return Scores(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    def fractions(self) -> dict[str, float]:
        """What the sums say, as fractions of 1; 0 where there was nothing to count."""

        def share(part: float, whole: int) -> float:
            return part / whole if whole else 0.0

        return {
            "accuracy": share(self.right, self.rows),
            "precision": share(self.agreeing, self.steps),
            "recall": share(self.agreeing, self.gold_steps),
            "whole": share(self.whole, self.rows),
            "random_precision": share(self.random_agreeing, self.random_steps),
            "random_recall": share(self.random_agreeing, self.gold_steps),
            "uniform_precision": share(self.uniform_agreeing, self.steps),
            "known_rules": share(self.known_rules, self.steps),
            "changed": share(self.changed, self.rows),
            "changed_gold": share(self.changed_gold, self.rows),
            "changed_random": share(self.changed_random, self.rows),
            "changed_other": share(self.changed_other, self.rows),
        }

    def to_dict(self) -> dict[str, float]:
        """Sums and fractions."""
        return {**asdict(self), **{name: round(value, 6) for name, value in self.fractions().items()}}


def score(
    model: TaskModel, stories: Sequence[Story], seed: int = 0, progress: Callable[[int], None] | None = None
) -> tuple[dict[int, Scores], int]:
    """Scores by k, and how many rows were left out: without a gold proof, or with a relation unknown to the model.

    `seed` decides the random controls.
    """
    relations = check_model(model)[0].relations
    usable = [story for story in stories if story.proof and labelled_edges(story, relations) is not None]
    if not usable:
        raise UserError(
            f"explain: found no gold proofs in {len(stories)} rows; expected CLUTRR rows with a proof_state"
        )
    rules = gold_rules(usable)
    found: dict[int, Scores] = defaultdict(Scores)
    chance = random.Random(seed)
    for rows in equal_sizes(usable):
        chosen = [usable[row] for row in rows]
        for story, scores in zip(chosen, _score_batch(model, chosen, rules, chance), strict=True):
            found[story.k] += scores
        if progress:
            progress(len(rows))
    return {k: found[k] for k in sorted(found)}, len(stories) - len(usable)


def gold_rules(stories: Iterable[Story]) -> set[Rule]:
    """The rules of all gold proofs, such as (father, daughter, sister)."""
    return {(step.premises[0][1], step.premises[1][1], step.conclusion[1]) for story in stories for step in story.proof}


def gold_triangles(story: Story) -> frozenset[Triangle]:
    """The composition steps of the gold proof."""
    return frozenset((step.conclusion[0], step.premises[0][2], step.conclusion[2]) for step in story.proof)


def _score_batch(model: TaskModel, stories: Sequence[Story], rules: set[Rule], chance: random.Random) -> list[Scores]:
    explanations = explain_stories(model, stories)
    named = [explanation.triangles for explanation in explanations]
    gold = [gold_triangles(story) for story in stories]
    randoms = random_proofs(model, stories, chance)
    others = [other_triangles(steps, story.size, chance) for steps, story in zip(named, stories, strict=True)]
    changed = [
        [
            after != before.answer
            for after, before in zip(answers_without(model, stories, gone), explanations, strict=True)
        ]
        for gone in (named, gold, randoms, others)
    ]
    return [
        Scores(
            rows=1,
            right=explanation.answer == story.target,
            derivable=explanation.proof is not None,
            steps=len(named[row]),
            gold_steps=len(gold[row]),
            agreeing=len(named[row] & gold[row]),
            whole=named[row] == gold[row],
            known_rules=_known_rules(explanation, rules),
            random_steps=len(randoms[row]),
            random_agreeing=len(randoms[row] & gold[row]),
            uniform_agreeing=uniform_agreement(named[row], gold[row], story.size),
            changed=changed[0][row],
            changed_gold=changed[1][row],
            changed_random=changed[2][row],
            changed_other=changed[3][row],
        )
        for row, (story, explanation) in enumerate(zip(stories, explanations, strict=True))
    ]


def _known_rules(explanation: Explanation, rules: set[Rule]) -> int:
    """How many steps read as a rule; a step that a proof uses twice is one step, known if any of its readings is."""
    known = set()
    for step in explanation.proof.steps() if explanation.proof else ():
        first, second = step.premises
        if (first.relation, second.relation, step.relation) in rules:
            known.add((step.start, step.pivot, step.end))
    return len(known)


def random_proofs(model: TaskModel, stories: Sequence[Story], chance: random.Random) -> list[frozenset[Triangle]]:
    """The steps of one random proof for each story, which must be of one size; none where there is no proof."""
    relation_model, encoder = check_model(model)
    told = graph_labels(relation_model, stories).cpu() != NULL_LABEL
    n = told.shape[-1]
    generator = torch.Generator().manual_seed(chance.getrandbits(60))
    scores = torch.rand(encoder.config.layers, len(stories), n, n, n, generator=generator).log()
    pivots = best_pivots(scores, told)
    found = []
    for row, story in enumerate(stories):
        steps = derivation(pivots[:, row], told[row], story.query) or ()
        found.append(frozenset(triangle for _, triangle in steps))
    return found


def other_triangles(named: Iterable[Triangle], n: int, chance: random.Random) -> frozenset[Triangle]:
    """As many triangles that are not named: other pivots for the same edges, or where none is left, for any edge."""
    named = sorted(named)
    taken = set(named)
    for start, _, end in named:
        free = [(start, pivot, end) for pivot in range(n) if pivot not in (start, end)]
        free = [triangle for triangle in free if triangle not in taken]
        if not free:
            every = ((i, pivot, j) for i in range(n) for pivot in range(n) for j in range(n) if pivot not in (i, j))
            free = [triangle for triangle in every if triangle not in taken]
        if free:
            taken.add(chance.choice(free))
    return frozenset(taken.difference(named))


def uniform_agreement(named: Iterable[Triangle], gold: Iterable[Triangle], n: int) -> float:
    """The gold steps to expect where each composed edge gets any of its n - 2 pivots (n - 1 for a self-edge)."""
    edges = [(start, end) for start, _, end in gold]
    return sum(edges.count((start, end)) / (n - 2 + (start == end)) for start, _, end in named)


@torch.no_grad()
def answers_without(model: TaskModel, stories: Sequence[Story], removed: Sequence[Iterable[Triangle]]) -> list[str]:
    """What the model answers without these triangles, for stories of one size."""
    relation_model, encoder = check_model(model)
    labels = graph_labels(relation_model, stories)
    n = labels.shape[-1]
    mask = torch.zeros(len(stories), n, n, n, dtype=torch.bool)
    for row, triangles in enumerate(removed):
        for triangle in triangles:
            mask[(row, *triangle)] = True
    states = run(encoder, relation_model.input(labels), mask.to(labels.device))  # (B, n, n, dim)
    query = torch.tensor([story.query for story in stories], device=labels.device)
    chosen = states[torch.arange(len(stories), device=labels.device), query[:, 0], query[:, 1]]  # (B, dim)
    numbers = read_edges(relation_model, encoder, chosen).argmax(-1)
    return [relation_model.answers.name(number) for number in numbers.tolist()]
