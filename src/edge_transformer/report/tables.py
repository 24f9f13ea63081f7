"""From the records of finished runs to tables: mean and standard error over seeds, the paper's numbers beside ours.

A new task needs an entry in paper_results.yaml for its titles and the paper's numbers, and no code.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import count
from typing import Any, TypeVar

import yaml

from ..errors import UserError
from ..io.markdown import code, code_words, escape
from ..io.records import Record, canonical_json, is_fraction, is_validation
from ..training.presets import SECTIONS, preset_names, yaml_value

T = TypeVar("T")
K = TypeVar("K")

ABOVE, BELOW = "▲", "▼"
FEW_SEEDS = 5  # below this our own standard error is too uncertain to stand alone

# name in presets and in paper_results.yaml, name for people, the option that makes it
ABLATIONS: tuple[tuple[str, str, str, Any], ...] = (
    ("untied", "untied weights", "tied", False),
    ("value-ablation", "value ablation", "value", "left"),
    ("attention-ablation", "attention ablation", "key", "ij"),
)


@dataclass(frozen=True)
class Score:
    """A mean over runs, as a fraction of 1. The error is None when it is not known, `runs` too."""

    mean: float
    error: float | None
    runs: int | None


@dataclass(frozen=True)
class Row:
    """One line of a table: ours, or the paper's where `preset` is empty."""

    model: str  # as people read it
    preset: str
    options: str
    scores: dict[str, Score]
    runs: int | None
    kind: str = ""  # of the model, whatever was ablated: edge, universal, ...; "" for the paper's
    is_trial: bool = False  # one that recipes are chosen by: it reads no test rows
    minutes: float | None = None
    cpu_minutes: float | None = None  # where all runs counted them
    threads: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)  # metric -> ABOVE or BELOW, or ""

    @property
    def is_paper(self) -> bool:
        return not self.preset


@dataclass(frozen=True)
class ResultTable:
    """All runs of one task on one training set, and what the paper has on it."""

    title: str
    name: str  # for files
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    trials: tuple[Row, ...]  # rows that recipes are chosen by, which have no place in the table
    common: str  # the options that all of our rows have, which their own do not repeat
    data: tuple[str, ...]
    commands: tuple[str, ...]
    versions: str
    notes: tuple[str, ...]
    trained: tuple[int, ...]  # the sizes seen in training, for the figure
    axis: str  # what the sizes are; "" when the metrics have none
    headline: str  # the metric that a figure shows where there are no sizes; "" where none stands for all
    score: str  # what the figure's numbers are


def result_tables(records: Sequence[Record]) -> list[ResultTable]:
    """One table for each task and kind of data, in the order of paper_results.yaml, each with a title of its own."""
    by_data = _group(map(as_run_today, records), lambda record: (record.task, canonical_json(_kind_of_data(record))))
    by_title = _group(sorted(by_data.values(), key=_table_order), _title)
    tables: dict[str, ResultTable] = {}
    for title, groups in by_title.items():
        for group in groups:
            table = _result_table(group, title + _distinction(group, groups))
            names = (f"{table.name}-{number}" if number > 1 else table.name for number in count(1))
            name = next(name for name in names if name not in tables)  # titles may differ in signs only
            tables[name] = replace(table, name=name)
    return list(tables.values())


def _kind_of_data(record: Record) -> dict[str, Any]:
    """What the runs of one table have in common: the files, and the settings that are texts, such as train_k or split.

    Numbers and switches, such as how many rows are held out, come with the preset and may differ from row to row; so do
    the stories that a run is validated on, which no model learns from.
    """
    return {
        name: value
        for name, value in record.data.items()
        if name not in ("name", "valid_fingerprint") and isinstance(value, str | list)
    }


def _table_order(records: Sequence[Record]) -> tuple[list[int], str, str]:
    tasks = _paper()["tasks"]
    task, setting = _paper_places(records[0])
    settings = tasks.get(task, {}).get("settings", {})
    position = [
        [*tasks].index(task) if task in tasks else len(tasks),
        [*settings].index(setting) if setting in settings else len(settings),
        int("tested" in records[0].data),
    ]
    return position, records[0].task, canonical_json(_kind_of_data(records[0]))


def _distinction(group: Sequence[Record], groups: Sequence[Sequence[Record]]) -> str:
    """What sets a group apart from others of the same title: the data's name, or else every setting that differs."""
    if len(groups) == 1:
        return ""
    if len({_data_names(other) for other in groups}) == len(groups):
        return f" ({_data_names(group)})"
    kinds = [_kind_of_data(other[0]) for other in groups]
    different = {
        name: value
        for name, value in _kind_of_data(group[0]).items()
        if len({canonical_json(kind.get(name)) for kind in kinds}) > 1
    }
    return f" ({_options(different)})"


def _result_table(records: Sequence[Record], title: str) -> ResultTable:
    task, setting = _paper_entries(records[0])
    rows: list[Row] = []
    common = _common_options(records)
    variants = _group(sorted(records, key=_row_order), lambda record: (record.model, _ablations(record)))
    if any(model == "edge" for model, _ in variants):  # what the paper is about has its row beside any variant of it
        variants = {("edge", ()): [], **variants}
    for (model, ablations), of_variant in variants.items():
        name = model_title(model, ablations)
        entry = setting.get("variants", {}).get("-".join((model, *ablations)))
        paper = _paper_row(name, entry, setting.get("other_data", ""))
        by_row = _group(of_variant, lambda record: (_row_order(record), canonical_json(record.settings)))
        for runs in by_row.values():
            changed = _changed_settings(runs[0], [other[0] for other in by_row.values()])
            options = _without(common, {**changed, **runs[0].overrides})
            rows.append(_our_row(name, runs, options, paper))
        rows += [paper] if paper else []
    tested = [row for row in rows if not row.is_trial] or rows
    metrics = {metric for row in tested for metric in row.scores if not is_validation(metric)}
    whole = {metric for metric in metrics if "/" not in metric} or metrics  # "test/agent" is a part of "test"
    columns = [metric for metric in task.get("columns", sorted(whole, key=natural)) if metric in metrics]
    axis = _common_axis(columns)
    about = {**task, **setting}
    return ResultTable(
        title=title,
        name=_file_name(f"{records[0].task}-{title.removeprefix(task.get('title', records[0].task))}"),
        metrics=tuple(columns),
        rows=tuple(tested),
        trials=tuple(row for row in rows if row not in tested),
        common=_options(common),
        data=_describe_data(records, common),
        commands=_commands(records),
        versions=_versions(records),
        notes=tuple(entry["note"] for entry in (setting, task) if entry.get("note")),
        trained=_integers(records[0].data.get(f"train_{axis}")),
        axis=task.get("axis", axis) if axis else "",
        headline=about.get("headline", ""),
        score=about.get("score", "score"),
    )


def as_run_today(record: Record) -> Record:
    """The record of a run whose preset was changed since, with the options and the command that make it today.

    There is no command where a setting is gone, and with it the code that it was for.
    """
    if record.preset not in preset_names():
        return record
    from ..training.config import RunConfig

    try:
        today = RunConfig.from_preset(record.task, record.preset, record.overrides, record.seed).settings
    except UserError:  # one of the options is gone
        return replace(record, command="")
    known = {f"{section}.{name}": value for section in SECTIONS for name, value in today[section].items()}
    then = {name: value for name, value in _flatten(record.settings).items() if name.split(".")[0] in SECTIONS}
    changed = {name: value for name, value in then.items() if name not in known or known[name] != value}
    if not changed:
        return record
    if "tested" in record.data:  # its command is not the one that trained it
        return replace(record, overrides={**record.overrides, **changed})
    options = [f"--set {shlex.quote(f'{name}={yaml_value(value)}')}" for name, value in sorted(changed.items())]
    possible = record.command and changed.keys() <= known.keys()
    command = " ".join([record.command, *options]) if possible else ""
    return replace(record, overrides={**record.overrides, **changed}, command=command)


def _changed_settings(record: Record, others: Iterable[Record]) -> dict[str, Any]:
    """The settings in which runs of the same preset and options differ, as they do when a preset has been changed."""
    settings = _flatten(record.settings)
    alike = [_flatten(other.settings) for other in others if _row_order(other) == _row_order(record)]
    return {name: value for name, value in settings.items() if any(other.get(name) != value for other in alike)}


def _flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """{"train": {"lr": 0.1}} as {"train.lr": 0.1}."""
    flat = {}
    for name, value in settings.items():
        flat.update(
            {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        )
    return flat


def _common_options(records: Sequence[Record]) -> dict[str, Any]:
    """The --set options that all runs have, where there are runs with others too."""
    common = dict(records[0].overrides)
    for record in records:
        common = {name: value for name, value in common.items() if record.overrides.get(name, ...) == value}
    alike = all(record.overrides.keys() == common.keys() and record.preset == records[0].preset for record in records)
    return {} if alike else common


def _without(common: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in common}


def _our_row(name: str, records: Sequence[Record], options: Mapping[str, Any], paper: Row | None) -> Row:
    values = _group(
        [(metric, value) for record in records for metric, value in record.metrics.items() if is_fraction(metric)],
        lambda pair: pair[0],
    )
    scores = {metric: _score([value for _, value in pairs]) for metric, pairs in values.items()}
    compared = paper.scores if paper and not paper.options else {}
    return Row(
        model=name,
        preset=records[0].preset,
        options=_options(options),
        scores=scores,
        runs=len(records),
        kind=records[0].model,
        is_trial=all(map(is_validation, scores)) or records[0].settings.get("data", {}).get("test") is False,
        minutes=statistics.fmean(record.minutes for record in records),
        cpu_minutes=_mean_of_all([record.cpu_minutes for record in records]),
        threads=", ".join(str(count) for count in sorted({record.threads for record in records})),
        marks={metric: _mark(score, compared[metric]) for metric, score in scores.items() if metric in compared},
    )


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _paper_row(name: str, entry: Mapping[str, Any] | None, other_data: str) -> Row | None:
    if entry is None:
        return None
    runs = entry["runs"]
    scores = {
        metric: Score(mean / 100, None if error is None else error / 100, runs)
        for metric, (mean, error) in entry["scores"].items()
    }
    return Row(model=name, preset="", options=other_data, scores=scores, runs=runs)


def _score(values: Sequence[float]) -> Score:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Score(statistics.fmean(values), error, len(values))


def _mark(ours: Score, paper: Score) -> str:
    """ABOVE or BELOW where the difference is more than twice the joint standard error; see HOW_TO_READ."""
    error = our_error(ours, paper)
    if error is None or paper.error is None:
        return ""
    difference = ours.mean - paper.mean
    if abs(difference) <= 2 * math.hypot(error, paper.error) + 1e-12:  # equal numbers differ by a rounding error
        return ""
    return ABOVE if difference > 0 else BELOW


def our_error(ours: Score, paper: Score) -> float | None:
    """The standard error that a mean of ours is given beside the paper's; None where nothing tells it."""
    assert ours.runs is not None
    if ours.runs >= FEW_SEEDS:
        return ours.error
    if paper.error is None or paper.runs is None:
        return None
    spread = paper.error * math.sqrt(paper.runs)
    return max(ours.error or 0.0, spread / math.sqrt(ours.runs))


def one_a_preset(rows: Iterable[Row]) -> list[Row]:
    """Of each preset the row with the fewest options: trials and earlier settings have a place in the table alone."""
    chosen: dict[str, Row] = {}
    for row in rows:
        known = chosen.setdefault(row.preset, row)
        if (row.options.count("="), -(row.runs or 0)) < (known.options.count("="), -(known.runs or 0)):
            chosen[row.preset] = row
    return list(chosen.values())


# Names


@cache
def _paper() -> dict[str, Any]:
    text = resources.files("edge_transformer.report").joinpath("paper.yaml").read_text(encoding="utf-8")
    paper: dict[str, Any] = yaml.safe_load(text)
    return paper


def _paper_entries(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """The paper's task and setting that a record belongs to; empty where the paper has none.

    Of a model that was tested elsewhere the paper says nothing.
    """
    task_name, setting_name = _paper_places(record)
    task = _paper()["tasks"].get(task_name, {})
    setting = task.get("settings", {}).get(setting_name, {})
    if "heading" in setting:
        task = {**task, "title": setting["heading"], "note": ""}
    if "tested" in record.data:
        title = setting.get("title") or _options({"data": record.data["name"]})
        note = (
            "Models that were trained on the data named below, scored on other rows than those that came with them, or "
            "in another way. Their folders are where the runs with the same preset, options and seed lie: `--out` of "
            "`train` decides that."
        )
        return task, {"title": f"{title}, tested on {record.data['tested']}", "note": note}
    return task, setting


def _paper_places(record: Record) -> tuple[str, str]:
    """The names under which paper_results.yaml has a record's task and setting; "" for a setting that it lacks."""
    settings = _paper()["tasks"].get(record.task, {}).get("settings", {})
    for name, setting in settings.items():
        if all(_same_setting(record.data.get(key), value) for key, value in setting["match"].items()):
            return record.task, name
    return record.task, ""


def _same_setting(ours: Any, paper: Any) -> bool:
    return _squeezed(ours) == _squeezed(paper)


def _squeezed(value: Any) -> str:
    return str(value).replace(" ", "").lower()


def _title(records: Sequence[Record]) -> str:
    record = records[0]
    task, setting = _paper_entries(record)
    settings = {name: value for name, value in _kind_of_data(record).items() if name != "fingerprint"}
    options = _options(settings) if "heading" not in setting else ""
    return f"{task.get('title', record.task)}, {setting.get('title') or options or _data_names(records)}"


def _ablations(record: Record) -> tuple[str, ...]:
    """What was ablated, as the settings or the --set options say it; else as the preset's name does."""
    changed = {name.removeprefix("model."): value for name, value in record.overrides.items()}
    options = {**record.settings.get("model", {}), **changed}
    preset = record.preset.split("/")[-1]
    return tuple(
        name
        for name, _, option, value in ABLATIONS
        if (options[option] == value if option in options else name in preset)
    )


def model_title(model: str, ablations: Iterable[str]) -> str:
    titles = {name: title for name, title, _, _ in ABLATIONS}
    return ", ".join([_paper()["models"].get(model, model), *(titles[name] for name in ablations)])


def _row_order(record: Record) -> tuple[bool, str, tuple[int, ...], str, int, str]:
    """Our model before the baselines, the whole model before its ablations; also what makes two runs one row."""
    names = [name for name, _, _, _ in ABLATIONS]
    ablations = tuple(names.index(name) for name in _ablations(record))
    options = canonical_json(record.overrides)
    return record.model != "edge", record.model, ablations, record.preset, len(record.overrides), options


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in sorted(options.items()))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _data_names(records: Iterable[Record]) -> str:
    return " / ".join(sorted({str(record.data["name"]) for record in records}))


def _describe_data(records: Sequence[Record], common: Mapping[str, Any]) -> tuple[str, ...]:
    """The data of a table, and what differs from preset to preset below it."""
    kind = _kind_of_data(records[0])
    shared = [code(_data_names(records)), *(f"{escape(name)} {code(_plain(kind[name]))}" for name in sorted(kind))]
    by_preset = _group(
        sorted(records, key=_row_order),
        lambda record: code_words(record.preset, _options(_without(common, record.overrides))),
    )
    by_numbers = _group(by_preset, lambda preset: _numbers_of_data(by_preset[preset]))
    if len(by_numbers) == 1:
        return (", ".join([*shared, *filter(None, by_numbers)]),)
    return ", ".join(shared), *(f"{', '.join(presets)}: {numbers or '–'}" for numbers, presets in by_numbers.items())


def _numbers_of_data(records: Sequence[Record]) -> str:
    """The other settings of the data, with all their values: which rows are held out may depend on the seed."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name in record.data.keys() - _kind_of_data(record).keys() - {"name"}:
            found.setdefault(name, set()).add(_plain(record.data[name]))
    values = {name: " / ".join(sorted(texts, key=natural)) for name, texts in sorted(found.items())}
    return ", ".join(f"{escape(name)} {code(text)}" for name, text in values.items())


def _versions(records: Iterable[Record]) -> str:
    found = _group([pair for record in records for pair in record.versions.items()], lambda pair: pair[0])
    return ", ".join(
        f"{escape(name)} {escape(' / '.join(sorted({version for _, version in pairs}, key=natural)))}"
        for name, pairs in sorted(found.items())
    )


def _commands(records: Iterable[Record]) -> tuple[str, ...]:
    """The commands behind a table: those that differ in the seed only as one loop over seeds."""
    groups = _group(sorted(records, key=lambda record: (_row_order(record), record.seed)), _command_pattern)
    commands = []
    for pattern, runs in groups.items():
        seeds = sorted({run.seed for run in runs})
        if "$seed" in pattern and len(seeds) > 1:
            commands.append(f"for seed in {' '.join(map(str, seeds))}; do {pattern}; done")
        else:
            commands.append(pattern.replace("$seed", str(seeds[0])))
    return tuple(command for command in dict.fromkeys(commands) if command)


def _command_pattern(record: Record) -> str:
    one_line = " ".join(record.command.split())
    with_seed = re.sub(rf"(--seed[= ]){record.seed}(?!\S)", r"\g<1>$seed", one_line)
    return re.sub(rf"(-seed){record.seed}(?![\w.-])", r"\g<1>$seed", with_seed)  # in the name of a folder


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sorting key that puts k=9 before k=10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", text) if part]


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _group(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _common_axis(metrics: Sequence[str]) -> str:
    """ "k" when there are metrics for two k or more, "k=2" and "k=3"; else ""."""
    names = [match[1] for metric in metrics if (match := SIZED.fullmatch(metric))]
    return max(sorted(set(names)), key=names.count, default="") if len(names) > 1 else ""


SIZED = re.compile(r"([A-Za-z_]+)=([0-9]{1,6})")


def _integers(value: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,6}", str(value or "")))
