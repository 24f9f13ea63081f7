"""Progress in a notebook: one output with bar and curve, escaped, and nothing of it elsewhere."""

from __future__ import annotations

import math
import re
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.io import notebook, progress
from edge_transformer.io.notebook import MOST_POINTS, Curve
from edge_transformer.io.progress import bar, report, silent
from fake_notebook import Cell, open_notebook

HOSTILE = "<script>alert(1)</script>\"'&"


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    return open_notebook(monkeypatch)


def texts(page: str) -> str:
    """What a reader sees of a page, which must be well-formed."""
    return " ".join("".join(ElementTree.fromstring(page).itertext()).split())


def test_one_output_with_bar_and_curve(cell: Cell) -> None:
    with bar("training", 10) as shown:
        for step in range(10):
            shown.advance(1, note=f"loss {1 / (step + 1):.3f}", value=1 / (step + 1))
    [pages] = cell.outputs
    assert "training 0 %" in texts(pages[0])
    assert "svg" not in pages[0]
    assert "50 % · loss 0.200 · 0:00, 0:00 left" in texts(pages[5])
    assert "width: 50.0%" in pages[5]
    assert "100 % · loss 0.100 · 0:00" in texts(pages[-1])
    assert "left" not in texts(pages[-1])
    assert "loss from 1 to 0.1" in pages[-1]  # the last picture stays


def test_a_bar_without_a_curve_leaves_nothing(cell: Cell) -> None:
    with bar("reading") as shown:
        shown.advance(12_345)
    [pages] = cell.outputs
    assert "12,345" in texts(pages[-2])
    assert "%" not in texts(pages[-2])
    assert pages[-1] == ""


def test_bars_inside_bars_are_words_in_the_same_output(cell: Cell) -> None:
    with bar("training", 4) as outer:
        outer.advance(1, value=2.0)
        with bar("scoring", 10) as inner:
            inner.advance(5)
        report("epoch 1 of 4: accuracy 97.5")
        outer.advance(1, value=1.0)
    [pages] = cell.outputs
    assert any(texts(page).endswith("scoring 50 %") for page in pages)
    assert "scoring" not in pages[-1]
    assert "epoch 1 of 4: accuracy 97.5" in texts(pages[-1])
    with bar("reading") as _:
        pass
    assert len(cell.outputs) == 2  # the next bar has an output of its own


def test_names_are_escaped(cell: Cell) -> None:
    with bar(f"reading {HOSTILE}", 2) as shown:
        shown.advance(1, note=HOSTILE, value=1.0)
        report(f"{HOSTILE} \ud800")
        with bar(HOSTILE) as inner:
            inner.advance(1)
        shown.advance(1, value=0.5)
    for page in cell.outputs[0]:
        assert "<script" not in page
        assert HOSTILE in texts(page)
        page.encode()  # as notebooks save it


def test_a_total_may_change_and_a_run_may_be_resumed(cell: Cell) -> None:
    with bar("training", 100, done=40) as shown:
        assert "40 %" in texts(cell.outputs[0][-1])
        shown.set_total(50)
        shown.advance(5)
        assert "90 %" in texts(cell.outputs[0][-1])
        shown.advance(20)
        assert "100 %" in texts(cell.outputs[0][-1])


def test_an_error_ends_the_bar(cell: Cell) -> None:
    def fail() -> None:
        with bar("training", 10) as shown:
            shown.advance(1, value=2.0)
            shown.advance(1, value=1.0)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert notebook._screen is None
    assert "20 %" in texts(cell.outputs[0][-1])


def test_fast_loops_do_not_pay(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook.Screen, "INTERVAL", 1000.0)
    with bar("training", 10_000) as shown:
        for _ in range(10_000):
            shown.advance(1, value=1.0)
    assert len(cell.outputs[0]) == 2  # the first and the last


def test_silence(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    with silent(), bar("training", 2) as shown:
        shown.advance(1, value=1.0)
        report("epoch 1")
    assert not cell.outputs
    assert capfd.readouterr() == ("", "")


def test_without_ipython_the_bar_is_that_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    assert not notebook.has_display()
    monkeypatch.setattr(progress.console, "is_jupyter", True)
    monkeypatch.setattr("rich.live.Live.refresh", lambda self: None)
    with bar("training", 2) as shown:
        assert isinstance(shown, progress.Bar)
        shown.advance(1, value=1.0)


def test_a_terminal_needs_no_ipython(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(notebook, "live_bar", None)
    with bar("training", 2) as shown:
        shown.advance(1, value=1.0)
    report("epoch 1 of 2")
    assert capfd.readouterr().err == "epoch 1 of 2\n"


def test_in_a_real_ipython(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside of a kernel, `display` prints and gives a handle that updates nothing."""
    pytest.importorskip("IPython", reason="IPython is no dependency")
    monkeypatch.setattr(progress.console, "is_jupyter", True)
    with bar("training", 2) as shown:
        shown.advance(1, value=1.0)
    assert "HTML" in capsys.readouterr().out


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=3000))
def test_curves_are_bounded_and_keep_the_mean(values: list[float]) -> None:
    curve = Curve()
    for value in values:
        curve.add(value)
    assert len(curve.points) < MOST_POINTS
    counted = len(curve.points) * curve._each
    assert len(values) - counted < curve._each
    assert sum(curve.points) * curve._each == pytest.approx(math.fsum(values[:counted]), abs=1e-3, rel=1e-6)
    if len(curve.points) > 1:
        numbers = [
            float(number) for number in re.findall(r"-?[\d.]+", curve.svg("loss").split('points="')[1].split('"')[0])
        ]
        assert all(0 <= x <= notebook.WIDTH for x in numbers[::2])
        assert all(0 <= y <= notebook.HEIGHT for y in numbers[1::2])


def test_curves_leave_out_what_is_no_number() -> None:
    curve = Curve()
    for value in (1.0, math.nan, math.inf, 1.0):
        curve.add(value)
    assert curve.points == [1.0, 1.0]
    ElementTree.fromstring(curve.svg(HOSTILE))
    assert "<script" not in curve.svg(HOSTILE)
