"""The command `parse`, for models that turn sentences into graphs or trees."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TextIO, cast

import typer

from ..data.graphs.edges import SentenceGraph
from ..data.graphs.rows import TokenGraph
from ..data.trees.conllu import DependencySentence
from ..errors import DataError, UserError
from ..io.files import check_writable
from ..io.process import prepare_process
from ..io.streams import STANDARD_INPUT, json_line, name_of, open_lines
from .options import ThreadsOption, TrustOption

if TYPE_CHECKING:
    from ..draw.arcs import ArcDiagram, GraphDiagram
    from ..tasks.base import TaskModel
    from ..tasks.graphs.model import Parse

DEFAULT_MODEL = "cogs-small"
MOST_SAVED = 200  # sentences of a .html file
ENHANCED_AT_ONCE = 200  # sentences of a CoNLL-U file
PIPE_WIDTH = 160  # width of a diagram without a terminal

Tokens = tuple[str, ...]


class Format(StrEnum):
    """Output formats."""

    diagram = "diagram"
    json = "json"
    conllu = "conllu"


class Parsed(Protocol):
    """The parse of a sentence."""

    @property
    def graph(self) -> TokenGraph | SentenceGraph: ...
    @property
    def text(self) -> str | None: ...
    @property
    def text_field(self) -> str: ...
    @property
    def unknown(self) -> tuple[str, ...]: ...
    def diagram(self) -> ArcDiagram | GraphDiagram: ...
    def to_json(self) -> dict[str, Any]: ...


Answer = Parsed | DependencySentence  # the latter from dependency parsers


class Parser(Protocol):
    """A model for this command."""

    def parse(self, sentences: Sequence[str | Tokens], /) -> Sequence[Answer]: ...
    def parse_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool]
    ) -> Iterator[tuple[int | None, Answer]]: ...


def parse(
    sentence: Annotated[
        str | None, typer.Argument(help="Words with spaces between them.", show_default="lines of standard input")
    ] = None,
    model: Annotated[str, typer.Option(help="A bundled model, or the folder of a trained one.")] = DEFAULT_MODEL,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Sentences, one per line, or a CoNLL-U file; - is standard input.",
            show_default="standard input",
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(help="Draw the graph to this file, several lines to FILE-1.svg, FILE-2.svg and so on."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the playground's view of all sentences to a .html file.", show_default=False),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Output format; conllu for dependency parsers only.",
            show_default="diagram for a typed sentence, else conllu or json",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json: one line per sentence.")] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters.")] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Graph parsers: predict one parent at most, and no cycles.")
    ] = False,
    sparql: Annotated[
        bool,
        typer.Option("--sparql", help="Models of CFQ's queries: print valid SPARQL; M0, M1, ... stay."),
    ] = False,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Parse sentences: print the logical form, if the model has one, and the graph as an arc diagram.

    Lines of standard input, or of a file, are sentences or objects such as {"tokens": ["Emma", "ran", "."]}. Each line
    is answered as it arrives, with a line of JSON, or with a diagram if it is typed. A dependency parser answers in
    CoNLL-U instead; it also reads CoNLL-U, and keeps everything but the trees. A parser of enhanced dependencies
    reads CoNLL-U from a .conllu file, and keeps everything but the column DEPS and empty nodes.

    Examples:

    - `edge-transformer parse "A cat liked that the boy ran ."`

    - `edge-transformer parse --model runs/cfq-graph-cpu-mcd1-seed1 --sparql "Did M1 marry M0's writer"`

    - `edge-transformer parse "Emma wanted to eat ." --svg emma.svg`

    - `edge-transformer parse --model runs/my-parser --input sentences.txt > graphs.jsonl`

    - `edge-transformer parse --model runs/trees-cpu-EWT-seed1 --input text.conllu > parsed.conllu`

    - `edge-transformer parse --model runs/trees-cpu-EWT-seed1 "She saw it ." --format conllu`
    """
    if sentence is not None and source is not None:
        raise UserError(f"--input {source}: found a sentence as well; expected one of the two")
    if sentence is not None and not sentence.split():
        raise UserError(f"found no word in the sentence {sentence!r}; expected words with spaces between them")
    if svg is not None and svg.suffix != ".svg":
        raise UserError(f"--svg {svg}: expected a name that ends in .svg")
    if svg is not None:
        check_writable("--svg", svg, first=svg if sentence is not None else _numbered(svg, 1))
    if html is not None:
        from ..serve.document import check_name

        check_name(html)
    typed = sentence is None and source in (None, STANDARD_INPUT) and sys.stdin is not None and sys.stdin.isatty()
    parser = _load(model, threads, tree, trust or ())
    makes_trees = _makes_trees(parser)
    if source is not None and source.suffix == ".conllu" and not makes_trees:
        if not _makes_edges(parser):
            raise UserError(f"{source}: found CoNLL-U; expected a model of dependency trees with --model to go with it")
        _print_enhanced(parser, source)
        return
    if form is None:
        form = Format.diagram if sentence is not None or typed else Format.conllu if makes_trees else Format.json
    form = Format.json if as_json else form
    if sparql and getattr(parser, "text", "") != "sparql":
        raise UserError(f"--sparql: found no queries in {model}; expected a model of graphs of queries")
    finished = _with_sparql if sparql else _as_parsed
    if form is Format.conllu and not makes_trees:
        raise UserError(f"--format conllu: found a {type(parser).__name__}; expected a model of dependency trees")
    # Progress bars of rich replace sys.stdout while they are shown; answers must go to the real one.
    out = sys.stdout
    if form is Format.conllu:
        _write_utf8(out)
    if sentence is not None:
        [answer] = map(finished, parser.parse([sentence.strip()]))
        _print(_written(answer, form, ascii_only), out)
        _remark(answer, "")
        _draw(answer, svg)
        _save(parser, [answer], html)
        return
    if typed:
        print("one sentence per line; Ctrl-D ends the input", file=sys.stderr)
    name = name_of(source)
    count = 0
    saved: list[Answer] = []
    with open_lines(source, "sentences") as lines, _progress(shown=not typed and not out.isatty()) as advance:
        for count, (line, answer) in enumerate(parser.parse_lines(lines, name, lines.pausing), start=1):
            answer = finished(answer)
            apart = "\n" if form is Format.diagram else ""
            _print(_written(answer, form, ascii_only) + apart, out)
            _remark(answer, f"{name}:{line}: ")
            _draw(answer, _numbered(svg, count) if svg is not None else None)
            if html is not None and count <= MOST_SAVED + 1:  # one more than can be written is refused
                saved.append(answer)
            advance(1)
    if not count:
        example = 'edge-transformer parse "A cat ran ."'
        raise UserError(f"{name}: found no sentence; expected one per line, or one as an argument: {example}")
    _save(parser, saved, html)


def _load(name: str, threads: int | None, tree: bool, trust: Iterable[str]) -> Parser:
    from ..tasks.base import load

    prepare_process(threads)
    try:
        model: Any = load(name, trust)
    except UserError as error:
        if Path(name).exists():
            raise
        raise UserError(f"--model {name}: no bundled model and no folder of this name ({error})") from error
    if not callable(getattr(model, "parse", None)):
        raise UserError(f"--model {name}: found a {type(model).__name__}; expected a model that parses sentences")
    if tree:
        if not hasattr(model, "tree"):
            raise UserError(f"--tree: found a {type(model).__name__} in {name}; expected a graph parser")
        model.tree = True
    return cast(Parser, model)


def _makes_trees(parser: Parser) -> bool:
    """Whether a model is a dependency parser."""
    return callable(getattr(parser, "parse_stream", None))


def _write_utf8(out: TextIO) -> None:
    """CoNLL-U has no other encoding."""
    if isinstance(out, TextIOWrapper):
        out.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _makes_edges(parser: Parser) -> bool:
    """Whether a model's graphs have any number of edges, and no text, as enhanced dependencies have none."""
    from ..tasks.graphs.edge_model import EdgeParser

    return isinstance(parser, EdgeParser) and not parser.text


def _print_enhanced(parser: Parser, source: Path) -> None:
    """Print the sentences of a CoNLL-U file with predicted enhanced dependencies."""
    from ..data.graphs.enhanced import with_enhanced
    from ..data.trees.conllu import read_conllu

    _write_utf8(sys.stdout)
    sentences = read_conllu(source, trees=False)
    while some := list(islice(sentences, ENHANCED_AT_ONCE)):
        for sentence, answer in zip(some, parser.parse([each.words for each in some]), strict=True):
            graph = cast("Parse", answer).graph
            print(with_enhanced(sentence, cast(SentenceGraph, graph)).text.removesuffix("\n"))


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[int], None]]:
    from ..io.progress import bar

    with ExitStack() as stack:
        yield stack.enter_context(bar("parsing")).advance if shown else lambda count: None


def _as_parsed(answer: Answer) -> Answer:
    return answer


def _with_sparql(answer: Answer) -> Answer:
    """The same parse with a query that a SPARQL engine reads."""
    from ..data.pairs.sparql import runnable

    parse = cast("Parse", answer)
    return parse if parse.text is None else replace(parse, text=runnable(parse.text.split()))


# --- output -----------------------------------------------------------------------------------------------------------


def _written(answer: Answer, form: Format, ascii_only: bool) -> str:
    if form is Format.conllu and isinstance(answer, DependencySentence):
        return answer.text.removesuffix("\n")  # `print` adds it
    return _text(answer, ascii_only) if form is Format.diagram else _as_json(answer)


def _as_json(answer: Answer) -> str:
    return json_line(_plain(answer))


def _plain(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, DependencySentence):
        from ..tasks.trees.model import tree_as_json

        return tree_as_json(answer)
    return answer.to_json()


def _text(answer: Answer, ascii_only: bool) -> str:
    from ..draw.arcs import visible
    from ..draw.text import draw_text

    encoding = _encoding()
    width = shutil.get_terminal_size((PIPE_WIDTH, 0)).columns
    diagram = draw_text(_diagram(answer), width, ascii=ascii_only, encoding=encoding)
    if isinstance(answer, DependencySentence):
        return diagram
    above = [] if answer.text is None else [answer.text]
    if isinstance(answer.graph, SentenceGraph):
        above += [f"{name}: {label}" for name, label in answer.graph.sentence.items()]
    return "".join(f"{visible(line, encoding)}\n\n" for line in above) + diagram


def _diagram(answer: Answer) -> ArcDiagram | GraphDiagram:
    from ..draw.arcs import diagram_of_tree

    return diagram_of_tree(answer) if isinstance(answer, DependencySentence) else answer.diagram()


def _remark(answer: Answer, where: str) -> None:
    """Print warnings about an answer to standard error."""
    from ..data.graphs.corpora import TEXTS
    from ..data.graphs.logical_forms import COLUMNS, form_of_graph
    from ..draw.arcs import visible

    if isinstance(answer, DependencySentence):  # unknown words are common in real text
        return
    if answer.unknown:
        words = ", ".join(map(visible, dict.fromkeys(answer.unknown)))
        print(f"warning: {where}never seen in training, so a guess: {words}", file=sys.stderr)
    if answer.text is not None:
        return
    if isinstance(answer.graph, SentenceGraph):
        if answer.text_field:
            print(f"warning: {where}no {TEXTS[answer.text_field].title} has this graph", file=sys.stderr)
    elif set(answer.graph.labels) == set(COLUMNS):
        try:
            form_of_graph(answer.graph)
        except DataError as error:
            why = visible(f"found {error.found}; expected {error.expected}")
            print(f"warning: {where}no logical form has this graph: {why}", file=sys.stderr)


def _numbered(svg: Path, count: int) -> Path:
    """The file for the drawing of one of several sentences."""
    return svg.with_stem(f"{svg.stem}-{count}")


def _draw(answer: Answer, path: Path | None) -> None:
    if path is None:
        return
    from ..draw.svg import draw_svg
    from ..io.files import write_text

    write_text(path, draw_svg(_diagram(answer)))
    print(f"written: {path}", file=sys.stderr)  # standard output is for answers


def _save(parser: Parser, answers: Sequence[Answer], path: Path | None) -> None:
    if path is None:
        return
    from ..serve.document import write_parses

    write_parses(path, cast("TaskModel", parser), [_plain(answer) for answer in answers])
    print(f"written: {path}", file=sys.stderr)


def _print(text: str, out: TextIO) -> None:
    print(text, file=out, flush=True)


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"
