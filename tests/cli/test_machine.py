"""The commands `info` and `bench`: what they print and write, and one line for what a user can act on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

import command_line
from edge_transformer.bench import Bench
from edge_transformer.bench.tables import tables
from edge_transformer.ops import native

TINY = ["--size", "1,4,8,2", "--seconds", "0"]
run = partial(command_line.run, columns=160)


def test_info() -> None:
    code, out, err = run("info")
    assert (code, err) == (0, "")
    assert f"PyTorch {torch.__version__}" in out
    for engine in ("einsum", "blocked", "native", "triton"):
        assert engine in out
    assert 'engine="auto" on CPU bfloat16: native' in out


def test_info_says_why_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    _, out, err = run("info")
    assert "no compiled kernels: told so" in out
    assert err == ""


def test_info_as_json() -> None:
    code, out, _ = run("info", "--json")
    assert code == 0
    machine = json.loads(out)
    assert machine["torch"] == torch.__version__
    assert set(machine["engines"]) == {"einsum", "blocked", "native", "triton"}
    assert set(machine["auto"]) == {"CPU float32", "CPU bfloat16", "CUDA float32"}


def test_bench_prints_and_writes_the_same(tmp_path: Path) -> None:
    json_file, plot = tmp_path / "speed.json", tmp_path / "speed.svg"
    arguments = [
        "bench",
        *TINY,
        "--part",
        "scaling",
        "--engine",
        "einsum",
        "--json",
        str(json_file),
        "--plot",
        str(plot),
    ]
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    found = Bench.read(json_file)
    assert found.command == " ".join(["edge-transformer", *arguments])
    (table,) = tables(found)
    for row in table.rows:
        for cell in row:
            assert all(word in out for word in cell.split())
    assert plot.read_text().startswith("<?xml")
    assert out.endswith(f"written: {json_file}\nwritten: {plot}\n")


def test_bench_of_a_users_own_size_measures_the_engines() -> None:
    code, out, _ = run("bench", *TINY)
    assert code == 0
    assert out.startswith("core: ")
    assert "1,4,8,2" in out
    assert "written" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "fast"], "--engine fast: unknown; known are einsum, blocked, native, triton"),
        (["--part", "half"], "--part half: unknown; known are core, "),
        (["--size", "1,2"], "--size 1,2: expected four numbers B,n,d,h such as 4,30,128,8"),
        (["--plot", "speed.pdf"], "--plot speed.pdf: expected a name that ends in .svg or .png"),
        (["--part", "core", "--plot", "speed.svg"], "--plot speed.svg: needs --part scaling or --part memory"),
        (["--device", "abacus"], "--device abacus: "),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_transformer.bench.measure", lambda *_: pytest.fail("measured"))
    code, out, err = run("bench", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["info", "bench"])
def test_help_has_examples(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Examples" in out
    assert f"edge-transformer {command} --" in out
