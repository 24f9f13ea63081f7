"""What is in the pages of the documents: blocks of code, the commands in them, and a folder where those can be run."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import edge_transformer as et
from edge_transformer.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
_BLOCK = re.compile(r"^(?:<!-- not run: ([^>]*) -->\n)?```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SMALLER = ["--set", "model.dim=16", "--set", "train.epochs=1", "--threads", "1"]
FEWER = {
    "--rows 15000": "--rows 60 --test-rows 2",
    "generate clutrr --out": "generate clutrr --rows 60 --test-rows 2 --out",
}


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    text: str
    not_run: str  # why its commands are not run, if they are not


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, *languages: str) -> list[Block]:
    """The blocks of a page in these languages, or in all."""
    found = [Block(language, text, not_run) for not_run, language, text in _BLOCK.findall(text_of(name))]
    return [block for block in found if not languages or block.language in languages]


@dataclass(frozen=True)
class Command:
    """A line of a shell: a command of ours, what it reads and where its output goes."""

    arguments: tuple[str, ...]
    piped: str = ""  # what echo says
    reads: str = ""  # < FILE
    writes: str = ""  # > FILE


def command_lines(block: Block) -> Iterator[str]:
    for line in block.text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def our_command(line: str) -> Command | None:
    """The command of ours in a line; None where another program is called."""
    words = shlex.split(line, comments=True)
    piped = ""
    if "|" in words:
        place = words.index("|")
        assert words[0] == "echo", line
        piped, words = " ".join(words[1:place]), words[place + 1 :]
    if words[0] == "torchrun":
        words = ["edge-transformer", *words[words.index("edge_transformer") + 1 :]]
    if words[0] != "edge-transformer":
        return None
    files = {}
    for mark in ("<", ">"):
        if mark in words:
            place = words.index(mark)
            files[mark] = words[place + 1]
            del words[place : place + 2]
    return Command(tuple(words[1:]), piped, files.get("<", ""), files.get(">", ""))


def check_arguments(command: Command) -> None:
    """Have the command line look at the arguments, without running anything."""
    group: Any = get_command(app)
    name, *rest = command.arguments
    each = group.commands[name]
    if hasattr(each, "commands"):
        name, *rest = rest
        each = each.commands[name]
    each.make_context(name, rest)


def run(command: Command, folder: Path) -> str:
    """Run a command in this folder, which is the current one, with less to train; what it prints."""
    words = list(command.arguments)
    line = shlex.join(words)
    for printed, fewer in FEWER.items():
        line = line.replace(printed, fewer)
    words = shlex.split(line)
    if "--out" in words:  # what is there was made for others
        shutil.rmtree(folder / words[words.index("--out") + 1], ignore_errors=True)
    if words[0] == "train":
        words += SMALLER
    typed = (folder / command.reads).read_text(encoding="utf-8") if command.reads else f"{command.piped}\n"
    done = CliRunner().invoke(app, words, input=typed, catch_exceptions=False)
    assert done.exit_code == 0, f"{line}\n{done.output}"
    if command.writes:
        (folder / command.writes).write_text(done.stdout, encoding="utf-8")
    return done.stdout


ROWS = [
    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"], "target": "son"},
    {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"], "target": "daughter"},
]
PAIRS = [("jump twice", "JUMP JUMP"), ("turn left twice", "LEFT LEFT"), ("run", "RUN"), ("jump", "JUMP")]


def make_workshop(folder: Path) -> None:
    """The files and runs that the pages speak of, as small as can be."""
    [sentences] = [
        [json.loads(line) for line in block.text.splitlines()]
        for block in blocks("docs/your-own-data.md", "json")
        if '"tokens"' in block.text
    ]
    trees = [_tree(subject, verb) for subject in ("Ann", "Bob", "Eve", "Tom") for verb in ("ran", "slept", "left")]
    _write_lines(folder / "my-data/train.jsonl", map(json.dumps, ROWS * 10))
    _write_lines(folder / "my-data/test.jsonl", map(json.dumps, ROWS))
    _write_lines(folder / "new-data/test.jsonl", map(json.dumps, ROWS))
    questions = [json.dumps({name: row[name] for name in ("edges", "query")}) for row in ROWS]
    _write_lines(folder / "questions.jsonl", questions)
    _write_lines(folder / "question.jsonl", questions[:1])
    for split in ("train", "dev", "test"):
        _write_lines(folder / f"my-sentences/{split}.jsonl", map(json.dumps, sentences * 20))
        _write_lines(folder / f"my-treebank/{split}.conllu", trees)
        _write_lines(folder / f"my-pairs/{split}.tsv", ("\t".join(pair) for pair in PAIRS * 30))
        _write_lines(folder / f"my-trees/{split}.conllu", trees * 4)
    for split in ("train", "dev", "test", "gen"):
        _write_lines(folder / f"cogs/{split}.tsv", ["Emma ran .\trun . agent ( x _ 1 , Emma )\tsubj_to_obj_proper"] * 4)
    _write_lines(folder / "sentences.txt", ["book a flight to Oslo", "cancel the train to Rome"])
    _write_lines(folder / "text.txt", ["Ann ran", "Bob slept"])
    _write_lines(folder / "text.conllu", trees[:2])
    _write_lines(folder / "commands.txt", ["jump twice", "run"])
    [comparison] = [block.text for block in blocks("docs/command-line.md", "yaml")]
    (folder / "my-comparison.yaml").write_text(comparison, encoding="utf-8")
    [encoder] = [block.text for block in blocks("docs/extend.md", "python") if "MeanOfTriangles" in block.text]
    (folder / "my_encoders.py").write_text(encoder.partition("et.register_encoder(")[0], encoding="utf-8")
    runs = {
        "mine": "my-data",
        "families": "my-data",
        "parser": "my-sentences",
        "trees": "my-treebank",
        "pairs": "my-pairs",
    }
    tasks = {"my-data": "relations", "my-sentences": "graphs", "my-treebank": "trees", "my-pairs": "seq2seq"}
    for name, data in runs.items():
        with redirect_stderr(io.StringIO()):
            et.train(
                tasks[data], folder / data, out=folder / "runs" / name, dim=16, epochs=1, progress=False, threads=1
            )


def _tree(subject: str, verb: str) -> str:
    return f"1\t{subject}\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\t{verb}\t_\tVERB\t_\t_\t0\troot\t_\t_\n"


def _write_lines(path: Path, lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def generator() -> ModuleType:
    """The module that writes generated blocks."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
