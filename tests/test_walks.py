"""How many files of the package a command runs code of: a reader who follows the data must not get lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import edge_transformer
from command_line import run
from task_rows import CASES

PACKAGE = f"{Path(edge_transformer.__file__).parent}/"
ROOT = {"__init__.py", "__main__.py", "api.py", "errors.py"}
QUESTION = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}


FAST = ("--set", "train.epochs=2")


def files_run(*arguments: str, stdin: str = "") -> set[str]:
    """The files of the package, outside its root, whose functions a command runs, but for what importing runs."""
    files = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(PACKAGE) or file in files:
            return
        caller: FrameType | None = frame
        while caller is not None and not _is_import(caller):
            caller = caller.f_back
        if caller is None:
            files.add(file)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        result = run(*arguments, stdin=stdin)
    finally:
        sys.setprofile(before)
    assert result.code == 0, result.err
    return {file.removeprefix(PACKAGE) for file in files} - ROOT


def _is_import(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE)


@pytest.mark.usefixtures("one_thread")
def test_commands_run_few_files(tmp_path: Path) -> None:
    for split in ("train", "test"):
        text = "".join(f"{json.dumps(row)}\n" for row in CASES["relations"].rows)
        (tmp_path / f"{split}.jsonl").write_text(text)
    walks = {
        "predict": (24, files_run("predict", "clutrr-small", stdin=json.dumps(QUESTION))),
        "parse": (23, files_run("parse", "A cat liked that the boy ran .")),
        "train": (45, files_run("train", "relations", "--data", str(tmp_path), "--out", str(tmp_path / "run"), *FAST)),
    }
    for command, (most, files) in walks.items():
        assert 10 < len(files) <= most, (command, sorted(files))
