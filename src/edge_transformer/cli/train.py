"""The commands `train` and `presets`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from .options import EXIT_INTERRUPTED, MAX_SEED, ThreadsOption, out, print_scores

DataOption = Annotated[Path, typer.Option("--data", help="Folder with the data.", show_default=False)]


def train(
    task: Annotated[
        str, typer.Argument(help="Task: relations, node-labels, graph-labels, links, graphs, trees or seq2seq.")
    ],
    data: DataOption,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A preset (`presets` lists them), or a YAML file.", show_default="fitted to the data, or TASK/cpu"
        ),
    ] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting, such as model.dim=64.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Sets initial weights, row order and dropout.")] = 1,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run.", show_default="runs/PRESET-DATA-seedN")
    ] = None,
    results: Annotated[Path | None, typer.Option(help="Append the record of the run to this .jsonl file.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="32-true, 64-true or bf16-mixed.")] = "32-true",
    threads: ThreadsOption = None,
    recompute: Annotated[
        str, typer.Option(help="Save memory: hidden or layers are recomputed in the backward pass.")
    ] = "nothing",
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Time between checkpoints.")] = 60.0,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, help="The most training time.", show_default="10 without a preset, else no limit"),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="tensorboard: write losses and scores to OUT/tensorboard.", show_default="none")
    ] = None,
) -> None:
    """Train a model. The same command again resumes an interrupted run.

    Examples:

    - `edge-transformer train relations --data families`

    - `edge-transformer train relations --data families --preset clutrr/paper --set train.epochs=10 --seed 2`

    - `edge-transformer train graphs --data cogs --preset cogs/cpu`

    - `edge-transformer train seq2seq --data scan --preset scan/cpu`

    - `edge-transformer train relations --data families --track tensorboard`, then `tensorboard --logdir runs`

    - `torchrun --nproc-per-node 2 -m edge_transformer train relations --data families`
    """
    import edge_transformer as et

    from ..io.files import check_writable
    from ..io.records import append_record
    from ..training.presets import parse_changes

    check_writable("--results", results)
    settings = parse_changes(changes or []) | ({} if minutes is None else {"train.minutes": minutes})
    run = et.api.planned_run(task, preset, settings, seed)
    folder = out_folder or Path("runs") / run.folder_name(data)
    model = et.train(
        task,
        data,
        preset=run.preset,
        out=folder,
        seed=seed,
        device=device,
        precision=precision,
        threads=threads,
        recompute=recompute,
        checkpoint_seconds=checkpoint_seconds,
        track=track,
        **settings,
    )
    if not model.has_record:
        if "RANK" not in os.environ:
            print(f"to resume: {shlex.join(['edge-transformer', *sys.argv[1:]])}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    record = model.record
    if os.environ.get("RANK", "0") != "0":  # in distributed runs only the first process reports
        return
    if results is not None:
        append_record(results, record)
    print_scores(f"{run.preset}, seed {seed}", record.metrics)
    added = f"; its record is in {results}" if results is not None else ""
    print(f"saved in {folder} after {record.minutes:.1f} minutes{added}")


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="A preset to show, or the part before the slash to list.", show_default="all"),
    ] = None,
) -> None:
    """List the presets of `train`, or print the settings of one as a YAML file to edit.

    Examples:

    - `edge-transformer presets`

    - `edge-transformer presets clutrr`

    - `edge-transformer presets clutrr/cpu > mine.yaml`, for `edge-transformer train --preset mine.yaml`
    """
    from ..training.presets import describe_preset, load_preset, preset_names, settings_text

    wanted = [preset for preset in preset_names() if name is None or preset.split("/")[0] == name]
    if name is not None and not wanted:
        settings = load_preset(name)  # an error lists the known presets
        print(f"# The settings of {name}.\n{settings_text(settings)}", end="")
        return
    table = Table(Column("preset", no_wrap=True), Column("task", no_wrap=True), "what", box=box.SIMPLE)
    for preset in wanted:
        first, dot, _ = describe_preset(preset).partition(". ")
        table.add_row(preset, load_preset(preset)["task"], first + dot.strip())
    out.print(table)
