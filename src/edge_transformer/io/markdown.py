"""Text as Markdown, also inside tables."""

from __future__ import annotations

import re
from collections.abc import Sequence


def escape(text: str) -> str:
    """Escape text so that Markdown shows it unchanged."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Text as inline code."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


def code_block(lines: Sequence[str]) -> str:
    """Shell commands as a code block."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])


def code_words(*words: str) -> str:
    """Each word as inline code; empty words are left out."""
    return " ".join(code(word) for word in words if word)
