"""The command about bundled settings, `presets`: like cli.py, which registers it, a thin skin."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

out = Console(highlight=False)


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="A preset, whose settings are shown; or the part before the slash.", show_default="all"),
    ] = None,
) -> None:
    """List the presets that `train` knows, or show the settings of one, ready to be changed in a file of your own.

    Examples:

    - `edge-transformer presets`

    - `edge-transformer presets clutrr`

    - `edge-transformer presets clutrr/cpu > mine.yaml`, for `edge-transformer train --preset mine.yaml`
    """
    from ..training.presets import describe_preset, load_preset, preset_names, settings_text

    wanted = [preset for preset in preset_names() if name is None or preset.split("/")[0] == name]
    if name is not None and not wanted:
        settings = load_preset(name)  # says what there is where there is no such preset
        print(f"# The settings of {name}.\n{settings_text(settings)}", end="")
        return
    table = Table(Column("preset", no_wrap=True), Column("task", no_wrap=True), "what", box=box.SIMPLE)
    for preset in wanted:
        first, dot, _ = describe_preset(preset).partition(". ")
        table.add_row(preset, load_preset(preset)["task"], first + dot.strip())
    out.print(table)
