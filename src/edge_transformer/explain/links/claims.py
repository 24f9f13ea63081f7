"""An explanation of a link, as text and as JSON: known facts, and the triangles that join them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...data.links.rows import Fact
from ...draw.arcs import visible
from ...draw.style import figure_svg
from ..claims import Triangle
from .view import Standing

PROBABLY = 0.5  # the least probability of what is called probable
SHOWN_PIVOTS = 3


@dataclass(frozen=True)
class Step:
    """An edge of a reason: facts between two nodes, or what a layer composes from two edges through a pivot."""

    start: int
    end: int
    facts: tuple[Fact, ...] = ()  # in any of both directions; none if composed
    layer: int = 0  # where it was composed, counted from 1; 0 for facts
    weight: float = 0.0  # of the pivot in this layer, mean over heads
    strength: float = 0.0  # of the triangle in this layer
    premises: tuple[Step, ...] = ()

    @property
    def pivot(self) -> int:
        """The node through which a composed edge leads."""
        return self.premises[0].end

    def steps(self) -> Iterator[Step]:
        """The composed edges, the last one first."""
        if self.premises:
            yield self
        for premise in self.premises:
            yield from premise.steps()

    def leaves(self) -> Iterator[Step]:
        """The edges with facts, from start to end."""
        if not self.premises:
            yield self
        for premise in self.premises:
            yield from premise.leaves()


@dataclass(frozen=True)
class LinkReason:
    """Facts that speak for a link together, and how it stands without them."""

    step: Step  # of head and tail, or of tail and head: the link is read from the states of both
    without: Standing

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts of the reason, from its start to its end."""
        return tuple(dict.fromkeys(fact for leaf in self.step.leaves() for fact in leaf.facts))

    def walk(self, head: int) -> list[Step]:
        """Its edges with facts, from the head of the link on; each may start at either of its ends."""
        leaves = [*self.step.leaves()]
        if self.step.start == head:
            return leaves
        return [replace(leaf, start=leaf.end, end=leaf.start) for leaf in reversed(leaves)]


@dataclass(frozen=True)
class LinkExplanation:
    """A link, how probable it is, and the known facts behind it."""

    link: Fact
    ends: tuple[int, int]  # the numbers of head and tail
    asked: str  # what the question left out: "tail", "head" or "relation"; or "link": nothing
    known: bool  # whether the link is a fact; what is said of it then holds without this fact
    standing: Standing
    reasons: tuple[LinkReason, ...]
    without: Standing  # without the facts of all reasons
    layers: tuple[tuple[tuple[int, float, float], ...], ...]  # by layer the strongest pivots, with weight and strength
    names: Mapping[int, str]  # of the nodes that the explanation mentions
    size: tuple[int, int]  # how many nodes were looked at, and how many there are

    @property
    def probability(self) -> float:
        """The probability of the link, among the answers that are not known."""
        return self.standing.probability

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of all reasons."""
        return tuple(dict.fromkeys(fact for reason in self.reasons for fact in reason.facts))

    @property
    def triangles(self) -> frozenset[Triangle]:
        """The composition steps (i, l, j) of all reasons, as node numbers."""
        return frozenset((step.start, step.pivot, step.end) for reason in self.reasons for step in reason.step.steps())

    @property
    def note(self) -> str | None:
        """One line if only a part of the graph was looked at, or no reason was found; else None."""
        seen, every = self.size
        notes = [] if seen == every else [f"the {seen:,} nodes around the link were looked at, of {every:,}"]
        if not self.reasons:
            notes.append("found no facts on a path from head to tail without which it would be less probable")
        return "; ".join(notes) or None

    def visible(self, encoding: str = "utf-8") -> LinkExplanation:
        """The same with printable names."""

        def fact(each: Fact) -> Fact:
            return Fact(*(visible(name, encoding) for name in each))

        def step(each: Step) -> Step:
            return replace(each, facts=tuple(map(fact, each.facts)), premises=tuple(map(step, each.premises)))

        return replace(
            self,
            link=fact(self.link),
            names={node: visible(name, encoding) for node, name in self.names.items()},
            reasons=tuple(replace(reason, step=step(reason.step)) for reason in self.reasons),
        )

    def text(self, encoding: str = "utf-8", layers: bool = False) -> str:
        """The reasons, for an output of this encoding; with `layers` also the strongest pivots of every layer."""
        return "\n".join(self.visible(encoding)._lines(layers))

    def title(self) -> str:
        """The link, and how it stands."""
        stands = self.stands(self.standing)
        if self.known:
            return f"known: {told(self.link)}  (without this fact {stands})"
        return f"{'probably' if self.probability >= PROBABLY else 'possibly'}: {told(self.link)}  ({stands})"

    def stands(self, standing: Standing) -> str:
        """A probability, and the ranks of what was asked for."""
        asked = {1: (self.asked,), 2: ("tail", "head")}[len(standing.ranks)]
        ranks = ", ".join(f"{name} number {rank}" for name, rank in zip(asked, standing.ranks, strict=True))
        return f"{standing.probability:.2f}; {ranks}"

    def _lines(self, layers: bool) -> Iterator[str]:
        yield self.title()
        if self.note:
            yield f"  note: {self.note}"
        for number, reason in enumerate(self.reasons):
            facts = dict.fromkeys(fact for leaf in reason.walk(self.ends[0]) for fact in leaf.facts)
            yield f"  {'and ' if number else ''}because {listed([told(fact) for fact in facts])}"
            through = [
                f"{self.names[step.pivot]} (layer {step.layer}, strength {step.strength:.2f}, weight {step.weight:.2f})"
                for step in reason.step.steps()
            ]
            without = f"without {'these' if len(facts) > 1 else 'it'} {self.stands(reason.without)}"
            yield f"    {f'through {listed(through)}; ' if through else ''}{without}"
        if len(self.reasons) > 1:
            yield f"  without all of these facts {self.stands(self.without)}"
        if layers:
            for number, pivots in enumerate(self.layers, start=1):
                found = ", ".join(
                    f"{self.names[pivot]} (strength {strength:.2f}, weight {weight:.2f})"
                    for pivot, weight, strength in pivots[:SHOWN_PIVOTS]
                )
                yield f"  layer {number}: strongest pivots {found}"

    def svg(self) -> str:
        """The figure of the reasons, as the text of an SVG file."""
        from .figure import draw_link_explanation  # late: it imports matplotlib

        return figure_svg(draw_link_explanation(self))

    def _repr_svg_(self) -> str:
        """The figure, for notebooks."""
        return self.svg()

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        names = self.names

        def plain(step: Step) -> dict[str, Any]:
            if not step.premises:
                return {"facts": [list(fact) for fact in step.facts]}
            return {
                "edge": [names[step.start], names[step.end]],
                "layer": step.layer,
                "pivot": names[step.pivot],
                "weight": round(step.weight, 6),
                "strength": round(step.strength, 6),
                "because": [plain(premise) for premise in step.premises],
            }

        return {
            **self.link._asdict(),
            "asked": self.asked,
            "known": self.known,
            **_plain(self.standing),
            **({"note": self.note} if self.note else {}),
            "reasons": [
                {
                    "facts": [list(fact) for fact in reason.facts],
                    "proof": plain(reason.step),
                    "without": _plain(reason.without),
                }
                for reason in self.reasons
            ],
            "without_all": _plain(self.without),
            "layers": [
                {
                    "layer": number,
                    "pivots": [
                        {"pivot": names[pivot], "weight": round(weight, 6), "strength": round(strength, 6)}
                        for pivot, weight, strength in pivots
                    ],
                }
                for number, pivots in enumerate(self.layers, start=1)
            ],
        }


def told(fact: Fact) -> str:
    """A fact as text."""
    return f"({', '.join(fact)})"


def listed(texts: list[str]) -> str:
    """Texts as a list in a sentence."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 2 else texts)


def _plain(standing: Standing) -> dict[str, Any]:
    return {"probability": round(standing.probability, 6), "ranks": list(standing.ranks)}
