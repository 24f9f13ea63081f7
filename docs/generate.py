"""Write the generated blocks of the documents: tables of commands, presets, settings and measurements.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Run `python docs/generate.py` after a change of
the command line, a preset, a setting, an example or a benchmark; a test says when it is due.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- generated: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TASKS = ("relations", "graphs", "trees", "seq2seq")
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


def _bench() -> Any:
    from edge_transformer.bench import Bench

    return Bench.read(ROOT / "benchmarks/speed.json")


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
    from edge_transformer.bench.tables import tables

    parts = []
    for each in tables(_bench()):
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
