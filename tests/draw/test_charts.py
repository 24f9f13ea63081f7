"""Curves and dots show what they are given, and their labels can be read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from edge_transformer.draw.charts import Dot, Points, draw_curves, draw_dots
from edge_transformer.draw.style import MODEL_LOOKS, QUOTED, Look, model_look
from edge_transformer.errors import UserError


def test_figure_shows_what_it_is_given() -> None:
    ours: dict[str, Points] = {
        "Edge": {2: (1.0, 0.0), 3: (0.9, 0.02), 4: (0.7, None)},
        "Other": {2: (0.8, 0.1)},
        "none": {},
    }
    figure = draw_curves(ours, {"Edge": {3: (0.85, 0.01)}}, title="T", axis="k", score="accuracy", trained=(2, 3, 9))
    (axes,) = figure.axes
    lines = [line.get_xydata().tolist() for line in axes.lines]  # type: ignore[union-attr]
    assert [[2, 100.0], [3, 90.0], [4, 70.0]] in lines
    assert [[3.13, 85.0]] in lines
    assert {text.get_text() for text in axes.texts} == {"seen in training", "Edge", "Other"}
    assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("T", "k", "accuracy")
    assert axes.get_xlim() == (1.5, 4.5)
    assert axes.get_ylim()[0] == 60  # the ten below 68
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "this library ± standard error",
        "the paper ± standard error",
    ]


def test_labels_keep_their_distance() -> None:
    series = {f"model {i}": {2: (0.9, None), 3: (0.5, None)} for i in range(9)}
    (axes,) = draw_curves(series).axes
    heights = sorted(text.get_position()[1] for text in axes.texts)
    low, high = axes.get_ylim()
    gaps = [b - a for a, b in pairwise(heights)]
    assert min(gaps) >= 0.056 * (high - low) - 1e-9
    assert heights[-1] <= high


def test_figures_need_points() -> None:
    with pytest.raises(UserError, match="at least one series"):
        draw_curves({"empty": {}})


def test_a_second_series_of_a_model_has_its_colour_and_a_dotted_line() -> None:
    points: Points = {2: (0.9, None), 3: (0.5, None)}
    looks = {"best": model_look("edge"), "cpu": model_look("edge"), "RAT": model_look("rat")}
    (axes,) = draw_curves(dict.fromkeys(looks, points), looks=looks, dashed={"RAT"}).axes
    lines = [line for line in axes.lines if np.asarray(line.get_xdata()).tolist() == [2, 3]]
    styles = {(line.get_color(), line.is_dashed()) for line in lines if line.get_marker() != "None"}
    assert styles == {("#0072B2", False), ("#0072B2", True), ("#CC79A7", True)}


# Dots

DOTS = [
    Dot("Transformer", "cpu-transformer, 2 seeds", (0.7, 0.01), look=model_look("transformer")),
    Dot("Edge", "cpu, 2 seeds", (0.975, 0.02), (0.9, 0.03)),
    Dot("Edge, ablated", "cpu-ablation, 1 seed", (0.8, None), (0.85, None)),
]


def test_dots_are_where_the_scores_are() -> None:
    (axes,) = draw_dots(DOTS, title="T", score="exact match", paper_data="other trees").axes
    marks = [line for line in axes.lines if line.get_marker() in ("o", "s")]
    found = {tuple(np.asarray(line.get_xydata())[0].tolist()): line for line in marks}
    assert {(x, round(y, 2)) for x, y in found} == {(70, 0), (80, 1), (97.5, 2), (85, 0.76), (90, 1.76)}
    assert found[70, 0].get_marker() == "s"  # a baseline
    assert (found[70, 0].get_color(), found[97.5, 2].get_color()) == ("#D55E00", "#0072B2")
    assert (axes.get_title("left"), axes.get_xlabel(), axes.get_xlim()[0]) == ("T", "exact match", 60)
    names = sorted(axes.texts, key=lambda text: -text.get_position()[1])
    assert [text.get_text() for text in names] == [text for dot in (DOTS[1], DOTS[2], DOTS[0]) for text in dot[:2]]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "this library ± standard error",
        "the paper, on other data: other trees ± standard error",
    ]


def test_error_bars_reach_one_standard_error_to_either_side() -> None:
    (axes,) = draw_dots(DOTS).axes
    ends = [np.asarray(path.vertices)[:, 0].tolist() for lines in axes.collections for path in lines.get_paths()]
    bars = [(left, right) for left, right in ends if left != right]
    assert bars == [pytest.approx(bar) for bar in ((69, 71), (95.5, 99.5), (87, 93))]


def test_without_the_paper_nothing_is_said_of_it() -> None:
    (axes,) = draw_dots([Dot("Edge", "", (0.5, None))]).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["this library"]


def test_a_long_title_has_several_lines() -> None:
    (axes,) = draw_dots(DOTS, title="a title that is longer than the figure is wide, by far (and-not-cut-here)").axes
    lines = axes.get_title("left").splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 54
    assert lines[-1].endswith("(and-not-cut-here)")


def test_dots_need_a_score() -> None:
    with pytest.raises(UserError, match="at least one score"):
        draw_dots([])


def test_numbers_that_the_paper_quotes_are_grey_and_the_legend_says_so() -> None:
    quoted = Dot("BiLSTM", "", (0.6, None), (0.7, None), model_look("bilstm"), is_quoted=True)
    (axes,) = draw_dots([*DOTS, quoted], paper_data="other trees").axes
    fills = {line.get_markerfacecolor() for line in axes.lines if 70 in np.asarray(line.get_xdata()).tolist()}
    assert QUOTED in fills
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "this library ± standard error",
        "the paper, on other data: other trees ± standard error",
        "quoted by the paper, on other data: other trees",
    ]


def test_models_differ_in_colour_and_marker_and_others_keep_theirs() -> None:
    assert len({look.colour for look in MODEL_LOOKS.values()}) == len(MODEL_LOOKS)
    assert len({look.marker for look in MODEL_LOOKS.values()}) == len(MODEL_LOOKS)
    known = {look.colour for look in MODEL_LOOKS.values()}
    others = [model_look(f"model-{number}") for number in range(50)]
    assert others == [model_look(f"model-{number}") for number in range(50)]
    assert all(isinstance(look, Look) and look.colour not in known for look in others)
    assert len(set(others)) > 15
