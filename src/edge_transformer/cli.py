"""The command line: parses, calls the library, prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import UserError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Edge Transformers: a vector on every pair of nodes, updated by triangular attention.",
)

DataOption = Annotated[Path, typer.Option("--data", help="Folder with the data.", show_default=False)]


@app.callback()
def _root() -> None:
    """Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="What to learn: clutrr.")],
    data: DataOption,
    preset: Annotated[str | None, typer.Option(help="A bundled preset or a YAML file. [default: TASK/cpu]")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting, such as model.dim=64.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides initial weights, order of rows and dropout.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. [default: runs/PRESET-seedN]")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="32-true, 64-true or bf16-mixed.")] = "32-true",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. [default: all cores]")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Time between checkpoints.")] = 60.0,
) -> None:
    """Train a model; the same command again resumes an interrupted run.

    Examples:

        edge-transformer train clutrr --data families

        edge-transformer train clutrr --data families --preset clutrr/paper --set train.epochs=10 --seed 2
    """
    from .presets import load_preset, override, parse_changes
    from .train import Hardware, RunConfig, Trainer, command_line

    preset = preset or f"{task}/cpu"
    overrides = parse_changes(changes or [])
    run = RunConfig.from_settings(override(load_preset(preset), overrides), task, preset, seed, overrides)
    out = out or Path("runs") / f"{Path(preset).with_suffix('').as_posix().replace('/', '-')}-seed{seed}"
    loaded = run.load_data(data)
    trainer = Trainer(run, loaded, out, Hardware(device, precision, threads), command_line())
    record = trainer.train(checkpoint_seconds)
    print(record)


def main() -> None:
    """Run the command line; errors that a user can act on end with one line and exit code 2."""
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
