"""A row of a CLUTRR file and its story, for tests."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from edge_transformer.data.relations.clutrr import read_stories
from edge_transformer.data.relations.rows import ProofStep, Story

ROW = {  # a chain of two relations, every column that the reader knows
    "id": "0",
    "story": "Bob is Ann's son. Eve is Bob's sister.",
    "target": "daughter",
    "proof_state": "[{('Ann', 'daughter', 'Eve'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
    "task_name": "task_1.2",
    "story_edges": "[(0, 1), (1, 2)]",
    "edge_types": "['son', 'sister']",
    "query_edge": "(0, 2)",
    "genders": "Ann:female,Bob:male,Eve:female",
}
STORY = Story(
    edges=((0, 1), (1, 2)),
    relations=("son", "sister"),
    query=(0, 2),
    target="daughter",
    names=("Ann", "Bob", "Eve"),
    genders=("female", "male", "female"),
    proof=(ProofStep((0, "daughter", 2), ((0, "son", 1), (1, "sister", 2))),),
)


def write_rows(path: Path, rows: Iterable[dict[str, str]], columns: Iterable[str] = tuple(ROW)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_row(folder: Path, **cells: str) -> Story:
    """The story that is read from the row above with some of its cells changed."""
    [story] = read_stories(write_rows(folder / "train.csv", [ROW | cells], (ROW | cells).keys()))
    return story
