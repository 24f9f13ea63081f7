"""Training over two processes of torchrun, which must come to the same weights as one process does, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file


def assert_same_step(task: str, data: Path, changes: Mapping[str, Any], folder: Path) -> None:
    """Train with these settings, in which nothing is drawn by each process for itself, in one process and in two."""
    arguments = ["train", task, "--data", str(data), *(f"--set={name}={value}" for name, value in changes.items())]
    arguments += ["--threads", "1", "--precision", "64-true", "--device", "cpu"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for name, launched in (("one", []), ("two", launcher)):
        command = [sys.executable, *launched, "-m", "edge_transformer", *arguments, "--out", str(folder / name)]
        done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    one, two = (load_file(folder / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name in one:
        assert torch.allclose(one[name], two[name], rtol=0, atol=1e-12), name
    assert json.loads((folder / "two/run.json").read_text())["processes"] == 2
    scores = [json.loads((folder / name / "record.json").read_text())["metrics"] for name in ("one", "two")]
    assert scores[0] == pytest.approx(scores[1])  # also where each process scores its share of the rows
