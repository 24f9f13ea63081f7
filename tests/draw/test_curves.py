"""Curves show what they are given, and their labels can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from edge_transformer.draw.curves import Points, draw_curves
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
