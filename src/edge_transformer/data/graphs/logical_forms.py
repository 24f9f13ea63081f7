"""The logical forms of COGS as graphs, and back. `docs/formats.md` has the rules with examples.

    * cake ( x _ 3 ) ; eat . agent ( x _ 1 , Emma ) AND eat . theme ( x _ 1 , x _ 3 )
    LAMBDA a . LAMBDA e . walk . agent ( e , a )
    Emma

A form is a name, or else bound variables, definite nouns (each with a star) and conjuncts. `x _ 3` is token 3, counted
from 0. Parsing is strict: what is read is written back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError
from .rows import TokenGraph

MAX_FORM = 100_000  # characters; the longest official form has 1,385
Term = int | str  # the token at a position, or a name or bound variable


class Atom(NamedTuple):
    """A predicate and its one or two arguments: ("eat", "agent") of (1, "Emma"), or ("cake",) of (4,)."""

    predicate: tuple[str, ...]
    arguments: tuple[Term, ...]

    def __str__(self) -> str:
        arguments = [term if isinstance(term, str) else f"x _ {term}" for term in self.arguments]
        return f"{' . '.join(self.predicate)} ( {' , '.join(arguments)} )"


@dataclass(frozen=True, slots=True)
class LogicalForm:
    """A logical form: `name` alone, or definite nouns and conjuncts."""

    definites: tuple[Atom, ...] = ()
    conjuncts: tuple[Atom, ...] = ()
    bound: tuple[str, ...] = ()  # the variables of a lambda form, in their order
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return self.name
        parts = [f"* {atom}" for atom in self.definites]
        if self.conjuncts:
            parts.append(" AND ".join(map(str, self.conjuncts)))
        return "".join(f"LAMBDA {variable} . " for variable in self.bound) + " ; ".join(parts)


_WORD = r"(?!(?:AND|LAMBDA) )[^\s().,;*]+"
_TERM = rf"x _ (?:0|[1-9][0-9]{{0,5}})|{_WORD}"
_IS_WORD = re.compile(r"(?!(?:AND|LAMBDA)$)[^\s().,;*]+")
_ATOM = re.compile(rf"({_WORD})(?: \. ({_WORD}))?(?: \. ({_WORD}))? \( ({_TERM})(?: , ({_TERM}))? \)")
_LAMBDA = re.compile(rf"LAMBDA ({_WORD}) \. ")


def is_word(text: str) -> bool:
    """Whether a text can be a predicate or a name in a form."""
    return _IS_WORD.fullmatch(text) is not None


def parse_logical_form(text: str, source: str | Path = "logical form", line: int | None = None) -> LogicalForm:
    """Parse a logical form; errors quote the broken part."""
    if len(text) > MAX_FORM:
        raise DataError(source, line, f"a logical form of {len(text)} characters", f"at most {MAX_FORM}")
    if is_word(text):
        return LogicalForm(name=text)
    bound, start = [], 0
    while match := _LAMBDA.match(text, start):
        bound.append(match[1])
        start = match.end()
    if len(set(bound)) != len(bound):
        raise DataError(source, line, repr(text), "each variable bound once")

    def atom(part: str, what: str, expected: str, only_noun: bool) -> Atom:
        match = _ATOM.fullmatch(part)
        if match:
            name, role, preposition, first, second = match.groups()
            # A noun has one argument; a role or modifier relates two.
            if role is None and second is None:
                return Atom((name,), (_term(first),))
            if role is not None and second is not None and not only_noun:
                predicate = (name, role) if preposition is None else (name, role, preposition)
                return Atom(predicate, (_term(first), _term(second)))
        raise DataError(source, line, f"{what} {part!r}", expected)

    noun = "a noun and its variable, such as cake ( x _ 1 )"
    *starred, rest = text[start:].split(" ; ")
    parts = rest.split(" AND ")
    if rest.startswith("* "):  # only definite nouns
        starred.append(rest)
        parts = []
    definites = []
    for part in starred:
        if not part.startswith("* "):
            raise DataError(source, line, f"{part!r} before a semicolon", "a definite noun, such as * cake ( x _ 1 )")
        definites.append(atom(part[2:], "definite", noun, True))
    relation = "verb . role ( x _ 1 , x _ 3 ) or noun . nmod . preposition ( x _ 1 , x _ 4 )"
    conjuncts = [atom(part, f"conjunct {n}", f"{noun}, or {relation}", False) for n, part in enumerate(parts, 1)]
    return LogicalForm(tuple(definites), tuple(conjuncts), tuple(bound))


def _term(text: str) -> Term:
    return int(text[4:]) if text.startswith("x _ ") else text


COLUMNS = ("role", "category", "noun_type", "verb_name")
NOUN_ROLES = ("agent", "theme", "recipient")
CLAUSE_ROLES = ("ccomp", "xcomp")
PREP, PP_NOUN = "PREP", "PP_NOUN"

_OF_NOUN = (*NOUN_ROLES, PP_NOUN)
_ROLES_OF_KIND = {  # (category, noun_type, has a verb_name) -> possible roles
    ("CNOUN", "DEF", False): ("", *_OF_NOUN),
    ("CNOUN", "INDEF", False): ("", *_OF_NOUN),
    ("PNOUN", "", False): _OF_NOUN,  # needs a role to occur in a conjunct
    ("VERB", "", True): ("", "ccomp"),
    ("", "", True): ("xcomp",),  # the graphs of Ontanon et al. give these verbs no category
    ("", "", False): ("", PREP),
}


def graph_of_form(
    tokens: Sequence[str],
    form: LogicalForm | str,
    source: str | Path = "logical form",
    line: int | None = None,
    group: str = "",
) -> TokenGraph:
    """The graph of a sentence from its logical form."""
    parsed = parse_logical_form(form, source, line) if isinstance(form, str) else form
    reader = _FormReader(tuple(tokens), source, line)
    if parsed.name or parsed.bound:
        reader.read_primitive(parsed)
    else:
        reader.read_sentence(parsed)
    columns = (reader.role, reader.category, reader.noun_type, reader.verb_name)
    try:
        graph = TokenGraph(
            tuple(tokens),
            tuple(reader.parents),
            {name: tuple(column) for name, column in zip(COLUMNS, columns, strict=True)},
            group,
        )
    except DataError as error:
        raise DataError(source, line, error.found, error.expected) from error
    if not (parsed.name or parsed.bound):
        _check(graph, source, line)
    return graph


class _FormReader:
    """Fills the columns of one sentence; `_check` checks the whole graph afterwards."""

    def __init__(self, tokens: tuple[str, ...], source: str | Path, line: int | None) -> None:
        self.tokens, self.source, self.line = tokens, source, line
        size = len(tokens)
        self.parents = list(range(size))
        self.role = [""] * size
        self.category = [""] * size
        self.noun_type = [""] * size
        self.verb_name = [""] * size

    def fail(self, found: object, expected: str) -> DataError:
        return DataError(self.source, self.line, str(found), expected)

    def read_primitive(self, form: LogicalForm) -> None:
        """Read the form of a single word: a name, or a lambda form of a noun or verb."""
        word = self.tokens[0]
        if len(self.tokens) != 1:
            raise self.fail(f"{form} for {len(self.tokens)} tokens", "such a form for a single word only")
        if form.name:
            if form.name != word:
                raise self.fail(f"the name {form.name!r} for {word!r}", "the word itself")
            self.category[0] = "PNOUN"
            return
        heads = {(atom.predicate[0], atom.arguments[0]) for atom in form.conjuncts}
        if form.definites or len(heads) != 1:
            raise self.fail(form, "conjuncts about one noun or verb after LAMBDA")
        [(name, head)] = heads
        roles = [atom.predicate[1:] for atom in form.conjuncts]
        others = [atom.arguments[1] for atom in form.conjuncts if len(atom.arguments) == 2]
        if sorted(map(str, form.bound)) != sorted(map(str, (head, *others))):
            raise self.fail(form, "each variable after LAMBDA used as one argument")
        if roles == [()]:
            self._noun(0, name, "")
        elif len(set(roles)) == len(roles) and all(len(role) == 1 and role[0] in NOUN_ROLES for role in roles):
            self.category[0], self.verb_name[0] = "VERB", name
        else:
            raise self.fail(form, f"a noun, or a verb with different roles of {', '.join(NOUN_ROLES)}")

    def read_sentence(self, form: LogicalForm) -> None:
        for atom in form.definites:
            self._noun(self._variable(atom.arguments[0], atom), atom.predicate[0], "DEF")
        roles: dict[tuple[int, str], int] = {}  # (verb, role) -> argument
        modifiers = []
        for atom in form.conjuncts:
            name, *path = atom.predicate
            head = self._variable(atom.arguments[0], atom)
            if not path:
                self._noun(head, name, "INDEF")
            elif len(path) == 1:
                self._verb(atom, head, roles)
            else:
                modifiers.append((atom, head))
        # The agent of an xcomp verb is dropped where it is the agent of the verb above, as in nearly all rows.
        above = {verb: head for (head, role), verb in roles.items() if role == "xcomp"}
        for (head, role), argument in roles.items():
            shared = roles.get((above[head], "agent")) if role == "agent" and head in above else None
            if argument != shared:
                self._attach(argument, head, role)
        for verb, head in above.items():
            if (head, "agent") in roles and (verb, "agent") not in roles:
                found = f"{self.tokens[verb]!r}, xcomp of {self.tokens[head]!r}, without agent"
                raise self.fail(found, "the agent of an xcomp verb, which is mostly that of the verb above it")
        for atom, head in modifiers:
            self._modifier(atom, head)
        for token, verb_name in enumerate(self.verb_name):
            if verb_name and not self.category[token] and self.role[token] != "xcomp":
                self.category[token] = "VERB"

    def _noun(self, token: int, name: str, noun_type: str) -> None:
        if self.tokens[token].lower() != name:
            raise self.fail(f"{name!r} for token {token}, {self.tokens[token]!r}", "the token in lower case")
        if self.category[token]:
            raise self.fail(f"a second noun {name!r} for token {token}", "one noun a variable")
        self.category[token], self.noun_type[token] = "CNOUN", noun_type

    def _verb(self, atom: Atom, head: int, roles: dict[tuple[int, str], int]) -> None:
        name, role = atom.predicate
        if role in CLAUSE_ROLES:
            argument = self._variable(atom.arguments[1], atom)
        elif role in NOUN_ROLES:
            argument = self._noun_argument(atom.arguments[1], atom)
        else:
            raise self.fail(atom, f"one of the roles {', '.join(NOUN_ROLES + CLAUSE_ROLES)}")
        if self.verb_name[head] not in ("", name):
            raise self.fail(f"{atom} after {self.verb_name[head]!r}", f"one verb for variable x _ {head}")
        if (head, role) in roles:
            raise self.fail(f"a second {atom}", "each role of a verb once")
        self.verb_name[head] = name
        roles[head, role] = argument

    def _modifier(self, atom: Atom, head: int) -> None:
        noun, nmod, word = atom.predicate
        if nmod != "nmod" or self.category[head] != "CNOUN" or self.tokens[head].lower() != noun:
            raise self.fail(atom, f"noun . nmod . preposition, with the noun of variable x _ {head}")
        argument = self._noun_argument(atom.arguments[1], atom)
        preposition = preposition_between(self.tokens, word, head, argument)
        if preposition is None:
            raise self.fail(atom, f"a token {word!r} between the two nouns, {head} and {argument}")
        if (self.role[preposition], self.parents[preposition]) != (PREP, head):  # else it has two nouns
            self._attach(preposition, head, PREP)
        self._attach(argument, preposition, PP_NOUN)

    def _attach(self, token: int, parent: int, role: str) -> None:
        if self.role[token]:
            found = f"token {token}, {self.tokens[token]!r}, as {self.role[token]} and as {role}"
            raise self.fail(found, "one parent a token")
        self.parents[token], self.role[token] = parent, role

    def _variable(self, term: Term, atom: Atom) -> int:
        if not isinstance(term, int) or term >= len(self.tokens):
            raise self.fail(atom, f"a variable of a token here, x _ 0 to x _ {len(self.tokens) - 1}")
        return term

    def _noun_argument(self, term: Term, atom: Atom) -> int:
        if isinstance(term, int):
            return self._variable(term, atom)
        if self.tokens.count(term) != 1:
            found = f"the name {term!r} {self.tokens.count(term)} times in the sentence"
            raise self.fail(found, "names that occur once, as a form does not say which of them it means")
        token = self.tokens.index(term)
        if self.category[token] not in ("", "PNOUN"):
            raise self.fail(f"{atom} with {term!r} a noun as well", f"its variable, x _ {token}")
        self.category[token] = "PNOUN"
        return token


def form_of_graph(graph: TokenGraph, source: str | Path = "graph", line: int | None = None) -> str:
    """The logical form of a graph, as the official files write it; a single verb is written as a transitive one."""
    if set(graph.labels) != set(COLUMNS):
        found = ", ".join(graph.labels) or "none"
        raise DataError(source, line, f"the columns {found}", ", ".join(COLUMNS))
    primitive = _form_of_primitive(graph)
    if primitive is not None:
        if not is_word(graph.labels["verb_name"][0] or graph.tokens[0]):
            raise DataError(source, line, repr(graph.tokens[0]), "a word without space or punctuation")
        return str(primitive)
    _check(graph, source, line)
    tokens, parents = graph.tokens, graph.parents
    role, category, noun_type, verb_name = (graph.labels[column] for column in COLUMNS)
    terms: list[Term] = [tokens[token] if category[token] == "PNOUN" else token for token in range(graph.size)]
    fillers = {(parents[token], role[token]): token for token in range(graph.size) if role[token]}
    definites, conjuncts = [], []  # conjuncts with sort keys: positions of their arguments
    for token, label in enumerate(role):
        head = parents[token]
        if category[token] == "CNOUN":
            noun = Atom((tokens[token].lower(),), (token,))
            if noun_type[token] == "DEF":
                definites.append(noun)
            else:
                conjuncts.append((token, -1, noun))
        if label == PP_NOUN:
            predicate = (tokens[parents[head]].lower(), "nmod", tokens[head])
            conjuncts.append((parents[head], token, Atom(predicate, (parents[head], terms[token]))))
        elif label and label != PREP:
            conjuncts.append((head, token, Atom((verb_name[head], label), (head, terms[token]))))
        if label == "xcomp" and (token, "agent") not in fillers:
            above = head
            while role[above] == "xcomp" and (above, "agent") not in fillers:
                above = parents[above]
            agent = fillers.get((above, "agent"))
            if agent is not None:
                conjuncts.append((token, agent, Atom((verb_name[token], "agent"), (token, terms[agent]))))
    conjuncts.sort()
    form = LogicalForm(tuple(definites), tuple(atom for _, _, atom in conjuncts))
    _check_mentions(graph, form, source, line)
    return str(form)


def _form_of_primitive(graph: TokenGraph) -> LogicalForm | None:
    """The form of a single word; None for all other graphs."""
    if graph.size > 1:
        return None
    role, category, noun_type, verb_name = (graph.labels[column][0] for column in COLUMNS)
    match (category, role + noun_type, bool(verb_name)):
        case ("PNOUN", "", False):
            return LogicalForm(name=graph.tokens[0])
        case ("CNOUN", "", False):
            return LogicalForm(conjuncts=(Atom((graph.tokens[0].lower(),), ("a",)),), bound=("a",))
        case ("VERB", "", True):
            agent, theme = Atom((verb_name, "agent"), ("e", "b")), Atom((verb_name, "theme"), ("e", "a"))
            return LogicalForm(conjuncts=(agent, theme), bound=("a", "b", "e"))
    return None


def preposition_between(tokens: Sequence[str], word: str, head: int, noun: int) -> int | None:
    """The token of a preposition: the last such word between the modified noun and its own noun."""
    return next((token for token in range(noun - 1, head, -1) if tokens[token] == word), None)


def _check(graph: TokenGraph, source: str | Path, line: int | None) -> None:
    """Refuse a graph that no logical form has."""
    tokens, parents = graph.tokens, graph.parents
    role, category, noun_type, verb_name = (graph.labels[column] for column in COLUMNS)

    def fail(token: int, expected: str) -> DataError:
        return DataError(source, line, _shown(graph, token), expected)

    filled = set()
    kinds = zip(category, noun_type, map(bool, verb_name), strict=True)
    for token, (label, parent, kind) in enumerate(zip(role, parents, kinds, strict=True)):
        roles = _ROLES_OF_KIND.get(kind)
        if roles is None:
            raise fail(token, "a CNOUN with DEF or INDEF, a PNOUN, a VERB with its name, or none of them")
        if label not in roles:
            raise fail(token, f"a role of such tokens: {', '.join(map(repr, roles))}")
        if (label == "") != (parent == token):
            raise fail(token, "a role for each token that has a parent, and for no other")
        if label == PREP:
            if category[parent] != "CNOUN":
                raise fail(token, "a common noun as parent")
        elif label == PP_NOUN:
            head = parents[parent]
            if role[parent] != PREP or preposition_between(tokens, tokens[parent], head, token) != parent:
                raise fail(token, "as parent a preposition before it, with no other such word between them")
        elif label:
            if not verb_name[parent]:
                raise fail(token, "a verb as parent")
            if (parent, label) in filled:
                raise fail(token, "each role of a verb once")
            filled.add((parent, label))
    # Modifiers follow their nouns, so cycles can go through clauses only.
    seen_from: dict[int, int] = {}
    for start, label in enumerate(role):
        token = start
        while role[token] in CLAUSE_ROLES and token not in seen_from:
            seen_from[token] = start
            token = parents[token]
        if label in CLAUSE_ROLES and seen_from.get(token) == start:
            raise fail(token, "parents that lead to a token without one")


def _check_mentions(graph: TokenGraph, form: LogicalForm, source: str | Path, line: int | None) -> None:
    """Refuse a form that loses a part of the graph or would be read back differently."""
    heads = {atom.arguments[0] for atom in form.conjuncts}
    role, verb_name = graph.labels["role"], graph.labels["verb_name"]
    for token in range(graph.size):
        if verb_name[token] and token not in heads:
            raise DataError(source, line, _shown(graph, token), "at least one argument for each verb")
        if role[token] == PREP and (PP_NOUN, token) not in zip(role, graph.parents, strict=True):
            raise DataError(source, line, _shown(graph, token), f"a {PP_NOUN} for each preposition")
        word = verb_name[token] or graph.tokens[token]
        if (verb_name[token] or role[token] or graph.labels["category"][token]) and not is_word(word):
            raise DataError(source, line, f"{word!r} at token {token}", "a word without space or punctuation")
    if not form.definites and not form.conjuncts:
        raise DataError(source, line, "no noun and no verb", "at least one of them")


def _shown(graph: TokenGraph, token: int) -> str:
    labels = ", ".join(f"{column} {graph.labels[column][token]!r}" for column in COLUMNS)
    return f"token {token}, {graph.tokens[token]!r}, with parent {graph.parents[token]}, {labels}"
