"""SPARQL queries of CFQ as sequences of words, and whether two of them are the same query written differently.

SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor . FILTER ( ?x0 != M0 ) . ?x0 people.person.nationality m_0f8l9c }
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MOST_VARIABLES = 32  # of a query that is compared; CFQ has 6 at most
MOST_LABELLINGS = 720  # ways to name the variables that are tried for one query: as many as 6 have
MOST_LOOKS = 100_000  # at conjuncts, in the search for names: bounds the time
_MARKS = re.compile(r"([{}()])")
_COUNT = re.compile(r"\(\s*\*\s*\)")
_NAMESPACE = "ns:"
_FULL_NAME = re.compile(r"[a-z_0-9]+\..+")
_PREFIX = "PREFIX ns: <http://rdf.freebase.com/ns/>"
_KEYWORDS = frozenset(["select", "distinct", "where", "filter"])
_PLACEHOLDER = re.compile(r"m\d+")


def tokenise(query: str) -> list[str]:
    """The words of a query, as in the experiments of CFQ's authors.

    `count(*)` and all brackets are split, a word loses the `ns:` it starts with (inside a path, as in `a/ns:b`, it
    stays), and the names of Freebase's entities are written `m_` in place of `m.`, so that they differ from predicates.
    """
    words = _MARKS.sub(r" \1 ", _COUNT.sub(" ( * ) ", query)).split()
    return [_short(word) for word in words]


def _short(word: str) -> str:
    word = word.removeprefix(_NAMESPACE)
    return f"m_{word[2:]}" if word.startswith("m.") else word


def detokenise(words: Iterable[str]) -> str:
    """A query as CFQ's files have it, from its words: one conjunct a line, and `ns:` where it was taken away.

    The names M0, M1, ... stay, as nothing says which entities they stand for. Words in lower case stay so: what they
    were is not known.
    """
    text = " ".join(_long(word) for word in words)
    text = re.sub(r"\bcount \( \* \)", "count(*)", text, flags=re.IGNORECASE)
    return text.replace(" { ", " {\n").replace(" . ", " .\n").replace(" }", "\n}")


def _long(word: str) -> str:
    if word.startswith("m_"):
        return f"{_NAMESPACE}m.{word[2:]}"
    return _NAMESPACE + word if _FULL_NAME.fullmatch(word) else word


def runnable(words: Iterable[str]) -> str:
    """A query on one line of standard SPARQL, from its words, whose case may be lost.

    M0, M1, ... are the only words in it that a database does not know: put entities such as `ns:m.0f8l9c` there.
    """
    restored = [word.upper() if word.lower() in _KEYWORDS or _PLACEHOLDER.fullmatch(word) else word for word in words]
    text = detokenise(restored).replace("\n", " ")
    if text.lower().startswith("select count(*) "):
        text = f"SELECT (count(*) AS ?count) {text[len('select count(*) ') :]}"
    return f"{_PREFIX} {text}"


def are_words_of_queries(words: Iterable[str]) -> bool:
    """Whether queries can be said with these words."""
    return {"select", "where", "{", "}"} <= {word.lower() for word in words}


class Query(NamedTuple):
    """A query in parts. The order of its conjuncts has no meaning."""

    head: tuple[str, ...]  # what stands before the braces
    conjuncts: tuple[tuple[str, ...], ...]


def parse(words: Sequence[str]) -> Query | None:
    """The parts of a query, or None where the words are none: models say many things."""
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
    """The words of one query that stands for all that mean the same: see `same_query`.

    None where the words are no query, or one whose variables are too many or look so much alike that there are too many
    ways to name them.
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
    """Whether two queries mean the same: they differ by the order of conjuncts, the names of variables, the sides of
    `!=`, and by conjuncts that are repeated, at most.

    Queries that are not looked through to the end (see `canonical`) count as different, where their words are.
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
    """The head and the different conjuncts, a filter with its sides both ways round."""
    turned = {
        (*conjunct[:2], conjunct[4], "!=", conjunct[2], ")") for conjunct in query.conjuncts if _is_filter(conjunct)
    }
    return (query.head, *sorted({*query.conjuncts, *turned}))


def _variables(groups: Groups) -> list[str]:
    return sorted({word for group in groups for word in group if _is_variable(word)})


def _outline(groups: Groups) -> tuple[int, tuple[str, ...], Counter[tuple[str, ...]]]:
    """What can be told without names of variables: queries that mean the same have the same."""
    head, *conjuncts = (tuple("?" if _is_variable(word) else word for word in group) for group in groups)
    return len(_variables(groups)), head, Counter(conjuncts)


class _Labelling:
    """The search for the names of the variables that make a query smallest.

    Variables are told apart by the conjuncts they occur in, then by the variables beside them there, and so on. Where
    some still look alike, each of them is taken as the first in turn, unless it makes no difference which.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.best: Groups | None = None
        self.tried = self.looks = 0

    @property
    def gave_up(self) -> bool:
        """Whether there is more to try than is ever tried."""
        return self.tried > MOST_LABELLINGS or self.looks > MOST_LOOKS

    def search(self, colours: Mapping[str, int]) -> None:
        """Try all names that agree with these colours: lower colours get lower numbers."""
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
                continue  # it would give the same queries again
            tried.append(first)
            # Twice the colours leave room for one between two.
            self.search({name: 2 * colour - (name == first) for name, colour in colours.items()})

    def _may_swap(self, one: str, other: str) -> bool:
        """Whether the query stays as it is when two variables change their names."""
        names = {one: other, other: one}
        touched = [group for group in self._groups if one in group or other in group]
        swapped = [tuple(names.get(word, word) for word in group) for group in touched]
        return touched[0] is not self._groups[0] and sorted(swapped) == sorted(touched)

    def _refine(self, colours: Mapping[str, int]) -> dict[str, int]:
        """Split colours until variables of one colour occur in the same places beside the same colours."""
        colours = dict(colours)
        while True:
            self.looks += len(self._groups)
            places: dict[str, list[tuple[object, ...]]] = {name: [] for name in colours}
            for number, group in enumerate(self._groups):
                shape = tuple((1, colours[word], "") if _is_variable(word) else (0, 0, word) for word in group)
                for place, word in enumerate(group):
                    if word in places:
                        places[word].append((min(number, 1), place, shape))  # the head is unlike all others
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
