"""How many sentences a second trained parsers make dependency trees of, and the memory that the longest one takes.

python benchmarks/tree_speed.py runs/trees-cpu-EWT-seed1 --input data/ud/EWT/en_ewt-ud-test.conllu --threads 1

Of several parsers, each has its turn in every round, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

import torch

import edge_transformer as et
from edge_transformer.bench.memory import extra_peak
from edge_transformer.data.trees.conllu import DependencySentence, read_conllu
from edge_transformer.io.files import replacing
from edge_transformer.tasks.trees.model import TreeParser
from parse_speed import seconds_for


def load(run: str) -> TreeParser:
    model = et.load(run)
    assert isinstance(model, TreeParser)
    return model


def peak_alone(run: str, inputs: list[Path]) -> int | None:
    """The memory of parsing the longest sentence, measured in a process of its own."""
    command = [sys.executable, __file__, run, "--input", *map(str, inputs), "--threads", "1", "--only-memory"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="the folders of trained parsers")
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="CoNLL-U files; only words are read")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--only-memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    models = {run: load(run) for run in arguments.runs}
    sentences = [sentence for path in arguments.input for sentence in read_conllu(path, trees=False)]
    longest = max(sentences, key=lambda sentence: sentence.size)
    if arguments.only_memory:
        [model] = models.values()
        model.parse([DependencySentence.of_words(["a"])])  # loads what is loaded at first use
        print(json.dumps(extra_peak(lambda: model.parse([longest]))))
        return
    rounds = [
        {run: seconds_for(partial(model.parse, sentences)) for run, model in models.items()}
        for _ in range(arguments.times)
    ]
    found = {
        "threads": arguments.threads,
        "sentences": len(sentences),
        "words of the longest": longest.size,
        "parsers": {
            run: {
                "sentences a second": len(sentences) / median(seconds[run] for seconds in rounds),
                "bytes for the longest": peak_alone(run, arguments.input),
            }
            for run in models
        },
    }
    print(json.dumps(found, indent=1))
    if arguments.json:
        with replacing(arguments.json) as path:
            path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
