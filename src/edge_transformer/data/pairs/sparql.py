"""CFQ's SPARQL queries as words, and whether two of them are equivalent.

SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor . FILTER ( ?x0 != M0 ) . ?x0 people.person.nationality m_0f8l9c }
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MOST_VARIABLES = 32  # in a compared query; CFQ has 6 at most
MOST_LABELLINGS = 720  # orders of variables tried for one query: 6!
MOST_LOOKS = 100_000  # at conjuncts in the search; bounds its time
_MARKS = re.compile(r"([{}()])")
_COUNT = re.compile(r"\(\s*\*\s*\)")
_NAMESPACE = "ns:"
_FULL_NAME = re.compile(r"[a-z_0-9]+\..+")
_PREFIX = "PREFIX ns: <http://rdf.freebase.com/ns/>"
_KEYWORDS = frozenset(["select", "distinct", "where", "filter"])
_PLACEHOLDER = re.compile(r"m\d+")


def tokenise(query: str) -> list[str]:
    """The words of a query, as in the experiments of CFQ's authors.

    Splits `count(*)` and brackets, removes `ns:` at the start of a word (not inside a path such as `a/ns:b`), and
    writes Freebase's entities with `m_` for `m.`, so that they differ from predicates.
    """
    words = _MARKS.sub(r" \1 ", _COUNT.sub(" ( * ) ", query)).split()
    return [_short(word) for word in words]


def _short(word: str) -> str:
    word = word.removeprefix(_NAMESPACE)
    return f"m_{word[2:]}" if word.startswith("m.") else word


def detokenise(words: Iterable[str]) -> str:
    """The inverse of `tokenise`: a query as in CFQ's files, one conjunct a line. M0, M1, ... and lower case stay."""
    text = " ".join(_long(word) for word in words)
    text = re.sub(r"\bcount \( \* \)", "count(*)", text, flags=re.IGNORECASE)
    return text.replace(" { ", " {\n").replace(" . ", " .\n").replace(" }", "\n}")


def _long(word: str) -> str:
    if word.startswith("m_"):
        return f"{_NAMESPACE}m.{word[2:]}"
    return _NAMESPACE + word if _FULL_NAME.fullmatch(word) else word


def runnable(words: Iterable[str]) -> str:
    """One line of standard SPARQL from the words of a query, whose case may be lost.

    To run it, replace M0, M1, ... by entities such as `ns:m.0f8l9c`.
    """
    restored = [word.upper() if word.lower() in _KEYWORDS or _PLACEHOLDER.fullmatch(word) else word for word in words]
    text = detokenise(restored).replace("\n", " ")
    if text.lower().startswith("select count(*) "):
        text = f"SELECT (count(*) AS ?count) {text[len('select count(*) ') :]}"
    return f"{_PREFIX} {text}"


def are_words_of_queries(words: Iterable[str]) -> bool:
    """Whether a vocabulary has the words that every query needs."""
    return {"select", "where", "{", "}"} <= {word.lower() for word in words}


class Query(NamedTuple):
    """A query in parts; the order of conjuncts has no meaning."""

    head: tuple[str, ...]  # before the braces
    conjuncts: tuple[tuple[str, ...], ...]


def parse(words: Sequence[str]) -> Query | None:
    """The parts of a query, or None where the words are no query."""
    if len(words) < 2 or words[0].lower() != "select" or words[-1] != "}" or words.count("{") != 1:
        return None
    opening = words.index("{")
    if words[opening - 1].lower() != "where" or words.count("}") != 1:
        return None
    conjuncts: list[tuple[str, ...]] = []
    current: list[str] = []
    for word in [*words[opening + 1 : -1], "."]:
        if word != ".":
            current.append(word)
            continue
        if not _is_conjunct(current):
            return None
        conjuncts.append(tuple(current))
        current = []
    return Query(tuple(words[:opening]), tuple(conjuncts))


def _is_conjunct(words: Sequence[str]) -> bool:
    """A triple, or FILTER ( a != b )."""
    if _is_filter(words):
        return len(words) == 6 and words[1] == "(" and words[3] == "!=" and words[5] == ")"
    return len(words) == 3 and not set(words) & {"(", ")", "!="}


def _is_filter(words: Sequence[str]) -> bool:
    return bool(words) and words[0].lower() == "filter"


def canonical(words: Sequence[str]) -> tuple[str, ...] | None:
    """The canonical form of a query, the same for all equivalent ones (see `same_query`).

    None where the words are no query, or where there are too many variables or ways to name them.
    """
    query = parse(words)
    groups = None if query is None else _groups(query)
    if groups is None or len(_variables(groups)) > MOST_VARIABLES:
        return None
    labelling = _Labelling(groups)
    labelling.search(dict.fromkeys(_variables(groups), 0))
    if labelling.best is None or labelling.gave_up:
        return None
    head, *conjuncts = labelling.best
    one_way = (conjunct for conjunct in conjuncts if not _is_filter(conjunct) or conjunct[2] <= conjunct[4])
    body = [word for conjunct in one_way for word in (*conjunct, ".")]
    return (*head, "{", *body[:-1], "}")


def same_query(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether queries are equal up to the order and repetition of conjuncts, names of variables and sides of `!=`.

    Queries with different words but without `canonical` form count as different.
    """
    if tuple(words) == tuple(others):
        return True
    one, other = parse(words), parse(others)
    if one is None or other is None or _outline(_groups(one)) != _outline(_groups(other)):
        return False
    form = canonical(words)
    return form is not None and form == canonical(others)


Groups = tuple[tuple[str, ...], ...]


def _groups(query: Query) -> Groups:
    """The head and the distinct conjuncts; filters with their sides in both orders."""
    turned = {
        (*conjunct[:2], conjunct[4], "!=", conjunct[2], ")") for conjunct in query.conjuncts if _is_filter(conjunct)
    }
    return (query.head, *sorted({*query.conjuncts, *turned}))


def _variables(groups: Groups) -> list[str]:
    return sorted({word for group in groups for word in group if _is_variable(word)})


def _outline(groups: Groups) -> tuple[int, tuple[str, ...], Counter[tuple[str, ...]]]:
    """An invariant under renaming of variables, equal for equivalent queries."""
    head, *conjuncts = (tuple("?" if _is_variable(word) else word for word in group) for group in groups)
    return len(_variables(groups)), head, Counter(conjuncts)


class _Labelling:
    """Search for the names of variables that give the smallest query: canonical labelling by colour refinement.

    Variables are distinguished by their conjuncts, then by the variables beside them, and so on. Where some remain
    alike, each is taken as the first in turn, unless they are interchangeable.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.best: Groups | None = None
        self.tried = self.looks = 0

    @property
    def gave_up(self) -> bool:
        """Whether the search reached a limit."""
        return self.tried > MOST_LABELLINGS or self.looks > MOST_LOOKS

    def search(self, colours: Mapping[str, int]) -> None:
        """Try all names that respect these colours: lower colours get lower numbers."""
        if self.gave_up:
            return
        colours = self._refine(colours)
        alike: dict[int, list[str]] = {}
        for name, colour in colours.items():
            alike.setdefault(colour, []).append(name)
        tied = min((colour for colour, names in alike.items() if len(names) > 1), default=None)
        if tied is None:
            self.tried += 1
            form = self._renamed(colours)
            self.best = form if self.best is None else min(self.best, form)
            return
        tried: list[str] = []
        for first in alike[tied]:
            if any(self._may_swap(first, other) for other in tried):
                continue  # gives the same queries again
            tried.append(first)
            # Doubled colours leave room for a new one.
            self.search({name: 2 * colour - (name == first) for name, colour in colours.items()})

    def _may_swap(self, one: str, other: str) -> bool:
        """Whether swapping the names of two variables leaves the query unchanged."""
        names = {one: other, other: one}
        touched = [group for group in self._groups if one in group or other in group]
        swapped = [tuple(names.get(word, word) for word in group) for group in touched]
        return touched[0] is not self._groups[0] and sorted(swapped) == sorted(touched)

    def _refine(self, colours: Mapping[str, int]) -> dict[str, int]:
        """Refine colours until variables of one colour have equal places and neighbours."""
        colours = dict(colours)
        while True:
            self.looks += len(self._groups)
            places: dict[str, list[tuple[object, ...]]] = {name: [] for name in colours}
            for number, group in enumerate(self._groups):
                shape = tuple((1, colours[word], "") if _is_variable(word) else (0, 0, word) for word in group)
                for place, word in enumerate(group):
                    if word in places:
                        places[word].append((min(number, 1), place, shape))  # the head is unlike conjuncts
            seen = {name: (colours[name], tuple(sorted(found))) for name, found in places.items()}
            order = {signature: number for number, signature in enumerate(sorted(set(seen.values())))}
            if len(order) == len(set(colours.values())):
                return {name: order[signature] for name, signature in seen.items()}
            colours = {name: order[signature] for name, signature in seen.items()}

    def _renamed(self, colours: Mapping[str, int]) -> Groups:
        names = {name: f"?x{number}" for number, name in enumerate(sorted(colours, key=lambda name: colours[name]))}
        head, *conjuncts = (tuple(names.get(word, word) for word in group) for group in self._groups)
        return (head, *sorted(conjuncts))


def _is_variable(word: str) -> bool:
    return len(word) > 1 and word.startswith("?")
