"""The command `data derive`: like cli.py, which registers it, a thin skin."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import UserError

if TYPE_CHECKING:
    from ..data.trees.cfq_treebank import Account

out = Console(highlight=False)
LEAST_COVERED = 0.99


def derive(
    kind: Annotated[str, typer.Argument(help="What to derive: cfq-dependencies.")],
    questions: Annotated[
        list[Path],
        typer.Option(
            help="File of questions (lines, the first column of .tsv, or official .json; also .gz), or a folder of"
            " .tsv and .json files. Can be given several times.",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
) -> None:
    """Give CFQ's questions their dependency trees, in CoNLL-U, by a grammar of our own.

    Each file of questions becomes a .conllu file of the same name. What the grammar does not cover is listed in
    not-covered.txt with line and reason, and is in no treebank.

    Examples:

    - `edge-transformer data derive cfq-dependencies --questions cfq/mcd1 --out cfq-dep`

    - `edge-transformer data derive cfq-dependencies --questions train.tsv.gz --questions more.txt --out cfq-dep`
    """
    from ..data.trees.cfq_treebank import NOT_COVERED_FILE, Account, count_questions
    from ..data.trees.cfq_treebank import derive as derive_trees
    from ..io.progress import bar

    if kind != "cfq-dependencies":
        raise UserError(f"unknown kind of data {kind!r}; known is cfq-dependencies")
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
