"""Progress bars, in terminals and notebooks only, and messages on standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .notebook import LiveBar, has_display, live_bar, write_below

console = Console(stderr=True)
_silent = False


@contextmanager
def silent() -> Iterator[None]:
    """Show nothing during a block."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


def say(text: str) -> None:
    """Print a line on standard error; of several processes, only the first prints."""
    if not _silent and os.environ.get("RANK", "0") == "0":
        console.print(text, highlight=False, soft_wrap=True, markup=False)


def report(text: str) -> None:
    """Say how work goes on: a line on standard error, or in a notebook the line below the bar."""
    if not write_below(text) and not console.is_jupyter:
        say(text)


class Bar:
    """One progress bar of a terminal. Pass `Bar.advance` to anything that reports progress."""

    _INTERVAL = 0.1  # seconds between redraws, so that fast loops do not pay for the bar

    def __init__(self, progress: Progress, description: str, total: int | None) -> None:
        self._progress, self._task = progress, progress.add_task(description, total=total, note="")
        self._waiting, self._drawn, self._note = 0, 0.0, ""

    def advance(self, count: int = 1, note: str | None = None, value: float | None = None) -> None:
        """Count further; `note` is shown after the bar. A notebook draws a curve of the values."""
        self._waiting += count
        now = time.monotonic()
        if now - self._drawn >= self._INTERVAL:
            self._note = self._note if note is None else note
            self._progress.update(self._task, advance=self._waiting, note=self._note)
            self._waiting, self._drawn = 0, now

    def set_total(self, total: int) -> None:
        """Change what counts as all."""
        self._progress.update(self._task, total=total)


AnyBar = Bar | LiveBar


@contextmanager
def bar(description: str, total: int | None = None, done: int = 0) -> Iterator[AnyBar]:
    """Show a progress bar during a block; without `total` it only counts."""
    shown_here = (console.is_terminal or console.is_jupyter) and not _silent and os.environ.get("RANK", "0") == "0"
    if shown_here and console.is_jupyter and has_display():
        with live_bar(description, total, done) as live:
            yield live
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # it may be the name of a file
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %" if total else "{task.completed:,.0f}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        *((TextColumn("left"), TimeRemainingColumn()) if total else ()),
    )
    with Progress(*columns, console=console, transient=True, disable=not shown_here) as progress:
        shown = Bar(progress, description, total)
        if done:
            shown.advance(done)
        yield shown


def count_of(number: float, what: str) -> str:
    """A number of things, such as "1 row" or "2 batches"."""
    plural = "es" if what.endswith("tch") else "s"
    return f"{number:,g} {what}{plural * (number != 1)}" if number < 1e6 else f"{number:,.0f} {what}s"
