"""The commands about splits: `data split`, `data hold-out`, `data divergence`. A thin skin, as cli.py is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from .errors import UserError

if TYPE_CHECKING:
    from .divergence import Divergences
    from .splitting import Split, SplitTarget

out = Console(highlight=False)
REPORT_FILE, SPLIT_FILE = "report.json", "split.json"
MAX_SEED = 2**32 - 1
SourcesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA", help="Files (.conllu, .tsv, .txt, .jsonl; also .gz), or folders of them.", show_default=False
    ),
]


def split(
    sources: SourcesArgument,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    test: Annotated[int, typer.Option(min=1, help="Test rows.", show_default=False)],
    dev: Annotated[int, typer.Option(min=0, help="Validation rows, like those of test.")] = 0,
    train: Annotated[
        int | None,
        typer.Option(min=1, help="Training rows. Fewer leave room for more divergence.", show_default="all others"),
    ] = None,
    atoms: Annotated[float, typer.Option(min=0, max=1, help="Divergence of atoms, at most.")] = 0.02,
    compounds: Annotated[
        float, typer.Option(min=0, max=1, help="Divergence of compounds, at least; stops there.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Split data so that the test rows combine what train has in ways that train does not have.

    All rows of all files given are split anew. Writes train, dev and test in the format of the data, `split.json` with
    the row numbers, counted from 0 through all files, in the form of CFQ's own splits, and `report.json`.

    Examples:

    - `edge-transformer data split cfq-trees --train 60000 --dev 12000 --test 12000 --atoms 0.05 --out harder`

    - `edge-transformer data split questions.tsv --test 1000 --compounds 0.5 --out questions-split`
    """
    from .data.split_files import write_split_file
    from .data.split_input import read_split_input
    from .files import write_text
    from .progress import bar
    from .splitting import SplitTarget, make_split, random_split, steps

    with bar("reading") as reading:
        data = read_split_input(sources, reading.advance)
    rows = len(data.parts)
    target = SplitTarget(rows - dev - test if train is None else train, dev, test, atoms, compounds)
    target.check(rows)
    old = [folder / f"{name}{data.kind}" for name in ("train", "dev", "test")]
    if any(source.resolve() in {path.resolve() for path in (folder, *old)} for source in sources):
        raise UserError(f"{folder}: holds the data that are to be split; expected another folder to write to")
    with bar("splitting", steps()) as splitting:
        made = make_split(data.parts, target, seed, splitting.advance)
    parts = {"train": made.train, "test": made.test} | ({"dev": made.dev} if dev else {})
    chance = random_split(data.parts, target, seed)
    data.write(folder, parts)
    if not dev:
        old[1].unlink(missing_ok=True)  # of a split that was here before
    write_split_file(folder / SPLIT_FILE, made.numbers())
    report = _report(made, chance, target, seed, sources, rows)
    write_text(folder / REPORT_FILE, json.dumps(report, indent=2) + "\n")
    measured = {"test": made.divergences, "dev": made.dev_divergences, "a random test set": chance.divergences}
    sizes = {"test": test, "dev": dev, "a random test set": test}
    _print_table(target.train, {name: (sizes[name], found) for name, found in measured.items() if found})
    if not made.reached and compounds < 1:
        print(f"note: wanted {compounds} for compounds with at most {atoms} for atoms; this is the best that was found")
    print(f"{target.train:,} training, {dev:,} validation and {test:,} test rows of {rows:,} in {folder}")


def hold_out(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Graphs: .jsonl, or COGS's .tsv.", show_default=False)],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    column: Annotated[str, typer.Option(help="The labels that say what a token is to its parent.")] = "role",
    words: Annotated[int, typer.Option(min=1, help="Words to hold out, all but one row of each.")] = 60,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Hold out of a training file what some words do, to choose a recipe by how it generalises.

    Of each word chosen, one row stays for training; rows that have it in other places are asked (test.jsonl, in groups
    named after the place that training knows), and so are all rows with a label inside its like, such as a clause in a
    clause. `train graphs` takes the folder.

    Examples:

    - `edge-transformer data hold-out cogs/train.tsv --out cogs-held-out`

    - `edge-transformer data hold-out graphs/train.jsonl --column relation --words 20 --out graphs-held-out`
    """
    from dataclasses import replace

    from .data.cogs import read_rows
    from .data.holding_out import hold_out
    from .data.token_graphs import read_token_graphs, write_token_graphs
    from .progress import bar

    if source.suffix not in (".tsv", ".jsonl"):
        raise UserError(f"{source}: found the ending {source.suffix or 'of no file'}; expected .jsonl or .tsv")
    with bar("reading") as reading:
        graphs = []
        rows = read_token_graphs(source) if source.suffix == ".jsonl" else (row.graph() for row in read_rows(source))
        for graph in rows:
            graphs.append(graph)
            reading.advance(1)
    parts = hold_out(graphs, column, words, seed)
    asked = [replace(graphs[row], group=place) for row, place in parts.test.items()]
    write_token_graphs(folder / "train.jsonl", (graphs[row] for row in parts.train))
    write_token_graphs(folder / "dev.jsonl", (graphs[row] for row in parts.dev))
    write_token_graphs(folder / "test.jsonl", asked)
    print(f"{len(parts.train):,} training, {len(parts.dev):,} validation and {len(asked):,} test rows in {folder}")


def divergence(
    sources: SourcesArgument,
    split_file: Annotated[
        Path | None, typer.Option("--split", help="Row numbers of a split, such as mcd1.json.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Of the random split beside it.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how far test is from train: the divergences of atoms and compounds, beside those of a random split.

    Takes a folder with files for train and test, or data and a file that says how to split them.

    Examples:

    - `edge-transformer data divergence harder`

    - `edge-transformer data divergence parsed-CFQ-corpus.conllu --split mcd1.json`
    """
    from .data.split_files import read_split_file
    from .data.split_input import read_split_input
    from .progress import bar
    from .splitting import SplitTarget, random_split

    with bar("reading") as reading:
        data = read_split_input(sources, reading.advance, keep_texts=False)
    rows: dict[str, Any] = read_split_file(split_file) if split_file else dict(data.by_file)
    given = split_file or ", ".join(map(str, sources))
    for part in ("train", "test"):
        if not len(rows.get(part, ())):
            raise UserError(f"{given}: found no rows for {part}; expected files for train and test, or a split file")
    most = max(max(numbers, default=0) for numbers in rows.values())
    if most >= len(data.parts):
        raise UserError(f"{given}: found row {most}; expected rows of the data, 0 to {len(data.parts) - 1}")
    train = rows["train"]
    chance = random_split(data.parts, SplitTarget(len(train), 0, len(rows["test"])), seed)
    table = {
        name: (len(rows[name]), data.parts.divergences(train, rows[name]))
        for name in ("test", "dev")
        if len(rows.get(name, ()))
    }
    table["a random test set"] = (len(rows["test"]), chance.divergences)
    if as_json:
        found = {name: {"rows": size, **_numbers(divergences)} for name, (size, divergences) in table.items()}
        print(json.dumps({"train": {"rows": len(train)}} | found, indent=2))
    else:
        _print_table(len(train), table)


def _report(
    made: Split, chance: Split, target: SplitTarget, seed: int, sources: list[Path], rows: int
) -> dict[str, Any]:
    return {
        "sources": [source.name for source in sources],
        "seed": seed,
        "rows": {"all": rows, "train": target.train, "dev": target.dev, "test": target.test},
        "wanted": {"atoms at most": target.atoms, "compounds at least": target.compounds, "reached": made.reached},
        "test": _numbers(made.divergences),
        "dev": _numbers(made.dev_divergences) if made.dev_divergences else None,
        "random test set of the same size": _numbers(chance.divergences),
    }


def _numbers(found: Divergences) -> dict[str, float]:
    return {"atom_divergence": round(found.atoms, 6), "compound_divergence": round(found.compounds, 6)}


def _print_table(train: int, measured: dict[str, tuple[int, Divergences]]) -> None:
    print(f"divergence from the {train:,} rows of train")
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for column in ("rows", "atoms", "compounds"):
        table.add_column(column, justify="right")
    for name, (size, found) in measured.items():
        table.add_row(name, f"{size:,}", f"{found.atoms:.4f}", f"{found.compounds:.4f}")
    out.print(table)
