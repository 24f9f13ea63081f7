"""Figures are saved whole, and the same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from edge_transformer.draw.charts import Dot, draw_curves, draw_dots
from edge_transformer.draw.style import FORMATS, lowest, write_figure


def test_saved_figures_are_whole_and_without_dates(tmp_path: Path) -> None:
    figure = draw_curves({"$x_1$ & <b>": {2: (1.0, 0.01), 3: (0.9, 0.02)}})
    svg, png = (tmp_path / "figures" / name for name in ("a.b.svg", "a.b.png"))
    for path in (svg, png):
        write_figure(figure, path)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "date" not in svg.read_text().lower()
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"Software" not in png.read_bytes()
    assert {path.name for path in svg.parent.iterdir()} == {"a.b.svg", "a.b.png"}


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for number in (1, 2):
        dots = [Dot("Edge", "cpu", (0.97, 0.01), (0.96, None)), Dot("Other", "cpu-x", (0.8, None))]
        for suffix in FORMATS:
            write_figure(draw_dots(dots, title="T"), tmp_path / f"{number}{suffix}")
    for suffix in FORMATS:
        assert (tmp_path / f"1{suffix}").read_bytes() == (tmp_path / f"2{suffix}").read_bytes()


def test_an_axis_begins_below_the_lowest_error_bar() -> None:
    assert lowest([(0.97, 0.02), (0.75, None)]) == 70
    assert lowest([(0.75, 0.04)]) == 60
    assert lowest([(0.01, None)]) == 0
