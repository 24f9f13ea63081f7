"""A PyTorch that lacks what the library needs of it is refused in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import edge_transformer
from edge_transformer import UserError
from edge_transformer.ops.private import NAMES, TESTED, require_names

SOURCES = "\n".join(path.read_text() for path in Path(edge_transformer.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("name", ["torch._C._after_autograd_keyset", "torch.autograd.function._SingleLevelFunction"])
def test_a_missing_name_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_names()
    monkeypatch.delattr(name)
    message = f"PyTorch {torch.__version__} has no {name}, .* expected PyTorch {TESTED[0]} to {TESTED[1]}"
    with pytest.raises(UserError, match=message.replace("+", r"\+")):
        require_names()


def test_every_name_of_the_core_is_known() -> None:
    assert set(re.findall(r"torch\._(?:C|functorch)\.[\w.]+", SOURCES)) <= set(NAMES)
    assert all(SOURCES.count(name.rpartition(".")[2]) > 1 for name in NAMES)  # used as well
