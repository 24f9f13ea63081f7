"""Small pieces of HTML for notebooks: nothing from elsewhere, and in the page's own colours, light or dark."""

from __future__ import annotations

import html
from collections.abc import Iterable


def escape(text: object) -> str:
    """Escape a text so that a page shows it unchanged, also in attributes; halves of surrogate pairs are spelt out."""
    return html.escape(str(text).encode("utf-8", "backslashreplace").decode())


def table(rows: Iterable[tuple[str, str]], title: str = "", *, numbers: bool = True) -> str:
    """A table of names and values under a title, if any; `numbers` stand at the right."""
    value = f"text-align: {'right' if numbers else 'left'}"
    lines = (
        f'<tr><th scope="row" style="text-align: left">{escape(name)}</th>'
        f'<td style="{value}; white-space: pre-wrap">{escape(shown)}</td></tr>'
        for name, shown in rows
    )
    style = "text-align: left; font-weight: bold; white-space: nowrap"
    heading = f'<caption style="{style}">{escape(title)}</caption>' if title else ""
    return f"<table>{heading}{''.join(lines)}</table>"
