"""The logical forms of SLOG as sentence graphs, and back.

    What did the cat that Ann saw eat ?
    * cat ( x _ 3 ) ; cat . nmod ( x _ 3 , x _ 6 ) AND see . agent ( x _ 6 , Ann ) AND see . theme ( x _ 6 , x _ 3 ) AND
    eat . agent ( x _ 7 , x _ 3 ) AND eat . theme ( x _ 7 , ? )

Edges lead from a verb to its arguments, with their roles as labels; from a noun to a preposition or to the verb of its
relative clause, as `nmod`; and from a preposition to its noun, as `pobj`. So a noun with a relative clause has a place
in two clauses. `?` is the question word. A verb alone has the roles that it asks for as edges to itself. What is read
is written back unchanged, or refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path

from ...errors import DataError
from .edges import Edge, SentenceGraph
from .logical_forms import (
    CLAUSE_ROLES,
    NOUN_ROLES,
    Atom,
    LogicalForm,
    Term,
    is_word,
    parse_logical_form,
    preposition_between,
)

COLUMNS = ("category", "noun_type", "verb_name")
ROLES = NOUN_ROLES + CLAUSE_ROLES
NMOD, POBJ = "nmod", "pobj"
NOUN, NAME, VERB, QUESTION = "CNOUN", "PNOUN", "VERB", "WH"
ASKED = "?"
QUESTION_WORDS = frozenset({"who", "whom", "what", "which", "where", "when", "why", "how"})
MOST_READINGS = 4096  # of a form whose names occur several times in the sentence


def sentence_graph_of_form(
    tokens: Sequence[str],
    form: LogicalForm | str,
    source: str | Path = "logical form",
    line: int | None = None,
    group: str = "",
) -> SentenceGraph:
    """The graph of a sentence from its logical form."""
    parsed = parse_logical_form(form, source, line) if isinstance(form, str) else form
    words, found, first = tuple(tokens), str(parsed), ""
    if parsed.name or parsed.bound:
        reader = _Reader(words, source, line)
        reader.read_word(parsed)
        graph = reader.graph(group)
        first = form_of_sentence_graph(graph, source, line)
        if first == found:
            return graph
        raise DataError(source, line, found, first)
    for named in _readings(words, parsed, source, line):
        reader = _Reader(words, source, line)
        reader.read_sentence(parsed, named)
        graph = reader.graph(group)
        written = form_of_sentence_graph(graph, source, line)
        if written == found:
            return graph
        first = first or written
    raise DataError(source, line, found, f"nouns and conjuncts in the order of the sentence: {first}")


def _readings(
    words: tuple[str, ...], form: LogicalForm, source: str | Path, line: int | None
) -> Iterator[dict[int, int]]:
    """The tokens that the names of a form may mean, by conjunct; the most natural reading first."""
    mentions: list[int] = []
    candidates: list[list[int]] = []
    for number, atom in enumerate(form.conjuncts):
        term = atom.arguments[-1]
        if isinstance(term, int) or len(atom.arguments) == 1:
            continue
        tokens = [token for token, word in enumerate(words) if _means(term, word)]
        if not tokens:
            what = "a question word" if term == ASKED else "a name of the sentence"
            raise DataError(source, line, f"{atom} with {term!r}", f"{what}: {' '.join(words)}")
        verb = atom.arguments[0]
        if isinstance(verb, int):  # else it is refused later
            before = atom.predicate[1:] == ("agent",)
            tokens.sort(key=lambda token: (abs(token - verb), (token < verb) != before))
        mentions.append(number)
        candidates.append(tokens)
    found = list(islice(product(*candidates), MOST_READINGS))
    found.sort(key=lambda tokens: -len(set(tokens)))  # no name of the sentence is left out
    return (dict(zip(mentions, tokens, strict=True)) for tokens in found)


def _means(term: str, word: str) -> bool:
    return word.lower() in QUESTION_WORDS if term == ASKED else word == term


class _Reader:
    """Collects the edges and columns of one sentence."""

    def __init__(self, tokens: tuple[str, ...], source: str | Path, line: int | None) -> None:
        self.tokens, self.source, self.line = tokens, source, line
        self.edges: list[Edge] = []
        self.category, self.noun_type, self.verb_name = ([""] * len(tokens) for _ in COLUMNS)

    def graph(self, group: str) -> SentenceGraph:
        columns = (self.category, self.noun_type, self.verb_name)
        labels = {name: tuple(column) for name, column in zip(COLUMNS, columns, strict=True)}
        try:
            return SentenceGraph(self.tokens, tuple(self.edges), labels, group=group)
        except DataError as error:
            raise self.fail(error.found, error.expected) from error

    def fail(self, found: object, expected: str) -> DataError:
        return DataError(self.source, self.line, str(found), expected)

    def read_word(self, form: LogicalForm) -> None:
        """Read the form of a single word: a name, or a lambda form of a noun or verb."""
        if len(self.tokens) != 1:
            raise self.fail(f"{form} for {len(self.tokens)} tokens", "such a form for a single word only")
        predicate = form.conjuncts[0].predicate if form.conjuncts else ()
        if form.name:
            if form.name != self.tokens[0]:
                raise self.fail(f"the name {form.name!r} for {self.tokens[0]!r}", "the word itself")
            self.category[0] = NAME
        elif len(predicate) == 1:
            self._noun(0, predicate[0], "")
        else:
            for atom in form.conjuncts:
                if len(atom.predicate) != 2 or atom.predicate[1] not in NOUN_ROLES:
                    raise self.fail(atom, f"a verb with roles of {', '.join(NOUN_ROLES)}")
                self._verb(0, atom)
                self.edges.append((0, 0, atom.predicate[1]))

    def read_sentence(self, form: LogicalForm, named: dict[int, int]) -> None:
        """Read nouns, then verbs, then what modifies nouns; `named` has the tokens of the names, by conjunct."""
        arguments = [self._argument(number, atom, named) for number, atom in enumerate(form.conjuncts)]
        for atom in form.definites:
            self._noun(self._token(atom.arguments[0], atom), atom.predicate[0], "DEF")
        for atom in form.conjuncts:
            if len(atom.predicate) == 1:
                self._noun(self._token(atom.arguments[0], atom), atom.predicate[0], "INDEF")
        for atom, argument in zip(form.conjuncts, arguments, strict=True):
            if atom.predicate[1:] and atom.predicate[1] in ROLES and len(atom.predicate) == 2:
                head = self._token(atom.arguments[0], atom)
                self._verb(head, atom)
                self._edge(head, argument, atom.predicate[1], atom)
        for atom, argument in zip(form.conjuncts, arguments, strict=True):
            if atom.predicate[1:] and atom.predicate[-1] not in ROLES:
                self._modifier(atom, argument)
        for head, argument, label in self.edges:
            kinds = (VERB,) if label in CLAUSE_ROLES else (NOUN, NAME, QUESTION)
            if label != NMOD and self.category[argument] not in kinds:
                found = f"{self.tokens[argument]!r} as {label} of {self.tokens[head]!r}"
                raise self.fail(found, f"a token of the category {' or '.join(kinds)}")

    def _argument(self, number: int, atom: Atom, named: dict[int, int]) -> int:
        term = atom.arguments[-1]
        if number not in named:
            return self._token(term, atom)
        token, category = named[number], QUESTION if term == ASKED else NAME
        self.category[token] = category
        return token

    def _noun(self, token: int, name: str, noun_type: str) -> None:
        if self.tokens[token] != name:
            raise self.fail(f"{name!r} for token {token}, {self.tokens[token]!r}", "the token itself")
        if self.category[token]:
            raise self.fail(f"a second meaning {name!r} for token {token}", "one noun or name a token")
        self.category[token], self.noun_type[token] = NOUN, noun_type

    def _verb(self, token: int, atom: Atom) -> None:
        name = atom.predicate[0]
        if (self.category[token], self.verb_name[token]) not in (("", ""), (VERB, name)):
            there = self.verb_name[token] or self.category[token]
            raise self.fail(f"{atom} after {there}", f"one verb for token {token}, {self.tokens[token]!r}")
        self.category[token], self.verb_name[token] = VERB, name

    def _modifier(self, atom: Atom, argument: int) -> None:
        noun, nmod, *preposition = atom.predicate
        head = self._token(atom.arguments[0], atom)
        if nmod != NMOD:
            raise self.fail(atom, f"one of the roles {', '.join(ROLES)}, or {NMOD}")
        if self.category[head] != NOUN or self.tokens[head] != noun:
            raise self.fail(atom, f"{NMOD} of the noun of variable x _ {head}")
        if not preposition:
            if self.category[argument] != VERB:
                raise self.fail(atom, f"the {VERB} of a relative clause")
            self._edge(head, argument, NMOD, atom)
            return
        token = preposition_between(self.tokens, preposition[0], head, argument)
        if token is None or self.category[token]:
            raise self.fail(atom, f"a token {preposition[0]!r} between the two nouns, {head} and {argument}")
        self._edge(head, token, NMOD, atom)
        self._edge(token, argument, POBJ, atom)

    def _edge(self, head: int, argument: int, label: str, atom: Atom) -> None:
        if any(edge[0] == head and edge[2] == label != NMOD for edge in self.edges):
            raise self.fail(f"a second {atom}", "each role of a verb once")
        self.edges.append((head, argument, label))

    def _token(self, term: Term, atom: Atom) -> int:
        if not isinstance(term, int) or term >= len(self.tokens):
            raise self.fail(atom, f"a variable of a token here, x _ 0 to x _ {len(self.tokens) - 1}")
        return term


def form_of_sentence_graph(graph: SentenceGraph, source: str | Path = "graph", line: int | None = None) -> str:
    """The logical form of a graph, as the official files write it. Labels that no edge uses are left out."""
    if set(graph.labels) != set(COLUMNS):
        found = ", ".join(graph.labels) or "none"
        raise DataError(source, line, f"the columns {found}", ", ".join(COLUMNS))
    writer = _Writer(graph, source, line)
    form = writer.word() if graph.size == 1 else writer.sentence()
    return str(form)


class _Writer:
    """Writes the form of one graph."""

    def __init__(self, graph: SentenceGraph, source: str | Path, line: int | None) -> None:
        self.graph, self.source, self.line = graph, source, line
        self.category, self.noun_type, self.verb_name = (graph.labels[column] for column in COLUMNS)
        self.below: dict[int, list[tuple[int, str]]] = defaultdict(list)  # edges by head
        for head, dependent, label in graph.edges:
            self.below[head].append((dependent, label))

    def fail(self, token: int, expected: str) -> DataError:
        labels = ", ".join(f"{column} {self.graph.labels[column][token]!r}" for column in COLUMNS)
        edges = ", ".join(f"{label} {dependent}" for dependent, label in self.below[token]) or "none"
        found = f"token {token}, {self.graph.tokens[token]!r}, with {labels} and the edges {edges}"
        return DataError(self.source, self.line, found, expected)

    def word(self) -> LogicalForm:
        """The form of a single word."""
        roles = [label for role in NOUN_ROLES for _, label in self.below[0] if label == role]
        match self.category[0]:
            case "PNOUN" if not self.below[0]:
                return LogicalForm(name=self._name(0))
            case "CNOUN" if not self.below[0]:
                return LogicalForm(conjuncts=(Atom((self._noun(0),), ("a",)),), bound=("a",))
            case "VERB" if 0 < len(roles) == len(self.below[0]):
                variables = "abc"[: len(roles)]
                atoms = zip(roles, reversed(variables), strict=True)
                verb = tuple(Atom((self._verb(0), role), ("e", variable)) for role, variable in atoms)
                return LogicalForm(conjuncts=verb, bound=(*variables, "e"))
        raise self.fail(0, f"a {NAME} or {NOUN} without edges, or a {VERB} with edges to itself for its roles")

    def sentence(self) -> LogicalForm:
        """The form of several words."""
        definites: list[Atom] = []
        conjuncts: list[Atom] = []
        for token in range(self.graph.size):
            if self.category[token] == NOUN:
                noun = Atom((self._noun(token),), (token,))
                (definites if self.noun_type[token] == "DEF" else conjuncts).append(noun)
            conjuncts += [atom for _, atom in sorted(self._relations(token), key=lambda found: found[0])]
        if not definites and not conjuncts:
            raise DataError(self.source, self.line, "no noun and no verb", "at least one of them")
        return LogicalForm(tuple(definites), tuple(conjuncts))

    def _relations(self, head: int) -> Iterator[tuple[float, Atom]]:
        """The conjuncts of a verb or noun with two arguments, with what they are sorted by."""
        for token, label in self.below[head]:
            if label in ROLES:
                yield self._place(head, token, label), Atom((self._verb(head), label), (head, self._term(token)))
            elif label == NMOD and self.category[token] == VERB:
                yield token, Atom((self._noun(head), NMOD), (head, token))
            elif label == NMOD:
                for noun, name in self.below[token]:
                    if name != POBJ:
                        raise self.fail(token, f"{POBJ} of a preposition")
                    preposition = self._word(token, self.graph.tokens[token])
                    yield noun, Atom((self._noun(head), NMOD, preposition), (head, self._term(noun)))
            elif label != POBJ:
                raise self.fail(head, f"edges with the labels {', '.join((*ROLES, NMOD, POBJ))}")

    def _place(self, verb: int, token: int, role: str) -> float:
        """Where an argument stands: that of a question word, or noun with a relative clause, is the gap that it left.

        The gap of a subject is before its verb. Other gaps follow: an object's stands before "to", and else after other
        objects, but before clauses and "by".
        """
        if token > verb or not self._is_moved(verb, token):
            return token
        others = [(other, label) for other, label in self.below[verb] if (other, label) != (token, role)]
        if not any(other < verb for other, _ in others):
            return token
        if role == "theme" and self.graph.tokens[verb + 1 : verb + 2] == ("to",):
            return verb
        last = [other for other, label in others if other > verb and label in (*CLAUSE_ROLES, "agent")]
        return min(last, default=self.graph.size) - 0.5

    def _is_moved(self, verb: int, token: int) -> bool:
        """Whether a token before a verb is what its clause asks for, or has the clause as relative clause."""
        if self.category[token] == QUESTION:
            return True
        waiting = [clause for clause, label in self.below[token] if label == NMOD and self.category[clause] == VERB]
        seen = set(waiting)
        for clause in waiting:  # grows during the loop
            inner = {below for below, label in self.below[clause] if label in CLAUSE_ROLES} - seen
            waiting += inner
            seen |= inner
        return verb in seen

    def _term(self, token: int) -> Term:
        match self.category[token]:
            case "PNOUN":
                return self._name(token)
            case "WH":
                return ASKED
            case "CNOUN" | "VERB":
                return token
        raise self.fail(token, f"the category {NOUN}, {NAME}, {VERB} or {QUESTION}")

    def _name(self, token: int) -> str:
        return self._word(token, self.graph.tokens[token])

    def _noun(self, token: int) -> str:
        if self.category[token] != NOUN:
            raise self.fail(token, f"the category {NOUN}")
        return self._word(token, self.graph.tokens[token])

    def _verb(self, token: int) -> str:
        if self.category[token] != VERB:
            raise self.fail(token, f"the category {VERB}")
        return self._word(token, self.verb_name[token])

    def _word(self, token: int, word: str) -> str:
        if not is_word(word):
            raise self.fail(token, "a word without space or punctuation")
        return word
