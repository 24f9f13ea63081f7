"""Faithfulness of explanations: do they agree with gold proofs, and does the answer depend on what they name?

Two controls also prove the query from told edges: a balanced proof, which halves the chain of told edges recursively
and so knows positions only, and a random proof, found by the same search with random strengths. Agreement counts
composition steps (i, l, j); the expected value of uniform pivots is a third control. A gold proof is one of several
right ones: the search may join the same relations in another order.

Readings are the head's answers for the composed edges: do a step and its premises read as a rule?

Faithfulness removes the named triangles in all layers (`trace.run`) and counts how often the answer changes, compared
with removing those of the controls, those of the gold proof, or as many others.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import torch
from torch import Tensor

from ..data.relations.augment import is_walk
from ..data.relations.rows import Story, told_path
from ..errors import UserError
from ..tasks.base import TaskModel, answering
from .claims import Explanation, Triangle
from .proof import Derivation, TracedStories, check_model, equal_sizes, first_states, read_edges
from .trace import run

Rule = tuple[str, str, str]  # two relations and the one they make


class _Sums:
    """Numbers that are added field by field."""

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class ProofScores(_Sums):
    """Sums over proofs of one kind: of explanations, or of a control."""

    steps: int = 0  # composition steps
    agreeing: int = 0  # steps that the gold proof has too
    whole: int = 0  # proofs with exactly the gold steps
    known_rules: int = 0  # steps that read as a rule of a gold proof
    readings: int = 0  # the head's answers for composed edges below the query
    reading_layers: int = 0  # the layers of these answers, summed
    changed: int = 0  # answers that change without the triangles of the proof


@dataclass(frozen=True)
class Scores(_Sums):
    """Sums over the rows of one length."""

    rows: int = 0
    right: int = 0  # answers
    derivable: int = 0  # rows whose query follows from told edges; the others have no proof
    gold_steps: int = 0
    found: ProofScores = field(default_factory=ProofScores)  # the proofs of explanations
    balanced: ProofScores = field(default_factory=ProofScores)
    random: ProofScores = field(default_factory=ProofScores)
    uniform_agreeing: float = 0.0  # expected number, with pivots drawn uniformly for the edges that were composed
    changed_gold: int = 0  # answers that change without the triangles of the gold proof
    changed_other: int = 0  # without as many other triangles

    def fractions(self) -> dict[str, float]:
        """The sums as fractions; 0 if there was nothing to count."""
        fractions = {"accuracy": _share(self.right, self.rows)}
        for prefix, proofs in (("", self.found), ("balanced_", self.balanced), ("random_", self.random)):
            fractions |= {
                f"{prefix}precision": _share(proofs.agreeing, proofs.steps),
                f"{prefix}recall": _share(proofs.agreeing, self.gold_steps),
                f"{prefix}whole": _share(proofs.whole, self.rows),
                f"{prefix}known_rules": _share(proofs.known_rules, proofs.steps),
                f"{prefix}changed": _share(proofs.changed, self.rows),
            }
        return fractions | {
            "uniform_precision": _share(self.uniform_agreeing, self.found.steps),
            "uniform_recall": _share(self.uniform_agreeing, self.gold_steps),
            "gold_changed": _share(self.changed_gold, self.rows),
            "other_changed": _share(self.changed_other, self.rows),
        }

    def to_dict(self) -> dict[str, Any]:
        """Sums, fractions, and the mean layer of readings."""
        kinds = {"found": self.found, "balanced": self.balanced, "random": self.random}
        return {
            "sums": asdict(self),
            "fractions": {name: round(value, 6) for name, value in self.fractions().items()},
            "mean_reading_layer": {
                name: round(_share(proofs.reading_layers, proofs.readings), 6) for name, proofs in kinds.items()
            },
        }


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def score(
    model: TaskModel, stories: Sequence[Story], seed: int = 0, progress: Callable[[int], None] | None = None
) -> tuple[dict[int, Scores], int]:
    """Scores by k, and the number of rows left out: without a gold proof, or with an unknown relation.

    `seed` sets the random controls.
    """
    schema = check_model(model)[0].schema
    usable = [story for story in stories if story.proof and schema.edges(story) is not None]
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
    traced = TracedStories(*check_model(model), stories)
    gold = [gold_triangles(story) for story in stories]
    proofs = {
        "found": traced.best_proofs(),
        "balanced": [
            balanced_proof(story, leaves, traced.layers) for story, leaves in zip(stories, traced.leaves, strict=True)
        ],
        "random": traced.best_proofs(random_strengths(traced, chance)),
    }
    explained = {
        kind: [traced.explanation(row, proof) for row, proof in enumerate(those)] for kind, those in proofs.items()
    }
    named = {kind: [explanation.triangles for explanation in those] for kind, those in explained.items()}
    named["gold"] = gold
    named["other"] = [
        other_triangles(steps, story.size, chance) for steps, story in zip(named["found"], stories, strict=True)
    ]
    answers = [explanation.answer for explanation in explained["found"]]
    changed = {
        kind: [after != before for after, before in zip(answers_without(model, stories, gone), answers, strict=True)]
        for kind, gone in named.items()
    }
    return [
        Scores(
            rows=1,
            right=answers[row] == story.target,
            derivable=proofs["found"][row] is not None,
            gold_steps=len(gold[row]),
            uniform_agreeing=uniform_agreement(named["found"][row], gold[row], story.size),
            changed_gold=changed["gold"][row],
            changed_other=changed["other"][row],
            **{
                kind: _score_proof(those[row], gold[row], rules, changed[kind][row])
                for kind, those in explained.items()
            },
        )
        for row, story in enumerate(stories)
    ]


def _score_proof(explanation: Explanation, gold: frozenset[Triangle], rules: set[Rule], changed: bool) -> ProofScores:
    below = [step.read_after for step in explanation.proof.steps()][1:] if explanation.proof else []
    return ProofScores(
        steps=len(explanation.triangles),
        agreeing=len(explanation.triangles & gold),
        whole=explanation.triangles == gold,
        known_rules=_known_rules(explanation, rules),
        readings=len(below),
        reading_layers=sum(below),
        changed=changed,
    )


def _known_rules(explanation: Explanation, rules: set[Rule]) -> int:
    """Count the steps that read as a rule; a step used twice counts once, if any of its readings does.

    Rules have no name for an edge told the other way round, so a step from such an edge never counts.
    """
    known = set()
    for step in explanation.proof.steps() if explanation.proof else ():
        first, second = step.premises
        if (first.relation, second.relation, step.relation) in rules and not (first.backwards or second.backwards):
            known.add((step.start, step.pivot, step.end))
    return len(known)


def random_strengths(traced: TracedStories, chance: random.Random) -> Tensor:
    """Random strengths, with which the search finds a random proof."""
    generator = torch.Generator().manual_seed(chance.getrandbits(60))
    return torch.rand(traced.trace.strengths.shape, generator=generator)


def balanced_proof(story: Story, leaves: Tensor, layers: int) -> Derivation | None:
    """Halve the chain of told edges recursively, and compose each part as early as possible.

    The chain is the story itself if its edges form a walk, else a shortest path along the leaves, bool (n, n).
    None if there is no chain, or one too long for the layers.
    """
    if is_walk(story):
        chain: list[int] | None = [story.query[0], *(end for _, end in story.edges)]
    else:
        chain = told_path([(start, end) for start, end in leaves.nonzero().tolist()], story.query)
    if chain is None or len(chain) - 1 > 2**layers:
        return None

    def halve(nodes: list[int]) -> Derivation:
        if len(nodes) == 2:
            return Derivation(nodes[0], nodes[1])
        middle = (len(nodes) - 1) // 2
        halves = halve(nodes[: middle + 1]), halve(nodes[middle:])
        return Derivation(nodes[0], nodes[-1], 1 + max(half.layer for half in halves), halves)

    return halve(chain)


def other_triangles(named: Iterable[Triangle], n: int, chance: random.Random) -> frozenset[Triangle]:
    """As many triangles that are not named: other pivots for the same edges, or, if none is left, for any edge."""
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
    """The expected gold steps if each composed edge gets any of its n - 2 pivots (n - 1 for a self-edge)."""
    edges = [(start, end) for start, _, end in gold]
    return sum(edges.count((start, end)) / (n - 2 + (start == end)) for start, _, end in named)


@torch.no_grad()
def answers_without(model: TaskModel, stories: Sequence[Story], removed: Sequence[Iterable[Triangle]]) -> list[str]:
    """The model's answers without these triangles, for stories of one size."""
    relation_model, encoder = check_model(model)
    n = stories[0].size
    mask = torch.zeros(len(stories), n, n, n, dtype=torch.bool)
    for row, triangles in enumerate(removed):
        for triangle in triangles:
            mask[(row, *triangle)] = True
    query = torch.tensor([story.query for story in stories])
    with answering(relation_model):
        edges = first_states(relation_model, stories)
        states = run(encoder, edges, mask.to(edges.device))  # (B, n, n, dim)
        chosen = states[torch.arange(len(stories)), query[:, 0], query[:, 1]]  # (B, dim)
        numbers = read_edges(relation_model, encoder, chosen).argmax(-1)
    return [relation_model.answers.name(number) for number in numbers.tolist()]
