"""The command `parse`, with a model that has learnt a few sentences by heart."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from edge_transformer import __main__ as cli
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.graphs.logical_forms import COLUMNS, form_of_graph, graph_of_form
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.data.trees.conllu import DependencySentence, read_words
from edge_transformer.errors import UserError
from edge_transformer.tasks.graphs.model import GraphParser, Parse
from edge_transformer.tasks.trees.model import TreeParser

DOCS = (Path(__file__).parents[2] / "docs/command-line.md").read_text(encoding="utf-8")
EMMA = "Emma ran ."
FORMS = {
    EMMA: "run . agent ( x _ 1 , Emma )",
    "The dog on a TV saw Liam .": (
        "* dog ( x _ 1 ) ; dog . nmod . on ( x _ 1 , x _ 4 ) AND tv ( x _ 4 ) AND see . agent ( x _ 5 , x _ 1 ) "
        "AND see . theme ( x _ 5 , Liam )"
    ),
}
EMMA_DRAWN = """\
run . agent ( x _ 1 , Emma )

  ╭─agent─╮
  ▼       │●
Emma     ran   .
PNOUN    VERB
         run
"""


class ByHeart:
    """Parses the sentences above; of others it knows no word, and hangs nothing on anything."""

    def __init__(self) -> None:
        self.asked: list[list[str | tuple[str, ...]]] = []

    parse_lines = GraphParser.parse_lines  # lines are read and answered as by a trained one

    def parse(self, sentences: Sequence[str | tuple[str, ...]]) -> list[Parse]:
        self.asked.append(list(sentences))
        return [self._answer(tuple(each.split() if isinstance(each, str) else each)) for each in sentences]

    _parse = parse

    def _answer(self, tokens: tuple[str, ...]) -> Parse:
        form = FORMS.get(" ".join(tokens))
        if form is not None:
            graph = graph_of_form(tokens, form)
            return Parse(graph, form_of_graph(graph), ())
        columns = {name: ("",) * len(tokens) for name in COLUMNS}
        return Parse(TokenGraph(tokens, tuple(range(len(tokens))), columns), None, tokens)


class Typist(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def run(
    *arguments: str, stdin: str | bytes = "", columns: str = "120", typed: bool = False, encoding: str = "utf-8"
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `edge-transformer ARGUMENTS`."""
    data = io.BytesIO(stdin if isinstance(stdin, bytes) else stdin.encode())
    out, err = io.TextIOWrapper(io.BytesIO(), encoding=encoding), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["edge-transformer", *arguments])
        patch.setattr(sys, "stdin", Typist(data) if typed else io.TextIOWrapper(data))
        patch.setenv("COLUMNS", columns)
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    out.flush()
    return code or 0, out.buffer.getvalue().decode(encoding), err.getvalue()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ByHeart:
    model = ByHeart()
    monkeypatch.setattr("edge_transformer.tasks.base.load", lambda name, trust=(): model)
    return model


def test_a_sentence(model: ByHeart) -> None:
    assert run("parse", EMMA) == (0, EMMA_DRAWN, "")
    assert run("parse", f"  {EMMA} ") == (0, EMMA_DRAWN, "")
    assert model.asked == [[EMMA], [EMMA]]


def test_a_sentence_in_ascii_because_it_is_asked_for_or_because_of_the_encoding(model: ByHeart) -> None:
    code, out, _ = run("parse", EMMA, "--ascii")
    assert code == 0
    assert ".-agent-." in out
    assert out.isascii()
    assert run("parse", EMMA, encoding="ascii") == (0, out, "")
    assert "\\xeb" in run("parse", "Zo\xeb ran .", encoding="ascii")[1]


def test_a_sentence_in_a_narrow_terminal(model: ByHeart) -> None:
    code, out, _ = run("parse", EMMA, columns="15")
    assert code == 0
    assert out.splitlines()[2:] == ["╭► Emma  agent…", "╰● ran        …", "   ."]


def test_a_sentence_as_json(model: ByHeart) -> None:
    code, out, err = run("parse", EMMA, "--json")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "tokens": ["Emma", "ran", "."],
            "parents": [1, -1, -1],
            "labels": {
                "role": ["agent", "", ""],
                "category": ["PNOUN", "VERB", ""],
                "noun_type": ["", "", ""],
                "verb_name": ["", "run", ""],
            },
            "logical_form": FORMS[EMMA],
            "unknown": [],
        }
    ]
    assert out.strip() in DOCS


def test_unknown_words_and_graphs_without_form_are_told_beside_the_answer(model: ByHeart) -> None:
    code, out, err = run("parse", "Blick dax \x1b dax")
    assert code == 0
    assert out == "Blick  dax  \\x1b  dax\n"
    assert err.splitlines() == [
        "warning: never seen in training, so a guess: Blick, dax, \\x1b",
        "warning: no logical form has this graph: found no noun and no verb; expected at least one of them",
    ]
    code, out, err = run("parse", stdin=f"{EMMA}\n\nBlick\n")
    assert [json.loads(line)["unknown"] for line in out.splitlines()] == [[], ["Blick"]]
    assert err.startswith("warning: standard input:3: never seen in training, so a guess: Blick\n")


def test_lines_are_answered_in_json(model: ByHeart, tmp_path: Path) -> None:
    lines = f'\ufeff{EMMA}\r\n\n{{"tokens": ["Emma", "ran", "."]}}\n  {EMMA}'
    code, out, err = run("parse", stdin=lines)
    assert (code, err) == (0, "")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["tokens"] for answer in answers] == [["Emma", "ran", "."]] * 3
    assert answers[0] == answers[1] == answers[2]
    assert [sentence for batch in model.asked for sentence in batch] == [("Emma", "ran", ".")] * 3
    file = tmp_path / "sentences.txt"
    file.write_text(lines, encoding="utf-8")
    assert run("parse", "--input", str(file)) == (0, out, "")
    assert run("parse", "--input", "-", "--json", stdin=lines) == (0, out, "")
    _, out, _ = run("parse", stdin='{"tokens": ["Emma", "ran", "."], "id": "x"}\n')
    assert json.loads(out) == {"id": "x", **answers[0]}


def test_many_lines_are_parsed_together_but_not_all_at_once(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.tasks.graphs.model.STREAM_EDGES", 30)
    code, out, _ = run("parse", stdin=f"{EMMA}\n" * 10)
    assert code == 0
    assert len(out.splitlines()) == 10
    assert [len(batch) for batch in model.asked] == [4, 4, 2]


def test_a_progress_bar_does_not_take_the_answers(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr("edge_transformer.io.progress.console", Console(file=terminal, force_terminal=True))
    code, out, _ = run("parse", stdin=f"{EMMA}\nBlick\n")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "parsing" in terminal.getvalue()
    assert "never seen in training, so a guess: Blick" in terminal.getvalue()
    assert "tokens" not in terminal.getvalue()


@pytest.mark.parametrize("word", ["Zoë", "数"])
def test_json_in_letters_that_the_output_has(word: str, model: ByHeart) -> None:
    for encoding in ("utf-8", "ascii"):
        code, out, _ = run("parse", stdin=json.dumps({"tokens": [word]}), encoding=encoding)
        assert code == 0
        assert json.loads(out)["tokens"] == [word]
        assert (word in out) == (encoding == "utf-8")


class OneQuery:
    """Finds the same query in every question."""

    text = "sparql"

    def parse(self, sentences: Sequence[str]) -> list[Parse]:
        query = "SELECT DISTINCT ?x0 WHERE { ?x0 film.director.film M1 }"
        graph = SentenceGraph(("Who", "directed", "M1"), ((1, 0, "subject"), (1, 2, "object")))
        return [Parse(graph, query, (), text_field="sparql") for _ in sentences]


def test_queries_as_sparql_that_an_engine_reads(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("parse", EMMA, "--sparql")[::2] == (
        2,
        "error: --sparql: found no queries in cogs-small; expected a model of graphs of queries\n",
    )
    monkeypatch.setattr("edge_transformer.tasks.base.load", lambda name, trust=(): OneQuery())
    query = "PREFIX ns: <http://rdf.freebase.com/ns/> SELECT DISTINCT ?x0 WHERE { ?x0 ns:film.director.film M1 }"
    code, out, err = run("parse", "Who directed M1", "--sparql")
    assert (code, err) == (0, "")
    assert out.startswith(f"{query}\n\n")
    assert "object" in out
    code, out, err = run("parse", "Who directed M1", "--sparql", "--json")
    assert json.loads(out)["sparql"] == query


def test_half_a_character_is_refused(model: ByHeart) -> None:
    code, out, err = run("parse", stdin=json.dumps({"tokens": ["\ud800"]}))
    assert (code, out) == (2, "")
    assert "whole characters" in err


def test_someone_who_types_gets_diagrams(model: ByHeart) -> None:
    code, out, err = run("parse", stdin=f"{EMMA}\n{EMMA}\n", typed=True)
    assert (code, out) == (0, f"{EMMA_DRAWN}\n" * 2)
    assert "one sentence per line" in err
    assert run("parse", "--json", stdin=f"{EMMA}\n", typed=True)[1].startswith("{")


def test_svg(model: ByHeart, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "emma.svg"
    assert run("parse", EMMA, "--svg", str(file)) == (0, EMMA_DRAWN, f"written: {file}\n")
    root = ElementTree.parse(file).getroot()
    assert "Emma" in [element.text for element in root.iter()]
    code, _, err = run("parse", "--svg", str(file), stdin=f"{EMMA}\n\n{EMMA}\n")
    numbered = [file.with_name(f"emma-{number}.svg") for number in (1, 2)]
    assert (code, err) == (0, "".join(f"written: {path}\n" for path in numbered))
    assert {path.read_bytes() for path in numbered} == {file.read_bytes()}
    assert len(list(file.parent.iterdir())) == 3


def test_an_svg_that_cannot_be_written_is_refused_before_parsing(model: ByHeart, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "lines-1.svg").mkdir()
    expected = "expected a place where a file can be written"
    for name, found in (
        ("file/x.svg", f"{tmp_path}/file, which is no folder"),
        ("file/new/x.svg", f"{tmp_path}/file, which is no folder"),
        ("folder.svg", f"a folder at {tmp_path}/folder.svg"),
    ):
        file = tmp_path / name
        assert run("parse", EMMA, "--svg", str(file)) == (2, "", f"error: --svg {file}: found {found}; {expected}\n")
    file = tmp_path / "lines.svg"
    message = f"error: --svg {file}: found a folder at {tmp_path}/lines-1.svg; {expected}\n"
    assert run("parse", "--svg", str(file), stdin=f"{EMMA}\n") == (2, "", message)
    assert model.asked == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.svg", "lines-1.svg"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ([""], "", "found no word in the sentence ''; expected words"),
        ([" \t"], "", "found no word in the sentence ' \\t'; expected words"),
        ([], "", "standard input: found no sentence; expected one per line"),
        ([], "\n \n", "standard input: found no sentence; expected one per line"),
        ([EMMA, "--input", "x.txt"], "", "--input x.txt: found a sentence as well; expected one of the two"),
        ([EMMA, "--svg", "x.png"], "", "--svg x.png: expected a name that ends in .svg"),
        (["--input", "nowhere.txt"], "", "nowhere.txt: No such file or directory"),
        ([], "a " * 513, "standard input:1: found 513 tokens; expected 1 to 512"),
        ([], "a " * 511 + "a.", "standard input:1: found 513 tokens; expected 1 to 512"),  # the full stop is one too
        ([], '{"', "standard input:1: found '{\"'; expected one JSON object a line"),
        ([], "1\tEmma\t_\n", "standard input:1: found CoNLL-U; expected sentences, one a line, or a model of"),
        ([], '{"words": []}', "standard input:1: found "),
        ([], '\n{"tokens": []}', "standard input:2: found 0 tokens; expected 1 to 512"),
        ([], b"\n\xff", "standard input:2: found bytes that are no text (invalid start byte); expected UTF-8"),
    ],
)
def test_mistakes_end_with_one_line(
    arguments: list[str], stdin: str | bytes, message: str, model: ByHeart, tmp_path: Path
) -> None:
    code, out, err = run("parse", *arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


def test_lines_before_a_broken_one_are_answered(model: ByHeart) -> None:
    code, out, err = run("parse", stdin=f"{EMMA}\n{EMMA}\n{{}}\n{EMMA}\n")
    assert code == 2
    assert len(out.splitlines()) == 2
    assert err.startswith("error: standard input:3: found {}; expected")


def test_lines_before_one_without_an_end_are_answered(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.io.streams.MAX_BYTES", 100)
    code, out, err = run("parse", stdin=f"{EMMA}\n{EMMA}\n".encode() + bytes(101))
    assert (code, len(out.splitlines())) == (2, 2)
    assert err.startswith("error: standard input:3: found a line of more than 100 bytes; expected at most")


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    code, _, err = run("parse", EMMA, "--model", "huge-model")
    assert code == 2
    assert err.startswith("error: --model huge-model: no bundled model and no folder of this name (")
    code, _, err = run("parse", EMMA, "--model", str(tmp_path))
    assert code == 2
    assert err.startswith(f"error: {tmp_path}: found no config.json; expected the folder of a trained model")


def test_a_model_that_does_not_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.tasks.base.load", lambda name, trust=(): object())
    code, _, err = run("parse", EMMA, "--model", "mine")
    assert (code, err) == (2, "error: --model mine: found a object; expected a model that parses sentences\n")


def test_no_circles_where_they_are_not_wanted(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    found = "error: --tree: found a ByHeart in cogs-small; expected a graph parser\n"
    assert run("parse", EMMA, "--tree") == (2, "", found)
    monkeypatch.setattr(model, "tree", False, raising=False)
    assert run("parse", EMMA) == (0, EMMA_DRAWN, "")
    assert model.tree is False  # type: ignore[attr-defined]
    assert run("parse", EMMA, "--tree") == (0, EMMA_DRAWN, "")
    assert model.tree is True  # type: ignore[attr-defined]


def test_errors_of_the_model_are_told_as_they_are(model: ByHeart, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sentences: Any) -> None:
        raise UserError("too long for me")

    monkeypatch.setattr(model, "parse", refuse)
    assert run("parse", EMMA) == (2, "", "error: too long for me\n")


def test_a_conversation_that_ends_when_nobody_listens_any_more() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import test_parse as here; "
        "from edge_transformer import __main__; from edge_transformer.tasks import base; "
        "base.load = lambda name, trust=(): here.ByHeart(); __main__.main()"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), "parse"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        deadline = threading.Timer(300, process.kill)  # instead of waiting for ever
        deadline.start()
        for text in (f"{EMMA}\n", f"\n{EMMA}\n\n"):
            process.stdin.write(text.encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["logical_form"] == FORMS[EMMA]
        process.stdout.close()
        process.stdin.write(f"{EMMA}\n".encode())
        process.stdin.flush()
        assert process.stderr.read() == b""
        deadline.cancel()
    assert process.returncode == 1


# --- dependency trees -------------------------------------------------------------------------------------------------

REST = "\t_" * 8
TREE = """\
# text = Emma ran
1\tEmma\t_\t_\t_\t_\t2\tdep\t_\t_
2\tran\t_\t_\t_\t_\t0\troot\t_\t_

"""
TREE_DRAWN = """\
  ╭───root────╮
  │    ╭─dep─╮│
 ●│    ▼     │▼
ROOT  Emma   ran
"""


class Chains:
    """A model of trees in which every word hangs on the next one."""

    parse_lines = TreeParser.parse_lines

    def parse(self, sentences: Sequence[Any]) -> list[DependencySentence]:
        return [self._parse(read_words(each, "sentence")) for each in sentences]

    def parse_stream(self, sentences: Iterable[DependencySentence], pausing: Any) -> Iterator[DependencySentence]:
        return map(self._parse, sentences)

    def _parse(self, sentence: DependencySentence) -> DependencySentence:
        size = sentence.size
        return sentence.with_tree([*range(2, size + 1), 0], ["dep"] * (size - 1) + ["root"])


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> Chains:
    model = Chains()
    monkeypatch.setattr("edge_transformer.tasks.base.load", lambda name, trust=(): model)
    return model


def test_trees_of_text_are_written_as_conllu(chains: Chains, tmp_path: Path) -> None:
    assert run("parse", stdin="Emma ran\n") == (0, TREE, "")
    assert run("parse", stdin="Emma ran\n\nEmma ran") == (0, TREE * 2, "")
    file = tmp_path / "text.txt"
    file.write_text("Emma ran\n")
    assert run("parse", "--input", str(file)) == (0, TREE, "")
    assert (
        run("parse", stdin="Zo\u00eb\n", encoding="latin-1")[1]
        .encode("latin-1")
        .decode()
        .startswith("# text = Zo\u00eb")
    )


def test_trees_of_conllu_keep_everything_else(chains: Chains, tmp_path: Path) -> None:
    given = f"# id = 1\n1-2\tcan't\t_\t_\t_\t_\t_\t_\t_\tA=b\n1\tca\tcan{REST[2:]}\n2\tn't\tnot{REST[2:]}\n\n"
    found = given.replace("\tcan\t_\t_\t_\t_\t_", "\tcan\t_\t_\t_\t2\tdep").replace(
        "\tnot\t_\t_\t_\t_\t_", "\tnot\t_\t_\t_\t0\troot"
    )
    assert run("parse", stdin=given) == (0, found, "")
    file = tmp_path / "some.conllu"
    file.write_text(found)
    assert run("parse", "--input", str(file)) == (0, found, "")  # what was there is not looked at
    file.write_text("Emma ran\n")
    code, out, err = run("parse", "--input", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {file}:1: found 1 column in 'Emma ran'; expected 10 columns")


def test_trees_in_json_and_as_diagrams(chains: Chains, tmp_path: Path) -> None:
    answer = {"tokens": ["Emma", "ran"], "heads": [2, 0], "relations": ["dep", "root"]}
    for arguments, stdin in ((["--json"], "Emma ran\n"), (["Emma ran", "--json"], "")):
        code, out, err = run("parse", *arguments, stdin=stdin)
        assert (code, json.loads(out), err) == (0, answer, "")
    file = tmp_path / "emma.svg"
    code, out, err = run("parse", "Emma ran", "--svg", str(file))
    assert (code, out, err) == (0, TREE_DRAWN, f"written: {file}\n")
    assert "ROOT" in [element.text for element in ElementTree.parse(file).getroot().iter()]
    assert run("parse", stdin="Emma ran\n", typed=True)[1] == f"{TREE_DRAWN}\n"


def test_formats_that_are_asked_for(chains: Chains, tmp_path: Path) -> None:
    assert run("parse", "Emma ran", "--format", "conllu") == (0, TREE, "")
    assert run("parse", stdin="Emma ran\n", encoding="utf-8")[1] == TREE
    assert run("parse", "--format", "diagram", stdin="Emma ran\nEmma ran\n")[1] == f"{TREE_DRAWN}\n" * 2
    for asked in (["--json"], ["--format", "json"]):
        assert json.loads(run("parse", *asked, stdin="Emma ran\n")[1])["tokens"] == ["Emma", "ran"]


def test_graphs_are_no_conllu(model: ByHeart, tmp_path: Path) -> None:
    code, out, err = run("parse", EMMA, "--format", "conllu")
    assert (code, out) == (2, "")
    assert err.startswith("error: --format conllu: found a ByHeart; expected a model of dependency trees")
    file = tmp_path / "text.conllu"
    file.write_text("# text = Emma\n1\tEmma\t_\n")
    code, out, err = run("parse", "--input", str(file))
    assert (code, out) == (2, "")
    assert "found CoNLL-U; expected a model of dependency trees" in err


def test_trees_before_a_broken_line_and_no_sentences(chains: Chains) -> None:
    code, out, err = run("parse", stdin='Emma ran\n{"\n')
    assert (code, out) == (2, TREE)
    assert err.startswith("error: standard input:2: found '{\"'; expected one JSON object a line")
    assert run("parse", stdin="\n")[0] == 2


def test_trees_before_a_line_without_an_end(chains: Chains, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.io.streams.MAX_BYTES", 100)
    for sentence in ("Emma ran\n", TREE):
        code, out, err = run("parse", stdin=sentence.encode() + bytes(101))
        assert (code, out) == (2, TREE)
        line = 1 + sentence.count("\n")
        assert err.startswith(f"error: standard input:{line}: found a line of more than 100 bytes; expected at most")
