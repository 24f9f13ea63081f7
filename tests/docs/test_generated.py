"""Blocks of the documents that are generated are up to date: run `python docs/generate.py` where they are not."""

from __future__ import annotations

import pytest

from documents import NAMES, generator, text_of


@pytest.mark.parametrize("name", [name for name in NAMES if "<!-- generated: " in text_of(name)])
def test_generated_blocks(name: str) -> None:
    assert generator().generated(text_of(name)) == text_of(name), "run python docs/generate.py"
