"""Where the parts of a CFQ query stand in its question, learned from pairs of questions and queries.

Each statement of a query is said by a word ("directed", "actor", "male"), and each variable stands at the first of a
group of nouns ("M0 's director and writer"), or at the wh-word, if it is asked for. Which word says what, and how far
from its subject and object, is learned from training pairs by expectation maximisation: first how often words go with
statements in a row (IBM model 1), then how often in the best places, where few words are idle and distances usual.
A list of words tells nouns from verbs; no grammar and no tree is used.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import product
from typing import NamedTuple

from ..trees.cfq_words import (
    ADJECTIVE,
    AND,
    BASE,
    BY,
    COMMA,
    ENTITY,
    KIND,
    KIND_OR_ROLE,
    PARTICIPLE,
    PAST,
    PAST_OR_PARTICIPLE,
    POSSESSIVE,
    ROLE,
    STAR,
    WHAT,
    WHICH,
    WHO,
    WHOSE,
    A,
    Term,
    terms_of,
)
from .cfq_queries import DISTINCT, Query, Statement, is_entity

SAMPLE = 12_000  # training rows to learn from; more change nothing
ROUNDS_OF_WORDS, ROUNDS_OF_PLACES = 6, 2
FARTHEST = 4  # places away that are told apart
IDLE = 4.0  # cost of a word that says nothing
SELDOM = 0.0005  # a word may say what it does this often, compared with the word that does so most
UNHEARD = 8.0  # cost of a word that says what it never said in training
MOST_CHOICES = 5_000  # placements of variables looked at in a row
MOST_WORDS = 4  # that may say a statement, looked at when several statements are spread
MOST_SPREADS = 300  # ways looked at to spread statements of one label over words

_NOUNS = frozenset({KIND, ROLE, KIND_OR_ROLE})
_SAYING = frozenset({ADJECTIVE, BASE, PAST, PARTICIPLE, PAST_OR_PARTICIPLE, STAR, WHO}) | _NOUNS
_BEFORE_NOUNS = frozenset({POSSESSIVE, A, ADJECTIVE, WHOSE, WHAT, WHICH}) | _NOUNS


class Question(NamedTuple):
    """The words of a question that stand for something or say something, by their places."""

    mentions: tuple[int, ...]  # the wh-word, entities, and the first nouns of groups
    groups: Mapping[int, tuple[int, ...]]  # the nouns of each group, by the first
    entities: Mapping[str, tuple[int, ...]]
    saying: Mapping[int, str]  # the terms that may say something
    asks: bool  # whether it begins with a wh-word


_Option = tuple[float, int, tuple[tuple[int, int | None], ...]]  # cost, word, subjects and objects of the statements


class _Group(NamedTuple):
    """Statements that one word says."""

    statements: list[int]
    options: list[_Option]


class Placement(NamedTuple):
    """Where a query stands in its question."""

    nodes: Mapping[str, tuple[int, ...]]  # the words that entities and variables stand at
    said: tuple[tuple[int, int, int | None], ...]  # of each statement: its word, and those of subject and object
    cost: float


def read_question(words: Sequence[str]) -> Question | int:
    """Find what stands for something or says something; or the place of the first word that is not CFQ's."""
    terms = terms_of(words)
    if isinstance(terms, int):
        return terms
    heads, nouns = places_of_nouns(terms)
    groups: dict[int, tuple[int, ...]] = {}
    entities: dict[str, tuple[int, ...]] = {}
    mentions: list[int] = []
    asks = bool(terms) and terms[0].sort in (WHO, WHAT, WHICH)
    joined = -1  # the first noun of the group that the last terms belong to
    for number, (term, place) in enumerate(zip(terms, heads, strict=True)):
        if nouns[number]:
            if joined < 0 or terms[number - 1].sort not in (AND, COMMA):
                joined = place
                mentions.append(place)
            groups[joined] = (*groups.get(joined, ()), place)
            continue
        if term.sort not in (AND, COMMA):
            joined = -1
        if term.sort == ENTITY:
            entities[term.words[0]] = (*entities.get(term.words[0], ()), place)
            mentions.append(place)
        elif number == 0 and asks:
            mentions.append(place)
    # "influenced" and "influenced by" say different things.
    after = [term.sort for term in terms[1:]] + [""]
    saying = {
        place: " ".join((*term.words, BY) if follows == BY else term.words)
        for term, place, follows in zip(terms, heads, after, strict=True)
        if term.sort in _SAYING
    }
    return Question(tuple(mentions), groups, entities, saying, asks)


def places_of_nouns(terms: Sequence[Term]) -> tuple[list[int], list[bool]]:
    """The place of each term, that of its head word, and whether it is a noun."""
    starts = [0]
    for term in terms:
        starts.append(starts[-1] + len(term.words))
    places = [start + term.head for start, term in zip(starts, terms, strict=False)]
    return places, [_is_noun(terms, number) for number in range(len(terms))]


def _is_noun(terms: Sequence[Term], number: int) -> bool:
    sort = terms[number].sort
    if sort != STAR:
        return sort in _NOUNS
    after = terms[number + 1].sort if number + 1 < len(terms) else ""
    before = number - 1
    while before >= 0 and terms[before].sort in (AND, COMMA):
        before -= 1
    return before >= 0 and terms[before].sort in _BEFORE_NOUNS and after not in (ENTITY, A)


class Anchors:
    """What words say and where their subjects and objects stand."""

    def __init__(self) -> None:
        self.says: dict[str, dict[str, float]] = {}  # label -> the terms that may say it -> cost
        self.places: dict[tuple[str, str, bool], Counter[int]] = {}  # term, label, is object -> places away -> rows

    @classmethod
    def learn(cls, rows: Iterable[tuple[Question, Query]], progress: Callable[[int], None] | None = None) -> Anchors:
        """Learn from training rows."""
        anchors = cls()
        chosen = _sample(list(rows), SAMPLE)
        anchors._learn_words(chosen)
        for _ in range(ROUNDS_OF_PLACES):
            anchors._learn_places(chosen, progress)
        return anchors

    def _learn_words(self, rows: Sequence[tuple[Question, Query]]) -> None:
        """IBM model 1: which terms go with which labels."""
        pairs = Counter(
            (frozenset(question.saying.values()), frozenset(statement.label for statement in query.statements))
            for question, query in rows
        )
        chance: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))  # term -> label
        for _ in range(ROUNDS_OF_WORDS):
            shared: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
            for (terms, labels), times in pairs.items():
                for label in labels:
                    shares = {term: chance[term][label] for term in terms}
                    total = sum(shares.values()) or 1.0
                    for term, share in shares.items():
                        shared[term][label] += times * share / total
            chance = defaultdict(lambda: defaultdict(float))
            for term, found in shared.items():
                whole = sum(found.values())
                chance[term] = defaultdict(float, {label: count / whole for label, count in found.items()})
        self._set_words(chance)

    def _set_words(self, chance: Mapping[str, Mapping[str, float]]) -> None:
        by_label: dict[str, dict[str, float]] = defaultdict(dict)
        for term, found in chance.items():
            for label, share in found.items():
                by_label[label][term] = share
        self.says = {
            label: {term: -math.log(share) for term, share in found.items() if share > SELDOM * max(found.values())}
            for label, found in by_label.items()
        }

    def _learn_places(self, rows: Sequence[tuple[Question, Query]], progress: Callable[[int], None] | None) -> None:
        """Place all rows, and count what their words say and where."""
        said: dict[str, Counter[str]] = defaultdict(Counter)
        places: dict[tuple[str, str, bool], Counter[int]] = defaultdict(Counter)
        for question, query in rows:
            placement = self.place(question, query)
            if placement is not None:
                for statement, (word, subject, thing) in zip(query.statements, placement.said, strict=True):
                    term = question.saying[word]
                    said[term][statement.label] += 1
                    for end, is_object in ((subject, False), (thing, True)):
                        if end is not None:
                            places[term, statement.label, is_object][_away(question, word, end)] += 1
            if progress:
                progress(1)
        self._set_words(
            {term: {label: count / found.total() for label, count in found.items()} for term, found in said.items()}
        )
        self.places = dict(places)

    def place(self, question: Question, query: Query) -> Placement | None:
        """The cheapest places of a query's parts; None where there is none."""
        fixed: dict[str, tuple[int, ...]] = {}
        free: list[str] = []
        for node in dict.fromkeys(node for statement in query.statements for node in statement.nodes):
            if is_entity(node):
                if node not in question.entities:
                    return None
                fixed[node] = question.entities[node]
            elif node == "?x0" and query.asks == DISTINCT:
                fixed[node] = (0,)
            else:
                free.append(node)
        if query.asks == DISTINCT and not question.asks:
            return None
        costs: dict[tuple[int, str, int, bool], float] = {}

        def distance(word: int, label: str, end: int, is_object: bool) -> float:
            key = (word, label, end, is_object)
            if key not in costs:
                costs[key] = self._distance(question, *key)
            return costs[key]

        choices = [self._groups_for(node, question, query) for node in free]
        best: Placement | None = None
        looked = 0
        for chosen in product(*choices):
            if len(set(chosen)) < len(chosen):
                continue
            looked += 1
            if looked > MOST_CHOICES:
                break
            nodes = {**fixed, **{node: (place,) for node, place in zip(free, chosen, strict=True)}}
            found = self._say(question, query.statements, nodes, distance)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _groups_for(self, node: str, question: Question, query: Query) -> list[int]:
        """The groups of nouns at which a variable may stand: where a noun may say what is said of it."""
        subject_of = [statement.label for statement in query.statements if statement.subject == node]
        others = [statement.label for statement in query.statements if statement.object == node]
        for labels in (subject_of, [*subject_of, *others]):
            terms = {term for label in labels for term in self.says.get(label, ())}
            groups = [
                first
                for first, nouns in question.groups.items()
                if any(question.saying[noun] in terms for noun in nouns)
            ]
            if groups and labels is not subject_of:
                return groups
        return list(question.groups)

    def _say(
        self,
        question: Question,
        statements: Sequence[Statement],
        nodes: Mapping[str, tuple[int, ...]],
        distance: Callable[[int, str, int, bool], float],
    ) -> Placement | None:
        """Choose the word of each statement when it is known where variables stand.

        Statements of one label and one object share a word, as in "M1 and M2 directed M3".
        """
        groups: dict[tuple[str, str], list[int]] = {}  # label, and object or subject -> statements
        for number, (subject, label, thing) in enumerate(statements):
            groups.setdefault((label, subject if thing is None else thing), []).append(number)
        by_label: dict[str, list[_Group]] = {}
        for (label, _), numbers in groups.items():
            found = self._options(question, [statements[number] for number in numbers], nodes, distance)
            if not found:
                return None
            by_label.setdefault(label, []).append(_Group(numbers, found))
        said: dict[int, tuple[int, int, int | None]] = {}
        cost, used = 0.0, set[int]()
        for several in sorted(by_label.values(), key=_doubt):  # the surest first
            more, chosen = _spread(several, used)
            cost += more
            used |= {option[1] for option in chosen}
            for group, (_, word, ends) in zip(several, chosen, strict=True):
                for number, (start, end) in zip(group.statements, ends, strict=True):
                    said[number] = (word, start, end)
        words = {word for word, _, _ in said.values()}
        idle = len(question.saying.keys() - words - {0})  # a wh-word may be idle
        return Placement(nodes, tuple(said[number] for number in range(len(statements))), cost + IDLE * idle)

    def _options(
        self,
        question: Question,
        statements: Sequence[Statement],
        nodes: Mapping[str, tuple[int, ...]],
        distance: Callable[[int, str, int, bool], float],
    ) -> list[_Option]:
        """The words that may say all of these statements, which have one label: cost, word, subjects and objects."""
        label = statements[0].label
        terms = self.says.get(label, {})
        known = [word for word, term in question.saying.items() if term in terms]
        found: list[_Option] = []
        for word in known or question.saying:  # a word may say what it never said in training
            if word == 0 and statements[0].object is not None:
                continue  # a wh-word says "a person" at most
            cost = terms.get(question.saying[word], UNHEARD)
            ends: list[tuple[int, int | None]] = []
            for subject, _, thing in statements:
                away, start = min((distance(word, label, place, False), place) for place in nodes[subject])
                end, further = None, 0.0
                if thing is not None:
                    further, end = min((distance(word, label, place, True), place) for place in nodes[thing])
                cost += away + further
                ends.append((start, end))
            found.append((cost, word, tuple(ends)))
        return found

    def _distance(self, question: Question, word: int, label: str, end: int, is_object: bool) -> float:
        """The cost of a subject or object at this place."""
        away = _away(question, word, end)
        usual = 0.4 * 0.5 ** abs(away)
        counts = self.places.get((question.saying[word], label, is_object))
        if counts is None:
            return -math.log(usual)
        return -math.log((counts[away] + 4 * usual) / (counts.total() + 4))


def _doubt(groups: Sequence[_Group]) -> float:
    """Minus how much more than the best word the next best costs, for the surest of these groups."""
    return min(
        -(costs[1] - costs[0]) if len(costs) > 1 else -math.inf
        for costs in (sorted(option[0] for option in group.options) for group in groups)
    )


def _spread(groups: Sequence[_Group], used: Set[int]) -> tuple[float, Sequence[_Option]]:
    """The cheapest words for groups of one label; words that say other things already, or stay idle, cost more."""
    options = [
        sorted((cost + IDLE * (word in used), word, ends) for cost, word, ends in group.options)[:MOST_WORDS]
        for group in groups
    ]
    if len(options) == 1 or math.prod(map(len, options)) > MOST_SPREADS:
        cheapest = [several[0] for several in options]
        return sum(option[0] for option in cheapest), cheapest
    words = {option[1] for several in options for option in several} - used

    def cost(chosen: Sequence[_Option]) -> float:
        return sum(option[0] for option in chosen) + IDLE * len(words - {option[1] for option in chosen})

    best = min(product(*options), key=cost)
    return cost(best), best


def _away(question: Question, word: int, end: int) -> int:
    """How many mentions the end is to the right, or, below 0, to the left of a word; 0 in its own group."""
    if word == end or word in question.groups.get(end, ()):
        return 0
    if end < word:
        between = sum(
            end <= mention < word and word not in question.groups.get(mention, ()) for mention in question.mentions
        )
        return max(-FARTHEST, -between)
    return min(FARTHEST, sum(word < mention <= end for mention in question.mentions))


def _sample(rows: list[tuple[Question, Query]], most: int) -> list[tuple[Question, Query]]:
    """Rows at equal distances, at most so many."""
    if len(rows) <= most:
        return rows
    return [rows[number * len(rows) // most] for number in range(most)]
