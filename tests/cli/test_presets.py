"""The command `presets`: what there is, and a file to start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import refused, run
from edge_transformer.training.presets import describe_preset, load_preset, preset_names


def test_all_presets_are_listed_with_what_they_are() -> None:
    listed = run("presets", columns=400)
    assert (listed.code, listed.err) == (0, "")
    for name in preset_names():
        line = next(line for line in listed.out.splitlines() if line.split()[:1] == [name])
        assert line.split()[1] == load_preset(name)["task"]
        assert line.split()[2] == describe_preset(name).split()[0]  # the rest may be folded


def test_those_of_one_kind_alone() -> None:
    listed = run("presets", "scan").out
    assert "scan/cpu-universal" in listed
    assert "clutrr/cpu" not in listed


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_what_it_is(name: str) -> None:
    assert len(describe_preset(name)) > 20


@pytest.mark.parametrize("name", ["clutrr/best", "cogs/best", "trees/cpu-bilstm", "cfq/paper"])
def test_what_is_shown_of_a_preset_is_a_preset(name: str, tmp_path: Path) -> None:
    shown = run("presets", name)
    assert (shown.code, shown.err) == (0, "")
    mine = tmp_path / "mine.yaml"
    mine.write_text(shown.out, encoding="utf-8")
    assert load_preset(str(mine)) == load_preset(name)
    assert run("presets", str(mine)).out.splitlines()[1:] == shown.out.splitlines()[1:]


def test_a_name_that_is_none() -> None:
    assert refused("presets", "clutrr/gpu").startswith("unknown preset 'clutrr/gpu'; known are clutrr/best")
