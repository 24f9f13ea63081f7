"""Numbers of the pages are those of the records and the benchmarks."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from typing import Any

from documents import ROOT, text_of


def scores() -> dict[str, set[str]]:
    """For every preset as it is, the means that its runs have on one set of data, with standard errors, in percent."""
    runs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for path in (ROOT / "results/records").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            varying = ("train_rows", "augmented_rows")  # with the seed
            data = {name: value for name, value in record["data"].items() if name not in varying}
            about = json.dumps([data, record["overrides"]], sort_keys=True)
            for name, value in record["metrics"].items():
                if isinstance(value, int | float):
                    runs[record["preset"], about, name].append(100 * value)
    found: dict[str, set[str]] = defaultdict(set)
    for (preset, _, _), values in runs.items():
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1) / len(values))
        found[preset].add(f"{mean:.1f}" + (f" ± {spread:.1f}" if len(values) > 1 else ""))
    return found


def test_the_scores_of_the_readme_are_those_of_the_records() -> None:
    known = scores()
    told = re.findall(r"(\d+\.\d(?: ± \d+\.\d)?)\**,? \((?:[\w ]+, )?`([\w/-]+)`", text_of("README.md"))
    assert len(told) >= 10
    for score, preset in told:
        assert score in known[preset], (preset, score)


def measured(name: str) -> Any:
    return json.loads((ROOT / f"benchmarks/{name}.json").read_text(encoding="utf-8"))


def test_the_speeds_are_those_of_the_benchmarks() -> None:
    readme, page = text_of("README.md"), text_of("docs/speed.md")
    steps = {name: measured(f"{name}-step")["seconds a step"] for name in ("clutrr", "cogs")}
    clutrr, cogs, parsing = steps["clutrr"], steps["cogs"], measured("parse-speed")
    assert f"`clutrr/paper` takes {clutrr['ours']:.2f} s on one core" in readme
    assert (
        f"implementation {clutrr['plain']:.2f} s; of `cogs/paper` {cogs['ours']:.3f} s against {cogs['plain']:.3f} s"
        in readme
    )
    assert f"{parsing['test sentences a second']:.0f} sentences a second of COGS's test file" in readme
    for times, digits in ((clutrr, 2), (cogs, 3)):
        ratio = f"({times['ours'] / times['plain']:.2f} of it)"
        assert (
            f"{times['ours']:.{digits}f} s; a padded einsum implementation {times['plain']:.{digits}f} s {ratio}"
            in page
        )
    assert f"{parsing['test sentences a second']:.0f} sentences a second of `test`" in page
    assert f"{parsing['gen sentences a second']:.0f} of the longer `gen`" in page
    trees = [round(each["sentences a second"]) for each in measured("tree-speed")["parsers"].values()]
    edge, bilstm, transformer, universal = trees
    told = f"{edge} sentences a second; BiLSTM {bilstm}, Transformer {transformer}, Universal Transformer {universal}"
    assert told in page
    for name in ("clutrr-step", "cogs-step", "parse-speed"):
        assert measured(name)["command"] in page
    [memory] = [
        each["value"]
        for each in measured("speed")["measurements"]
        if (each["part"], each["case"], each["name"]) == ("memory", "n=512", "native")
    ]
    assert f"takes {memory / 1e6:.0f} MB beyond its inputs" in readme


def test_streamed_rows_are_loaded_much_faster_than_they_are_trained_on() -> None:
    found = measured("stream-speed")
    assert found["rows"] == 1_000_000
    assert found["models"]["the default settings"]["times as fast"] > 5
    some, everything = found["bytes of memory"].values()
    assert everything < 2 * some  # ten times as many rows
    assert found["command"] in text_of("docs/speed.md")


def test_what_is_said_of_explanations_is_what_was_measured() -> None:
    lines = (ROOT / "benchmarks/explanations.jsonl").read_text(encoding="utf-8").splitlines()
    small, best, links = (json.loads(line)["scores"] for line in lines)
    page = text_of("docs/explain.md")
    lengths = range(5, 11)

    def percent(of: dict[str, Any], k: int, name: str) -> float:
        return 100 * float(of[f"k={k}"]["fractions"][name])

    ratios = [percent(small, k, "precision") / percent(small, k, "balanced_precision") for k in lengths]
    assert f"is {min(ratios):.1f} to {max(ratios):.1f} times that of balanced ones" in page
    for k in range(3, 11):
        rules = [percent(small, k, f"{of}known_rules") for of in ("", "balanced_", "random_")]
        assert rules[0] == max(rules)
    of_links = links["fractions"]
    assert of_links["gradient_changed"] > of_links["named_changed"] > 2 * of_links["near_changed"]
    assert of_links["explained"] == 5 / 8
    changed = {of: sum(small[f"k={k}"]["sums"][of]["changed"] for k in lengths) for of in ("found", "random")}
    assert f"{changed['found'] / changed['random']:.1f} times as many answers change without the proof" in page
    rules = [percent(best, k, "known_rules") for k in range(3, 11)]
    assert 40 < sum(rules) / len(rules) < 60
    for scored in (small, best):
        layers = [scored[f"k={k}"]["mean_reading_layer"] for k in range(3, 11)]
        assert all(1 <= layer[name] <= 3 for layer in layers for name in ("found", "balanced"))
        assert all(4 <= layer["random"] <= 5 for layer in layers)


def test_what_is_said_of_the_server_is_what_was_measured() -> None:
    found, page = measured("serve"), " ".join(text_of("docs/serve.md").split())
    speed, endure, fuzz, browser = (found[name] for name in ("speed", "endure", "fuzz", "page"))
    for people, size, connections in ((3, "smallest", 64), (6, "small", 8), (6, "small", 64), (20, "large", 64)):
        both = [
            next(row for row in speed[size][how] if row["connections"] == connections)
            for how in ("batched", "one by one")
        ]
        rates = [row["requests_per_second"] for row in both]
        told = " | ".join([*(f"{rate:,.0f}" for rate in rates), f"{rates[0] / rates[1]:.1f}"])
        slow = " | ".join(f"{row['p99_ms']:,.0f} ms" for row in both)
        assert f"| {people} | {connections} | {told} | {slow} |" in page
    assert endure["lost"] == 0
    assert f"memory at the end {endure['memory_growth_percent']:.1f} % above" in page
    assert (fuzz["failed"], "500" in fuzz["statuses"]) == (0, False)
    assert f"{fuzz['bodies']:,} mutated bodies" in page
    assert f"none took longer than {fuzz['slowest_seconds']:.1f} s" in page
    files = speed["page"]
    assert f"{browser['bytes'] / 1000:.0f} kB as sent, in {files['files']} files that take {files['ms']:.0f} ms" in page
    load, change = (browser[name]["median"] for name in ("load_ms", "answer_after_change_ms"))
    assert f"loaded after {load:.0f} ms, and an answer follows a removed edge after {change:.0f} ms" in page
