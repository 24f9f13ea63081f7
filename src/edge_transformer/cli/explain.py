"""The commands `explain` and `explain-score`."""

from __future__ import annotations

import json
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ..errors import UserError
from ..io.process import prepare_process
from ..io.streams import STANDARD_INPUT, json_line, name_of, open_lines, read_json_lines
from .options import ThreadsOption, TrustOption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..explain.faithfulness import Scores
    from ..explain.links.faithfulness import LinkScores
    from ..tasks.base import TaskModel
    from ..tasks.links.model import LinkModel

# Wide enough for all columns in a pipe or file.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)

EXAMPLE = '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}'
LINK_EXAMPLE = '{"head": "Ann", "relation": "aunt", "tail": "Eve"}'
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
    html: Annotated[
        Path | None,
        typer.Option(help="Write the playground's view of all questions to a .html file.", show_default=False),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also show the strongest pivots of the query in every layer.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per question.")] = False,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Explain answers by the edges that the model composed, down to told ones; predicted links by known facts.

    Example: `echo '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}' |
    edge-transformer explain runs/relations-cpu-families-seed1 --figure why.svg`
    """
    from ..draw.style import FORMATS, write_figure
    from ..serve.document import MOST_ITEMS, check_name
    from ..tasks.base import load
    from ..tasks.links.model import LinkModel

    prepare_process(threads)
    if figure is not None and figure.suffix not in FORMATS:
        raise UserError(f"--figure {figure}: expected a name that ends in {' or '.join(FORMATS)}")
    if html is not None:
        check_name(html)
    model = load(run, trust or ())
    explaining = _of_links(model) if isinstance(model, LinkModel) else _of_graphs(model)
    name, number = name_of(source), 0
    saved: list[tuple[Any, Any]] = []
    with open_lines(source, "questions") as lines:
        questions: Iterable[Any] = explaining.read(lines, name)
        if figure is not None:
            questions = list(questions)
            if len(questions) != 1:
                raise UserError(f"--figure {figure}: found {len(questions)} questions; expected one")
        for number, question in enumerate(questions, start=1):  # each answered as it arrives
            explanation = explaining.explain(question)
            if as_json:
                print(json_line(explanation.to_dict()), flush=True)
            else:
                text = explanation.text(sys.stdout.encoding or "utf-8", layers)
                print(("\n" if number > 1 else "") + text, flush=True)
            if html is not None and number <= MOST_ITEMS + 1:  # one more than can be written is refused
                saved.append((question, explanation))
            if figure is not None:
                write_figure(explaining.draw(explanation), figure, letters=True)
                print(f"written: {figure}", file=sys.stderr)  # standard output has explanations only
    if not number:
        raise UserError(f"{name}: found no question; expected one JSON object per line, such as {explaining.example}")
    if html is not None:
        explaining.save(html, saved)
        print(f"written: {html}", file=sys.stderr)


class _Explaining(NamedTuple):
    """How the questions of a task are read, explained and drawn."""

    read: Callable[[Iterable[str], str], Iterable[Any]]
    explain: Callable[[Any], Any]
    draw: Callable[[Any], Figure]
    save: Callable[[Path, list[tuple[Any, Any]]], None]  # questions with their explanations, as a page
    example: str


def _of_graphs(model: TaskModel) -> _Explaining:
    from ..data.relations.fields import read_graph_lines
    from ..explain.figure import draw_explanation
    from ..explain.proof import MAX_NODES, check_model, explain_stories
    from ..serve.document import write_explanations

    known, _ = check_model(model)
    return _Explaining(
        partial(read_graph_lines, known=known.relations, max_nodes=MAX_NODES),
        lambda story: explain_stories(model, [story])[0],
        draw_explanation,
        lambda path, saved: write_explanations(path, model, saved),
        EXAMPLE,
    )


def _of_links(model: LinkModel) -> _Explaining:
    from ..explain.links.figure import draw_link_explanation
    from ..explain.links.proof import check_link_model, explain_link
    from ..serve.document import write_links

    check_link_model(model)

    def read(lines: Iterable[str], name: str) -> Iterable[Any]:
        return ((f"{name}:{number}", value) for number, value in read_json_lines(lines, name))

    return _Explaining(
        read,
        lambda asked: explain_link(model, asked[1], asked[0]),
        draw_link_explanation,
        lambda path, saved: write_links(path, model, [explanation.to_dict() for _, explanation in saved]),
        LINK_EXAMPLE,
    )


def explain_score(
    run: RunArgument,
    data: Annotated[
        Path, typer.Option("--data", help="Folder with test files; for relations with gold proofs.", show_default=False)
    ],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Append the numbers to this file, as a line.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random controls, and of the sample.")] = 0,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Measure only so many test rows, drawn by chance.", show_default=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Of links: which version of a corpus with several.", show_default=False)
    ] = None,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Measure explanations of test rows: their agreement with gold proofs, and how answers depend on what they name.

    Those of links are measured by what is lost without the facts that they name, and without others.

    Example: `edge-transformer explain-score runs/relations-cpu-families-seed1 --data families`
    """
    from ..tasks.base import load
    from ..tasks.links.model import LinkModel

    prepare_process(threads)
    model = load(run, trust or ())
    scored = _score_links if isinstance(model, LinkModel) else _score_graphs
    record, tables = scored(model, data, seed, sample, split)
    print(f"{run} on {data}, in percent")
    for table in tables:
        out.print(table)
    if json_file is not None:
        made = {
            "format": record.pop("format"),
            "command": shlex.join(["edge-transformer", *sys.argv[1:]]),
            "run": run.resolve().name,
            **record,
        }
        _append_line(json_file, made)
        print(f"written: {json_file}")


def _score_graphs(
    model: TaskModel, data: Path, seed: int, sample: int | None, split: str | None
) -> tuple[dict[str, Any], list[Table]]:
    from ..data.relations.folder import read_folder
    from ..explain.faithfulness import score
    from ..io.progress import bar

    if split is not None:
        raise UserError(f"--split {split}: found a model of relations; expected one of links")
    with bar(f"reading {data.name}") as reading:
        loaded = read_folder(data, reading.advance, training=False)
    stories = _sampled([story for tests in loaded.tests.values() for story in tests], sample, seed)
    with bar("explaining", len(stories)) as scoring:
        found, left_out = score(model, stories, seed, scoring.advance)
    if left_out:
        print(f"note: {left_out} of {len(stories)} rows are left out: no gold proof, or an unknown relation")
    record = {
        "format": "edge-transformer explanations 2",
        "data": {"name": loaded.name, "fingerprint": loaded.fingerprint},
        "seed": seed,
        "scores": {f"k={k}": scores.to_dict() for k, scores in found.items()},
    }
    return record, [_table(found, columns) for columns in (AGREEMENT, READING_AND_REMOVAL)]


def _score_links(
    model: TaskModel, data: Path, seed: int, sample: int | None, split: str | None
) -> tuple[dict[str, Any], list[Table]]:
    from ..data.links.folder import read_links
    from ..explain.links.faithfulness import known_numbers, score_links
    from ..io.progress import bar
    from ..tasks.links.model import LinkModel

    assert isinstance(model, LinkModel)
    with bar(f"reading {data.name}") as reading:
        loaded = read_links(data, reading.advance, training=False, split=split)
    tests = [link for name, links in loaded.splits.items() if name.startswith("test") for link in links]
    tests = _sampled(tests, sample, seed)
    links = [link for link in tests if known_numbers(model, link) is not None]
    if len(links) < len(tests):
        print(f"note: {len(tests) - len(links)} of {len(tests)} links are left out: unknown nodes or relations")
    with bar("explaining", len(links)) as scoring:
        found = score_links(model, links, seed, scoring.advance)
    record = {
        "format": "edge-transformer link explanations 1",
        "data": {
            "name": loaded.name,
            "fingerprint": loaded.fingerprint,
            **({} if split is None else {"split": split}),
        },
        "seed": seed,
        "scores": found.to_dict(),
    }
    return record, [_link_table(found)]


def _sampled(rows: list[Any], count: int | None, seed: int) -> list[Any]:
    return rows if count is None or count >= len(rows) else random.Random(seed).sample(rows, count)


def _link_table(found: LinkScores) -> Table:
    """What is lost without the facts of each kind."""
    table = Table(box=box.SIMPLE)
    for heading in ("links", "explained", "hidden", "facts a link", "answers changed", "probability lost"):
        table.add_column(heading, justify="left" if heading == "hidden" else "right")
    fractions = found.fractions()
    for number, kind in enumerate(found.removals):
        about = ("", "") if number else (str(found.links), f"{100 * fractions['explained']:.1f}")
        changed, lost = (f"{100 * fractions[f'{kind}_{name}']:.1f}" for name in ("changed", "lost"))
        table.add_row(*about, kind, f"{fractions[f'{kind}_facts']:.1f}", changed, lost)
    return table


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
