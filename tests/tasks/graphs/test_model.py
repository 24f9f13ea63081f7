"""The graph parser: what it is asked, whose answers keep their order, and how it comes back from a file."""

from __future__ import annotations

import io
import json
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import ArrivingLines
from edge_transformer.tasks.graphs.data import GraphData
from edge_transformer.tasks.graphs.model import GraphParser, Parse, read_sentence
from graph_cases import EDGE, make_data, random_graphs

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graphs() -> list[TokenGraph]:
    return random_graphs(40, seed=3)


@pytest.fixture
def data(graphs: list[TokenGraph]) -> GraphData:
    return make_data(graphs, dev=graphs[:10])


@pytest.fixture
def model(data: GraphData) -> GraphParser:
    torch.manual_seed(1)
    return data.new_model(EDGE)


def test_sentences_are_cut_at_spaces_and_before_the_full_stop() -> None:
    assert read_sentence(" Ann  ran. ", "x") == ("Ann", "ran", ".")
    assert read_sentence("Ann ran .", "x") == ("Ann", "ran", ".")
    assert read_sentence("Ann", "x") == ("Ann",)
    assert read_sentence(".", "x") == (".",)
    assert read_sentence(["Mr.", "ran."], "x") == ("Mr.", "ran.")  # tokens are taken as they are
    assert read_sentence({"tokens": ["Ann"]}, "x") == ("Ann",)


@pytest.mark.parametrize("nothing", ["", "  \n", [], ()])
def test_an_empty_sentence_is_said(model: GraphParser, nothing: Any) -> None:
    with pytest.raises(UserError, match=r"sentence 2: found no words; expected a sentence of at least one word"):
        model.parse(["Ann ran .", nothing])


@pytest.mark.parametrize("value", [3, None, [3], ["a", ""], {"words": []}, {"tokens": "Ann ran"}, ["a"] * 600])
def test_what_is_no_sentence_is_said(model: GraphParser, value: Any) -> None:
    with pytest.raises(DataError, match="input 0: found"):
        model.predict([value])


def test_a_single_text_has_a_single_graph(model: GraphParser) -> None:
    assert model.parse("Ann ran .") == model.parse(["Ann ran ."])[0]


def test_unknown_words_are_named(model: GraphParser) -> None:
    known, odd = model.parse(["Ann ran .", ["zebra", "saw", "quagga", "zebra"]])
    assert known.unknown == ()
    assert odd.unknown == ("zebra", "quagga")
    assert odd.graph.tokens == ("zebra", "saw", "quagga", "zebra")
    assert odd.logical_form is None
    assert model.predict(["Ann ran ."])[0]["unknown"] == []
    assert model.predict([["zebra"]])[0]["unknown"] == ["zebra"]
    assert model.parse([]) == []


def test_answers_keep_their_order(graphs: list[TokenGraph], model: GraphParser) -> None:
    sentences = [graph.tokens for graph in graphs]
    together = model.parse(sentences)
    assert [parse.graph.tokens for parse in together] == sentences
    assert together == [model.parse([sentence])[0] for sentence in sentences]
    assert model.predict(sentences) == [parse.to_json() for parse in together]
    assert model.training  # as it was before


def test_lines_are_sentences_or_json(model: GraphParser) -> None:
    lines = ["Ann ran.\n", "\n", '["Ann", "ran", "."]\n', '{"tokens": ["Ann", "ran", "."]}\n']
    answers = list(model.predict_lines(lines, "x"))
    assert len(answers) == 3
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["tokens"] == ["Ann", "ran", "."]


def test_what_came_with_a_sentence_comes_back_with_its_graph(model: GraphParser) -> None:
    question = {"id": 7, "tokens": ["Ann", "ran", "."], "parents": "mine"}
    [answer] = model.predict([question])
    assert (answer["id"], list(answer["tokens"])) == (7, question["tokens"])
    assert answer["parents"] != "mine"
    assert list(model.predict_lines([json.dumps(question)], "x")) == [answer]
    assert "id" not in model.predict(["Ann ran ."])[0]


def test_a_broken_line_is_located_after_the_answers_before_it(model: GraphParser) -> None:
    answers = model.predict_lines(["Ann ran .\n", "\n", '{"tokens": \n', "Bob ran .\n"], "questions")
    assert next(answers)["tokens"][0] == "Ann"
    with pytest.raises(DataError, match="questions:3: found "):
        next(answers)


def test_bytes_that_are_no_text_are_located(model: GraphParser) -> None:
    lines = ArrivingLines(io.BufferedReader(io.BytesIO("\ufeffAnn ran .\n".encode() + b"\xff\xff\n")))
    answers = model.predict_lines(lines, "questions")
    assert next(answers)["tokens"] == ["Ann", "ran", "."]
    with pytest.raises(DataError, match="questions:2: found bytes that are no text"):
        next(answers)


def test_a_line_without_an_end_is_located(model: GraphParser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.io.streams.MAX_BYTES", 20)
    lines = ArrivingLines(io.BytesIO(b"Ann ran .\n" + bytes(21)), "questions")
    answers = model.predict_lines(lines, "questions")
    assert next(answers)["tokens"] == ["Ann", "ran", "."]
    with pytest.raises(DataError, match="questions:2: found a line of more than 20 bytes"):
        next(answers)


def test_lines_that_arrive_are_answered_at_once(model: GraphParser) -> None:
    lines = ArrivingLines(io.BufferedReader(io.BytesIO(b"Ann ran .\nBob saw Ann .\n")))
    assert [answer["tokens"][0] for answer in model.predict_lines(lines, "x", lines.pausing)] == ["Ann", "Bob"]


def test_a_description_gives_the_model_back(data: GraphData, model: GraphParser) -> None:
    description = json.loads(json.dumps(model.description()))
    again = GraphParser.from_description(description)
    again.load_state_dict(model.state_dict())
    assert again.parse(["Ann saw Bob ."]) == model.parse(["Ann saw Bob ."])
    assert list(again.columns) == ["role", "kind"]
    assert isinstance(again.tokens, Vocab)


def test_a_notebook_shows_the_parse() -> None:
    graph = TokenGraph(("<script>", "ran"), (1, 1), {"role": ("agent", "")})
    page = Parse(graph, "run . agent ( x , <script> )", ("<script>",))._repr_html_()
    assert "<script" not in page
    root = ElementTree.fromstring(page)
    assert root.findtext("div/code") == "run . agent ( x , <script> )"
    assert root[-1].text == "never seen in training, so a guess: <script>"
    assert "<code>" not in Parse(graph)._repr_html_()
