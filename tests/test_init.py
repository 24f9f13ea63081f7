"""The public names, and what importing them costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import edge_transformer as et


def test_every_public_name_is_there() -> None:
    assert set(et.__all__) <= set(dir(et))
    for name in et.__all__:
        assert callable(getattr(et, name))
        assert getattr(et, name).__name__.removeprefix("edge_transformer.") == name
    assert et.nn.__name__ == "edge_transformer.nn"
    with pytest.raises(AttributeError, match="module 'edge_transformer' has no attribute 'nonsense'"):
        _ = et.nonsense


@pytest.mark.parametrize("first", ["import edge_transformer.explain.claims", "edge_transformer.explain"])
def test_explain_is_a_room_that_can_be_called_whatever_is_asked_for_first(first: str) -> None:
    code = f"""
import edge_transformer
{first}
import edge_transformer.explain as room
from edge_transformer import explain
assert explain is room is edge_transformer.explain
model = edge_transformer.load("clutrr-small")
question = {{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}}
assert explain(model, question) == room.proof.explain_graph(model, question)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import edge_transformer, edge_transformer.cli.app; edge_transformer.UserError",
        "from edge_transformer.cli.app import app\ntry: app(['train', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_what_needs_no_model_does_not_wait_for_pytorch(code: str) -> None:
    code += "\nimport sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(tmp_path: Path) -> None:
    # A module that the command line imports, in whose place the signal comes.
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
    command = [sys.executable, "-m", "edge_transformer", "info"]
    path = os.pathsep.join([str(tmp_path), str(Path(et.__file__).parents[1])])
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (130, "")
