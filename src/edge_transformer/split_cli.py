"""The commands about splits: `data split`, `data hold-out`, `data divergence`. A thin skin, as cli.py is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from .errors import UserError

if TYPE_CHECKING:
    from .data.split_input import SplitInput
    from .divergence import Divergences, Ints
    from .splitting import SplitTarget

out = Console(highlight=False)
REPORT_FILE, SPLIT_FILE = "report.json", "split.json"
RANDOM = "a random test set"
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
    the row numbers, counted from 0 through all files or as trees say them, in the form of CFQ's own splits, and
    `report.json`.

    Examples:

    - `edge-transformer data split trees --train 60000 --dev 12000 --test 12000 --atoms 0.05 --compounds 0.5 --out hard`

    - `edge-transformer data split questions.tsv --test 1000 --compounds 0.5 --out questions-split`
    """
    from .data.split_files import SPLITS, write_split_file
    from .data.split_input import read_split_input, split_files
    from .data.treebank_folders import copy_description
    from .files import write_text
    from .progress import bar
    from .splitting import SplitTarget, make_split, steps

    with bar("reading") as reading:
        data = read_split_input(sources, reading.advance)
    rows = len(data.parts)
    target = SplitTarget(rows - dev - test if train is None else train, dev, test, atoms, compounds)
    target.check(rows)
    old = [folder / f"{name}{data.kind}" for name in SPLITS]
    if any(source.resolve() in {path.resolve() for path in (folder, *old)} for source in sources):
        raise UserError(f"{folder}: holds the data that are to be split; expected another folder to write to")
    others = [path.name for path in split_files(folder) if path not in old] if folder.is_dir() else []
    if others:
        raise UserError(f"{folder}: found {', '.join(others)}; expected no files of another split")
    with bar("splitting", steps()) as splitting:
        made = make_split(data.parts, target, seed, splitting.advance)
    parts = {"train": made.train, "test": made.test} | ({"dev": made.dev} if dev else {})
    measured = _measure(data, parts, seed)
    data.write(folder, parts)
    if not dev:
        old[1].unlink(missing_ok=True)  # of a split that was here before
    write_split_file(folder / SPLIT_FILE, data.row_numbers(made.numbers()))
    write_text(folder / REPORT_FILE, json.dumps(_report(measured, target, seed, sources, rows), indent=2) + "\n")
    copy_description(sources, folder, {"seed": seed, "train": target.train, "dev": dev, "test": test})
    _print_table(target.train, measured)
    for name, complaints in _complaints(measured, target).items():
        print(f"note: {name}: {'; '.join(complaints)}; this is the best that was found")
    for name in ("test", "dev"):
        repeated = data.repeated(made.train, parts.get(name, ()))
        if repeated:
            print(f"note: {name}: {repeated:,} rows are word for word in train too")
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
    parts = hold_out(graphs, column, words, seed, source=source)
    asked = [replace(graphs[row], group=place) for row, place in parts.test.items()]
    write_token_graphs(folder / "train.jsonl", (graphs[row] for row in parts.train))
    if parts.dev:  # a file without rows is none that can be read
        write_token_graphs(folder / "dev.jsonl", (graphs[row] for row in parts.dev))
    else:
        (folder / "dev.jsonl").unlink(missing_ok=True)  # of other rows
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

    Takes a folder with files for train and test, or data and a file that says how to split them. Compounds have the
    weights that they have in the rows of the split.

    Examples:

    - `edge-transformer data divergence harder`

    - `edge-transformer data divergence parsed-CFQ-corpus.conllu --split mcd1.json`
    """
    from .data.split_files import read_split_file
    from .data.split_input import read_split_input
    from .progress import bar

    with bar("reading") as reading:
        data = read_split_input(sources, reading.advance, keep_texts=False)
    rows = data.places(read_split_file(split_file), split_file) if split_file else data.by_file
    given = split_file or ", ".join(map(str, sources))
    for part in ("train", "test"):
        if not len(rows.get(part, ())):
            raise UserError(f"{given}: found no rows for {part}; expected files for train and test, or a split file")
    table = _measure(data, rows, seed)
    train = len(rows["train"])
    if as_json:
        found = {name: {"rows": size, **_numbers(divergences)} for name, (size, divergences) in table.items()}
        print(json.dumps({"train": {"rows": train}} | found, indent=2))
    else:
        _print_table(train, table)


def _measure(data: SplitInput, rows: Mapping[str, Ints], seed: int) -> dict[str, tuple[int, Divergences]]:
    """The size and the divergences of test, dev, and a test set by chance, all by the rows that the split uses."""
    import numpy as np

    from .data.split_files import SPLITS
    from .splitting import SplitTarget, random_split

    there = {name: rows[name] for name in SPLITS if len(rows.get(name, ()))}
    parts = data.parts_of(np.concatenate([*there.values()]))
    ends = np.cumsum([len(numbers) for numbers in there.values()])
    places = dict(zip(there, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    table = {
        name: (len(places[name]), parts.divergences(places["train"], places[name]))
        for name in ("test", "dev")
        if name in places
    }
    chance = random_split(parts, SplitTarget(len(places["train"]), 0, len(places["test"])), seed)
    return table | {RANDOM: (len(places["test"]), chance.divergences)}


def _complaints(measured: dict[str, tuple[int, Divergences]], target: SplitTarget) -> dict[str, list[str]]:
    """What test and dev do not keep of what was wanted."""
    found = {name: target.complaints(of) for name, (_, of) in measured.items() if name != RANDOM}
    return {name: complaints for name, complaints in found.items() if complaints}


def _report(
    measured: dict[str, tuple[int, Divergences]], target: SplitTarget, seed: int, sources: list[Path], rows: int
) -> dict[str, Any]:
    missed = _complaints(measured, target)
    reached = all(target.missed_by(found) == 0 for name, (_, found) in measured.items() if name != RANDOM)
    return {
        "sources": [source.name for source in sources],
        "seed": seed,
        "rows": {"all": rows, "train": target.train, "dev": target.dev, "test": target.test},
        "wanted": {"atoms at most": target.atoms, "compounds at least": target.compounds, "reached": reached},
        "missed": missed,
        "test": _numbers(measured["test"][1]),
        "dev": _numbers(measured["dev"][1]) if "dev" in measured else None,
        "random test set of the same size": _numbers(measured[RANDOM][1]),
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
