"""Write the generated blocks of the documents: tables of commands, presets, settings and measurements.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Run `python docs/generate.py` after a change of
the command line, a preset, a setting, an example or a benchmark; a test says when it is due.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import runpy
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- generated: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TASKS = ("relations", "links", "graphs", "trees", "seq2seq")
BLOCKS: dict[str, Callable[[], str]] = {}


def block(make: Callable[[], str]) -> Callable[[], str]:
    """Register the function that writes the block of its name."""
    BLOCKS[make.__name__.replace("_", "-")] = make
    return make


def table(head: Iterable[str], rows: Iterable[Iterable[Any]], align: str = "") -> str:
    """A Markdown table; `align` has an r for every column that is aligned to the right."""
    head = list(head)
    marks = ["--:" if mark == "r" else "---" for mark in align.ljust(len(head))]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (head, marks, *rows))


# --- the command line -------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """All commands by name, such as ("data split", command)."""
    from typer.main import get_command

    from edge_transformer.cli.app import app

    for name, command in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        subcommands = getattr(command, "commands", None)
        if subcommands is None:
            yield name, command
        else:
            yield from ((f"{name} {sub}", each) for sub, each in sorted(subcommands.items()))


def one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def first_sentence(text: str | None) -> str:
    return re.split(r"(?<=[\w)\]?])\. (?=[A-Z])", one_line((text or "").split("\n\n")[0]))[0].removesuffix(".")


@block
def command_list() -> str:
    rows = ((f"[`{name}`](#{name.replace(' ', '-')})", first_sentence(each.help)) for name, each in commands())
    return table(("command", "what it does"), rows)


@block
def command_options() -> str:
    parts = []
    for name, command in commands():
        rows = []
        for each in command.params:
            if each.name == "help":
                continue
            is_option = each.param_type_name == "option"
            shown = (
                ", ".join(f"`{option}`" for option in each.opts)
                if is_option
                else f"`{(each.metavar or each.name).upper()}`"
            )
            rows.append((shown, one_line(each.help), _default(each)))
        parts.append(f"### {name}\n\n{table(('option', 'what', 'default'), rows)}")
    return "\n".join(parts)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    said = getattr(parameter, "show_default", None)
    if isinstance(said, str):
        return said
    default = parameter.default
    return "" if default in (None, False, [], ()) or callable(default) else f"`{default}`"


@block
def presets() -> str:
    """A row for each preset that is no variant of another; the names of its variants beside it."""
    from edge_transformer.training.presets import describe_preset, load_preset, preset_names

    variants: dict[str, list[str]] = {}
    for name in sorted(preset_names(), key=len):
        base = next((known for known in variants if name.startswith(f"{known}-")), None)
        if base is None:
            variants[name] = []
        else:
            variants[base].append(name.removeprefix(base))
    rows = []
    for name, endings in sorted(variants.items()):
        what = first_sentence(describe_preset(name))
        rows.append((f"`{name}`", load_preset(name)["task"], what, " ".join(f"`{each}`" for each in sorted(endings))))
    return table(("preset", "task", "what", "also with"), rows)


# --- settings ---------------------------------------------------------------------------------------------------------


PLAIN = {  # what needs no comment in the source
    "epochs": "passes over the training rows",
    "batch_size": "rows a step",
    "lr": "the highest learning rate",
    "weight_decay": "of the optimiser",
    "dim": "width of a state",
    "heads": "attention heads",
    "layers": "depth",
    "dropout": "of attention weights, attention output, hidden units and feed-forward output",
    "attention_bias": "biases of the attention's projections",
    "label_dim": "the same for the labels of arcs",
}


def settings(section: str, config: type, without: Iterable[str] = ()) -> str:
    """The fields of a dataclass with their defaults and the comments behind, or above them."""
    comments = field_comments(config)
    rows = []
    for field in dataclasses.fields(config):
        if field.name in without:
            continue
        default = field.default
        shown = "required" if default is dataclasses.MISSING else f"`{json.dumps(default)}`"
        rows.append((f"`{section}.{field.name}`", shown, one_line(comments.get(field.name) or PLAIN.get(field.name))))
    return table(("setting", "default", "what"), rows)


def field_comments(config: type) -> dict[str, str]:
    """The comments behind, or above, the fields of a dataclass or named tuple."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if not dataclasses.is_dataclass(base) and "_fields" not in vars(base):
            continue
        above: list[str] = []
        for line in inspect.getsource(base).splitlines():
            text = line.strip()
            field = re.match(r"(\w+): [^#]*?(?:#\s*(.*))?$", text)
            if text.startswith("#"):
                above.append(text.lstrip("# "))
                continue
            if field and line.startswith("    ") and not line.startswith("     "):
                found[field[1]] = " ".join([*above, field[2] or ""]).strip()
            above = []
    return found


@block
def train_settings() -> str:
    from edge_transformer.training.config import TrainConfig

    return settings("train", TrainConfig)


@block
def encoder_settings() -> str:
    from edge_transformer import EdgeTransformerConfig

    return settings("model", EdgeTransformerConfig)


def task_settings(name: str) -> str:
    from edge_transformer.tasks.base import get_task

    task = get_task(name)
    options = settings("model", task.model.Options) if dataclasses.fields(task.model.Options) else ""
    return "\n".join(filter(None, (settings("data", task.data.Settings), options)))


for _task in TASKS:
    BLOCKS[f"settings {_task}"] = lambda name=_task: task_settings(name)  # type: ignore[misc]


for _example in sorted((ROOT / "examples").glob("*.py")):
    BLOCKS[f"example {_example.stem}"] = lambda path=_example: f"```py\n{path.read_text(encoding='utf-8')}```\n"  # type: ignore[misc]


@block
def serve_limits() -> str:
    from edge_transformer.serve.limits import Limits

    comments = field_comments(Limits)
    rows = ((f"`{each.name}`", f"`{each.default}`", comments[each.name]) for each in dataclasses.fields(Limits))
    return table(("limit", "default", "what"), rows)


# --- benchmarks -------------------------------------------------------------------------------------------------------


@block
def experiments() -> str:
    rows = []
    for path in sorted((ROOT / "experiments").rglob("*.yaml")):
        comment = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                break
            comment.append(line.lstrip("# "))
        name = path.relative_to(ROOT).as_posix()
        rows.append((f"[`{name.removeprefix('experiments/')}`](../{name})", first_sentence(" ".join(comment))))
    return table(("file in `experiments/`", "what"), rows)


@block
def fingerprints() -> str:
    found: dict[tuple[str, str], str] = {}
    for path in sorted((ROOT / "results/records").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found.setdefault((record["task"], record["data"]["name"]), record["data"]["fingerprint"])
    rows = ((f"`{name}`", task, f"`{mark}`") for (task, name), mark in sorted(found.items()))
    return table(("data", "task", "fingerprint"), rows)


OWN_DATA = {  # problems by their name among the reference models: what they are, and the name of their data in records
    "organisation": ("organisation charts: who reports to whom", "organisation"),
    "permissions": ("permissions of users, groups and folders", "permissions"),
    "spatial": ("spatial relations: left of, above, inside", "spatial"),
    "family": ("families", "family"),
    "clutrr-500": ("CLUTRR, 500 rows", "clutrr-500"),
    "clutrr-2000": ("CLUTRR, 2,000 rows", "clutrr-2000"),
    "clutrr": ("CLUTRR, all rows", "data_db9b8f04"),
    "graph": ("a small knowledge graph", "graph"),
    "molecules": ("graph classification: molecules", "molecules"),
}
CLUTRR_TESTS = (38, 107, 77, 185, 105, 155, 135, 124, 122)  # rows of k=2 to k=10, for records without "accuracy"


@block
def own_data() -> str:
    lines = (ROOT / "benchmarks/own-data-reference.jsonl").read_text(encoding="utf-8").splitlines()
    paths = (ROOT / "results/records" / name for name in ("own-data.jsonl", "clutrr.jsonl"))
    records = [json.loads(line) for path in paths if path.exists() for line in path.read_text("utf-8").splitlines()]
    return own_data_table([json.loads(line) for line in lines], records)


def own_data_table(references: Iterable[dict[str, Any]], records: Iterable[dict[str, Any]]) -> str:
    """The default settings beside the most frequent answer, the reference models and the best settings by hand."""
    by_problem: dict[str, list[dict[str, Any]]] = {}
    for reference in references:
        by_problem.setdefault(reference["problem"], []).append(reference)
    default: dict[str, dict[int, dict[str, Any]]] = {}
    by_hand: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for record in sorted(records, key=lambda record: record["finished"]):  # the last run of a seed counts
        name, data = record["data"]["name"], record["data"]
        some = name == OWN_DATA["clutrr"][1] and data["train_k"] != "2,3,4"  # of the rows
        if some or "tested" in data or record["model"] != "edge" or _accuracy(record) is None:
            continue
        if record["preset"] == "fitted" and not record["overrides"]:
            default.setdefault(name, {})[record["seed"]] = record
        else:
            settings = json.dumps([record["preset"], record["overrides"]], sort_keys=True)
            by_hand.setdefault(name, {}).setdefault(settings, {})[record["seed"]] = record
    rows = []
    for problem, (title, name) in OWN_DATA.items():
        known = by_problem.get(problem, [])
        tuned = max(by_hand.get(name, {}).values(), key=lambda runs: _mean_accuracy(runs.values()), default={})
        found = default.get(name, {})
        behind = "" if not (found and tuned) else f"{_points(found) - _points(tuned):+.1f}"
        rows.append(
            (
                title,
                f"{known[0]['train_rows']:,}" if known else "",
                _mean([each["majority"] for each in known]),
                _mean([each["test"] for each in known]),
                _mean([_accuracy(each) for each in tuned.values()]),
                _mean([_accuracy(each) for each in found.values()]),
                behind,
                str(len(found)) if found else "",
                f"{max(each['cpu_minutes'] or each['minutes'] for each in found.values()):.1f}" if found else "",
            )
        )
    head = ("problem", "rows", "majority", "reference", "by hand", "default", "difference", "seeds", "minutes")
    return table(head, rows, " rrrrrrrr")


def _accuracy(record: dict[str, Any]) -> float | None:
    """The accuracy of all test rows; from those of CLUTRR by length, where a record has no other."""
    metrics = record["metrics"]
    by_length = [metrics.get(f"k={k}") for k in range(2, 2 + len(CLUTRR_TESTS))]
    if "accuracy" in metrics or None in by_length:
        return metrics.get("accuracy")
    return sum(n * share for n, share in zip(CLUTRR_TESTS, by_length, strict=True)) / sum(CLUTRR_TESTS)


def _mean_accuracy(records: Iterable[dict[str, Any]]) -> float:
    return statistics.fmean(accuracy for each in records if (accuracy := _accuracy(each)) is not None)


def _points(runs: dict[int, dict[str, Any]]) -> float:
    return 100 * _mean_accuracy(runs.values())


def _mean(shares: list[Any]) -> str:
    """The mean in percent, with its standard error where there are several."""
    if not shares:
        return ""
    error = f" ± {100 * statistics.stdev(shares) / math.sqrt(len(shares)):.1f}" if len(shares) > 1 else ""
    return f"{100 * statistics.fmean(shares):.1f}{error}"


@block
def link_peers() -> str:
    markdown: Callable[[], str] = runpy.run_path(str(ROOT / "experiments/links/compare.py"))["markdown"]
    return markdown()


@block
def divergences() -> str:
    rows = []
    for command, found in json.loads((ROOT / "benchmarks/divergences.json").read_text(encoding="utf-8")).items():
        test, chance = found["test"], found["a random test set"]
        cells = [f"{found['train']['rows']:,}", f"{test['rows']:,}"]
        cells += [f"{each[f'{kind}_divergence']:.4f}" for each in (test, chance) for kind in ("atom", "compound")]
        rows.append((f"`{command.removeprefix('edge-transformer data divergence ')}`", *cells))
    head = ("folder", "train", "test", "atoms", "compounds", "random: atoms", "random: compounds")
    return table(head, rows, " rrrrrr")


@block
def cfq_graphs() -> str:
    """The `derived.json` of each split, but for its labels."""
    rows = []
    for command, files in json.loads((ROOT / "benchmarks/cfq-graphs.json").read_text(encoding="utf-8")).items():
        for name, found in files.items():
            missed = found["questions"] - found["covered"]
            edges = found["edges"] / found["tokens"]
            shares = f"{found['covered'] / found['questions']:.2%}", f"{found['ordered'] / found['questions']:.2%}"
            split = command.split()[5].rpartition("/")[2].upper()
            rows.append((split, name, f"{found['questions']:,}", shares[0], f"{missed:,}", f"{edges:.2f}", shares[1]))
    return table(("split", "file", "questions", "covered", "not", "edges a word", "with `before`"), rows, "  rrrrr")


def _explanations(number: int) -> str:
    lines = (ROOT / "benchmarks/explanations.jsonl").read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[number])
    columns = {
        "accuracy": "accuracy",
        "precision: proof": "precision",
        "balanced": "balanced_precision",
        "random": "random_precision",
        "known rules: proof": "known_rules",
        "balanced ": "balanced_known_rules",
        "random ": "random_known_rules",
        "changed without: proof": "changed",
        "balanced  ": "balanced_changed",
        "random  ": "random_changed",
        "gold": "gold_changed",
        "other pivots": "other_changed",
    }
    rows = [
        (k.removeprefix("k="), *(f"{100 * scores['fractions'][name]:.1f}" for name in columns.values()))
        for k, scores in record["scores"].items()
    ]
    head = ("k", *(name.strip() for name in columns))
    return f"    {record['command']}\n\n{table(head, rows, 'r' * len(head))}"


@block
def explanations_small() -> str:
    return _explanations(0)


@block
def explanations_best() -> str:
    return _explanations(1)


@block
def link_explanations() -> str:
    """What links lose without the facts that their explanations name, and without others."""
    kinds = ("named", "near", "anywhere", "gradient", "attention")
    rows, commands = [], []
    for line in (ROOT / "benchmarks/explanations.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if not record["format"].startswith("edge-transformer link explanations"):
            continue
        scores, data = record["scores"], record["data"]
        of, links = scores["fractions"], scores["sums"]["links"]
        commands.append(f"    {record['command']}\n")
        for what in ("changed", "lost"):
            shown = [f"{100 * of[f'{kind}_{what}']:.1f}" for kind in kinds]
            about = {"changed": "answers changed", "lost": "probability lost"}[what]
            rows.append((f"`{data['name']}`", links, f"{of['named_facts']:.1f}", about, *shown))
    head = ("data", "links", "facts a link", "in percent", *kinds)
    return f"{''.join(commands)}\n{table(head, rows, ' rr rrrrr')}"


@block
def decoding() -> str:
    measured = json.loads((ROOT / "benchmarks/decode.json").read_text(encoding="utf-8"))
    of = {(each["part"], each["case"], each["name"]): each for each in measured["measurements"]}
    tokens = 16 * 50  # sequences at once, words said
    rows = []
    for case in ("cfq/cpu, 3 layers", "cfq/paper, 6 layers"):
        slow, fast = (of["decode", case, name]["value"] for name in ("recomputed", "cached"))
        rows.append((f"`{case.split(',')[0]}`", f"{tokens / slow:.3g}", f"{tokens / fast:.3g}", f"{slow / fast:.1f}"))
    return table(("sizes of", "recomputed, tokens a second", "with the cache", "times as many"), rows, " rrr")


@block
def streaming() -> str:
    measured = json.loads((ROOT / "benchmarks/stream-speed.json").read_text(encoding="utf-8"))
    rows = []
    for what, found in measured["models"].items():
        cells = [
            f"{float(f'{found[name]:.3g}'):,.0f}" for name in ("loading, rows a second", "training, rows a second")
        ]
        rows.append((f"{what}: dim {found['dim']}, {found['layers']} layers", *cells, f"{found['times as fast']:.1f}"))
    speed = table(("model", "loaded, rows a second", "trained on, rows a second", "times as fast"), rows, " rrr")
    memory = " and ".join(f"{found / 1e6:.0f} MB with {what}" for what, found in measured["bytes of memory"].items())
    size = f"{measured['rows']:,} rows, {measured['bytes of the files'] / 1e6:.0f} MB of JSON"
    return f"{size}, one thread. Reading an epoch takes {memory}.\n\n{speed}"


@block
def training_memory() -> str:
    measured = json.loads((ROOT / "benchmarks/seq2seq.json").read_text(encoding="utf-8"))
    of = {(each["part"], each["case"], each["name"]): each["ratio"] for each in measured["measurements"]}
    rows = []
    for name, step, memory in (
        ("plain", "step", "native"),
        ("with dropout", "step with dropout", None),
        ("`--recompute hidden`", "hidden again", "hidden again"),
        ("`--recompute layers`", None, "layers again"),
    ):
        time = "" if step is None else f"{of['seq2seq', 'cfq/paper, 6 layers, dropout 0.1', step]:.2f}"
        space = "" if memory is None else f"{of['seq2seq-memory', 'cfq/paper, 6 layers', memory]:.2g}"
        rows.append((name, time, space))
    return table(("a step of `cfq/paper`", "time, of its products", "memory, of einsum"), rows, " rr")


V100 = 15.7e12  # operations a second in single precision, by its maker
V100_SHARE = 1 / 3  # of that, assumed


@block
def paper_cost() -> str:
    measured = json.loads((ROOT / "benchmarks/paper-cost.json").read_text(encoding="utf-8"))["presets"]
    rows = []
    for preset, found in measured.items():
        step, days = f"{found['seconds a step']:.3g} s", f"{found['days of one core']:.3g}"
        operations = found.get("operations")
        gpu = "" if operations is None else f"{operations / (V100 * V100_SHARE) / 3600:.2g} hours"
        rows.append((f"`{preset}`", f"{found['steps']:,}", step, days, f"{operations:.2g}" if operations else "", gpu))
    gpu = "one V100 at a third of its peak"
    head = ("preset", "steps of 64 pairs", "a step", "days of one core", "operations", gpu)
    return table(head, rows, " rrrrr")


def _bench(name: str = "speed") -> Any:
    from edge_transformer.bench import Bench

    return Bench.read(ROOT / f"benchmarks/{name}.json")


@block
def speed_machine() -> str:
    machine = _bench().machine
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"
    return (
        f"On {where}; PyTorch {machine['torch']}, Python {machine['python']}; engine `native`: "
        f"{machine['engines']['native']['note']}. One thread and float32 unless said otherwise. Times are medians "
        "after a warm-up; *spread* is the widest distance of a quartile from its median. Sizes: B graphs of n nodes, "
        "edge states of width d in h heads.\n"
    )


@block
def speed() -> str:
    return _tables("speed")


@block
def links_speed() -> str:
    asked = json.loads((ROOT / "benchmarks/link-queries.json").read_text(encoding="utf-8"))
    first, later = (asked[f"seconds of {which}"] for which in ("the first question", "a later one, median"))
    many, passes = asked["seconds of 1000 at once"], asked["passes over the graph for 1000"]
    one = f"A question on {asked['data']} ({asked['nodes']} nodes) takes {1000 * later:.2g} ms"
    first = f"the first, which reads the graph, {first:.2g} s"
    at_once = f"a thousand at once {many:.2g} s and {passes} pass{'es' * (passes > 1)} over the graph"
    return f"{_tables('links-memory')}\n{one}; {first}; {at_once}. The machine was busy.\n"


def _tables(name: str) -> str:
    from edge_transformer.bench.tables import tables

    parts = []
    for each in tables(_bench(name)):
        title, _, about = each.title.partition(": ")
        shown = (f"### {title.capitalize()}: {about}", each.markdown(), " ".join(each.notes))
        parts.append("\n\n".join(filter(None, shown)))
    return "\n\n".join(parts) + "\n"


def generated(text: str) -> str:
    """A page with all of its blocks written anew."""

    def write(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        return f"{begin}\n{BLOCKS[name]()}\n{end}"

    return BLOCK.sub(write, text)


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = generated(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
