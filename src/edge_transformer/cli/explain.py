"""The commands `explain` and `explain-score`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ..errors import UserError
from ..io.process import prepare_process
from ..io.streams import STANDARD_INPUT, json_line, name_of, open_lines
from .options import ThreadsOption, TrustOption

if TYPE_CHECKING:
    from ..data.relations.rows import Story
    from ..explain.faithfulness import Scores

# Wide enough for all columns in a pipe or file.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)

EXAMPLE = '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}'
RunArgument = Annotated[  # not every bundled model can be explained
    Path,
    typer.Argument(metavar="RUN", help="Folder of a trained model, or the bundled clutrr-small.", show_default=False),
]


def explain(
    run: RunArgument,
    source: Annotated[
        Path, typer.Option("--input", help="Questions, one JSON object per line.", show_default="standard input")
    ] = STANDARD_INPUT,
    figure: Annotated[
        Path | None, typer.Option(help="Draw a single question to a .svg or .png file.", show_default=False)
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also show the strongest pivots of the query in every layer.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per question.")] = False,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Explain answers by the edges that the model composed, down to told ones.

    Example: `echo '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}' |
    edge-transformer explain runs/relations-cpu-families-seed1 --figure why.svg`
    """
    from ..data.relations.fields import read_graph_lines
    from ..draw.style import FORMATS, write_figure
    from ..explain.figure import draw_explanation
    from ..explain.proof import MAX_NODES, check_model, explain_stories
    from ..tasks.base import load

    prepare_process(threads)
    if figure is not None and figure.suffix not in FORMATS:
        raise UserError(f"--figure {figure}: expected a name that ends in {' or '.join(FORMATS)}")
    model, _ = check_model(load(run, trust or ()))
    name, number = name_of(source), 0
    with open_lines(source, "questions") as lines:
        stories: Iterable[Story] = read_graph_lines(lines, name, known=model.relations, max_nodes=MAX_NODES)
        if figure is not None:
            stories = list(stories)
            if len(stories) != 1:
                raise UserError(f"--figure {figure}: found {len(stories)} questions; expected one")
        for number, story in enumerate(stories, start=1):  # each answered as it arrives
            [explanation] = explain_stories(model, [story])
            if as_json:
                print(json_line(explanation.to_dict()), flush=True)
            else:
                text = explanation.text(sys.stdout.encoding or "utf-8", layers)
                print(("\n" if number > 1 else "") + text, flush=True)
            if figure is not None:
                write_figure(draw_explanation(explanation), figure)
                print(f"written: {figure}", file=sys.stderr)  # standard output has explanations only
    if not number:
        raise UserError(f"{name}: found no question; expected one JSON object per line, such as {EXAMPLE}")


def explain_score(
    run: RunArgument,
    data: Annotated[Path, typer.Option("--data", help="Folder with test files and gold proofs.", show_default=False)],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Append the numbers to this file, as a line.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random controls.")] = 0,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Measure explanations of test rows: their agreement with gold proofs, and how answers depend on what they name.

    Example: `edge-transformer explain-score runs/relations-cpu-families-seed1 --data families`
    """
    from ..data.relations.folder import read_folder
    from ..explain.faithfulness import score
    from ..io.progress import bar
    from ..tasks.base import load

    prepare_process(threads)
    model = load(run, trust or ())
    with bar(f"reading {data.name}") as reading:
        loaded = read_folder(data, reading.advance, training=False)
    stories = [story for tests in loaded.tests.values() for story in tests]
    with bar("explaining", len(stories)) as scoring:
        found, left_out = score(model, stories, seed, scoring.advance)
    if left_out:
        print(f"note: {left_out} of {len(stories)} rows are left out: no gold proof, or an unknown relation")
    print(f"{run} on {data}, in percent")
    for columns in (AGREEMENT, READING_AND_REMOVAL):
        out.print(_table(found, columns))
    if json_file is not None:
        record = {
            "format": "edge-transformer explanations 2",
            "command": shlex.join(["edge-transformer", *sys.argv[1:]]),
            "run": run.resolve().name,
            "data": {"name": loaded.name, "fingerprint": loaded.fingerprint},
            "seed": seed,
            "scores": {f"k={k}": scores.to_dict() for k, scores in found.items()},
        }
        _append_line(json_file, record)
        print(f"written: {json_file}")


# The scores of the columns, by their two-line headings.
AGREEMENT = {
    "\naccuracy": "accuracy",
    "precision\nproof": "precision",
    "\nbalanced": "balanced_precision",
    "\nrandom": "random_precision",
    "\nuniform": "uniform_precision",
    "recall\nproof": "recall",
    "\nbalanced ": "balanced_recall",
    "\nrandom ": "random_recall",
    "\nuniform ": "uniform_recall",
}
READING_AND_REMOVAL = {
    "known rules\nproof": "known_rules",
    "\nbalanced": "balanced_known_rules",
    "\nrandom": "random_known_rules",
    "changed without\nproof": "changed",
    "\nbalanced ": "balanced_changed",
    "\nrandom ": "random_changed",
    "\ngold": "gold_changed",
    "\nother pivots": "other_changed",
}


def _table(found: Mapping[int, Scores], columns: Mapping[str, str]) -> Table:
    table = Table(box=box.SIMPLE)
    for heading in ("\nk", "\nrows", *columns):
        table.add_column(heading, justify="right")
    for k, scores in found.items():
        fractions = scores.fractions()
        table.add_row(str(k), str(scores.rows), *(f"{100 * fractions[name]:.1f}" for name in columns.values()))
    return table


def _append_line(path: Path, record: dict[str, Any]) -> None:
    """Append a line of JSON and flush it to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
