"""The commands `data split`, `data hold-out` and `data divergence`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from ..errors import UserError
from .options import MAX_SEED, out

if TYPE_CHECKING:
    from ..splits.divergence import Divergences, Ints, UnseenAtoms
    from ..splits.rows import SplitInput
    from ..splits.search import SplitTarget

REPORT_FILE, SPLIT_FILE = "report.json", "split.json"
RANDOM = "a random test set"
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
        float, typer.Option(min=0, max=1, help="Divergence of compounds, at least; the search stops there.")
    ] = 1.0,
    seen: Annotated[int, typer.Option(min=0, help="Training rows, at least, with each atom of dev and test.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Split data so that test rows combine the atoms of train into compounds that train lacks.

    All rows of all files are split anew. Writes train, dev and test in the format of the data, `split.json` with the
    row numbers in the format of CFQ's splits (counted from 0 over all files, or as given in trees), and `report.json`.

    Examples:

    - `edge-transformer data split trees --train 30000 --dev 12000 --test 12000 --atoms 0.05 --compounds 0.5 --out hard`

    - `edge-transformer data split questions.tsv --test 1000 --compounds 0.5 --out questions-split`
    """
    from ..data.splits import SPLITS, split_file_text
    from ..data.trees.folder import DESCRIPTION_FILE, description_of_split
    from ..io.files import obstacle, replacing_together
    from ..io.progress import bar
    from ..splits.rows import read_split_input, split_files
    from ..splits.search import SplitTarget, make_split, steps

    if what := obstacle(folder / REPORT_FILE):
        raise UserError(f"--out {folder}: found {what}; expected a folder to write to")
    with bar("reading") as reading:
        data = read_split_input(sources, reading.advance)
    rows = len(data.parts)
    target = SplitTarget(rows - dev - test if train is None else train, dev, test, atoms, compounds, seen)
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
    texts = {
        SPLIT_FILE: split_file_text(data.row_numbers(made.numbers())),
        REPORT_FILE: json.dumps(_report(measured, target, seed, sources, rows), indent=2) + "\n",
        DESCRIPTION_FILE: description_of_split(
            sources, {"seed": seed, "train": target.train, "dev": dev, "test": test}
        ),
    }
    with replacing_together(folder) as place:
        data.write(place, parts)
        for name, text in texts.items():
            if text is not None:
                place(name).write_text(text, encoding="utf-8", newline="\n")
    if not dev:
        old[1].unlink(missing_ok=True)  # of an earlier split
    if texts[DESCRIPTION_FILE] is None:
        (folder / DESCRIPTION_FILE).unlink(missing_ok=True)
    _print_table(target.train, measured)
    for name, complaints in _complaints(measured, target).items():
        print(f"note: {name}: {'; '.join(complaints)}; this is the best that was found")
    for name, found in measured.items():
        if name != RANDOM and found.unseen.atoms:
            print(f"note: {name}: {found.unseen.rows:,} rows have one of {found.unseen.atoms:,} atoms that train lacks")
    for name in ("test", "dev"):
        repeated = data.repeated(made.train, parts.get(name, ()))
        if repeated:
            print(f"note: {name}: {repeated:,} rows are word for word in train too")
    print(f"{target.train:,} training, {dev:,} validation and {test:,} test rows of {rows:,} in {folder}")


def hold_out(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Graphs: .jsonl, or COGS's or SLOG's .tsv.", show_default=False)
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    column: Annotated[str, typer.Option(help="Column with the role of a token at its parent.")] = "role",
    words: Annotated[int, typer.Option(min=1, help="Words to hold out, except for one row of each.")] = 60,
    nested: Annotated[
        str, typer.Option(help='Rows with "edges": labels that nest, with commas.', show_default=False)
    ] = "",
    depth: Annotated[int, typer.Option(min=0, help="Of these labels, the longest chain that training keeps.")] = 2,
    beside: Annotated[
        str, typer.Option(help="Labels next to which training keeps no argument that has one of these labels below it.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Hold out the uses of some words from a training file, to choose a recipe by how it generalises.

    Rows with one parent a token: one row of each chosen word stays in training. Rows with the word in other roles go to
    test.jsonl, grouped by the role in training, and so do all rows with recursion, such as a clause in a clause.

    Rows with "edges", with --nested: rows with deeper recursion go to test.jsonl, and rows with a modified argument
    beside another one, grouped by construction. `train graphs` reads the folder.

    Examples:

    - `edge-transformer data hold-out cogs/train.tsv --out cogs-held-out`

    - `edge-transformer data hold-out graphs/train.jsonl --column relation --words 20 --out graphs-held-out`

    - `edge-transformer data hold-out slog/train.tsv --nested nmod,ccomp --beside recipient --out slog-held-out`
    """
    from dataclasses import replace

    from ..data.graphs.cogs import read_rows
    from ..data.graphs.hold_out import hold_out
    from ..data.graphs.rows import read_token_graphs, write_token_graphs
    from ..io.progress import bar

    if source.suffix not in (".tsv", ".jsonl"):
        raise UserError(f"{source}: found the ending {source.suffix or 'of no file'}; expected .jsonl or .tsv")
    if nested:
        labels, others = (tuple(filter(None, text.split(","))) for text in (nested, beside))
        _hold_out_constructions(source, folder, labels, others, depth, seed)
        return
    with bar("reading") as reading:
        graphs = []
        rows = read_token_graphs(source) if source.suffix == ".jsonl" else (row.graph() for row in read_rows(source))
        for graph in rows:
            graphs.append(graph)
            reading.advance(1)
    parts = hold_out(graphs, column, words, seed, source=source)
    asked = [replace(graphs[row], group=place) for row, place in parts.test.items()]
    write_token_graphs(folder / "train.jsonl", (graphs[row] for row in parts.train))
    if parts.dev:  # an empty file could not be read
        write_token_graphs(folder / "dev.jsonl", (graphs[row] for row in parts.dev))
    else:
        (folder / "dev.jsonl").unlink(missing_ok=True)  # of an earlier call
    write_token_graphs(folder / "test.jsonl", asked)
    print(f"{len(parts.train):,} training, {len(parts.dev):,} validation and {len(asked):,} test rows in {folder}")


def _hold_out_constructions(
    source: Path, folder: Path, labels: tuple[str, ...], beside: tuple[str, ...], depth: int, seed: int
) -> None:
    """Hold out constructions of sentence graphs."""
    from ..data.graphs.edge_folder import read_rows
    from ..data.graphs.hold_out_edges import hold_out_constructions, write_constructions
    from ..data.graphs.slog import SLOG
    from ..io.progress import bar

    with bar("reading") as reading:
        rows = []
        for _, graph, text in read_rows(
            {"train": source}, SLOG.read if source.suffix == ".tsv" else None, text=SLOG.text
        ):
            rows.append((graph, text))
            reading.advance(1)
    parts = hold_out_constructions([graph for graph, _ in rows], labels, beside, depth, seed, source=source)
    write_constructions(folder, rows, parts)
    print(f"{len(parts.train):,} training, {len(parts.dev):,} validation and {len(parts.test):,} test rows in {folder}")


def divergence(
    sources: SourcesArgument,
    split_file: Annotated[
        Path | None, typer.Option("--split", help="Row numbers of a split, such as mcd1.json.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the random split to compare with.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the divergence of atoms and compounds between train and test, compared with a random split.

    Takes a folder with files for train and test, or data and a split file. Compounds are weighted by the rows of the
    split.

    Examples:

    - `edge-transformer data divergence harder`

    - `edge-transformer data divergence parsed-CFQ-corpus.conllu --split mcd1.json`
    """
    from ..data.splits import read_split_file
    from ..io.progress import bar
    from ..splits.rows import read_split_input

    if split_file is not None and split_file.parent.resolve() in {source.resolve() for source in sources}:
        expected = "the data that were split, whose rows it numbers; its own folder needs no --split"
        raise UserError(f"--split {split_file}: found it in the folder to measure; expected {expected}")
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
        found = {name: {"rows": measured.rows, **measured.numbers()} for name, measured in table.items()}
        print(json.dumps({"train": {"rows": train}} | found, indent=2))
    else:
        _print_table(train, table)


@dataclass(frozen=True)
class Measured:
    """A part of a split, compared with train."""

    rows: int
    divergences: Divergences
    unseen: UnseenAtoms

    def numbers(self) -> dict[str, float]:
        """The numbers as plain JSON values."""
        return {
            "atom_divergence": round(self.divergences.atoms, 6),
            "compound_divergence": round(self.divergences.compounds, 6),
            "atoms_that_train_lacks": self.unseen.atoms,
            "rows_with_such_atoms": self.unseen.rows,
        }


def _measure(data: SplitInput, rows: Mapping[str, Ints], seed: int) -> dict[str, Measured]:
    """Measure test, dev and a random test set, over the rows of the split."""
    import numpy as np

    from ..data.splits import SPLITS
    from ..splits.search import SplitTarget, random_split

    there = {name: rows[name] for name in SPLITS if len(rows.get(name, ()))}
    parts = data.parts_of(np.concatenate([*there.values()]))
    ends = np.cumsum([len(numbers) for numbers in there.values()])
    places = dict(zip(there, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))

    def measured(train: Ints, part: Ints) -> Measured:
        return Measured(len(part), parts.divergences(train, part), parts.unseen_atoms(train, part))

    table = {name: measured(places["train"], places[name]) for name in ("test", "dev") if name in places}
    chance = random_split(parts, SplitTarget(len(places["train"]), 0, len(places["test"])), seed)
    return table | {RANDOM: measured(chance.train, chance.test)}


def _complaints(measured: dict[str, Measured], target: SplitTarget) -> dict[str, list[str]]:
    """The targets that test and dev miss."""
    found = {name: target.complaints(of.divergences) for name, of in measured.items() if name != RANDOM}
    return {name: complaints for name, complaints in found.items() if complaints}


def _report(
    measured: dict[str, Measured], target: SplitTarget, seed: int, sources: list[Path], rows: int
) -> dict[str, Any]:
    missed = _complaints(measured, target)
    at_least = target.compounds if target.compounds < 1 else None  # as much as possible
    return {
        "sources": [source.name for source in sources],
        "seed": seed,
        "rows": {"all": rows, "train": target.train, "dev": target.dev, "test": target.test},
        "wanted": {
            "atoms at most": target.atoms,
            "compounds at least": at_least,
            "rows of train with each atom": target.seen,
            "reached": not missed,
        },
        "missed": missed,
        "test": measured["test"].numbers(),
        "dev": measured["dev"].numbers() if "dev" in measured else None,
        "random test set of the same size": measured[RANDOM].numbers(),
    }


def _print_table(train: int, measured: dict[str, Measured]) -> None:
    print(f"divergence from the {train:,} rows of train")
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for column in ("rows", "atoms", "compounds", "with atoms that train lacks"):
        table.add_column(column, justify="right")
    for name, found in measured.items():
        away = found.divergences
        table.add_row(name, f"{found.rows:,}", f"{away.atoms:.4f}", f"{away.compounds:.4f}", f"{found.unseen.rows:,}")
    out.print(table)
