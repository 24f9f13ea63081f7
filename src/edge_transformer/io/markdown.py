"""Text as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence


def escape(text: str) -> str:
    """Text that Markdown shows as it is, within a table too."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Text as code, within a table too."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


def code_block(lines: Sequence[str]) -> str:
    """Lines of shell commands as a block."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])


def code_words(*words: str) -> str:
    """Words as code, each on its own; empty ones are left out."""
    return " ".join(code(word) for word in words if word)
