"""The figures of tables: which rows they show, and where the paper's values stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from edge_transformer.draw.curves import draw_curves
from edge_transformer.draw.dots import Dot, draw_dots
from edge_transformer.io.records import Record
from edge_transformer.report import figures as result_figures
from edge_transformer.report.figures import figures_of
from edge_transformer.report.tables import result_tables
from record_cases import run

EDGE, RAT = "Edge Transformer", "Relation-aware Transformer"
COGS: dict[str, Any] = {"task": "cogs", "data": {"name": "cogs", "fingerprint": "5"}}


def names_of_figures(records: Sequence[Record]) -> list[str]:
    [table] = result_tables(records)
    return list(figures_of(table))


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is drawn as curves."""
    drawn: list[dict[str, Any]] = []

    def spy(series: Any, paper: Any, **about: Any) -> Any:
        drawn.append({"series": set(series), "paper": set(paper), "dashed": about["dashed"]})
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


def test_ablations_have_a_figure_of_their_own(curves: list[dict[str, Any]]) -> None:
    presets = ("clutrr/cpu", "clutrr/paper", "clutrr/cpu-untied", "clutrr/cpu-rat")
    records = [
        run(1, {"k=6": 0.9, "k=10": 0.8}, preset=preset, model="rat" if "rat" in preset else "edge")
        for preset in presets
    ]
    assert names_of_figures(records) == ["", "ablations"]
    of_presets = {f"{EDGE}, clutrr/cpu", f"{EDGE}, clutrr/paper"}
    assert curves == [
        {"series": {*of_presets, RAT}, "paper": {f"{EDGE}, clutrr/paper"}, "dashed": {RAT}},
        {"series": {EDGE, f"{EDGE}, untied weights"}, "paper": {EDGE, f"{EDGE}, untied weights"}, "dashed": set()},
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
    assert (edge.name, edge.detail, edge.is_rival) == (EDGE, "cogs/cpu, 2 seeds", False)
    assert edge.score == (pytest.approx(0.85), pytest.approx(0.05))
    assert edge.paper == (pytest.approx(0.874), pytest.approx(0.004))
    rival = drawn["cogs/cpu-universal"]
    assert (rival.detail, rival.is_rival) == ("cogs/cpu-universal, 1 seed", True)
    assert rival.paper == (pytest.approx(0.784), None)
    assert drawn["cogs/best-universal"].paper is None  # the paper has no such recipe


def test_the_headline_depends_on_the_setting(dots: list[tuple[dict[str, Dot], dict[str, Any]]]) -> None:
    metrics = {"EM": 0.9, "LAS": 0.99}
    for data, score in (
        ({"treebank": "cfq-dependencies"}, 0.9),
        ({"treebank": "EWT"}, 0.99),
    ):
        named = {"name": "trees", "fingerprint": "6", **data}
        presets = {"cfq-dep/cpu": "edge", "cfq-dep/cpu-bilstm": "bilstm"}
        records = [
            run(1, metrics, task="dependency", data=named, preset=preset, model=model)
            for preset, model in presets.items()
        ]
        assert names_of_figures(records) == [""]
        assert {dot.score for dot in dots[-1][0].values()} == {(score, None)}
    assert [about["paper_data"] for _, about in dots] == ["MCD1 of another treebank", ""]


def test_one_row_needs_no_figure() -> None:
    assert names_of_figures([run(1, {"gen": 0.8}, preset="cogs/cpu", **COGS)]) == []
