"""The commands `data generate`, `data derive` and `data download`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ..errors import UserError
from .options import MAX_SEED, out


def generate(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="What to generate: clutrr; clutrr-sample; or a problem: organisation, permissions, spatial, family,"
            " graph, molecules, relatives."
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    train_k: Annotated[str, typer.Option(help="Story lengths to train on, such as 2,3,4 or 2-4.")] = "2,3,4",
    test_k: Annotated[str, typer.Option(help="Story lengths to test on.")] = "2-10",
    rows: Annotated[int, typer.Option(min=1, help="Training stories.")] = 15_000,
    test_rows: Annotated[int, typer.Option(min=1, help="Test stories of each length.")] = 100,
    valid_k: Annotated[str, typer.Option(help="Story lengths to validate on.", show_default="none")] = "",
    valid_rows: Annotated[int, typer.Option(min=1, help="Validation stories of each length.")] = 100,
    source: Annotated[
        Path | None, typer.Option(help="CLUTRR folder that clutrr-sample takes stories from.", show_default="none")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Generate family stories in the format of CLUTRR, with a proof of every answer, or rows of another problem.

    `clutrr-sample` draws `--rows` training stories of the folder `--source`, and keeps its test files. The problems
    have a fixed number of rows in train.jsonl and test.jsonl; `molecules` is for the task graph-labels, `relatives` for
    links, the others are for relations.

    Examples:

    - `edge-transformer data generate clutrr --out families`

    - `edge-transformer data generate clutrr --train-k 2,3 --rows 35000 --seed 2 --out families-23`

    - `edge-transformer data generate clutrr --valid-k 5-10 --valid-rows 200 --out families`

    - `edge-transformer data generate clutrr-sample --source data/clutrr/data_db9b8f04 --rows 500 --out clutrr-500`

    - `edge-transformer data generate organisation --out organisation`
    """
    from ..data.relations.generate import GeneratedData
    from ..io.files import check_folder
    from ..io.progress import bar

    if kind != "clutrr":
        _generate_other(context, kind, folder, source, rows, seed)
        return
    _refuse_options(context, kind, ("source",))
    lengths, test_lengths = _lengths("--train-k", train_k), _lengths("--test-k", test_k)
    valid_lengths = _lengths("--valid-k", valid_k) if valid_k else []
    data = GeneratedData(
        str(folder), tuple(lengths), tuple(test_lengths), tuple(valid_lengths), rows, test_rows, valid_rows, seed
    )
    check_folder("--out", folder)
    with bar("generating", data.stories) as generating:
        files = data.write(generating.advance)
    valid = f", {data.valid_stories:,} validation" if data.valid_stories else ""
    print(f"{rows:,} training{valid} and {data.test_stories:,} test stories in {folder}:")
    for path in files:
        print(f"  {path.name}")


def _generate_other(context: typer.Context, kind: str, folder: Path, source: Path | None, rows: int, seed: int) -> None:
    """Write a sample of CLUTRR, or the rows of a problem."""
    from ..data.relations.problems import PROBLEMS, sample_clutrr, write_problem
    from ..io.files import check_folder

    if kind != "clutrr-sample" and kind not in PROBLEMS:
        raise UserError(f"unknown kind of data {kind!r}; known are clutrr, clutrr-sample, {', '.join(PROBLEMS)}")
    _refuse_options(context, kind, ("train_k", "test_k", "test_rows", "valid_k", "valid_rows"))
    if kind == "clutrr-sample":
        if source is None:
            raise UserError("clutrr-sample: found no --source; expected the CLUTRR folder to take stories from")
        check_folder("--out", folder)
        files = sample_clutrr(source, folder, rows, seed)
        print(f"{rows:,} training stories of {source}, and its test files, in {folder}:")
        for path in files:
            print(f"  {path.name}")
        return
    _refuse_options(context, kind, ("rows", "source"))
    check_folder("--out", folder)
    counts = write_problem(kind, folder, seed)
    print(f"{kind} in {folder}:")
    for path, count in counts.items():
        print(f"  {path.name}: {count:,} rows")


def _refuse_options(context: typer.Context, kind: str, names: Iterable[str]) -> None:
    """Refuse options that were given, but that this kind of data does not have."""
    for name in names:
        given = context.get_parameter_source(name)
        if given is not None and given.name != "DEFAULT":
            raise UserError(f"--{name.replace('_', '-')}: found it with {kind}, which has no such option")


def _lengths(option: str, text: str) -> list[int]:
    """Numbers such as "2,3,4" or "2-10"."""
    lengths: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"{option} {text}: found {part!r}; expected numbers such as 2,3,4 or 2-10")
        numbers = range(int(first), int(last or first) + 1) if len(part) < 10 else range(0)
        if not numbers or numbers[-1] > 1000:
            raise UserError(f"{option} {text}: found {part!r}; expected rising numbers up to 1000")
        lengths |= set(numbers)
    return sorted(lengths)


if TYPE_CHECKING:
    from ..data.trees.cfq_treebank import Account

LEAST_COVERED = 0.99


def derive(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="What to derive: cfq-dependencies or cfq-graphs.")],
    questions: Annotated[
        list[Path],
        typer.Option(
            help="File of questions (lines, the first column of .tsv, or official .json; also .gz), or a folder of"
            " .tsv and .json files. Can be given several times. cfq-graphs: one folder with questions and queries.",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    form: Annotated[
        str,
        typer.Option(
            help="cfq-graphs: triples, words (who says what of whom), chains (lists said once) or trees (with syntax)."
        ),
    ] = "trees",
    split: Annotated[
        str | None, typer.Option(help="cfq-graphs: which split of the official files, such as mcd1.")
    ] = None,
) -> None:
    """Derive dependency trees of CFQ's questions, or graphs of their queries over the words of the questions.

    cfq-dependencies: trees in CoNLL-U, by our own grammar. Each file of questions becomes a .conllu file of the same
    name. Questions that the grammar does not cover are left out, and listed in not-covered.txt with line and reason.

    cfq-graphs: a graph and the query for each question, in train.jsonl, dev.jsonl and test.jsonl, for `train graphs`.
    Where the parts of a query stand in its question is learned from the training rows. Training rows whose graph does
    not give the query back are left out; not-covered.txt lists these and those of the other files.

    Examples:

    - `edge-transformer data derive cfq-dependencies --questions cfq/mcd1 --out cfq-dep`

    - `edge-transformer data derive cfq-dependencies --questions train.tsv.gz --questions more.txt --out cfq-dep`

    - `edge-transformer data derive cfq-graphs --questions cfq/mcd1 --out cfq-mcd1-graphs`
    """
    if kind == "cfq-graphs":
        _derive_graphs(questions, folder, form, split)
        return
    if kind == "cfq-dependencies":
        _refuse_options(context, kind, ("form", "split"))
    from ..data.trees.cfq_treebank import NOT_COVERED_FILE, Account, count_questions
    from ..data.trees.cfq_treebank import derive as derive_trees
    from ..io.progress import bar

    if kind != "cfq-dependencies":
        raise UserError(f"unknown kind of data {kind!r}; known are cfq-dependencies and cfq-graphs")
    started = time.process_time()
    with bar("parsing", count_questions(questions)) as parsing:
        accounts = derive_trees(questions, folder, parsing.advance)
    seconds = time.process_time() - started
    total = Account()
    table = Table(box=None, pad_edge=False)  # fits 80 columns
    for column in ("treebank", "questions", "covered", "words", "longest", "projective", "depth", "deepest"):
        table.add_column(column, justify="left" if column == "treebank" else "right")
    for name, account in accounts.items():
        total.merge(account)
        table.add_row(name, *_cells(account))
    if len(accounts) > 1:
        table.add_row("all", *_cells(total))
    out.print(table)
    counts = ", ".join(f"{relation} {count:,}" for relation, count in total.relations.most_common())
    print(f"{len(total.relations)} relations: {counts}")
    missed = total.questions - total.covered
    print(f"{missed:,} questions not covered" + (f"; see {folder / NOT_COVERED_FILE}" if missed else ""))
    if total.covered < LEAST_COVERED * total.questions:
        share = _share(total.covered, total.questions)
        print(f"warning: the grammar covers {share}, less than {LEAST_COVERED:.0%}; are these questions of CFQ?")
    rate = total.questions / max(seconds, 1e-9)
    print(f"written to {folder} in {seconds:.1f} seconds of CPU time, {rate:,.0f} questions a second")


def _derive_graphs(questions: list[Path], folder: Path, form: str, split: str | None) -> None:
    """Derive a folder of graphs, and print what it has."""
    from ..data.graphs.cfq import FORMS
    from ..data.graphs.cfq_folder import NOT_COVERED_FILE, derive_graphs, read_cfq_pairs
    from ..data.graphs.cfq_folder import Account as GraphAccount
    from ..io.files import check_folder
    from ..io.progress import bar

    if form not in FORMS:
        raise UserError(f"--form {form}: found no such form; expected {' or '.join(FORMS)}")
    if len(questions) != 1:
        raise UserError(f"--questions: found {len(questions)} of them; expected one folder for cfq-graphs")
    if folder.resolve() == questions[0].resolve():
        raise UserError(f"--out {folder}: holds the questions; expected another folder to write to")
    check_folder("--out", folder)
    started = time.process_time()
    with bar("reading") as reading:
        data = read_cfq_pairs(questions[0], split, reading.advance)
    with bar("converting", data.steps) as converting:
        accounts = derive_graphs(data, folder, form, converting.advance)
    seconds = time.process_time() - started
    total = GraphAccount()
    table = Table(box=None, pad_edge=False)
    for column in ("file", "questions", "covered", "words", "edges a word", "ordered by an edge"):
        table.add_column(column, justify="left" if column == "file" else "right")
    for account in accounts.values():
        total.merge(account)
    for name, account in [*accounts.items(), ("all", total)]:
        cells = (
            *(f"{account.questions:,}", _share(account.covered, account.questions), f"{account.tokens:,}"),
            *(f"{account.edges / max(account.tokens, 1):.2f}", _share(account.ordered, account.questions)),
        )
        table.add_row(name, *cells)
    out.print(table)
    missed = total.questions - total.covered
    print(
        f"{len(total.labels)} labels; {missed:,} questions not covered"
        + (f"; see {folder / NOT_COVERED_FILE}" if missed else "")
    )
    if total.covered < LEAST_COVERED * total.questions:
        share = _share(total.covered, total.questions)
        print(
            f"warning: the graphs cover {share}, less than {LEAST_COVERED:.0%}; are these questions and queries of CFQ?"
        )
    rate = total.questions / max(seconds, 1e-9)
    print(f"written to {folder} in {seconds:.1f} seconds of CPU time, {rate:,.0f} questions a second")


def _cells(account: Account) -> list[str]:
    return [
        f"{account.questions:,}",
        _share(account.covered, account.questions),
        f"{account.words:,}",
        f"{account.longest}",
        _share(account.projective, account.covered),
        f"{account.mean_depth:.2f}",
        f"{max(account.depths)}",
    ]


def _share(part: int, whole: int) -> str:
    """A percentage that says 100 only where nothing is missing."""
    return "100%" if part == whole else f"{min(100 * part / whole, 99.99):.2f}%"


def download(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks: clutrr, cogs, scan, cfq.", show_default="list them")
    ] = None,
    root: Annotated[Path, typer.Option("--out", help="Folder of all data.")] = Path("data"),
) -> None:
    """Download the original files of benchmarks, and verify their rows.

    Existing files are not downloaded again, and never replaced. The licence of each benchmark is printed. CFQ is an
    archive of 268 MB, and needs several GB of disk while its splits MCD1 to MCD3 are extracted.

    Examples:

    - `edge-transformer data download`

    - `edge-transformer data download scan cogs`
    """
    from ..data.download import benchmarks
    from ..data.download import download as fetch

    known = benchmarks()
    for name in names or []:
        if name not in known:
            raise UserError(f"found the benchmark {name!r}; expected {', '.join(known)}")
    for name in names or known:
        benchmark = known[name]
        print(f"{name} ({benchmark.homepage}, licence {benchmark.licence}), from {benchmark.source}")
        if not names:
            continue
        files = fetch(benchmark, root, _step)
        for path in files:
            print(f"  written: {path}")
        if not files:
            print(f"  all files are in {root / benchmark.folder} already")


@contextmanager
def _step(description: str) -> Iterator[Callable[[int], None]]:
    from ..io.progress import bar

    with bar(description) as shown:
        yield shown.advance
