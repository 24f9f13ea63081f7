"""The command `demo`: train a model on generated families, and show a table, a figure and an answer."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..io.process import MAX_THREADS
from .explain import EXAMPLE
from .options import EXIT_INTERRUPTED, out

if TYPE_CHECKING:
    from ..data.relations.rows import Story
    from ..io.records import Record
    from ..tasks.base import TaskModel

TRAIN_K, TEST_K = (2, 3, 4), tuple(range(2, 11))
ROWS, TEST_ROWS = 10_000, 100
PRESET = "clutrr/demo"


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for data, model and figure.")] = Path("demo"),
    threads: Annotated[
        int, typer.Option(min=1, max=MAX_THREADS, help="CPU threads; the model is too small to gain from many.")
    ] = 1,
) -> None:
    """Train a model in a few minutes: generate families, train, show a table and a figure, answer a question.

    The same command resumes an interrupted demo.

    Example: `edge-transformer demo`
    """
    import edge_transformer as et

    from ..data.relations.clutrr import read_clutrr
    from ..io.files import check_folder

    check_folder("--out", folder)
    families, run = folder / "families", folder / "run"
    _generate(families)
    out.print(f"[bold]1.[/] {ROWS:,} stories of 2 to 4 family relations to learn from, in {escape(str(families))}")
    model = et.train("relations", families, preset=PRESET, out=run, device="cpu", threads=threads)
    if not model.has_record:
        sys.exit(EXIT_INTERRUPTED)
    settings = model.record.settings["model"]
    out.print(
        f"[bold]2.[/] Trained an Edge Transformer ({settings['layers']} layers, dim {settings['dim']}) "
        f"in {model.record.minutes:.1f} minutes: {escape(str(run))}"
    )
    out.print("[bold]3.[/] Accuracy by the number of relations; training had at most 4:")
    out.print(_accuracy_table(model.record))
    figure = folder / "accuracy.png"
    _draw(model.record, figure)
    out.print(f"   as a figure: {escape(str(figure))}")
    out.print("[bold]4.[/] A question it has never seen:")
    _ask(model, read_clutrr(families).tests[6][0])
    command = f"echo '{EXAMPLE}' | edge-transformer explain {shlex.quote(str(run))}"
    out.print("[bold]5.[/] Ask it yourself, after `. .venv/bin/activate`:")
    out.print(escape(command), soft_wrap=True)


def _generate(families: Path) -> None:
    """Generate the stories, unless their folder exists, which is then complete."""
    from ..data.relations.clutrr import write_clutrr
    from ..data.relations.generate import generate
    from ..io.progress import bar

    if families.exists():
        return
    with bar("generating families", ROWS + TEST_ROWS * len(TEST_K)) as generating:
        stories = generate(TRAIN_K, TEST_K, ROWS, seed=1, test_rows=TEST_ROWS, progress=generating.advance)
    aside = families.with_suffix(".tmp")
    shutil.rmtree(aside, ignore_errors=True)
    write_clutrr(aside, *stories)
    aside.rename(families)


def _accuracy_table(record: Record) -> Table:
    table = Table()
    for k in TEST_K:
        table.add_column(f"k={k}", justify="right", style="dim" if k in TRAIN_K else "bold")
    table.add_row(*(f"{100 * record.metrics[f'k={k}']:.0f} %" for k in TEST_K))
    return table


def _draw(record: Record, path: Path) -> None:
    from ..draw.charts import draw_curves
    from ..draw.style import write_figure

    series = {"Edge Transformer": {k: (record.metrics[f"k={k}"], None) for k in TEST_K}}
    title = "Trained on 2 to 4 relations, asked about up to 10"
    write_figure(draw_curves(series, title=title, axis="k", trained=TRAIN_K), path)


def _ask(model: TaskModel, story: Story) -> None:
    """Print a story, its question and the model's answer."""
    names = story.names
    edges = [[names[a], relation, names[b]] for (a, b), relation in zip(story.edges, story.relations, strict=True)]
    for start, relation, end in edges:
        out.print(f"      {end} is {start}'s {relation}.")
    asked, other = (names[node] for node in story.query)
    answer = model.predict([{"edges": edges, "query": [asked, other]}])[0]
    out.print(f"   What is {other} to {asked}?")
    for relation, probability in list(answer["probabilities"].items())[:3]:
        out.print(f"      {relation:<16} {100 * probability:5.1f} %")
    out.print(f"   The story's own answer: {story.target}")
