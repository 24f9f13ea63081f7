"""How many sentences a second a trained parser makes dependency trees of, and the memory that the longest one takes.

python benchmarks/tree_speed.py runs/dependency-cpu-EWT-seed1 --input data/ud/EWT/en_ewt-ud-test.conllu --threads 1
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch

import edge_transformer as et
from edge_transformer.bench.memory import extra_peak
from edge_transformer.data.treebanks import DependencySentence, read_conllu
from edge_transformer.files import replacing
from edge_transformer.tasks.tree_parser import TreeParser
from parse_speed import seconds_for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a trained parser")
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="CoNLL-U files; only words are read")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--only-memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = et.load(arguments.run)
    assert isinstance(model, TreeParser)
    sentences = [sentence for path in arguments.input for sentence in read_conllu(path, trees=False)]
    longest = max(sentences, key=lambda sentence: sentence.size)
    if arguments.only_memory:
        model.parse([DependencySentence.of_words(["a"])])  # loads what is loaded at first use
        print(extra_peak(lambda: model.parse([longest])))
        return
    seconds = median(seconds_for(lambda: model.parse(sentences)) for _ in range(arguments.times))
    alone = subprocess.run([*sys.orig_argv, "--only-memory"], check=True, capture_output=True, text=True)
    found = {
        "run": arguments.run,
        "threads": arguments.threads,
        "sentences": len(sentences),
        "sentences a second": len(sentences) / seconds,
        "words of the longest": longest.size,
        "bytes for the longest": json.loads(alone.stdout.replace("None", "null")),
    }
    for name, value in found.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    if arguments.json:
        with replacing(arguments.json) as path:
            path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
