"""From records of finished runs to tables: mean and standard error over seeds, with the paper's numbers at hand.

paper.yaml names the benchmarks, the data that belong to each of them, and the paper's numbers. Data that it does not
name get a table of their own on the page of their task.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import count
from typing import Any, TypeVar

import yaml

from ..io.records import Record, canonical_json, is_fraction, is_validation

T = TypeVar("T")
K = TypeVar("K")

ABOVE, BELOW = "▲", "▼"
FEW_SEEDS = 5  # below this our own standard error is too uncertain to stand alone
SIZED = re.compile(r"([A-Za-z_]+)=([0-9]{1,6})")  # a metric of one size, such as k=10

# name in presets and in paper.yaml, name for people, the option that makes it
ABLATIONS: tuple[tuple[str, str, str, Any], ...] = (
    ("untied", "untied weights", "tied", False),
    ("value-ablation", "value ablation", "value", "left"),
    ("attention-ablation", "attention ablation", "key", "ij"),
)


@dataclass(frozen=True)
class Score:
    """A mean over runs, as a fraction of 1. The error and the number of runs are None where they are not known."""

    mean: float
    error: float | None
    runs: int | None

    def __sub__(self, other: Score) -> Score:
        """The difference of two means with its standard error, which needs that of both."""
        error = None if self.error is None or other.error is None else math.hypot(self.error, other.error)
        return Score(self.mean - other.mean, error, self.runs)

    @property
    def mark(self) -> str:
        """Of a difference: ABOVE or BELOW where it is more than twice its error. An error of 0 tells nothing."""
        if not self.error or abs(self.mean) <= 2 * self.error + 1e-12:  # equal numbers differ by a rounding error
            return ""
        return ABOVE if self.mean > 0 else BELOW

    def minus_paper(self, reported: Score) -> Score:
        """Our mean minus the paper's. The error is None where the paper does not give what it takes.

        A standard error from few seeds is itself hardly known. There ours is taken to be at least what the paper's
        spread over seeds gives for as many seeds as we have.
        """
        error = self.error
        if self.runs and self.runs < FEW_SEEDS:
            error = None
            if reported.error is not None and reported.runs is not None:
                error = max(self.error or 0.0, reported.error * math.sqrt(reported.runs) / math.sqrt(self.runs))
        return replace(self, error=error) - reported


@dataclass(frozen=True)
class Row:
    """One line of a table: the runs of one preset with the same options, or the paper's numbers of one model."""

    variant: str  # the model with its ablations, such as edge or edge-untied
    scores: dict[str, Score]
    runs: int | None
    preset: str = ""  # "" for the paper's
    options: Mapping[str, Any] = field(default_factory=dict)  # what --set changed
    records: tuple[Record, ...] = ()

    @property
    def model(self) -> str:
        return model_title(self.variant)

    @property
    def is_edge(self) -> bool:
        return self.variant.split("-")[0] == "edge"

    @property
    def is_trial(self) -> bool:
        """Whether its runs read no test rows, as runs of a search do."""
        return all(map(is_validation, self.scores)) or self.records[0].settings.get("data", {}).get("test") is False

    def mean(self, value: Callable[[Record], float | None]) -> float | None:
        """The mean of a value that all runs have; None where one has none."""
        known = [found for record in self.records if (found := value(record)) is not None]
        return statistics.fmean(known) if known and len(known) == len(self.records) else None


@dataclass(frozen=True)
class ResultTable:
    """All runs of one task on one training set, and what the paper has on it."""

    page: str  # the benchmark of paper.yaml, or else the task
    setting: str  # of the benchmark; "" where it has none for these data
    title: str
    name: str  # for files
    about: Mapping[str, Any]  # what paper.yaml says of the benchmark and the setting
    data: Mapping[str, Any]  # what all runs have in common: the files, and settings that are texts
    rows: tuple[Row, ...]
    trials: tuple[Row, ...]  # of searches, scored on validation rows
    paper: Mapping[str, Row]  # by variant, those that we have or that the paper is about
    metrics: tuple[str, ...]

    @property
    def records(self) -> list[Record]:
        return [record for row in (*self.rows, *self.trials) for record in row.records]

    @property
    def presets(self) -> dict[str, Row]:
        """Of each preset the row with the fewest options: others are trials, or runs with earlier settings."""
        rows = group(self.rows, lambda row: row.preset)
        return {name: min(each, key=lambda row: (len(row.options), -(row.runs or 0))) for name, each in rows.items()}

    @property
    def axis(self) -> str:
        """The name of the sizes where there are metrics for two or more, as k is for "k=2" and "k=3"; else ""."""
        names = [match[1] for metric in self.metrics if (match := SIZED.fullmatch(metric))]
        return max(sorted(set(names)), key=names.count, default="") if len(names) > 1 else ""

    @property
    def trained(self) -> tuple[int, ...]:
        """The sizes seen in training."""
        return tuple(int(size) for size in re.findall(r"[0-9]{1,6}", str(self.data.get(f"train_{self.axis}", ""))))


@cache
def paper() -> dict[str, Any]:
    """What paper.yaml holds."""
    text = resources.files("edge_transformer.report").joinpath("paper.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def paper_rows(page: str, setting: str) -> dict[str, Row]:
    """What the paper reports in a setting, by variant."""
    rows = {}
    entries = paper()["benchmarks"].get(page, {}).get("settings", {}).get(setting, {}).get("paper", {})
    for variant, entry in entries.items():
        runs = entry.get("runs")
        scores = {metric: percent_score(mean, error, runs) for metric, (mean, error) in entry["scores"].items()}
        rows[variant] = Row(variant, scores, runs)
    return rows


def percent_score(mean: float, error: float | None, runs: int | None = None) -> Score:
    """A score that paper.yaml gives in percent."""
    return Score(mean / 100, None if error is None else error / 100, runs)


def model_title(variant: str) -> str:
    """The name of a model for people: "Edge Transformer, untied weights" for edge-untied."""
    names = paper()["models"]
    found = [ablation for ablation in ABLATIONS if variant not in names and f"-{ablation[0]}" in variant]
    for name, *_ in found:
        variant = variant.replace(f"-{name}", "")
    return ", ".join([names.get(variant, variant), *(title for _, title, _, _ in found)])


def result_tables(records: Sequence[Record]) -> list[ResultTable]:
    """One table for each benchmark and kind of data, in the order of paper.yaml, each with a title of its own."""
    by_data = group(records, lambda record: (record.task, canonical_json(_kind_of_data(record))))
    by_title = group(sorted(by_data.values(), key=_table_order), lambda runs: (_place(runs[0])[0], _title(runs)))
    tables: dict[str, ResultTable] = {}
    for (_, title), groups in by_title.items():
        for runs in groups:
            table = _result_table(runs, title + _distinction(runs, groups))
            names = (f"{table.name}-{number}" if number > 1 else table.name for number in count(1))
            name = next(name for name in names if name not in tables)
            tables[name] = replace(table, name=name)
    return list(tables.values())


def _mean_and_error(values: Sequence[float]) -> Score:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Score(statistics.fmean(values), error, len(values))


def _result_table(records: Sequence[Record], title: str) -> ResultTable:
    page, setting = _place(records[0])
    about = _about(page, setting)
    by_row = group(sorted(records, key=_row_order), lambda run: (_row_order(run), canonical_json(run.settings)))
    rows = [_our_row(runs, [other[0] for other in by_row.values()]) for runs in by_row.values()]
    tested = [row for row in rows if not row.is_trial] or rows
    variants = {row.variant for row in tested} | {"edge" for row in tested if row.is_edge}
    reported = {variant: row for variant, row in paper_rows(page, setting).items() if variant in variants}
    found = {metric for row in (*tested, *reported.values()) for metric in row.scores if not is_validation(metric)}
    whole = {metric for metric in found if "/" not in metric} or found  # "test/agent" is a part of "test"
    first = about.get("columns", [])
    metrics = sorted(whole, key=lambda name: (first.index(name) if name in first else len(first), natural(name)))
    return ResultTable(
        page=page,
        setting=setting,
        title=title,
        name=re.sub(r"[^a-z0-9]+", "-", f"{page}-{setting if about['title'] else title}".lower()).strip("-"),
        about=about,
        data=_kind_of_data(records[0]),
        rows=tuple(tested),
        trials=tuple(row for row in rows if row not in tested),
        paper=reported,
        metrics=tuple(metrics),
    )


def _our_row(runs: Sequence[Record], others: Iterable[Record]) -> Row:
    values: dict[str, list[float]] = {}
    for run in runs:
        for metric, value in run.metrics.items():
            if is_fraction(metric):
                values.setdefault(metric, []).append(value)
    return Row(
        variant="-".join((runs[0].model, *_ablations(runs[0]))),
        scores={metric: _mean_and_error(each) for metric, each in values.items()},
        runs=len(runs),
        preset=runs[0].preset,
        options={**_changed_settings(runs[0], others), **runs[0].overrides},
        records=tuple(runs),
    )


def _row_order(record: Record) -> tuple[bool, str, tuple[int, ...], str, int, str]:
    """Our model before the baselines, the whole model before its ablations; also what makes two runs one row."""
    names = [name for name, _, _, _ in ABLATIONS]
    ablations = tuple(names.index(name) for name in _ablations(record))
    options = canonical_json(record.overrides)
    return record.model != "edge", record.model, ablations, record.preset, len(record.overrides), options


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


def _changed_settings(record: Record, others: Iterable[Record]) -> dict[str, Any]:
    """The settings in which runs of the same preset and options differ, as they do when a preset has been changed."""

    def flat(run: Record) -> dict[str, Any]:
        sections = {name: each if isinstance(each, dict) else {"": each} for name, each in run.settings.items()}
        return {f"{name}.{key}".rstrip("."): value for name, each in sections.items() for key, value in each.items()}

    alike = [flat(other) for other in others if _row_order(other) == _row_order(record)]
    return {name: value for name, value in flat(record).items() if any(other.get(name) != value for other in alike)}


# Which data belong to which benchmark


def _kind_of_data(record: Record) -> dict[str, Any]:
    """What the runs of one table have in common: the files, and the settings that are texts, such as train_k or split.

    Numbers and switches, such as how many rows are held out, come with the preset and may differ from row to row; so do
    the rows that a run is validated on, which no model learns from, and what paper.yaml says to ignore.
    """
    ignored = ("name", "valid_fingerprint", *_about(*_place(record)).get("ignored", ()))
    return {name: value for name, value in record.data.items() if name not in ignored and isinstance(value, str | list)}


def _place(record: Record) -> tuple[str, str]:
    """The benchmark and the setting of paper.yaml that a record belongs to; its task and "" where there is none."""

    def squeezed(value: Any) -> str:
        return str(value).replace(" ", "").lower()

    places = []
    known = {**record.data, "preset": record.preset}
    for page, benchmark in paper()["benchmarks"].items():
        for name, setting in benchmark["settings"].items():
            wanted = {"tested": None, **setting["match"]}  # models tested elsewhere are other results
            if setting.get("task", benchmark["task"]) == record.task and all(
                squeezed(known.get(key)) == squeezed(value) for key, value in wanted.items()
            ):
                places.append((len(wanted), page, name))
    if places:
        _, page, name = max(places, key=lambda place: place[0])  # the one that says most of the data
        return page, name
    return record.task, ""


def _about(page: str, setting: str) -> dict[str, Any]:
    benchmark = paper()["benchmarks"].get(page, {})
    return {**benchmark, "title": "", **benchmark.get("settings", {}).get(setting, {})}


def _table_order(records: Sequence[Record]) -> tuple[list[int], str, str]:
    page, name = _place(records[0])
    pages = [*paper()["benchmarks"], page]
    settings = [*_about(page, name).get("settings", {}), name]
    places = [pages.index(page), settings.index(name), "tested" in records[0].data]
    return places, page, canonical_json(_kind_of_data(records[0]))


def _title(records: Sequence[Record]) -> str:
    tested = {f", tested on {record.data['tested']}" for record in records if "tested" in record.data}
    return _about(*_place(records[0]))["title"] or data_names(records) + "".join(sorted(tested))


def _distinction(records: Sequence[Record], groups: Sequence[Sequence[Record]]) -> str:
    """What sets a table apart from others of the same title: the data's name, or else every setting that differs."""
    if len(groups) == 1:
        return ""
    if len({data_names(other) for other in groups}) == len(groups):
        return f" ({data_names(records)})"
    kinds = [_kind_of_data(other[0]) for other in groups]
    shared = {name for name, value in kinds[0].items() if all(kind.get(name) == value for kind in kinds)}
    own = sorted((name, value) for name, value in _kind_of_data(records[0]).items() if name not in shared)
    return f" ({', '.join(f'{name}={plain(value)}' for name, value in own)})"


# Names and orders


def data_names(records: Iterable[Record]) -> str:
    return " / ".join(sorted({str(record.data["name"]) for record in records}))


def plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sorting key that puts k=9 before k=10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", text) if part]


def group(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
