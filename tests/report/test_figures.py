"""The figures of tables: which rows they show, and where the paper's values stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_transformer.draw.charts import Dot, draw_curves, draw_dots
from edge_transformer.draw.style import model_look
from edge_transformer.io.records import Record, latest_runs, read_records
from edge_transformer.report import figures as result_figures
from edge_transformer.report.figures import figures_of
from edge_transformer.report.tables import result_tables
from record_cases import COGS, DERIVED, run

EDGE, CPU, PAPER = "Edge Transformer", "Edge Transformer, clutrr/cpu", "Edge Transformer, clutrr/paper"


def names_of_figures(records: Sequence[Record]) -> list[str]:
    [table] = result_tables(records)
    return list(figures_of(table))


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is drawn as curves."""
    drawn: list[dict[str, Any]] = []

    def spy(series: Any, paper: Any, **about: Any) -> Any:
        drawn.append({"series": set(series), "paper": set(paper), "dashed": about["dashed"], "title": about["title"]})
        return draw_curves(series, paper, **about)

    monkeypatch.setattr(result_figures, "draw_curves", spy)
    return drawn


@pytest.fixture
def dots(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Dot], dict[str, Any]]]:
    """What is drawn as dots, by the first word below their names, with what is said of all of them."""
    drawn: list[tuple[dict[str, Dot], dict[str, Any]]] = []

    def spy(dots: Sequence[Dot], **about: Any) -> Any:
        drawn.append(({dot.detail.split(",")[0]: dot for dot in dots}, about))
        return draw_dots(dots, **about)

    monkeypatch.setattr(result_figures, "draw_dots", spy)
    return drawn


def test_ablations_and_augmented_data_have_figures_of_their_own(curves: list[dict[str, Any]]) -> None:
    presets = ("cpu", "paper", "cpu-untied", "cpu-rat", "best", "best-rat")
    records = [
        run(1, {"k=6": 0.9, "k=10": 0.8}, preset=f"clutrr/{preset}", model="rat" if "rat" in preset else "edge")
        for preset in presets
    ]
    assert names_of_figures(records) == ["", "ablations", "augmented"]
    title, untied, best = "CLUTRR, trained on k=2,3,4", f"{EDGE}, untied weights", f"{EDGE}, clutrr/best"
    assert curves == [
        {"title": title, "series": {CPU, PAPER, "RAT"}, "paper": {PAPER}, "dashed": {"RAT"}},
        {"title": f"{title}: ablations", "series": {EDGE, untied}, "paper": {EDGE, untied}, "dashed": set()},
        {"title": f"{title}: augmented", "series": {best, "RAT", CPU}, "paper": {CPU}, "dashed": {"RAT"}},
    ]


def test_scores_without_sizes_are_dots(dots: list[tuple[dict[str, Dot], dict[str, Any]]]) -> None:
    records = [
        run(1, {"gen": 0.97, "test": 1.0}, preset="cogs/best-universal", model="universal", **COGS),
        run(1, {"gen": 0.7, "test": 1.0}, preset="cogs/cpu-universal", model="universal", **COGS),
        run(1, {"gen": 0.8, "test": 1.0}, preset="cogs/cpu", **COGS),
        run(2, {"gen": 0.9, "test": 1.0}, preset="cogs/cpu", **COGS),
        run(1, {"gen": 0.1, "test": 0.1}, preset="cogs/cpu", overrides={"train.lr": 1.0}, **COGS),  # a trial
    ]
    assert names_of_figures(records) == [""]
    [(drawn, about)] = dots
    assert about["score"] == "exact match on the generalisation set"
    assert about["paper_data"] == ""
    assert drawn.keys() == {"cogs/best-universal", "cogs/cpu-universal", "cogs/cpu"}
    edge = drawn["cogs/cpu"]
    assert (edge.name, edge.detail, edge.look) == (EDGE, "cogs/cpu, 2 seeds", model_look("edge"))
    assert edge.score == (pytest.approx(0.85), pytest.approx(0.05))
    assert edge.paper == (pytest.approx(0.874), pytest.approx(0.004))
    baseline = drawn["cogs/cpu-universal"]
    assert (baseline.detail, baseline.look) == ("cogs/cpu-universal, 1 seed", model_look("universal"))
    assert baseline.paper == (pytest.approx(0.784), None)
    assert (baseline.is_quoted, edge.is_quoted) == (True, False)  # the paper took the former over from others
    assert drawn["cogs/best-universal"].paper is None  # the paper has no such recipe


def test_an_untied_recipe_stands_for_the_papers_model(dots: list[tuple[dict[str, Dot], dict[str, Any]]]) -> None:
    data = {"name": "mcd1", "fingerprint": "1", "corpus": "cfq", "split": "mcd1"}
    records = [
        run(1, {"EM": 0.2}, task="seq2seq", data=data, preset="cfq/cpu", settings={"model": {"tied": False}}),
        run(1, {"EM": 0.3}, task="seq2seq", data=data, preset="cfq/cpu-universal", model="universal"),
    ]
    assert names_of_figures(records) == [""]
    assert dots[0][0]["cfq/cpu"].paper == (pytest.approx(0.4773), pytest.approx(0.0363))


def test_the_headline_depends_on_the_benchmark(dots: list[tuple[dict[str, Dot], dict[str, Any]]]) -> None:
    metrics = {"EM": 0.9, "LAS": 0.99}
    ewt = {"task": "trees", "data": {"name": "EWT", "fingerprint": "6"}}
    for data, score in ((DERIVED, 0.9), (ewt, 0.99)):
        presets = {"a/cpu": "edge", "a/cpu-bilstm": "bilstm"}
        records = [run(1, metrics, **data, preset=preset, model=model) for preset, model in presets.items()]
        assert names_of_figures(records) == [""]
        assert {dot.score for dot in dots[-1][0].values()} == {(score, None)}
    assert [about["paper_data"] for _, about in dots] == ["other trees", ""]


def test_one_row_needs_no_figure() -> None:
    assert names_of_figures([run(1, {"gen": 0.8}, preset="cogs/cpu", **COGS)]) == []


def test_scores_near_zero_need_no_figure() -> None:
    data = {"name": "mcd1", "fingerprint": "1", "corpus": "scan", "split": "mcd1"}
    for score, figures in ((0.011, []), (0.2, [""])):
        models = {"scan/cpu": "edge", "scan/cpu-universal": "universal"}
        assert (
            names_of_figures(
                [
                    run(1, {"EM": score}, task="seq2seq", data=data, preset=name, model=kind)
                    for name, kind in models.items()
                ]
            )
            == figures
        )
        assert names_of_figures([run(1, {"k=6": score, "k=10": 0.0}, preset="clutrr/cpu")]) == figures


def test_a_model_has_one_colour_in_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[str]] = {}

    def curves(series: Any, paper: Any, *, looks: Any, **about: Any) -> Any:
        assert series.keys() == looks.keys() >= paper.keys()
        for label, look in looks.items():
            found.setdefault(label.split(",")[0] if "clutrr/" in label else label, set()).add(look.colour)
        return draw_curves(series, paper, looks=looks, **about)

    def dots(dots: Sequence[Dot], **about: Any) -> Any:
        for dot in dots:
            found.setdefault(dot.name, set()).add(dot.look.colour)
        return draw_dots(dots, **about)

    monkeypatch.setattr(result_figures, "draw_curves", curves)
    monkeypatch.setattr(result_figures, "draw_dots", dots)
    records = Path(__file__).parents[2] / "results" / "records"
    for table in result_tables(latest_runs(read_records(records))):
        figures_of(table)
    assert {name: len(colours) for name, colours in found.items()} == dict.fromkeys(found, 1)
    assert len(set.union(*found.values())) == len(found) > 8
