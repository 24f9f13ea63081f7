"""Options and arguments that several commands have, to be described in the same words everywhere."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Folder of a trained model, or one that comes along, such as clutrr-small.",
        show_default=False,
    ),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")]
