"""The demonstration, with less of everything."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from rich.console import Console

import edge_transformer.cli.demo as demo


def test_the_demo_trains_scores_draws_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROWS", 120)
    monkeypatch.setattr(demo, "TEST_ROWS", 5)
    small = {"base": "clutrr/demo", "model": {"dim": 8, "heads": 2}, "train": {"epochs": 1}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small))
    monkeypatch.setattr(demo, "PRESET", str(tmp_path / "small.yaml"))
    out = Console(record=True, width=120)
    monkeypatch.setattr(demo, "out", out)
    demo.demo(tmp_path / "demo", threads=1)
    record = (tmp_path / "demo/run/record.json").read_bytes()
    printed = out.export_text()
    for k in range(2, 11):
        assert f"k={k}" in printed
    assert "What is " in printed
    assert "The story's own answer: " in printed
    assert printed.splitlines()[-1].endswith(f" | edge-transformer explain {tmp_path / 'demo' / 'run'}")
    shown = [float(line.split()[-2]) for line in printed.splitlines() if line.endswith(" %") and "k=" not in line]
    assert len(shown) == 3
    assert 0 < sum(shown) <= 100.1
    assert (tmp_path / "demo/accuracy.png").read_bytes().startswith(b"\x89PNG")
    # A second call has nothing left to train.
    demo.demo(tmp_path / "demo", threads=1)
    assert out.export_text().splitlines()[-1] == printed.splitlines()[-1]
    assert (tmp_path / "demo/run/record.json").read_bytes() == record
