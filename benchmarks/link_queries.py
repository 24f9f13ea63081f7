"""How soon a model of links answers: the first question, later ones, and a thousand at once, in how many passes.

python benchmarks/link_queries.py --run runs/links-cpu-umls-seed1 --json benchmarks/link-queries.json
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from statistics import median

import torch

import edge_transformer as et
from edge_transformer.io.files import write_json
from parse_speed import seconds_for

MANY = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/links-cpu-umls-seed1"))
    parser.add_argument("--times", type=int, default=51)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = et.load(arguments.run)
    assert isinstance(model, et.LinkModel)
    passes: list[int] = []
    for network in model.networks:
        network.register_forward_hook(lambda *_: passes.append(1))
    entities, relations, chance = list(model.entities), list(model.relations), random.Random(1)

    def question() -> dict[str, str]:
        end = chance.choice(("head", "tail"))
        return {end: chance.choice(entities), "relation": chance.choice(relations)}

    first = seconds_for(lambda: model.predict([question()]))
    later = sorted(seconds_for(lambda: model.predict([question()])) for _ in range(arguments.times))
    again = et.load(arguments.run)
    assert isinstance(again, et.LinkModel)
    passes.clear()
    for network in again.networks:
        network.register_forward_hook(lambda *_: passes.append(1))
    questions = [question() for _ in range(MANY)]
    many = seconds_for(lambda: again.predict(questions))
    found = {
        "command": " ".join(["python", "benchmarks/link_queries.py", *sys.argv[1:]]),
        "data": model.record.data_name,
        "nodes": len(entities),
        "threads": arguments.threads,
        "seconds of the first question": first,
        "seconds of a later one, median": median(later),
        "seconds of the slowest later one": later[-1],
        f"seconds of {MANY} at once": many,
        f"passes over the graph for {MANY}": len(passes),
    }
    for name, value in found.items():
        print(f"{name}: {format(value, '.4g') if isinstance(value, float) else value}")
    if arguments.json:
        write_json(arguments.json, found)


if __name__ == "__main__":
    main()
