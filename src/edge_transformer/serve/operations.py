"""What a served model can be asked for: how inputs are checked one by one, and answered many at a time.

Inputs and answers have the fields of the command line's JSON. What a check lets through costs a known amount, so that a
batch takes a bounded time.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch

from ..data.relations.fields import graph_from_json
from ..data.relations.rows import Pair, Story
from ..data.trees.conllu import read_words
from ..errors import DataError, UserError
from ..explain.attention import edge_attention
from ..explain.links.proof import check_link_model, explain_link
from ..explain.proof import check_model, check_question, explain_stories
from ..io.streams import shown
from ..tasks.base import TaskModel
from ..tasks.graphs.model import GraphParser, read_sentence
from ..tasks.links.model import LinkModel
from ..tasks.links.questions import read_question
from ..tasks.relations.model import LabelledGraphModel
from ..tasks.seq2seq.model import Translator
from ..tasks.seq2seq.questions import Decoding, beams_for
from ..tasks.trees.model import TreeParser
from .bodies import number, whole
from .limits import Limits

Options = tuple[tuple[str, Any], ...]  # hashable: questions with the same options are answered together
WHOLE_BATCH = 20_000  # what a batch may cost: pairs of nodes of small graphs take some 100 ms
MOST_LISTED = 100  # candidates of an answer, or missing links
MOST_GROWN = 8  # questions of a request that bring facts of their own: each reads the whole graph again
MOST_LINKS_EXPLAINED = 4  # of a request: each takes some thirty passes


class Checked(NamedTuple):
    """An input that can be answered."""

    value: Any
    cost: int
    items: int = 1  # questions in it


class Operation(ABC):
    """One thing to ask a model for, under its name in the address."""

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    most: int | None = None  # inputs of a request, where fewer than the server's limit

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    @abstractmethod
    def check(self, value: Any, where: str) -> Checked:
        """Refuse an input that cannot be answered; `where` is what the error calls it."""

    @abstractmethod
    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        """The answers to checked inputs, in their order."""

    def read_options(self, given: Mapping[str, Any]) -> Options:
        """Check the options of a request."""
        return ()

    def sentence(self, tokens: Sequence[str], where: str) -> int:
        """What a sentence costs; one that is too long is refused."""
        if len(tokens) > self.limits.tokens:
            raise DataError(where, None, f"{len(tokens)} tokens", f"at most {self.limits.tokens}")
        return len(tokens) ** 2


# --- labelled graphs --------------------------------------------------------------------------------------------------


class PredictGraphs(Operation):
    name = "predict"

    def __init__(self, model: LabelledGraphModel, limits: Limits) -> None:
        super().__init__(limits)
        self.model = model

    def check(self, value: Any, where: str) -> Checked:
        story = self.story(value, where)
        return Checked(value, story.size**2, len(story.questions))

    def story(self, value: Any, where: str) -> Story:
        model = self.model
        story = graph_from_json(value, where, known=model.relations, max_nodes=self.limits.nodes, asks=model.asks)
        unknown = model.schema.unknown(story)
        if unknown is not None:
            raise DataError(where, None, *unknown)
        return story

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return self.model.predict(values)


class ExplainGraphs(PredictGraphs):
    name = "explain"

    def check(self, value: Any, where: str) -> Checked:
        story = self.story(value, where)
        check_question(story, where)
        return Checked(story, story.size**3 // 2)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return [explanation.to_dict() for explanation in explain_stories(self.model, values)]


class Attention(ExplainGraphs):
    """The weights of all triangles of the edges under "pairs", by default of the query."""

    name = "attention"
    most = 16

    def check(self, value: Any, where: str) -> Checked:
        pairs = value.get("pairs") if isinstance(value, dict) else None
        question = {name: each for name, each in value.items() if name != "pairs"} if pairs is not None else value
        story, cost, _ = super().check(question, where)
        numbers = {name: node for node, name in enumerate(story.names)}
        if pairs is None:
            return Checked((story, [story.query]), cost)
        expected = '"pairs": a list of 1 to 64 pairs of people or nodes of the graph'
        if not isinstance(pairs, list) or not 0 < len(pairs) <= 64:
            raise DataError(where, None, shown(pairs), expected)
        asked: list[Pair] = []
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not {str(node) for node in pair} <= numbers.keys():
                raise DataError(where, None, shown(pair), expected)
            asked.append((numbers[str(pair[0])], numbers[str(pair[1])]))
        return Checked((story, asked), cost)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return [{"edges": edge_attention(self.model, story, pairs)} for story, pairs in values]


# --- sentences and texts ----------------------------------------------------------------------------------------------


class Parse(Operation):
    name = "parse"

    def __init__(self, model: GraphParser | TreeParser, limits: Limits, name: str = "parse") -> None:
        super().__init__(limits)
        self.model, self.name = model, name  # type: ignore[misc]

    def check(self, value: Any, where: str) -> Checked:
        if isinstance(self.model, TreeParser):
            return Checked(value, self.sentence(read_words(value, where).words, where))
        return Checked(value, self.sentence(read_sentence(value, where), where))

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return self.model.predict(values)


class Translate(Operation):
    name = "translate"
    options = ("beam", "nbest", "length_penalty", "limit", "sample", "temperature", "top_k", "top_p", "seed")

    def __init__(self, model: Translator, limits: Limits, name: str = "translate") -> None:
        super().__init__(limits)
        self.model, self.name = model, name  # type: ignore[misc]

    def read_options(self, given: Mapping[str, Any]) -> Options:
        n_best, sample = whole(given, "nbest", 1, 1, 8), whole(given, "sample", 0, 0, 16)
        usual = min(2 * self.model.longest, self.limits.tokens)
        how = Decoding(
            beams=whole(given, "beam", beams_for(n_best), 1, 8),
            n_best=n_best,
            length_penalty=number(given, "length_penalty", 0.0),
            limit=whole(given, "limit", usual, 1, self.limits.tokens),
            sample=sample,
            temperature=number(given, "temperature", 1.0),
            top_k=whole(given, "top_k", 1, 1, 10_000) if given.get("top_k") is not None else None,
            top_p=number(given, "top_p", 1.0),
            seed=whole(given, "seed", 1, 0, 2**32 - 1),
        )
        return (("how", how),)

    def check(self, value: Any, where: str) -> Checked:
        question = self.model.question_of(value, where)
        words = self.sentence(question.words, where)
        # The line that the model reads; its other fields come back with the answer.
        source = list(question.words) + list(question.left_out) if isinstance(value, list) else value
        line = json.dumps(source if isinstance(source, dict) else {"source": source})
        return Checked(line, 16 * max(words, 64))

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        how = dict(options).get("how") or dict(self.read_options({}))["how"]
        return [
            {"error": f"{found.line.error}"} if found.line.error else found.to_json(several=how.count > 1)
            for found in self.model.translate_lines(values, "inputs", how=how)
        ]


# --- links ------------------------------------------------------------------------------------------------------------


class PredictLinks(Operation):
    name = "predict"
    options: ClassVar[tuple[str, ...]] = ("top",)

    def __init__(self, model: LinkModel, limits: Limits) -> None:
        super().__init__(limits)
        self.model = model

    def read_options(self, given: Mapping[str, Any]) -> Options:
        return (("top", whole(given, "top", 10, 1, MOST_LISTED)),)

    def check(self, value: Any, where: str) -> Checked:
        return Checked(value, self.cost(value, where, complete=False))

    def cost(self, value: Any, where: str, complete: bool) -> int:
        question = read_question(value, where, complete).checked(self.model.known)
        new = {node for fact in question.facts for node in (fact.head, fact.tail)}
        if len(new) > self.limits.nodes:
            raise DataError(where, None, f"facts of {len(new)} nodes", f"at most {self.limits.nodes}")
        return WHOLE_BATCH // MOST_GROWN if question.facts else WHOLE_BATCH // 64

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return self.model.predict(values, top=dict(options)["top"])


class ExplainLinks(PredictLinks):
    name = "explain"
    options = ()
    most = MOST_LINKS_EXPLAINED

    def read_options(self, given: Mapping[str, Any]) -> Options:
        return ()

    def check(self, value: Any, where: str) -> Checked:
        self.cost(value, where, complete=True)
        return Checked((value, where), WHOLE_BATCH)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return [explain_link(self.model, value, where).to_dict() for value, where in values]


class Missing(PredictLinks):
    """The most probable links of a relation that the graph does not have; of all relations without one."""

    name = "missing"
    most = 1

    def check(self, value: Any, where: str) -> Checked:
        expected = 'an object with "relation", or an empty one for all relations'
        if not isinstance(value, dict) or not value.keys() <= {"relation"}:
            raise DataError(where, None, shown(value), expected)
        relation = value.get("relation")
        if relation is not None and (not isinstance(relation, str) or relation not in self.model.relations):
            raise DataError(where, None, shown(relation), f"one of {', '.join(self.model.relations)}")
        return Checked(relation, WHOLE_BATCH)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        top = dict(options)["top"]
        every = (self.model.missing(top, None if relation is None else [relation]) for relation in values)
        return [{"links": links} for links in every]


class Predict(Operation):
    """Inputs of a task from outside the package, which its own `predict` checks."""

    name = "predict"

    def __init__(self, model: TaskModel, limits: Limits) -> None:
        super().__init__(limits)
        self.model = model

    def check(self, value: Any, where: str) -> Checked:
        return Checked(value, WHOLE_BATCH // 64)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        return self.model.predict(values)


MOST_NODES_OF_MISSING = 2000  # all pairs of them are scored


def operations_of(model: TaskModel, limits: Limits) -> dict[str, Operation]:
    """All that a model can be asked for, by name."""
    found: list[Operation]
    if isinstance(model, LabelledGraphModel):
        found = [PredictGraphs(model, limits)]
        if _explains(check_model, model):
            found += [ExplainGraphs(model, limits), Attention(model, limits)]
    elif isinstance(model, GraphParser | TreeParser):
        found = [Parse(model, limits), Parse(model, limits, "predict")]
    elif isinstance(model, Translator):
        found = [Translate(model, limits), Translate(model, limits, "predict")]
    elif isinstance(model, LinkModel):
        found = [PredictLinks(model, limits)]
        if _explains(check_link_model, model):
            found.append(ExplainLinks(model, limits))
        if len(model.entities) <= MOST_NODES_OF_MISSING:
            found.append(Missing(model, limits))
    else:
        found = [Predict(model, limits)]
    return {each.name: each for each in found}


def _explains(check: Any, model: TaskModel) -> bool:
    try:
        check(model)
    except UserError:
        return False
    return True


def warm(model: TaskModel) -> None:
    """Compute what the first question would wait for: the states of a whole graph."""
    if isinstance(model, LinkModel) and model.sees_whole_graph():
        with torch.no_grad():
            model.whole()
