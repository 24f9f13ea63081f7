"""What stands behind scores, as text for terminals: by group, by class, confusions, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .arcs import visible

MOST_GROUPS = 30
MOST_CLASSES = 30
MOST_CONFUSIONS = 10
_RANKING = {"MRR %": "mrr", "Hits@1 %": "1", "Hits@3 %": "3", "Hits@10 %": "10"}  # columns, and keys of details


def report_text(details: Mapping[str, Any], title: str) -> RenderableType:
    """Show the `details` of scores, of any kind: first what is about all rows, then groups, classes and confusions.

    At most 30 classes are shown, those with the lowest F1, and the 10 most frequent confusions; of ranked answers 30
    relations, those with the lowest MRR.
    """
    if details["kind"] == "ranking":
        return Group(Text(visible(title), style="bold"), *map(Text, _ranking_lines(details)), *_ranking_parts(details))
    overall = _number_lines(details) if details["kind"] == "number" else _share_lines(details)
    return Group(
        Text(visible(title), style="bold"),
        *map(Text, overall),
        *_group_parts(details),
        *_class_parts(details.get("classes", {})),
        *_confusion_parts(details.get("confusion", {"labels": [], "counts": []})),
    )


def _share_lines(details: Mapping[str, Any]) -> list[str]:
    several = details["kind"] == "several"
    share = details["exact_match" if several else "accuracy"]
    low, high = map(_percent, details["interval"])
    name = "exact match" if several else "accuracy"
    lines = [f"{name} {_percent(share)} % of {_rows(details['rows'])}, 95 % interval {low} to {high} %"]
    if details["majority"] is not None:
        what = "set of labels" if several else "label"
        lines.append(f"always answering the most frequent training {what}: {_percent(details['majority'])} %")
    averages = {kind: details.get(f"{kind}_f1") for kind in ("micro", "macro")}
    line = ", ".join(f"{kind} F1 {_percent(value)} %" for kind, value in averages.items() if value is not None)
    found = details["calibration"]
    error, confidence, right = (_percent(found[key]) for key in ("ece", "confidence", "accuracy"))
    decisions = f" ({right} % of label decisions right)" if several else ""
    lines += [line] if line else []
    return [*lines, f"expected calibration error {error} %, mean confidence {confidence} %{decisions}"]


def _number_lines(details: Mapping[str, Any]) -> list[str]:
    r2 = "" if details["r2"] is None else f", R2 {details['r2']:.3f}"
    errors = f"MAE {details['mae']:.4g}, RMSE {details['rmse']:.4g}{r2}, mean error {details['mean_error']:+.4g}"
    lines = [f"{errors}; {_rows(details['rows'])}"]
    if baseline := details["baseline"]:
        answer, mae, rmse = (f"{baseline[key]:.4g}" for key in ("answer", "mae", "rmse"))
        lines.append(f"always answering the training mean, {answer}: MAE {mae}, RMSE {rmse}")
    return lines


def _ranking_lines(details: Mapping[str, Any]) -> list[str]:
    interval = details["interval"]
    sure = "" if interval is None else f", 95 % interval {' to '.join(map(_percent, interval))} %"
    among = "all candidates" if details["sampled"] is None else f"{details['sampled']} sampled negatives"
    queries = f"{details['queries']} {'query' if details['queries'] == 1 else 'queries'}"
    hits = ", ".join(f"Hits@{k} {_percent(share)} %" for k, share in details["hits"].items())
    first = f"MRR {_percent(details['mrr'])} % of {queries} among {among}{sure}"
    return [first, f"{hits}, mean rank {details['mean_rank']:.2f}"]


def _ranking_parts(details: Mapping[str, Any]) -> list[RenderableType]:
    """A table by direction, and one by relation, worst first."""

    def cells(each: Mapping[str, Any]) -> list[str]:
        shares = {"mrr": each["mrr"], **each["hits"]}
        return [str(each["queries"]), *(_percent(shares[key]) for key in _RANKING.values())]

    def of_directions(each: Mapping[str, Any]) -> list[str]:
        found = each["directions"]
        return [_percent(found[name]["mrr"]) if name in found else "" for name in ("tail", "head")]

    asked = [(name, *cells(each), f"{each['mean_rank']:.2f}") for name, each in details["directions"].items()]
    relations = details["relations"]
    worst = sorted(relations.items(), key=lambda item: (item[1]["mrr"], -item[1]["queries"]))[:MOST_GROUPS]
    rows = [(name, *cells(each), *of_directions(each)) for name, each in worst]
    columns = ("queries", *_RANKING)
    return [
        *(Text(), _table("asked for", (*columns, "mean rank"), asked)),
        *(Text(), _table("relation", (*columns, "tails: MRR %", "heads: MRR %"), rows)),
        *_more(len(relations) - len(worst), "relations, with MRR no lower"),
    ]


def _group_parts(details: Mapping[str, Any]) -> list[RenderableType]:
    groups = dict(list(details["groups"].items())[:MOST_GROUPS])
    if not groups:
        return []
    kind = details["kind"]
    if kind == "number":
        columns = ("rows", "MAE", "RMSE")
        rows = [(name, str(each["rows"]), f"{each['mae']:.4g}", f"{each['rmse']:.4g}") for name, each in groups.items()]
    else:
        key, heading = ("exact_match", "exact match") if kind == "several" else ("accuracy", "accuracy")
        columns = ("rows", f"{heading} %", "95 % interval")
        rows = [
            (name, str(each["rows"]), _percent(each[key]), " to ".join(map(_percent, each["interval"])))
            for name, each in groups.items()
        ]
    left_out = len(details["groups"]) - len(groups)
    return [Text(), _table("group", columns, rows), *_more(left_out, "groups")]


def _class_parts(classes: Mapping[str, Mapping[str, Any]]) -> list[RenderableType]:
    """A table of classes, worst first; one line if all are without a mistake."""
    if not classes:
        return []
    if all(each["f1"] == 1 for each in classes.values()):
        return [Text(f"every class has F1 100.0 %; classes: {len(classes)}")]
    worst = sorted(classes.items(), key=lambda item: (item[1]["f1"], -item[1]["support"]))[:MOST_CLASSES]
    columns = ("F1 %", "precision %", "recall %", "rows", "answers")
    rows = [
        (
            name,
            *(_percent(each[key]) for key in ("f1", "precision", "recall")),
            *(str(each[key]) for key in ("support", "predicted")),
        )
        for name, each in worst
    ]
    return [Text(), _table("class", columns, rows), *_more(len(classes) - len(worst), "classes, with F1 no lower")]


def _confusion_parts(confusion: Mapping[str, Any]) -> list[RenderableType]:
    labels = [visible(label) for label in confusion["labels"]]
    mistakes = [
        (count, gold, answer)
        for gold, counts in enumerate(confusion["counts"])
        for answer, count in enumerate(counts)
        if count and gold != answer
    ]
    if not mistakes:
        return []
    mistakes.sort(key=lambda each: (-each[0], *each[1:]))
    shown = mistakes[:MOST_CONFUSIONS]
    lines = [Text(f"  {labels[gold]} -> {labels[answer]}, {count}") for count, gold, answer in shown]
    heading = Text("\nmost frequent confusions (target -> answer, rows):")
    return [heading, *lines, *_more(len(mistakes) - len(shown), "confusions")]


def _table(first: str, columns: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False)
    table.add_column(first, overflow="fold", min_width=8)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for name, *cells in rows:
        table.add_row(Text(visible(name)), *cells)  # a name is no markup
    return table


def _more(count: int, what: str) -> list[RenderableType]:
    return [Text(f"  and {count} more {what}")] if count else []


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
