"""Progress in a notebook: one live bar, with a small curve below it where the work reports a value."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .html import escape

COLOUR, GREY = "#3b82c4", "#7a7a7a"  # both can be seen on white and on black
MOST_POINTS = 240
WIDTH, HEIGHT = 300, 64  # of the curve, in pixels


def has_display() -> bool:
    """Whether there is something to show HTML with."""
    try:
        import IPython.display  # noqa: F401
    except ImportError:
        return False
    return True


class Curve:
    """Values over time, as at most 240 means of equally many values."""

    def __init__(self) -> None:
        self.points: list[float] = []
        self._each, self._sum, self._count = 1, 0.0, 0

    def add(self, value: float) -> None:
        """Add the next value; what is no finite number is left out."""
        if not math.isfinite(value):
            return
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count == self._each:
            self.points.append(self._sum / self._each)
            self._sum, self._count = 0.0, 0
            if len(self.points) == MOST_POINTS:
                self.points = [(a + b) / 2 for a, b in zip(self.points[::2], self.points[1::2], strict=True)]
                self._each *= 2

    def svg(self, name: str) -> str:
        """The curve, with its highest and lowest value; "" with fewer than two points."""
        if len(self.points) < 2:
            return ""
        low, high = min(self.points), max(self.points)
        span = high - low or 1.0
        across = WIDTH / (len(self.points) - 1)
        line = " ".join(
            f"{number * across:.1f},{(high - value) / span * HEIGHT:.1f}" for number, value in enumerate(self.points)
        )
        about = escape(f"{name} from {self.points[0]:.3g} to {self.points[-1]:.3g}")
        texts = "".join(
            f'<text x="{WIDTH + 8}" y="{y}" font-size="11" fill="{GREY}">{text}</text>'
            for y, text in ((10, f"{high:.3g}"), (HEIGHT / 2 + 4, escape(name)), (HEIGHT, f"{low:.3g}"))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{about}" width="{WIDTH + 70}" '
            f'height="{HEIGHT + 8}" viewBox="0 -4 {WIDTH + 70} {HEIGHT + 8}" font-family="sans-serif" '
            f'style="display: block"><title>{about}</title><polyline points="{line}" fill="none" '
            f'stroke="{COLOUR}" stroke-width="1.6" stroke-linejoin="round"/>{texts}</svg>'
        )


class LiveBar:
    """A bar of a `Screen`; the same methods as the bar of a terminal."""

    def __init__(self, screen: Screen, description: str, total: int | None, done: int) -> None:
        self.screen, self.description, self.total, self.done = screen, description, total, done
        self.note, self._before, self._started = "", done, time.monotonic()

    def advance(self, count: int = 1, note: str | None = None, value: float | None = None) -> None:
        """Count further; `note` is shown after the bar, and `value` is the next one of the curve."""
        self.done += count
        self.note = self.note if note is None else note
        if value is not None:
            self.screen.curve.add(value)
        self.screen.draw()

    def set_total(self, total: int) -> None:
        """Change what counts as all."""
        self.total = total

    @property
    def share(self) -> float | None:
        """What is done, from 0 to 1; None where the whole is not known."""
        return min(1.0, self.done / self.total) if self.total else None

    def progress(self) -> str:
        """How far it is, in words."""
        return f"{self.done:,}" if self.share is None else f"{100 * self.share:.0f} %"

    def times(self) -> str:
        """The time since the start, and what is probably left."""
        passed, done = time.monotonic() - self._started, self.done - self._before
        if not self.total or not done or self.done >= self.total:
            return _clock(passed)
        return f"{_clock(passed)}, {_clock(passed / done * (self.total - self.done))} left"


class Screen:
    """The output of a notebook cell that shows one bar, and the bars inside it in words."""

    INTERVAL = 0.25  # seconds between redraws

    def __init__(self) -> None:
        self.bars: list[LiveBar] = []  # the outermost first
        self.curve, self.line = Curve(), ""
        self._handle: Any = None
        self._drawn = -math.inf

    def draw(self, now: bool = False) -> None:
        """Show how things stand; a second time within the interval only where it must be `now`."""
        if now or time.monotonic() - self._drawn >= self.INTERVAL:
            self._show(self.html())
            self._drawn = time.monotonic()

    def close(self) -> None:
        """Leave the last picture if it has a curve, else nothing."""
        self._show(self.html() if len(self.curve.points) > 1 else "")

    def _show(self, page: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(page), display_id=True)
        elif hasattr(self._handle, "update"):
            self._handle.update(HTML(page))

    def html(self) -> str:
        """The bar, what is reported beside it, and the curve."""
        outer = self.bars[0]
        inner = [f"{bar.description} {bar.progress()}" for bar in self.bars[1:]]
        text = " · ".join(filter(None, (outer.progress(), outer.note, outer.times(), *inner)))
        filled = "" if outer.share is None else _bar(outer.share)
        line = f"<div>{escape(self.line)}</div>" if self.line else ""
        return (
            '<div style="color: inherit; font-variant-numeric: tabular-nums; line-height: 1.6">'
            f"<div>{escape(outer.description)} {filled}{escape(text)}</div>{line}{self.curve.svg('loss')}</div>"
        )


def _bar(share: float) -> str:
    return (
        '<span style="display: inline-block; width: 12em; height: 0.6em; margin: 0 0.6em; border-radius: 0.3em; '
        f'border: 1px solid {COLOUR}; overflow: hidden"><span style="display: block; width: {100 * share:.1f}%; '
        f'height: 100%; background: {COLOUR}"></span></span>'
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_screen: Screen | None = None  # of the bar that is shown now


@contextmanager
def live_bar(description: str, total: int | None = None, done: int = 0) -> Iterator[LiveBar]:
    """Show a bar during a block; inside another one it becomes a part of that one's text."""
    global _screen
    is_outermost = _screen is None
    screen = _screen = _screen or Screen()
    shown = LiveBar(screen, description, total, done)
    screen.bars.append(shown)
    try:
        screen.draw(now=is_outermost)
        yield shown
    finally:
        if is_outermost:
            _screen = None
            screen.close()
        screen.bars.remove(shown)


def write_below(text: str) -> bool:
    """Write a line below the bar, in place of the one before; False where no bar is shown."""
    if _screen is None:
        return False
    _screen.line = text
    _screen.draw(now=True)
    return True
