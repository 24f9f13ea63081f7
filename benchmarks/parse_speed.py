"""How many sentences a second a bundled model parses, with logical forms or queries, and how soon a command answers.

python benchmarks/parse_speed.py --data data/cogs --threads 1
python benchmarks/parse_speed.py --model cfq-small --data data/cfq/mcd1 --splits test --threads 1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch

import edge_transformer as et
from edge_transformer.data.graphs.cogs import read_cogs
from edge_transformer.data.pairs.rows import read_pair_file
from edge_transformer.io.files import replacing
from edge_transformer.io.records import read_record
from edge_transformer.tasks.base import BUNDLED
from edge_transformer.tasks.graphs.data import GraphParser

FIRST = {"cogs-small": "A cat liked that the boy ran .", "cfq-small": "Did M1 marry M0 ' s sequel ' s writer"}


def sentences_of(model: str, folder: Path, splits: list[str]) -> dict[str, list[tuple[str, ...]]]:
    """The sentences of official files, by split."""
    if model == "cogs-small":
        return {split: [row.tokens for row in rows] for split, rows in read_cogs(folder, splits).splits.items()}
    return {split: [pair.source for pair in read_pair_file(folder / f"{split}.tsv.gz")] for split in splits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(FIRST), default="cogs-small")
    parser.add_argument("--data", type=Path, default=Path("data/cogs"), help="the folder with the official files")
    parser.add_argument("--splits", nargs="+", default=["test", "gen"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = et.load(arguments.model)
    assert isinstance(model, GraphParser)
    found: dict[str, float | str] = {
        "command": " ".join(["python", "benchmarks/parse_speed.py", *sys.argv[1:]]),
        "model": f"{arguments.model}, {read_record(BUNDLED / arguments.model / 'record.json').preset}",
        "threads": arguments.threads,
    }
    for split, sentences in sentences_of(arguments.model, arguments.data, arguments.splits).items():
        seconds = median(seconds_for(partial(model.parse, sentences)) for _ in range(arguments.times))
        found[f"{split} sentences a second"] = len(sentences) / seconds
    command = [sys.executable, "-m", "edge_transformer", "parse", FIRST[arguments.model], "--model", arguments.model]
    command += ["--threads", str(arguments.threads)]
    limited = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}

    def answer() -> object:
        return subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=limited)

    answer()  # the files of the packages are then in memory
    found["seconds to the first answer"] = median(seconds_for(answer) for _ in range(arguments.times))
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, str) else format(value, '.4g')}")
    if arguments.json:
        with replacing(arguments.json) as path:
            path.write_text(json.dumps(found, indent=1) + "\n")


def seconds_for(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
