"""All commands and Python snippets of the pages, run as printed; commands that train, with less to do."""

from __future__ import annotations

import re
import shutil
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest

from documents import (
    NAMES,
    ROOT,
    Block,
    blocks,
    check_arguments,
    command_lines,
    make_workshop,
    our_command,
    run,
    text_of,
)
from edge_transformer.data.relations.generate import GeneratedData
from edge_transformer.nn import encoder as registry
from edge_transformer.ops import attention
from edge_transformer.training.experiment import Experiment, PlannedPreset, TrainingSet

pytestmark = pytest.mark.usefixtures("one_thread")
EXTRAS = ("torch_geometric",)  # a snippet that imports one of these is left out where it is not installed


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workshop")
    make_workshop(folder)
    return folder


@pytest.fixture
def folder(workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workshop for one page, as the current folder."""
    copy = tmp_path / "here"
    shutil.copytree(workshop, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.syspath_prepend(copy)
    # What a snippet registers is gone after its page.
    monkeypatch.setattr(attention, "ENGINES", dict(attention.ENGINES))
    monkeypatch.setattr(registry, "_KINDS", {reads: dict(kinds) for reads, kinds in registry._KINDS.items()})
    return copy


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(name, "python", "sh")])
def test_page(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "snippet"}
    printed = ""
    for block in blocks(name, "python", "sh", "text"):
        if block.language == "text":  # what the block before it prints
            assert block.text in printed or _narrow(block.text), f"not what is printed:\n{printed}"
        elif block.language == "sh":
            printed = run_commands(block, folder)
        elif not _lacks_an_extra(block):
            capsys.readouterr()
            exec(compile(block.text, name, "exec"), names)
            printed = capsys.readouterr().out
            for line in re.findall(r"^print\(.*\)  # (.*)", block.text, flags=re.MULTILINE):
                assert line in printed


def run_commands(block: Block, folder: Path) -> str:
    """What the commands of a block print, without spaces at the ends of lines."""
    printed = ""
    for line in command_lines(block):
        command = our_command(line)
        if command is None:
            check_other(line)
        elif block.not_run:
            check_arguments(command)
        else:
            printed += run(command, folder)
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def _lacks_an_extra(block: Block) -> bool:
    """Whether a snippet imports what an extra brings and is not installed."""
    imported = re.findall(r"^(?:from|import) (\w+)", block.text, flags=re.MULTILINE)
    return any(name in EXTRAS and find_spec(name) is None for name in imported)


def _narrow(text: str) -> bool:
    """Whether this is the parse of a narrow terminal, which another test looks at."""
    return "╭►┬" in text


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    [shown] = [block.text for block in blocks("docs/command-line.md", "text") if _narrow(block.text)]
    command = our_command('edge-transformer parse "The dog on a TV saw Liam ."')
    assert command is not None
    assert run(command, folder).split("\n\n")[1] == shown


def check_other(line: str) -> None:
    """What other programs are called with is there."""
    words = line.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE), line
    elif words[0].endswith("python"):
        assert (ROOT / words[1]).is_file() or words[1] == "-m", line
    else:
        assert words[0] in ("pip", "export", "git"), line


def test_the_keys_of_an_experiment_are_all_told() -> None:
    keys = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text_of("docs/command-line.md"), flags=re.MULTILINE))
    assert {field.name for field in fields(Experiment)} <= keys.keys()
    for key, entry in (("runs", PlannedPreset), ("training_sets", TrainingSet), ("generate", GeneratedData)):
        named = {field.name for field in fields(entry)} - {"kind"}
        assert named <= set(re.findall(r"`(\w+)`", keys[key])), key


def test_the_comparison_can_be_read(folder: Path) -> None:
    experiment = Experiment.read(folder / "my-comparison.yaml")
    assert [experiment.seeds_of(entry) for entry in experiment.runs] == [(1, 2, 3), (1,), (1, 2, 3)]


def test_all_kinds_of_encoders_are_told() -> None:
    kinds = {name for reads in registry.READS for name in registry.encoder_names(reads)}
    told = re.findall(r"^\| `(\w+)`.* \| .* \| its ", text_of("docs/how-it-works.md"), flags=re.MULTILINE)
    assert set(told) == kinds
