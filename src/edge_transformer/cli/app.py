"""The command line: parses, calls the library, prints. Slow imports happen inside the commands."""

from __future__ import annotations

import gc
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from ..errors import UserError
from ..io.process import prepare_process
from .derive import derive
from .download import download
from .evaluate import evaluate
from .explain import explain, explain_score
from .info import contents
from .machine import bench, info
from .options import RunArgument, ThreadsOption
from .parse import parse
from .presets import presets
from .scores import print_scores
from .split import divergence, hold_out, split
from .sweep import sweep
from .translate import translate

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130
MAX_SEED = 2**32 - 1  # PyTorch's generator on the CPU uses no more bits
HELP: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(
    **HELP,
    pretty_exceptions_enable=False,
    help="Edge Transformers: a vector on every pair of nodes, updated by triangular attention.",
)
data_app = typer.Typer(**HELP, help="Fetch, generate, derive or split data, or look at what is in a folder of it.")
app.add_typer(data_app, name="data")
data_app.command("derive")(derive)
data_app.command("divergence")(divergence)
data_app.command("download")(download)
data_app.command("hold-out")(hold_out)
data_app.command("info")(contents)
data_app.command("split")(split)
app.command()(info)
app.command()(bench)
app.command()(evaluate)
app.command()(explain)
app.command("explain-score")(explain_score)
app.command()(parse)
app.command()(presets)
app.command()(sweep)
app.command()(translate)

out = Console(highlight=False)  # results; progress and errors go to standard error

DataOption = Annotated[Path, typer.Option("--data", help="Folder with the data.", show_default=False)]


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"edge-transformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="What to learn: clutrr, cogs, graphs, dependency or seq2seq.")],
    data: DataOption,
    preset: Annotated[
        str | None, typer.Option(help="A preset (`presets` lists them), or a YAML file.", show_default="TASK/cpu")
    ] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting, such as model.dim=64.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Decides initial weights, order of rows and dropout.")
    ] = 1,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run.", show_default="runs/PRESET-DATA-seedN")
    ] = None,
    results: Annotated[Path | None, typer.Option(help="Add the finished run to this .jsonl file.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="32-true, 64-true or bf16-mixed.")] = "32-true",
    threads: ThreadsOption = None,
    recompute: Annotated[
        str, typer.Option(help="Less memory: hidden or layers, to be computed again in the backward pass.")
    ] = "nothing",
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Time between checkpoints.")] = 60.0,
) -> None:
    """Train a model. The same command again resumes an interrupted run.

    Examples:

    - `edge-transformer train clutrr --data families`

    - `edge-transformer train clutrr --data families --preset clutrr/paper --set train.epochs=10 --seed 2`

    - `edge-transformer train cogs --data cogs --preset cogs/cpu`

    - `edge-transformer train seq2seq --data scan --preset scan/cpu`

    - `torchrun --nproc-per-node 2 -m edge_transformer train clutrr --data families`
    """
    from ..io.files import check_writable
    from ..io.settings import from_dict
    from ..tasks.base import get_task
    from ..training.config import DEFAULT_PRECISION, Hardware, RunConfig
    from ..training.presets import parse_changes
    from ..training.records import append_record
    from ..training.trainer import Trainer

    get_task(task)
    check_writable("--results", results)
    how = {"device": device, "precision": precision, "threads": threads, "recompute": recompute}
    hardware = from_dict(Hardware, how, "hardware")
    run = RunConfig.from_preset(task, preset or f"{task}/cpu", parse_changes(changes or []), seed)
    folder = out_folder or Path("runs") / run.folder_name(data)
    loaded = run.load_data(data)
    arguments = [*run.arguments(data), *(["--precision", precision] if precision != DEFAULT_PRECISION else [])]
    command = shlex.join(["edge-transformer", *arguments])
    trainer = Trainer(run, loaded, folder, hardware, command)
    first = trainer.fabric.global_rank == 0
    if first:
        for note in loaded.notes():
            print(f"note: {note}")
        if trainer.step:
            print(f"resuming {folder} at step {trainer.step:,} of {trainer.total_steps:,}")
        else:
            print(f"training on {loaded.train_rows:,} rows, {trainer.total_steps:,} steps, in {folder}", flush=True)
    record = trainer.train(checkpoint_seconds)
    if record is None:
        if first:
            done = f"{trainer.step:,} of {trainer.total_steps:,}"
            print(f"stopped at step {done}; the same command goes on from there", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    if first:
        if results is not None:
            append_record(results, record)
        print_scores(f"{run.preset}, seed {seed}", record.metrics)
        added = f"; its record is in {results}" if results is not None else ""
        print(f"saved in {folder} after {record.minutes:.1f} minutes{added}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for data, model and figure.")] = Path("demo"),
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; the model is too small to gain from many.")] = 1,
) -> None:
    """From nothing to a trained model in a few minutes: generated families, a table, a figure, an answered question.

    Example: `edge-transformer demo`
    """
    from .demo import run_demo

    if run_demo(folder, out, threads) is None:
        print("stopped; the same command goes on from there", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


@app.command()
def predict(run: RunArgument, threads: ThreadsOption = None) -> None:
    """Answer questions from standard input, one JSON object a line; answers go to standard output, each without
    waiting for questions that have not come yet.

    Example: `echo '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}' |
    edge-transformer predict runs/clutrr-cpu-families-seed1`
    """
    from ..io.streams import json_line, name_of, open_lines
    from ..training.models import load

    prepare_process(threads)
    name, answers = name_of(None), 0
    with open_lines(None, "questions") as lines:
        for answer in load(run).predict_lines(lines, name, lines.pausing):
            print(json_line(answer), flush=True)
            answers += 1
    if not answers:
        raise UserError(f"{name}: found no question; expected one a line")


@app.command()
def experiment(
    file: Annotated[Path, typer.Argument(help="Experiment file.", show_default=False)],
    jobs: Annotated[int, typer.Option(min=1, help="Runs side by side, each with one thread.")] = 2,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    results: Annotated[
        Path | None,
        typer.Option(
            help="File of records to use instead. With a new one and new --runs all is trained again.",
            show_default="what FILE says",
        ),
    ] = None,
) -> None:
    """Do all runs of an experiment file that its results do not have yet. Can be stopped and started again.

    Example: `edge-transformer experiment experiments/clutrr.yaml`

    All again, whatever results there are: `edge-transformer experiment experiments/clutrr.yaml
    --results again/clutrr.jsonl --runs again/runs`
    """
    from ..training.experiment import Experiment, run_experiment

    try:
        done = run_experiment(Experiment.read(file, results), jobs, runs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from there", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    failed = [run for run in done if run.state == "failed"]
    if failed:
        raise UserError(
            f"{len(failed)} of {len(done)} runs failed; the first says, in {failed[0].log}: {failed[0].last_words}"
        )


@app.command()
def report(
    results: Annotated[Path, typer.Option(help="Folder with the .jsonl files of finished runs.")] = Path("results"),
    file: Annotated[Path, typer.Option("--out", help="Where to write the report.")] = Path("RESULTS.md"),
) -> None:
    """Turn the records of finished runs into tables and figures, the paper's numbers beside ours.

    Example: `edge-transformer report`
    """
    from ..report.page import build_report

    for table in build_report(results, file).rich_tables():
        out.print(table)
    print(f"written: {file}")


@data_app.command("generate")
def data_generate(
    kind: Annotated[str, typer.Argument(help="What to generate: clutrr.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)],
    train_k: Annotated[str, typer.Option(help="Story lengths to train on, such as 2,3,4 or 2-4.")] = "2,3,4",
    test_k: Annotated[str, typer.Option(help="Story lengths to test on.")] = "2-10",
    rows: Annotated[int, typer.Option(min=1, help="Training stories.")] = 15_000,
    test_rows: Annotated[int, typer.Option(min=1, help="Test stories of each length.")] = 100,
    valid_k: Annotated[str, typer.Option(help="Story lengths to validate on.", show_default="none")] = "",
    valid_rows: Annotated[int, typer.Option(min=1, help="Validation stories of each length.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Generate family stories in CLUTRR's layout, with the proof of every answer.

    Examples:

    - `edge-transformer data generate clutrr --out families`

    - `edge-transformer data generate clutrr --train-k 2,3 --rows 35000 --seed 2 --out families-23`

    - `edge-transformer data generate clutrr --valid-k 5-10 --valid-rows 200 --out families`
    """
    from ..data.relations.generate import GeneratedData
    from ..io.progress import bar

    if kind != "clutrr":
        raise UserError(f"unknown kind of data {kind!r}; known is clutrr")
    lengths, test_lengths = _lengths("--train-k", train_k), _lengths("--test-k", test_k)
    valid_lengths = _lengths("--valid-k", valid_k) if valid_k else []
    data = GeneratedData(
        str(folder), tuple(lengths), tuple(test_lengths), tuple(valid_lengths), rows, test_rows, valid_rows, seed
    )
    with bar("generating", data.stories) as generating:
        files = data.write(generating.advance)
    valid = f", {data.valid_stories:,} validation" if data.valid_stories else ""
    print(f"{rows:,} training{valid} and {data.test_stories:,} test stories in {folder}:")
    for path in files:
        print(f"  {path.name}")


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


def main() -> None:
    """Run the command line; what a user can act on ends with one line and exit code 2.

    Typer itself ends with exit code 130 after Ctrl-C, and with 1 where the reader of our output has gone.
    """
    # Importing PyTorch makes objects by the hundred thousand, all to stay. To look for garbage among them every 700 of
    # them takes a tenth of the start.
    gc.set_threshold(50_000)
    try:
        app()
    except UserError as error:
        _end_with(f"{error}")
    except OSError as error:  # a full disk, a folder that may not be written to
        _end_with(f"{error.filename}: {error.strerror}" if error.filename else f"{error}")


def _end_with(message: str) -> NoReturn:
    """The message may quote names of a user's files and data, which must not move the cursor."""
    from ..draw.arcs import visible

    print(f"error: {visible(message)}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)
