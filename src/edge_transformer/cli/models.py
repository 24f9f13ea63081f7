"""The command `models`: the bundled models, their recorded scores and their model cards."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Column, Table

from .options import out

HOW = {
    "relations": "predict",
    "links": "predict",
    "graphs": "parse --model",
    "trees": "parse --model",
    "seq2seq": "translate",
}


def models(
    name: Annotated[
        str | None, typer.Argument(help="Print the model card of this bundled model.", show_default="list them all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; of one model, its record.")] = False,
) -> None:
    """List the bundled models: what each does, how it scored and how large it is. Or print the card of one: its data,
    licence, scores and limits.

    Examples:

    - `edge-transformer models`

    - `edge-transformer models clutrr-small`
    """
    from ..tasks.base import BUNDLED, RECORD_FILE, bundled_models, model_card

    if name is not None:
        card = model_card(name)
        print((BUNDLED / name / RECORD_FILE).read_text(encoding="utf-8") if as_json else card, end="")
        return
    described = [describe(name) for name in bundled_models()]
    if as_json:
        print(json.dumps(described, indent=2))
        return
    table = Table(Column("model", no_wrap=True), "task", "what it does", "scores", Column("size", no_wrap=True))
    table.box = box.SIMPLE
    for model in described:
        scores = ", ".join(f"{name} {100 * value:.1f}" for name, value in model["scores"].items())
        where = f"trained on {model['data']}: {scores}" if scores else ""
        table.add_row(model["name"], model["task"], model["what"], where, f"{model['bytes'] / 1e6:.1f} MB")
    out.print(table)
    for model in described:
        print(f"edge-transformer {HOW[model['task']]} {model['name']}")
    print('In Python: et.load("NAME"). Data, licence, all scores: edge-transformer models NAME')


def describe(name: str) -> dict[str, Any]:
    """What there is to say of a bundled model, as plain values."""
    from ..io.records import read_record
    from ..io.streams import read_json
    from ..tasks.base import BUNDLED, CONFIG_FILE, RECORD_FILE, WEIGHTS_FILE, model_card

    folder = BUNDLED / name
    task = str(read_json(folder / CONFIG_FILE)["task"])
    record = read_record(folder / RECORD_FILE) if (folder / RECORD_FILE).exists() else None
    return {
        "name": name,
        "task": task,
        "what": model_card(name).split("\n\n")[1].replace("\n", " ").split(". ")[0] + ".",
        "data": record.data_name if record else "",
        "scores": record.main_scores() if record else {},
        "bytes": (folder / WEIGHTS_FILE).stat().st_size,
    }
