"""The public names, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import edge_transformer as et


def test_every_public_name_is_there() -> None:
    assert set(et.__all__) <= set(dir(et))
    for name in et.__all__:
        assert getattr(et, name).__name__ == name
    assert et.layers.__name__ == "edge_transformer.layers"
    with pytest.raises(AttributeError, match="module 'edge_transformer' has no attribute 'nonsense'"):
        _ = et.nonsense


@pytest.mark.parametrize(
    "code",
    [
        "import edge_transformer, edge_transformer.cli; edge_transformer.UserError",
        "from edge_transformer.cli import app\ntry: app(['train', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_what_needs_no_model_does_not_wait_for_pytorch(code: str) -> None:
    code += "\nimport sys; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
