"""Reference models for the problems of users: gradient boosting and logistic regression on counts of paths.

A row of `relations` becomes counts of the paths of up to four edges from the first queried node to the second, edges
also walked backwards, with the labels of both nodes; a row of `graph-labels` counts of the labelled paths of up to four
edges in the whole graph, and of rings by size. The better model on a fifth of the training rows is trained again on
all of them and scored on the test rows, once.

    python experiments/own-data/reference.py --clutrr data/clutrr/data_db9b8f04
    python experiments/own-data/reference.py --problems organisation spatial --seeds 1
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from edge_transformer.data.relations.clutrr import read_clutrr
from edge_transformer.data.relations.problems import PROBLEMS, Row, Splits
from edge_transformer.data.relations.problems.stories import row_of, sampled

LONGEST = 4
RINGS = range(3, 8)
FEATURES = 2000  # the most frequent ones; boosting cannot take many more
CLUTRR_ROWS = {"clutrr-500": 500, "clutrr-2000": 2000, "clutrr": None}


def walks(row: Row) -> dict[str, list[tuple[str, str]]]:
    """For every node its edges in both directions: label and other node."""
    around: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for a, label, b in row["edges"]:
        forth, back = (label, label) if "query" not in row else (f"{label}>", f"<{label}")  # bonds have no direction
        around[a].append((forth, b))
        around[b].append((back, a))
    return around


def paths(around: dict[str, list[tuple[str, str]]], start: str) -> Iterator[tuple[list[str], list[str]]]:
    """All simple paths from a node: their nodes and the labels of their edges."""
    waiting: list[tuple[list[str], list[str]]] = [([start], [])]
    while waiting:
        nodes, labels = waiting.pop()
        yield nodes, labels
        if len(labels) < LONGEST:
            waiting += [([*nodes, b], [*labels, label]) for label, b in around[nodes[-1]] if b not in nodes]


def query_features(row: Row) -> Counter[str]:
    kinds, around, (start, end) = row.get("nodes", {}), walks(row), row["query"]
    found = Counter({f"ends {kinds.get(start)} {kinds.get(end)}": 1})
    for nodes, labels in paths(around, start):
        if nodes[-1] == end:
            found[" ".join(labels)] += 1
            found[f"length {len(labels)}"] += 1
    for name, node in (("start", start), ("end", end)):  # what is said of both, as paths may be longer
        found.update(f"{name} {label}" for label, _ in around[node])
    return found


def graph_features(row: Row) -> Counter[str]:
    kinds, around = row["nodes"], walks(row)
    found: Counter[str] = Counter()
    for start in row["nodes"]:
        for nodes, labels in paths(around, start):
            steps = [kinds[nodes[0]]]
            for label, node in zip(labels, nodes[1:], strict=True):
                steps += [label, kinds[node]]
            if steps <= steps[::-1]:  # each path once
                found[" ".join(steps)] += 1
        for size, number in rings(around, start).items():
            found[f"ring of {size}"] += number
    return found


def rings(around: dict[str, list[tuple[str, str]]], start: str) -> Counter[int]:
    """The number of rings through a node by size, each counted in both directions."""
    found: Counter[int] = Counter()
    waiting = [[start]]
    while waiting:
        nodes = waiting.pop()
        for _, b in around[nodes[-1]]:
            if b == start and len(nodes) in RINGS:
                found[len(nodes)] += 1
            elif b not in nodes and len(nodes) < max(RINGS):
                waiting.append([*nodes, b])
    return found


def clutrr(folder: Path, rows: int | None, seed: int) -> Splits:
    """CLUTRR's rows as JSON has them, of the training rows as many as asked for."""
    data = read_clutrr(folder)
    train = [data.train[place] for place in sampled(len(data.train), rows, seed)] if rows else data.train
    tests = [story for stories in data.tests.values() for story in stories]
    return {"train": [row_of(story) for story in train], "test": [row_of(story) for story in tests]}


def score(splits: Splits, seed: int) -> dict[str, Any]:
    """Train and choose the models, and score the chosen one on the test rows."""
    started = time.process_time()
    features = query_features if "query" in splits["train"][0] else graph_features
    counts = {split: [features(row) for row in rows] for split, rows in splits.items()}
    targets = {split: np.array([row["target"] for row in rows]) for split, rows in splits.items()}
    rows_with = Counter(name for found in counts["train"] for name in found)
    kept = {name for name, _ in sorted(rows_with.items(), key=lambda item: (-item[1], item[0]))[:FEATURES]}
    vectors = DictVectorizer(sparse=False)
    x = vectors.fit_transform([{name: n for name, n in found.items() if name in kept} for found in counts["train"]])
    x_test, y, y_test = vectors.transform(counts["test"]), targets["train"], targets["test"]
    models: dict[str, Callable[[], Any]] = {
        "logistic": lambda: make_pipeline(MaxAbsScaler(), LogisticRegression(C=10, max_iter=2000)),
        "boosting": lambda: HistGradientBoostingClassifier(
            max_iter=150, min_samples_leaf=5, early_stopping=False, random_state=seed
        ),
    }
    rare = min(Counter(y.tolist()).values()) < 2
    fit, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=None if rare else y)
    valid = {
        name: float((make().fit(x[fit], y[fit]).predict(x[held]) == y[held]).mean()) for name, make in models.items()
    }
    chosen = max(valid, key=lambda name: valid[name])
    answers = models[chosen]().fit(x, y).predict(x_test)
    most = Counter(y.tolist()).most_common(1)[0][0]
    return {
        "train_rows": len(y),
        "test_rows": len(y_test),
        "features": x.shape[1],
        "majority": round(float((y_test == most).mean()), 4),
        "valid": {name: round(value, 4) for name, value in valid.items()},
        "chosen": chosen,
        "test": round(float((answers == y_test).mean()), 4),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS, *CLUTRR_ROWS], help="all that there is data for")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="of the split and the model")
    parser.add_argument("--data-seed", type=int, default=1, help="of the rows")
    parser.add_argument("--clutrr", type=Path, help="a CLUTRR folder")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/own-data-reference.jsonl"))
    options = parser.parse_args()
    names = options.problems or [*PROBLEMS, *(CLUTRR_ROWS if options.clutrr else ())]
    if options.clutrr is None and set(names) & set(CLUTRR_ROWS):
        parser.error("CLUTRR needs --clutrr")
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    lines = []
    for name in names:
        if name in PROBLEMS:
            splits = PROBLEMS[name](options.data_seed)
        else:
            splits = clutrr(options.clutrr, CLUTRR_ROWS[name], options.data_seed)
        for seed in options.seeds:
            record = {"problem": name, "data_seed": options.data_seed, "seed": seed, **score(splits, seed)}
            record |= {"versions": versions, "command": " ".join(["python", *sys.argv])}
            lines.append(json.dumps(record) + "\n")
            print(lines[-1], end="", flush=True)
    options.out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
