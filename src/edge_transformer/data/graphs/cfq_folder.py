"""Derive a folder of sentence graphs from a folder of CFQ's questions and queries, and count what is covered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...io.files import replacing_together
from ..pairs.folder import PairFiles, pair_files
from ..pairs.rows import Pair
from .cfq import BEFORE, WITH_TREES, CfqGraph, graph_of, learn_anchors, read_row
from .cfq_anchors import ROUNDS_OF_PLACES, SAMPLE

DESCRIPTION_FILE = "derived.json"
NOT_COVERED_FILE = "not-covered.txt"
KIND = "cfq-graphs"

Progress = Callable[[int], None]


@dataclass
class Account:
    """Counts of the graphs of a file."""

    questions: int = 0
    covered: int = 0
    tokens: int = 0
    edges: int = 0  # of covered questions, edges to itself included
    ordered: int = 0  # covered questions with an edge "before"
    labels: Counter[str] = field(default_factory=Counter)

    def add(self, made: CfqGraph) -> None:
        """Count a graph."""
        self.questions += 1
        self.tokens += made.graph.size
        if made.covered:
            labels = [label for _, _, label in made.graph.edges]
            self.covered += 1
            self.edges += len(labels)
            self.ordered += BEFORE in labels
            self.labels.update(labels)

    def merge(self, other: Account) -> None:
        """Add the counts of another account."""
        self.questions += other.questions
        self.covered += other.covered
        self.tokens += other.tokens
        self.edges += other.edges
        self.ordered += other.ordered
        self.labels.update(other.labels)

    def to_json(self) -> dict[str, Any]:
        """All counts, the most frequent label first."""
        return asdict(self) | {"labels": dict(self.labels.most_common())}


@dataclass(frozen=True)
class CfqPairs:
    """The questions and queries of a folder, by the names of their files."""

    files: PairFiles
    pairs: dict[str, tuple[Pair, ...]]

    @property
    def steps(self) -> int:
        """How many steps `derive_graphs` reports."""
        return sum(map(len, self.pairs.values())) + ROUNDS_OF_PLACES * min(len(self.pairs["train"]), SAMPLE)


def read_cfq_pairs(source: str | Path, split: str | None = None, progress: Progress | None = None) -> CfqPairs:
    """Read a folder of questions and queries: train.tsv and others, or CFQ's official files."""
    files = pair_files(source, split)
    if "train" not in files.by_split:
        raise UserError(f"{source}: found no training rows; expected train.tsv, from which places of words are learned")
    return CfqPairs(files, files.read(files.by_split, progress))


def derive_graphs(
    data: CfqPairs, folder: str | Path, form: str = WITH_TREES, progress: Progress | None = None
) -> dict[str, Account]:
    """Write train.jsonl, dev.jsonl and test.jsonl with a graph and its query a line, and return their counts.

    Where words and variables stand is learned from the training rows alone. Training rows whose graph does not give
    their query back are left out; other rows keep their query, so that they count as wrong. `not-covered.txt` lists
    both.
    """
    folder = Path(folder)
    train = [read_row(pair) for pair in data.pairs["train"]]
    anchors = learn_anchors(train, progress)
    accounts: dict[str, Account] = {}
    missed: list[str] = []
    with replacing_together(folder) as place:
        for name, pairs in data.pairs.items():
            accounts[name] = account = Account()
            with open(place(f"{name}.jsonl"), "w", encoding="utf-8", newline="\n") as file:
                rows = train if name == "train" else map(read_row, pairs)
                for pair, row in zip(pairs, rows, strict=True):
                    made = graph_of(row, anchors, form)
                    account.add(made)
                    if not made.covered:
                        missed.append(f"{Path(pair.path).name}:{pair.line}\t{' '.join(pair.source)}\t{made.sparql}\n")
                    if made.covered or name != "train":
                        file.write(json.dumps(made.graph.to_json() | {"sparql": made.sparql}) + "\n")
                    if progress:
                        progress(1)
        place(NOT_COVERED_FILE).write_text("".join(missed), encoding="utf-8", newline="\n")
        description = {
            "kind": KIND,
            "form": form,
            "split": data.files.split,
            "files": {name: account.to_json() for name, account in accounts.items()},
        }
        place(DESCRIPTION_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return accounts
