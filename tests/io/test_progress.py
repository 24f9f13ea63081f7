"""Progress bars: nothing where nobody watches, a bar that counts where somebody does."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from edge_transformer.io import progress
from edge_transformer.io.progress import AnyBar, Bar, bar


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 100 columns gets to see."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, color_system=None, legacy_windows=False)
    monkeypatch.setattr(progress, "console", console)
    monkeypatch.setattr(Bar, "_INTERVAL", 0.0)
    return text


def rich_of(shown: AnyBar) -> Progress:
    assert isinstance(shown, Bar)
    return shown._progress


def completed(shown: AnyBar) -> float:
    return rich_of(shown).tasks[0].completed


def test_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress, "console", Console(stderr=True))
    with bar("reading", 10) as shown:
        for _ in range(10):
            shown.advance(1, note="note")
    assert capsys.readouterr() == ("", "")


def test_bars_go_to_standard_error() -> None:
    assert progress.console.stderr


def test_a_bar_on_a_terminal(terminal: io.StringIO) -> None:
    with bar("reading stories", 200) as shown:
        shown.advance(50, note="loss 0.5")
        rich_of(shown).refresh()
        assert "reading stories" in terminal.getvalue()
        assert "25 %" in terminal.getvalue()
        assert "loss 0.5" in terminal.getvalue()
        shown.advance(100)
        rich_of(shown).refresh()
        assert "75 %" in terminal.getvalue()
        assert "left" in terminal.getvalue()
        assert terminal.getvalue().count("loss 0.5") > 1  # a note stays until there is another
    assert terminal.getvalue().endswith("\x1b[2K")  # gone when it ends


def test_a_bar_of_unknown_length_shows_the_count(terminal: io.StringIO) -> None:
    with bar("reading") as shown:
        shown.advance(12_345)
        rich_of(shown).refresh()
    assert "12,345" in terminal.getvalue()
    assert "%" not in terminal.getvalue()
    assert "left" not in terminal.getvalue()


def test_what_was_done_before_counts(terminal: io.StringIO) -> None:
    with bar("training", 100, done=40) as shown:
        assert completed(shown) == 40
        shown.advance()
        assert completed(shown) == 41


def test_advance_counts_everything_however_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    updates = 0
    with Progress(disable=True) as shown_in:
        update = shown_in.update

        def count(*arguments: Any, **values: Any) -> None:
            nonlocal updates
            updates += 1
            update(*arguments, **values)

        monkeypatch.setattr(shown_in, "update", count)
        shown = Bar(shown_in, "fast", total=1000)
        for _ in range(500):
            shown.advance(1)
        assert updates == 1  # a fast loop does not pay for the bar
        now += 0.2
        shown.advance(3)
        assert completed(shown) == 503
        assert updates == 2


def test_bars_inside_bars(terminal: io.StringIO) -> None:
    with bar("training", 10) as outer:
        outer.advance(1)
        with bar("scoring", 5) as inner:
            inner.advance(5)
            rich_of(inner).refresh()
        outer.advance(1)
        rich_of(outer).refresh()
    assert "scoring" in terminal.getvalue()
    assert "20 %" in terminal.getvalue()


@pytest.mark.parametrize("name", ["[/red]", "[bold]data[/bold]", "a:smile:b"])
def test_names_are_shown_as_they_are(name: str, terminal: io.StringIO) -> None:
    with bar(f"reading {name}", 10) as shown:
        shown.advance(5)
        rich_of(shown).refresh()
    assert f"reading {name}" in terminal.getvalue()


def test_a_bar_ends_with_the_error_of_its_block(terminal: io.StringIO) -> None:
    bars: list[AnyBar] = []

    def fail() -> None:
        with bar("reading", 10) as shown:
            bars.append(shown)
            assert rich_of(shown).live.is_started
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert not rich_of(bars[0]).live.is_started
    assert terminal.getvalue().endswith("\x1b[2K")
