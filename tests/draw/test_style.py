"""Figures are saved whole, and the same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from edge_transformer.draw.curves import draw_curves
from edge_transformer.draw.dots import Dot, draw_dots
from edge_transformer.draw.style import lowest, save_figure


def test_saved_figures_are_whole_and_without_dates(tmp_path: Path) -> None:
    figure = draw_curves({"$x_1$ & <b>": {2: (1.0, 0.01), 3: (0.9, 0.02)}})
    svg, png = save_figure(figure, tmp_path / "figures" / "a.b")
    assert (svg.name, png.name) == ("a.b.svg", "a.b.png")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "date" not in svg.read_text().lower()
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"Software" not in png.read_bytes()
    assert {path.name for path in svg.parent.iterdir()} == {"a.b.svg", "a.b.png"}


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for number in (1, 2):
        dots = [Dot("Edge", "cpu", (0.97, 0.01), (0.96, None)), Dot("Other", "cpu-other", (0.8, None), is_rival=True)]
        save_figure(draw_dots(dots, title="T"), tmp_path / str(number))
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()


def test_an_axis_begins_below_the_lowest_error_bar() -> None:
    assert lowest([(0.97, 0.02), (0.75, None)]) == 70
    assert lowest([(0.75, 0.04)]) == 60
    assert lowest([(0.01, None)]) == 0
