"""Blocks of the documents that are generated are up to date: run `python docs/generate.py` where they are not."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from documents import NAMES, ROOT, text_of


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for name in NAMES if "<!-- generated: " in text_of(name)])
def test_generated_blocks(name: str) -> None:
    assert generator().generated(text_of(name)) == text_of(name), "run python docs/generate.py"
