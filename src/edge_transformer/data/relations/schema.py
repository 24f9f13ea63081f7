"""What the rows of a task may say: the labels, features and answers that its training rows have, numbered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    def of(cls, stories: Iterable[Story]) -> Schema:
        """Learn the schema from training rows; refuses rows that do not go together."""
        builder = SchemaBuilder()
        for story in stories:
            builder.add(story)
        return builder.schema()

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

    def unknown(self, story: Story) -> tuple[str, str] | None:
        """What a question says that no training row said, and what was expected, in words."""
        for found, known, what in (
            (story.relations, self.relations, "relations"),
            ([label for _, label in story.node_labels], self.node_labels, "labels of nodes"),
            ([relation for _, _, relation in story.absent], self.relations if self.absent else (), "absent edges"),
        ):
            odd = sorted(set(found) - set(known))
            if odd:
                return f"the {what} {', '.join(odd)}", f"those that the model knows: {', '.join(known) or 'none'}"
        if not self._has_features(story):
            return self._other_features()
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
        """Refuse rows to score whose answers or features are of another kind than those of training."""
        for row, story in enumerate(stories, start=1):
            for _, target in story.questions:
                if KINDS[type(target)] != self.kind:
                    found, expected = _WORDS[KINDS[type(target)]], _WORDS[self.kind]
                    message = f"found {found} as target; expected {expected}, as in the rows of training"
                    raise UserError(f"row {row} of {split}: {message}")
            if not self._has_features(story):
                found, expected = self._other_features()
                raise UserError(f"row {row} of {split}: found {found}; expected {expected}")

    def _other_features(self) -> tuple[str, str]:
        lengths = [0 if scale is None else len(scale.mean) for scale in (self.node_features, self.edge_features)]
        return "other features", f"{lengths[0]} numbers a node and {lengths[1]} an edge, as in training"

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


class SchemaBuilder:
    """Learns a schema row by row."""

    def __init__(self) -> None:
        self._rows = 0
        self._relations: set[str] = set()
        self._node_labels: set[str] = set()
        self._absent = False
        self._first: dict[str, int] = {}  # by kind of target: the first row that has it
        self._answers: Counter[str | tuple[str, ...]] = Counter()
        self._numbers = {name: Moments() for name in ("nodes", "edges", "targets")}

    def add(self, story: Story) -> None:
        """Learn from a training row."""
        self._rows += 1
        self._relations.update(story.relations)
        self._relations.update(relation for _, _, relation in story.absent)
        self._node_labels.update(label for _, label in story.node_labels)
        self._absent |= bool(story.absent)
        for name, features in (("nodes", story.node_features), ("edges", story.edge_features)):
            for numbers in features:
                if numbers is not None and not self._numbers[name].add(numbers):
                    usual = len(self._numbers[name].means)
                    raise UserError(
                        f"row {self._rows} of train: found {len(numbers)} features in {name!r}; expected {usual}, as "
                        "in the rows before"
                    )
        for _, target in story.questions:
            self._first.setdefault(KINDS[type(target)], self._rows)
            if isinstance(target, float):
                self._numbers["targets"].add((target,))
            else:
                self._answers[target if isinstance(target, str) else tuple(sorted(target))] += 1
        if len(self._first) > 1:
            found = ", ".join(f"{_WORDS[kind]} in row {row} of train" for kind, row in self._first.items())
            raise UserError(f"target: found {found}; expected the same kind in all rows")

    def schema(self) -> Schema:
        """What was learned."""
        labels = {label for answer in self._answers for label in ([answer] if isinstance(answer, str) else answer)}
        counts = self._answers
        if counts and not labels:
            raise UserError("target: found no label in any row of train; expected at least one")
        return Schema(
            relations=Vocab.of(self._relations),
            answers=Vocab.of(labels),
            kind=next(iter(self._first), "one"),
            node_labels=Vocab.of(self._node_labels),
            absent=self._absent,
            node_features=self._numbers["nodes"].scale(),
            edge_features=self._numbers["edges"].scale(),
            number=self._numbers["targets"].scale(),
            usual=min(counts, key=lambda answer: (-counts[answer], answer)) if counts else None,
        )


class Moments:
    """Running means and deviations of rows of numbers, by Welford's method."""

    def __init__(self) -> None:
        self.count = 0
        self.means: list[float] = []
        self._squares: list[float] = []

    def add(self, numbers: Sequence[float]) -> bool:
        """Count a row; False if it has another length than those before."""
        if not self.count:
            self.means, self._squares = [0.0] * len(numbers), [0.0] * len(numbers)
        elif len(numbers) != len(self.means):
            return False
        self.count += 1
        for place, number in enumerate(numbers):
            apart = number - self.means[place]
            self.means[place] += apart / self.count
            self._squares[place] += apart * (number - self.means[place])
        return True

    def scale(self) -> Scale | None:
        """The scale of the numbers; None if there are none."""
        if not self.count:
            return None
        deviations = (math.sqrt(square / self.count) for square in self._squares)
        return Scale(tuple(self.means), tuple(deviation or 1.0 for deviation in deviations))
