"""The commands `experiment`, `sweep` and `report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from ..errors import UserError
from ..io.process import MAX_THREADS
from .options import EXIT_INTERRUPTED, out


def experiment(
    file: Annotated[Path, typer.Argument(help="Experiment file.", show_default=False)],
    jobs: Annotated[int, typer.Option(min=1, help="Runs side by side, each with one thread.")] = 2,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    results: Annotated[
        Path | None,
        typer.Option(
            help="File of records. With a new file and new --runs, everything is trained again.",
            show_default="that of FILE",
        ),
    ] = None,
) -> None:
    """Run the experiments of a file that its results lack. The same command resumes an interrupted experiment.

    Example: `edge-transformer experiment experiments/clutrr/main.yaml`

    To train everything again: `edge-transformer experiment experiments/clutrr/main.yaml
    --results again/clutrr.jsonl --runs again/runs`
    """
    from ..training.experiment import Experiment, run_experiment

    try:
        done = run_experiment(Experiment.read(file, results), jobs, runs)
    except KeyboardInterrupt:
        print("stopped; the same command resumes it", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    failed = [run for run in done if run.state == "failed"]
    if failed:
        raise UserError(
            f"{len(failed)} of {len(done)} runs failed; the first, in {failed[0].log}: {failed[0].last_words}"
        )


def report(
    results: Annotated[Path, typer.Option(help="Folder of records/*.jsonl, pages and figures.")] = Path("results"),
    file: Annotated[Path, typer.Option("--out", help="Where to write the comparison.")] = Path("RESULTS.md"),
) -> None:
    """Write tables and figures of finished runs, beside the paper's numbers.

    Example: `edge-transformer report`
    """
    from ..report.pages import build_report

    made = build_report(results, file)
    for path in (made.path, *made.pages):
        print(f"written: {path}")
    print(f"written: {len(made.figures)} figures in {results / 'figures'}")


if TYPE_CHECKING:
    from ..training.sweep import Search


def sweep(
    file: Annotated[Path, typer.Argument(help="Sweep file.", show_default=False)],
    show: Annotated[bool, typer.Option("--show", help="Only show the trials so far.")] = False,
    runs: Annotated[Path, typer.Option(help="Folder for the folder of the search.")] = Path("runs"),
    threads: Annotated[int, typer.Option(min=1, max=MAX_THREADS, help="CPU threads.")] = 1,
) -> None:
    """Search for good settings by scores on validation rows; test files are not read. Needs the extra `[sweep]`.

    The same command resumes an interrupted search. In several terminals, or on several machines with one `storage`,
    it shares the search.

    Examples:

    - `edge-transformer sweep experiments/clutrr/search/sweep.yaml`

    - `edge-transformer sweep experiments/clutrr/search/sweep.yaml --show`
    """
    from ..training.experiment import generate_missing
    from ..training.sweep import Search, Sweep

    wanted = Sweep.read(file)
    if show:
        _show(Search(wanted, runs, create=False))
        return
    generate_missing(wanted.generate)
    search = Search(wanted, runs)
    finished = search.run(lambda line: print(line, flush=True), threads)
    _show(search)
    if not finished:
        sys.exit(EXIT_INTERRUPTED)


def _show(search: Search) -> None:
    counts = ", ".join(f"{number} {state}" for state, number in search.counts().items())
    print(f"{search.sweep.name}: {search.sweep.trials} trials wanted; {counts or 'none yet'}")
    best = search.best()
    if not best:
        print("no trial has finished")
        return
    settings = list(search.sweep.space)
    table = Table(box=box.SIMPLE)
    for column in ("trial", "score", *settings):
        table.add_column(column, justify="right")
    for trial in best:
        values = [trial.params.get(name, "") for name in settings]
        texts = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
        table.add_row(str(trial.number), f"{100 * (trial.value or 0.0):.2f}", *texts)
    out.print(table)
    print("to train the best one and test it:")
    print(f"  {search.sweep.command(best[0].params)}")
