"""How many sentences a second the bundled model parses, graphs and logical forms, and how soon a command answers.

python benchmarks/parse_speed.py --data data/cogs --threads 1
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
from edge_transformer.io.files import replacing
from edge_transformer.io.records import read_record
from edge_transformer.tasks.base import BUNDLED
from edge_transformer.tasks.graphs.data import GraphParser

MODEL = "cogs-small"
SENTENCE = "A cat liked that the boy ran ."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/cogs"), help="the folder with COGS's official files")
    parser.add_argument("--splits", nargs="+", default=["test", "gen"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = et.load(MODEL)
    assert isinstance(model, GraphParser)
    found: dict[str, float | str] = {
        "command": " ".join(["python", "benchmarks/parse_speed.py", *sys.argv[1:]]),
        "model": f"{MODEL}, {read_record(BUNDLED / MODEL / 'record.json').preset}",
        "threads": arguments.threads,
    }
    for split, rows in read_cogs(arguments.data, arguments.splits).splits.items():
        sentences = [row.tokens for row in rows]
        seconds = median(seconds_for(partial(model.parse, sentences)) for _ in range(arguments.times))
        found[f"{split} sentences a second"] = len(sentences) / seconds
    command = [sys.executable, "-m", "edge_transformer", "parse", SENTENCE, "--threads", str(arguments.threads)]
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
