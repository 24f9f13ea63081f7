"""The command line: all commands by name. Slow imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from . import (
    data,
    demo,
    evaluate,
    experiments,
    explain,
    export,
    info,
    machine,
    models,
    parse,
    predict,
    serve,
    splits,
    train,
    translate,
)

HELP: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(
    **HELP,
    pretty_exceptions_enable=False,
    help="Edge Transformers: a vector on every pair of nodes, updated by triangular attention.",
    epilog="`edge-transformer --version` prints the version.",
)
data_app = typer.Typer(**HELP, help="Download, generate, derive, split or describe data.")
app.add_typer(data_app, name="data")

COMMANDS: dict[typer.Typer, dict[str, Callable[..., None]]] = {
    app: {
        "train": train.train,
        "evaluate": evaluate.evaluate,
        "predict": predict.predict,
        "explain": explain.explain,
        "explain-score": explain.explain_score,
        "parse": parse.parse,
        "translate": translate.translate,
        "serve": serve.serve,
        "export": export.export,
        "models": models.models,
        "presets": train.presets,
        "experiment": experiments.experiment,
        "sweep": experiments.sweep,
        "report": experiments.report,
        "bench": machine.bench,
        "info": machine.info,
        "demo": demo.demo,
    },
    data_app: {
        "generate": data.generate,
        "download": data.download,
        "info": info.contents,
        "derive": data.derive,
        "split": splits.split,
        "hold-out": splits.hold_out,
        "divergence": splits.divergence,
    },
}
for commands, functions in COMMANDS.items():
    for name, function in functions.items():
        commands.command(name)(function)
