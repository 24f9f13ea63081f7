"""The demonstration: from nothing to a trained model on generated families, with a table, a figure and an answer."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..data.relations.clutrr import read_clutrr, write_clutrr
from ..data.relations.generate import generate
from ..data.relations.rows import Story
from ..draw.curves import draw_curves
from ..draw.style import save_figure
from ..io.progress import bar
from ..training.config import Hardware, RunConfig
from ..training.models import load
from ..training.records import Record
from ..training.trainer import Trainer
from .explain import EXAMPLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAIN_K, TEST_K = (2, 3, 4), tuple(range(2, 11))
ROWS, TEST_ROWS = 10_000, 100


def run_demo(
    folder: str | Path, out: Console, threads: int | None = None, preset: str = "clutrr/demo"
) -> Record | None:
    """Generate, train, score, draw, ask. A second call goes on where the first one was stopped; None if stopped."""
    folder = Path(folder)
    families = folder / "families"
    if not families.exists():
        with bar("generating families", ROWS + TEST_ROWS * len(TEST_K)) as generating:
            stories = generate(TRAIN_K, TEST_K, ROWS, seed=1, test_rows=TEST_ROWS, progress=generating.advance)
        aside = folder / "families.tmp"
        shutil.rmtree(aside, ignore_errors=True)
        write_clutrr(aside, *stories)
        aside.rename(families)  # a folder of this name is a whole one
    out.print(f"[bold]1.[/] {ROWS:,} stories of 2 to 4 family relations to learn from, in {escape(str(families))}")
    run = RunConfig.from_preset("relations", preset, {}, seed=1)
    trainer = Trainer(run, run.load_data(families), folder / "run", Hardware("cpu", threads=threads))
    record = trainer.train()
    trainer.release_folder()
    if record is None:
        return None
    model = run.settings["model"]
    out.print(
        f"[bold]2.[/] Trained an Edge Transformer ({model['layers']} layers, dim {model['dim']}) "
        f"in {record.minutes:.1f} minutes: {escape(str(folder / 'run'))}"
    )
    out.print("[bold]3.[/] Accuracy by the number of relations, of which it has never seen more than 4:")
    out.print(_accuracy_table(record))
    _, png = save_figure(_figure(record), folder / "accuracy")
    out.print(f"   as a figure: {escape(str(png))}")
    out.print("[bold]4.[/] A question it has never seen:")
    _ask(folder / "run", read_clutrr(families).tests[6][0], out)
    command = f"echo '{EXAMPLE}' | edge-transformer explain {shlex.quote(str(folder / 'run'))}"
    out.print("[bold]5.[/] Ask it yourself, after `. .venv/bin/activate`:")
    out.print(escape(command), soft_wrap=True)
    return record


def _accuracy_table(record: Record) -> Table:
    table = Table()
    for k in TEST_K:
        table.add_column(f"k={k}", justify="right", style="dim" if k in TRAIN_K else "bold")
    table.add_row(*(f"{100 * record.metrics[f'k={k}']:.0f} %" for k in TEST_K))
    return table


def _figure(record: Record) -> Figure:
    series = {"Edge Transformer": {k: (record.metrics[f"k={k}"], None) for k in TEST_K}}
    return draw_curves(series, title="Trained on 2 to 4 relations, asked about up to 10", axis="k", trained=TRAIN_K)


def _ask(run: Path, story: Story, out: Console) -> None:
    """Tell a story, ask its question, show the model's answer."""
    names = story.names
    edges = [[names[a], relation, names[b]] for (a, b), relation in zip(story.edges, story.relations, strict=True)]
    for start, relation, end in edges:
        out.print(f"      {end} is {start}'s {relation}.")
    asked, other = (names[node] for node in story.query)
    answer = load(run).predict([{"edges": edges, "query": [asked, other]}])[0]
    out.print(f"   What is {other} to {asked}?")
    for relation, probability in list(answer["probabilities"].items())[:3]:
        out.print(f"      {relation:<16} {100 * probability:5.1f} %")
    out.print(f"   The story's own answer: {story.target}")
