"""The command `translate`: like cli.py, which registers it, a thin skin over models that turn texts into texts."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from .errors import UserError
from .lines import STANDARD_INPUT, json_line, name_of, open_lines

if TYPE_CHECKING:
    from .tasks.translator import Translation, Translator


def translate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder of a trained model.", show_default=False)],
    text: Annotated[
        str | None, typer.Argument(help="Words with spaces between them.", show_default="lines of standard input")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", help="Texts, one a line; - is standard input.", show_default="standard input"),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Width of a beam search.", show_default="as --nbest; 1 is greedy")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="How many translations of each text.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Above 0 a beam prefers longer translations.")] = 0.0,
    limit: Annotated[
        int | None, typer.Option(help="Most words said.", show_default="twice the longest of training")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line a text.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")] = None,
) -> None:
    """Translate texts: questions into queries, commands into actions, or what else the model was trained on.

    Lines of standard input, or of a file, are texts or objects such as {"source": "Did M0 marry M1"}. Each is answered
    with one line, without waiting for lines that have not come yet. With --nbest there is a line for each translation,
    its log-probability before it and a tab between them, and an empty line after each text.

    Examples:

    - `edge-transformer translate runs/cfq-cpu-mcd1-seed1 "Did M0 marry M1"`

    - `edge-transformer translate runs/cfq-cpu-mcd1-seed1 --nbest 3 --input questions.txt`

    - `edge-transformer translate runs/scan-cpu-scan-seed1 --beam 4 --json < commands.txt`
    """
    if text is not None and source is not None:
        raise UserError(f"--input {source}: found a text as well; expected one of the two")
    from .tasks.translator import Decoding

    how = Decoding(nbest if beam is None else beam, nbest, length_penalty, limit)
    translator = _load(run, threads)
    out = sys.stdout  # progress bars of rich take its place for the time they are shown
    if text is not None:
        if not text.split():
            raise UserError(f"found no word in the text {text!r}; expected words with spaces between them")
        for found in translator.translate_lines([text], "the text", how=how):
            _print(found, as_json, nbest, out)
        return
    name = name_of(source)
    with open_lines(source, "texts") as lines, ExitStack() as stack:
        advance = None
        if source not in (None, STANDARD_INPUT):
            from .progress import bar

            advance = stack.enter_context(bar("translating")).advance
        for found in translator.translate_lines(lines, name, lines.pausing, how):
            _print(found, as_json, nbest, out)
            if advance:
                advance(1)


def _load(run: str, threads: int | None) -> Translator:
    import torch

    from .checkpoint import load
    from .tasks.translator import Translator

    if threads:
        torch.set_num_threads(threads)
    model = load(run)
    if not isinstance(model, Translator):
        raise UserError(f"{run}: found a {type(model).__name__}; expected a model that translates, of the task seq2seq")
    return model


def _print(found: list[Translation], as_json: bool, nbest: int, out: TextIO) -> None:
    if as_json:
        value = found[0].to_json()
        if nbest > 1:
            names = ("target", "log_probability", "score", "finished")
            each = [{name: item for name, item in one.to_json().items() if name in names} for one in found]
            value["candidates"] = each
        text = json_line(value)
    elif nbest > 1:
        text = "".join(f"{one.log_probability:.4f}\t{one.text}\n" for one in found)
    else:
        text = found[0].text
    encoding = out.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=out, flush=True)
    if not as_json:
        _remark(found[0])


def _remark(translation: Translation) -> None:
    """Say on standard error what a reader of plain texts would not see."""
    if translation.unknown:
        words = ", ".join(translation.unknown)
        print(f"warning: the model does not know {words}: {' '.join(translation.source)}", file=sys.stderr)
    if not translation.finished:
        print(f"warning: no end within the limit: {' '.join(translation.source)}", file=sys.stderr)
