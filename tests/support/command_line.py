"""The command line, called as a user calls it, for tests."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from edge_transformer import __main__ as cli

SMALL = ["data", "generate", "clutrr", "--rows", "60", "--test-rows", "8", "--train-k", "2,3", "--test-k", "2-4"]

TINY = {
    "model.dim": 8,
    "model.heads": 2,
    "model.layers": 1,
    "model.min_layers": 1,
    "train.epochs": 2,
    "train.batch_size": 20,
}
SETTINGS = ["--preset", "relations/cpu", *(x for name, value in TINY.items() for x in ("--set", f"{name}={value}"))]


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments: str, stdin: str = "", columns: int = 120) -> Result:
    """What `edge-transformer ARGUMENTS` does, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["edge-transformer", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.setenv("COLUMNS", str(columns))
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "GITHUB_ACTIONS", "PY_COLORS"):
            patch.delenv(name, raising=False)
        try:
            cli.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
    return Result(code or 0, out.getvalue(), err.getvalue())


def refused(*arguments: str, stdin: str = "") -> str:
    """The one line that a command with a user's mistake ends with; before it there may be notes on the data."""
    result = run(*arguments, stdin=stdin)
    assert result.code == 2, result
    assert result.err.endswith("\n")
    *notes, error = result.err.splitlines()
    assert all(note.startswith("note: ") for note in notes), result.err
    assert error.startswith("error: "), result.err
    return error.removeprefix("error: ")


def generate_small(folder: Path) -> Path:
    """Write the families of `SMALL` into a folder."""
    result = run(*SMALL, "--out", str(folder))
    assert (result.code, result.err) == (0, ""), result
    return folder


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The families of `SMALL`."""
    return generate_small(tmp_path_factory.mktemp("data") / "families")


@pytest.fixture(scope="module")
def trained(families: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder of a tiny model of them, with its record in results.jsonl beside it, and what training printed."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    results = folder.parent / "results.jsonl"
    arguments = ["--data", str(families), "--out", str(folder), "--results", str(results), "--threads", "1", *SETTINGS]
    result = run("train", "relations", *arguments, "--seed", "4")
    assert result.code == 0, result
    return folder, result


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split("[│┃|]", line)[1:-1]]


def scores(text: str) -> dict[str, str]:
    """The table of scores in what a command printed."""
    rows = [row for row in map(cells, text.splitlines()) if row]
    return dict(zip(rows[0], rows[1], strict=True))
