"""Atoms and weighted compounds of examples.

Trees: atoms are words, word classes and relations. Compounds are labelled subtrees: over words an arc, and a chain of
two arcs; over word classes an arc, and a head with all its dependents. A class is UPOS, else XPOS, else the word.

Pairs of texts (question and SPARQL query, SCAN command and actions): atoms are the tokens of either side, compounds
their bigrams and trigrams.

The weight of a compound G in an example is, after Keysers et al. (2020), the highest over its occurrences g of

    1 - max over the larger compounds G' around g of P(G' | G)

with P counted over all examples in use. A compound that occurs only inside one larger compound has weight 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..data.trees.conllu import NO_VALUE, DependencySentence
from .divergence import Parts, SparseRows

MAX_RUN = 3  # tokens in a compound of a text
Occurrence = tuple[Hashable, Sequence[Hashable]]  # a compound, and the larger compounds around it


def tree_atoms(sentence: DependencySentence) -> list[Hashable]:
    """The words, word classes and relations of a tree."""
    kinds = (("word", sentence.words), ("class", word_classes(sentence)), ("relation", sentence.relations))
    return [(kind, name) for kind, names in kinds for name in names]


def word_classes(sentence: DependencySentence) -> tuple[str, ...]:
    """UPOS of each word, or XPOS, or the word."""
    rows = zip(sentence.upos, sentence.xpos, sentence.words, strict=True)
    return tuple(next((name for name in row[:2] if name not in ("", NO_VALUE)), row[2]) for row in rows)


def tree_compounds(sentence: DependencySentence) -> list[Occurrence]:
    """The labelled subtrees of a tree, each with the larger ones around it."""
    classes, words = ("ROOT", *word_classes(sentence)), ("ROOT", *sentence.words)
    heads, relations = (0, *sentence.heads), ("", *sentence.relations)
    nodes = range(1, len(words))
    dependents: list[list[tuple[str, str]]] = [[] for _ in words]
    for word in nodes:
        dependents[heads[word]].append((relations[word], classes[word]))
    # A head with one dependent is the same as its arc.
    families = [("family", classes[head], *below) if len(below) > 1 else None for head, below in enumerate(dependents)]
    found: list[Occurrence] = [(family, ()) for family in families if family]
    chains: list[list[Hashable]] = [[] for _ in words]  # around the arc above each word
    for word in nodes:
        head = heads[word]
        if head:
            chain = ("chain", words[heads[head]], relations[head], words[head], relations[word], words[word])
            found.append((chain, ()))
            chains[word].append(chain)
            chains[head].append(chain)
    for word in nodes:
        head, relation = heads[word], relations[word]
        link = ("words", words[head], relation, words[word])
        found.append((link, chains[word]))
        # An arc of classes is part of the arc of words and of the family.
        around: list[Hashable] = [link, families[head]] if families[head] else [link]
        found.append((("arc", classes[head], relation, classes[word]), around))
    return found


def text_atoms(sides: Sequence[Sequence[str]]) -> list[Hashable]:
    """The tokens of each side of a pair."""
    return [(side, token) for side, tokens in enumerate(sides) for token in tokens]


def text_compounds(sides: Sequence[Sequence[str]], longest: int = MAX_RUN) -> list[Occurrence]:
    """The n-grams, n from 2 to `longest`, of each side of a pair, each with the (n+1)-grams around it."""
    found: list[Occurrence] = []
    for side, tokens in enumerate(sides):
        larger: list[Hashable] = []
        for length in range(min(longest, len(tokens)), 1, -1):
            runs = [(side, *tokens[start : start + length]) for start in range(len(tokens) - length + 1)]
            # The n-gram at s is inside the (n+1)-grams at s - 1 and at s.
            found += [(run, larger[max(start - 1, 0) : start + 1]) for start, run in enumerate(runs)]
            larger = list(runs)
    return found


class PartsBuilder:
    """Collects the atoms and compounds of examples in little memory."""

    def __init__(self) -> None:
        self._rows = 0
        self._atom_numbers: dict[Hashable, int] = {}
        self._compound_numbers: dict[Hashable, int] = {}
        self._atoms, self._atom_rows, self._atom_weights = array("q"), array("q"), array("d")
        self._compounds, self._compound_rows, self._compound_weights = array("q"), array("q"), array("d")
        self._inner, self._outer = array("q"), array("q")  # occurrence, and a compound that it is part of

    def add(self, atoms: Iterable[Hashable], compounds: Iterable[Occurrence]) -> None:
        """Add an example; the larger compounds around a compound decide its weight."""
        self._add_atoms((atom, 1.0) for atom in atoms)
        numbers, row = self._compound_numbers, self._rows
        for compound, larger in compounds:
            for outer in larger:
                self._inner.append(len(self._compounds))
                self._outer.append(numbers.setdefault(outer, len(numbers)))
            self._compounds.append(numbers.setdefault(compound, len(numbers)))
            self._compound_rows.append(row)
            self._compound_weights.append(1.0)
        self._rows += 1

    def add_weighted(self, atoms: Mapping[str, float], compounds: Mapping[str, float]) -> None:
        """Add an example whose weights are known."""
        self._add_atoms(atoms.items())
        numbers = self._compound_numbers
        for compound, weight in compounds.items():
            self._compounds.append(numbers.setdefault(compound, len(numbers)))
            self._compound_rows.append(self._rows)
            self._compound_weights.append(weight)
        self._rows += 1

    def _add_atoms(self, atoms: Iterable[tuple[Hashable, float]]) -> None:
        numbers = self._atom_numbers
        for atom, weight in atoms:
            self._atoms.append(numbers.setdefault(atom, len(numbers)))
            self._atom_rows.append(self._rows)
            self._atom_weights.append(weight)

    def build(self, chosen: ArrayLike | None = None) -> Parts:
        """The atoms and weighted compounds of all examples so far, or of the chosen ones alone."""
        chosen = np.arange(self._rows) if chosen is None else np.asarray(chosen, np.int64)
        places = np.full(self._rows, -1)
        places[chosen] = np.arange(len(chosen))
        rows = places[np.array(self._atom_rows, np.int64)]
        atoms, atom_weights = np.array(self._atoms, np.int64), np.array(self._atom_weights)
        atoms, atom_weights, rows = atoms[rows >= 0], atom_weights[rows >= 0], rows[rows >= 0]
        compound_rows = places[np.array(self._compound_rows, np.int64)]
        kept = compound_rows >= 0
        compounds, compound_rows = np.array(self._compounds, np.int64)[kept], compound_rows[kept]
        weights = np.array(self._compound_weights)[kept]
        types = len(self._compound_numbers)
        inner, outer = np.array(self._inner, np.int64), np.array(self._outer, np.int64)
        outer, inner = outer[kept[inner]], (np.cumsum(kept) - 1)[inner[kept[inner]]]
        if len(inner):
            # P(larger | compound): the fraction of a compound's occurrences inside the larger one.
            _, pair, together = np.unique(compounds[inner] * types + outer, return_inverse=True, return_counts=True)
            given = together[pair] / np.bincount(compounds, minlength=types)[compounds[inner]]
            first = np.flatnonzero(np.diff(inner, prepend=-1))  # occurrences come in order
            weights[inner[first]] -= np.minimum(np.maximum.reduceat(given, first), 1.0)
        return Parts(
            SparseRows.of_entries(len(chosen), len(self._atom_numbers), rows, atoms, atom_weights, "sum"),
            SparseRows.of_entries(len(chosen), types, compound_rows, compounds, weights, "max"),
        )
