"""An explanation, as text and as JSON: an answer, and the claims that it was composed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..data.relations.rows import Story, guess_note, told_path
from ..draw.arcs import visible
from ..draw.style import figure_svg

Triangle = tuple[int, int, int]  # (i, l, j): edge (i, j) from (i, l) and (l, j)
SECOND_ANSWER = 0.1  # least probability of a second answer that is named


class Reading(NamedTuple):
    """The head's answer for an edge."""

    answer: str
    probability: float
    second: tuple[str, float] | None = None  # the second answer, if its probability is above SECOND_ANSWER

    def visible(self, encoding: str = "utf-8") -> Reading:
        """The same with printable answers."""
        second = (visible(self.second[0], encoding), self.second[1]) if self.second else None
        return Reading(visible(self.answer, encoding), self.probability, second)

    def likelihood(self) -> str:
        """The probability, and the second answer with its own, if any."""
        second = f"; or {self.second[0]}, {self.second[1]:.2f}" if self.second else ""
        return f"({self.probability:.2f}{second})"

    def to_dict(self) -> dict[str, Any]:
        """The probability and the second answer, as plain JSON values."""
        second = {"answer": self.second[0], "probability": _rounded(self.second[1])} if self.second else None
        return {"probability": _rounded(self.probability), **({"or": second} if second else {})}


@dataclass(frozen=True)
class Claim:
    """`end` is `start`'s `relation`: told, or composed in a layer from two other claims through a pivot."""

    start: int
    end: int
    relation: str  # as told, or the head's answer for the edge
    backwards: bool = False  # told the other way round: `start` is `end`'s `relation`
    reading: Reading | None = None  # the head's answer; None if told
    read_after: int = 0  # the layer after which the head reads it: the one below its use, or the last
    layer: int = 0  # where it was composed, counted from 1; 0 if told
    pivot: int | None = None
    weight: float | None = None  # of the pivot in this layer, mean over heads
    strength: float | None = None  # of the triangle in this layer
    premises: tuple[Claim, ...] = ()

    def steps(self) -> Iterator[Claim]:
        """The composed claims, the conclusion first."""
        if self.premises:
            yield self
        for premise in self.premises:
            yield from premise.steps()

    def visible(self, encoding: str = "utf-8") -> Claim:
        """The same with printable relations."""
        return replace(
            self,
            relation=visible(self.relation, encoding),
            reading=self.reading and self.reading.visible(encoding),
            premises=tuple(premise.visible(encoding) for premise in self.premises),
        )


@dataclass(frozen=True)
class Layer:
    """The effect of one layer on the query edge."""

    pivots: tuple[tuple[int, float, float], ...]  # (pivot, weight, strength), the strongest first
    reading: Reading  # the head's answer after this layer


@dataclass(frozen=True)
class Explanation:
    """An answer and its proof."""

    story: Story
    reading: Reading  # the answer
    proof: Claim | None  # None if the layers cannot derive the query from told edges
    layers: tuple[Layer, ...]

    @property
    def answer(self) -> str:
        """The model's answer."""
        return self.reading.answer

    @property
    def probability(self) -> float:
        """The probability of the answer."""
        return self.reading.probability

    @property
    def triangles(self) -> frozenset[Triangle]:
        """The composition steps of the proof."""
        steps = self.proof.steps() if self.proof else ()
        return frozenset((step.start, step.pivot, step.end) for step in steps if step.pivot is not None)

    @property
    def note(self) -> str | None:
        """One line if the question is unlike those of CLUTRR, or too long for the layers; else None."""
        notes = [guess_note(self.story) if self.story.is_plain else None]
        path = told_path(self.story.edges, self.story.query)
        if path and self.proof is None:
            start, end = (self.story.names[node] for node in self.story.query)
            most = f"{len(self.layers)} layers cannot compose"
            notes.append(f"the shortest chain from {start} to {end} has {len(path) - 1} told edges, which {most}")
        return "; ".join(note for note in notes if note) or None

    def visible(self, encoding: str = "utf-8") -> Explanation:
        """The same with printable texts: no name can move the cursor, or end a line and forge the next."""
        story = replace(
            self.story,
            names=tuple(visible(name, encoding) for name in self.story.names),
            relations=tuple(visible(relation, encoding) for relation in self.story.relations),
        )
        layers = tuple(replace(layer, reading=layer.reading.visible(encoding)) for layer in self.layers)
        return Explanation(story, self.reading.visible(encoding), self.proof and self.proof.visible(encoding), layers)

    def text(self, encoding: str = "utf-8", layers: bool = False) -> str:
        """The proof as an indented tree, for an output of this encoding.

        With `layers`, or without a proof, it also shows the answer and the strongest pivots of every layer.
        """
        return "\n".join(self.visible(encoding)._lines(layers))

    def _lines(self, layers: bool) -> Iterator[str]:
        start, end = (self.story.names[node] for node in self.story.query)
        yield f"{start} -{self.answer}-> {end}  {self.reading.likelihood()}"
        if self.note:
            yield f"  note: {self.note}"
        if self.proof and self.proof.premises:
            yield from self._because(self.proof, 1)
        elif self.proof:
            yield f"  {self._told(self.proof)}"
        if layers or self.proof is None:
            yield from self._layer_by_layer()

    def _because(self, claim: Claim, depth: int) -> Iterator[str]:
        names, pad = self.story.names, "  " * depth
        assert claim.pivot is not None
        how = f"layer {claim.layer}, strength {claim.strength:.2f}, weight {claim.weight:.2f}"
        yield f"{pad}because, through {names[claim.pivot]} ({how}):"
        for premise in claim.premises:
            if premise.reading:
                edge = f"{names[premise.start]} -{premise.relation}-> {names[premise.end]}"
                yield f"{pad}  {edge}  {premise.reading.likelihood()}"
                yield from self._because(premise, depth + 2)
            else:
                yield f"{pad}  {self._told(premise)}"

    def _told(self, claim: Claim) -> str:
        start, end = self.story.names[claim.start], self.story.names[claim.end]
        if claim.backwards:
            return f"{start} <-{claim.relation}- {end}  (told the other way round)"
        return f"{start} -{claim.relation}-> {end}  (told)"

    def _layer_by_layer(self) -> Iterator[str]:
        for number, layer in enumerate(self.layers, start=1):
            found = ", ".join(
                f"{self.story.names[pivot]} (strength {strength:.2f}, weight {weight:.2f})"
                for pivot, weight, strength in layer.pivots[:3]
            )
            yield f"  layer {number}: {layer.reading.answer} {layer.reading.likelihood()}; strongest pivots {found}"

    def svg(self) -> str:
        """The figure of the proof, as the text of an SVG file."""
        from .figure import draw_explanation  # late: it imports matplotlib

        return figure_svg(draw_explanation(self))

    def _repr_svg_(self) -> str:
        """The figure, for notebooks."""
        return self.svg()

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        names = self.story.names

        def plain(claim: Claim) -> dict[str, Any]:
            start, end = names[claim.start], names[claim.end]
            if claim.pivot is None or claim.reading is None:
                told = [end, claim.relation, start] if claim.backwards else [start, claim.relation, end]
                return {"edge": told, "told": True, "used_backwards": claim.backwards}
            return {
                "edge": [start, claim.relation, end],
                "told": False,
                **claim.reading.to_dict(),
                "read_after_layer": claim.read_after,
                "layer": claim.layer,
                "pivot": names[claim.pivot],
                "weight": _rounded(claim.weight),
                "strength": _rounded(claim.strength),
                "because": [plain(premise) for premise in claim.premises],
            }

        return {
            "query": [names[node] for node in self.story.query],
            "answer": self.answer,
            **self.reading.to_dict(),
            **({"note": self.note} if self.note else {}),
            "proof": plain(self.proof) if self.proof else None,
            "layers": [
                {
                    "layer": number,
                    "answer": layer.reading.answer,
                    **layer.reading.to_dict(),
                    "pivots": [
                        {"pivot": names[pivot], "weight": _rounded(weight), "strength": _rounded(strength)}
                        for pivot, weight, strength in layer.pivots
                    ],
                }
                for number, layer in enumerate(self.layers, start=1)
            ],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
