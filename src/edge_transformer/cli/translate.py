"""The command `translate`, for models that turn texts into texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..data.pairs.sparql import are_words_of_queries, parse, runnable
from ..errors import UserError
from ..io.process import prepare_process
from ..io.streams import STANDARD_INPUT, json_line, name_of, open_lines
from .options import ThreadsOption, TrustOption

if TYPE_CHECKING:
    from ..tasks.seq2seq.model import AnsweredLine, Translation, Translator

SHOWN_WORDS = 5  # in a warning
SHOWN_LETTERS = 50  # of each word in a warning


def translate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder of a trained model.", show_default=False)],
    text: Annotated[
        str | None, typer.Argument(help="Words with spaces between them.", show_default="lines of standard input")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", help="Texts, one per line; - is standard input.", show_default="standard input"),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Width of the beam.", show_default="greedy; with --nbest at least 4")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Number of translations of each text.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="Above 0 a beam prefers longer translations, below 0 shorter ones; -5 to 5.")
    ] = 0.0,
    sample: Annotated[
        int, typer.Option(min=0, help="Number of random translations of each text.", show_default="the best ones")
    ] = 0,
    temperature: Annotated[
        float, typer.Option(help="Of samples: below 1 more like the best translation, above 1 more random.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(help="Draw samples from this many best words.", show_default="all words")
    ] = None,
    top_p: Annotated[float, typer.Option(help="Draw samples from the fewest words with this total probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 1,
    limit: Annotated[
        int | None, typer.Option(help="The most words of a translation.", show_default="twice the longest of training")
    ] = None,
    sparql: Annotated[
        bool, typer.Option("--sparql", help="Print valid SPARQL; replace M0, M1, ... by entities to run it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per text.")] = False,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Translate texts: questions into queries, commands into actions, or whatever the model was trained on.

    Lines of standard input, or of a file, are texts, lists such as ["Did", "M0", "marry", "M1"], or objects such as
    {"source": "Did M0 marry M1"}; --json returns their other fields. Each line is answered with one line as it arrives.
    With --nbest, or more than one --sample, each translation is a line with its log-probability and a tab before it,
    and an empty line follows each text.

    An empty line is answered with an empty line, and so is a line that cannot be translated, such as one with too many
    words: an error names it, with --json in its place, and the exit code is 2.

    Examples:

    - `edge-transformer translate runs/cfq-cpu-mcd1-seed1 "Did M1's producer influence M2"`

    - `edge-transformer translate runs/cfq-cpu-mcd1-seed1 --nbest 3 --input questions.txt`

    - `edge-transformer translate runs/scan-cpu-scan-seed1 --beam 4 --json < commands.txt`

    - `edge-transformer translate runs/scan-cpu-scan-seed1 "jump twice" --sample 5 --top-p 0.9`
    """
    if text is not None and source is not None:
        raise UserError(f"--input {source}: found a text as well; expected one of the two")
    if text is not None and not text.split():
        raise UserError(f"found no word in the text {text!r}; expected words with spaces between them")
    from ..tasks.seq2seq.questions import Decoding, beams_for

    beams = beams_for(nbest) if beam is None else beam
    how = Decoding(beams, nbest, length_penalty, limit, sample, temperature, top_k, top_p, seed)
    translator = _load(run, threads, trust or ())
    if sparql and not are_words_of_queries(translator.target):
        raise UserError(f"--sparql: found no words of queries in {run}; expected a model trained on queries")
    style = _Style(as_json, how.count > 1, sparql, out=sys.stdout)
    if text is not None:
        for answered in translator.translate_lines([text], "the text", how=how):
            if answered.line.error:
                raise answered.line.error
            _print(answered, "", style)
        return
    name = name_of(source)
    failed = count = 0
    with open_lines(source, "texts") as lines, ExitStack() as stack:
        advance = None
        if source not in (None, STANDARD_INPUT):
            from ..io.progress import bar

            advance = stack.enter_context(bar("translating")).advance
        for answered in translator.translate_lines(lines, name, lines.pausing, how):
            count += 1
            _print(answered, f"{name}:{answered.line.number}: ", style)
            failed += answered.line.error is not None
            if advance:
                advance(1)
    if not count:
        raise UserError(f"{name}: found no text; expected one per line, or one as an argument")
    if failed:
        raise UserError(f"{name}: {failed:,} of {count:,} lines could not be translated")


def _load(run: str, threads: int | None, trust: Iterable[str]) -> Translator:
    from ..tasks.base import load
    from ..tasks.seq2seq.model import Translator

    prepare_process(threads)
    model = load(run, trust)
    if not isinstance(model, Translator):
        raise UserError(f"{run}: found a {type(model).__name__}; expected a model that translates, of the task seq2seq")
    return model


@dataclass(frozen=True)
class _Style:
    """The format of answers, and where they go."""

    as_json: bool
    several: bool  # translations of one text
    sparql: bool
    out: TextIO  # progress bars of rich replace sys.stdout while they are shown

    def text(self, translation: Translation) -> str:
        return runnable(translation.target) if self.sparql else translation.text

    def json(self, answered: AnsweredLine) -> dict[str, Any]:
        if not self.sparql:
            return answered.to_json(self.several)
        return answered.to_json(self.several, lambda each: {"sparql": runnable(each.target)})


def _print(answered: AnsweredLine, where: str, style: _Style) -> None:
    found = answered.translations
    if style.as_json:
        text = json_line(style.json(answered))
    elif style.several:
        text = "".join(f"{one.log_probability:.4f}\t{style.text(one)}\n" for one in found)
    else:
        text = style.text(found[0]) if found else ""
    encoding = style.out.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=style.out, flush=True)
    if not style.as_json:
        _remark(answered, where, style.sparql)


def _remark(answered: AnsweredLine, where: str, sparql: bool) -> None:
    """Print errors and warnings about an answer to standard error."""
    if answered.line.error:
        print(f"error: {answered.line.error}", file=sys.stderr)
    if not answered.translations:
        return
    first = answered.translations[0]
    if first.unknown:
        print(f"warning: {where}the model does not know {_listed(first.unknown)}", file=sys.stderr)
    if first.left_out:
        print(f"warning: {where}left out {_listed(first.left_out)}, which the model does not know", file=sys.stderr)
    if not first.finished:
        print(f"warning: {where}no end within the limit", file=sys.stderr)
    elif sparql and parse(first.target) is None:
        print(f"warning: {where}the translation is no query", file=sys.stderr)


def _listed(words: Sequence[str]) -> str:
    more = len(words) - SHOWN_WORDS
    shown = (word if len(word) <= SHOWN_LETTERS else f"{word[:SHOWN_LETTERS]}…" for word in words[:SHOWN_WORDS])
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
