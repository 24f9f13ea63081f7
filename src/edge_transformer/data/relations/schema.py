"""What the rows of a task may say: the labels, features and answers that its training rows have, numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any, Self

from ...errors import UserError
from ..tensors import Vocab
from .rows import Story, Target

KINDS = {str: "one", tuple: "several", float: "number"}  # of target, by its type
MOST_UNITS = 1e6
_WORDS = {"one": "one label", "several": "a list of labels", "number": "a number"}


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of some numbers, which models see and predict in units of the deviation."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]  # 1 where all numbers are the same

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Self:
        columns = list(zip(*rows, strict=True))
        return cls(tuple(fmean(column) for column in columns), tuple(pstdev(column) or 1.0 for column in columns))

    def units(self, numbers: Sequence[float]) -> list[float]:
        """Numbers in units of the deviation; those far off all others count as MOST_UNITS, so that none overflows."""
        columns = zip(numbers, self.mean, self.deviation, strict=True)
        return [max(-MOST_UNITS, min(MOST_UNITS, (x - mean) / deviation)) for x, mean, deviation in columns]

    def to_json(self) -> dict[str, Any]:
        return {"mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Scale | None:
        return None if value is None else cls(tuple(value["mean"]), tuple(value["deviation"]))


@dataclass(frozen=True)
class Schema:
    """The vocabularies and scales of labelled graphs. Labels of edges and nodes are numbered together, from 1."""

    relations: Vocab
    answers: Vocab
    kind: str = "one"  # of target: "one" label, "several", or a "number"
    node_labels: Vocab = field(default_factory=lambda: Vocab(()))
    absent: bool = False  # whether edges may be told to be absent
    node_features: Scale | None = None
    edge_features: Scale | None = None
    number: Scale | None = None  # of the targets, where they are numbers
    usual: str | tuple[str, ...] | None = None  # the most frequent answer of the training rows, where it is no number

    @classmethod
    def of(cls, stories: Sequence[Story]) -> Self:
        """Learn the schema from training rows; refuses rows that do not go together."""
        kind = _kind(stories)
        targets = [target for story in stories for _, target in story.questions]
        labels = [target if isinstance(target, tuple) else (target,) for target in targets]
        if targets and not any(labels):
            raise UserError("target: found no label in any row of train; expected at least one")
        counts = Counter(tuple(sorted(t)) if isinstance(t, tuple) else t for t in targets if not isinstance(t, float))
        return cls(
            relations=Vocab.of(_relations(stories)),
            answers=Vocab.of(str(label) for of_one in labels for label in of_one) if kind != "number" else Vocab(()),
            kind=kind,
            node_labels=Vocab.of(label for story in stories for _, label in story.node_labels),
            absent=any(story.absent for story in stories),
            node_features=_scale(stories, "node_features"),
            edge_features=_scale(stories, "edge_features"),
            number=Scale.of([[float(target)] for target in targets]) if kind == "number" else None,  # type: ignore[arg-type]
            usual=min(counts, key=lambda answer: (-counts[answer], answer)) if counts else None,
        )

    # --- numbers ------------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> int:
        """How many labels pairs of nodes may have; a node's stand on its self-edge."""
        return len(self.relations) * (1 + self.absent) + len(self.node_labels)

    @property
    def outputs(self) -> int:
        """How many numbers a head answers with."""
        return 1 if self.kind == "number" else len(self.answers)

    def edges(self, story: Story) -> list[tuple[int, int, int]] | None:
        """All that is told of pairs as (from, to, label); None if a label or its features are unknown."""
        relations, nodes = len(self.relations), len(self.node_labels)
        told = []
        for (start, end), relation in zip(story.edges, story.relations, strict=True):
            told.append((start, end, self.relations.number(relation), 1))
        for node, label in story.node_labels:
            told.append((node, node, self.node_labels.number(label), 1 + relations))
        for start, end, relation in story.absent:
            told.append((start, end, self.relations.number(relation) if self.absent else None, 1 + relations + nodes))
        if any(number is None for *_, number, _ in told) or not self._has_features(story):
            return None
        return list(dict.fromkeys((start, end, int(number or 0) + first) for start, end, number, first in told))

    def _has_features(self, story: Story) -> bool:
        for scale, features in (
            (self.node_features, story.node_features),
            (self.edge_features, story.edge_features),
        ):
            lengths = {len(numbers) for numbers in features if numbers is not None}
            if lengths and (scale is None or lengths != {len(scale.mean)}):
                return False
        return True

    def unknown(self, story: Story) -> str | None:
        """What a question says that no training row said, in words."""
        for found, known, what in (
            (story.relations, self.relations, "relations"),
            ([label for _, label in story.node_labels], self.node_labels, "labels of nodes"),
            ([relation for _, _, relation in story.absent], self.relations if self.absent else (), "absent edges"),
        ):
            odd = sorted(set(found) - set(known))
            if odd:
                return f"the {what} {', '.join(odd)}; the model knows {', '.join(known) or 'none'}"
        if not self._has_features(story):
            lengths = [0 if scale is None else len(scale.mean) for scale in (self.node_features, self.edge_features)]
            return f"other features; the model knows {lengths[0]} a node and {lengths[1]} an edge"
        return None

    def answer(self, target: Target) -> int | tuple[int, ...] | float | None:
        """The number of an answer, or numbers, or units; None if no training row has it."""
        if KINDS[type(target)] != self.kind:
            return None
        if isinstance(target, float):
            return self.number.units([target])[0] if self.number else None
        if isinstance(target, str):
            return self.answers.number(target)
        numbers = [self.answers.number(label) for label in target]
        return None if None in numbers else tuple(sorted(int(number or 0) for number in numbers))

    def require_kind(self, stories: Iterable[Story], split: str) -> None:
        """Refuse rows to score whose answers are of another kind than those of training: none could be right."""
        for target in (target for story in stories for _, target in story.questions):
            if KINDS[type(target)] != self.kind:
                found, expected = _WORDS[KINDS[type(target)]], _WORDS[self.kind]
                raise UserError(f"{split}: found {found} as target; expected {expected}, as in the rows of training")

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads; what plain labelled graphs do not have is left out."""
        values: dict[str, Any] = {"relations": list(self.relations), "answers": list(self.answers)}
        values |= {"kind": self.kind} if self.kind != "one" else {}
        values |= {"node_labels": list(self.node_labels)} if len(self.node_labels) else {}
        values |= {"absent": True} if self.absent else {}
        values |= {} if self.usual is None else {"usual": self.usual if isinstance(self.usual, str) else [*self.usual]}
        for name in ("node_features", "edge_features", "number"):
            scale = getattr(self, name)
            values |= {} if scale is None else {name: scale.to_json()}
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        kind = value.get("kind", "one")
        if kind not in KINDS.values():
            raise UserError(f"kind: found {kind!r}; expected one of {', '.join(KINDS.values())}")
        return cls(
            Vocab(value["relations"]),
            Vocab(value["answers"]),
            kind,
            Vocab(value.get("node_labels", ())),
            bool(value.get("absent", False)),
            Scale.from_json(value.get("node_features")),
            Scale.from_json(value.get("edge_features")),
            Scale.from_json(value.get("number")),
            tuple(value["usual"]) if isinstance(value.get("usual"), list) else value.get("usual"),
        )


def _relations(stories: Iterable[Story]) -> Iterable[str]:
    for story in stories:
        yield from story.relations
        yield from (relation for _, _, relation in story.absent)


def _kind(stories: Sequence[Story]) -> str:
    """The one kind of target of all rows."""
    first: dict[str, str] = {}
    for number, story in enumerate(stories):
        for _, target in story.questions:
            first.setdefault(KINDS[type(target)], f"row {number + 1}")
    if len(first) > 1:
        found = ", ".join(f"{_WORDS[kind]} in {row} of train" for kind, row in first.items())
        raise UserError(f"target: found {found}; expected the same kind in all rows")
    return next(iter(first), "one")


def _scale(stories: Sequence[Story], name: str) -> Scale | None:
    rows = [(number, numbers) for number, story in enumerate(stories) for numbers in getattr(story, name) if numbers]
    lengths = Counter(len(numbers) for _, numbers in rows)
    if len(lengths) > 1:
        usual = lengths.most_common(1)[0][0]
        number, odd = next((number, numbers) for number, numbers in rows if len(numbers) != usual)
        where = "nodes" if name == "node_features" else "edges"
        raise UserError(
            f"row {number + 1} of train: found {len(odd)} features in {where!r}; expected {usual}, as in most rows"
        )
    return Scale.of([numbers for _, numbers in rows]) if rows else None
