"""The tree parser: answers are the best trees, whatever it is asked, and keep what came with a sentence."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.data.trees.conllu import DependencySentence, read_conllu, tree_problem
from edge_transformer.errors import DataError
from edge_transformer.io.streams import ArrivingLines
from edge_transformer.tasks.trees.data import TreeData
from edge_transformer.tasks.trees.model import TreeParser, spanning_trees
from tree_cases import EDGE, make_data, make_tree, random_trees

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trees() -> list[DependencySentence]:
    return random_trees(40, seed=3)


@pytest.fixture
def data(trees: list[DependencySentence]) -> TreeData:
    return make_data(trees, dev=tuple(trees[:10]))


@pytest.fixture
def model(data: TreeData) -> TreeParser:
    torch.manual_seed(1)
    return data.new_model(EDGE)


# --- decoding ---------------------------------------------------------------------------------------------------------


def all_trees(size: int) -> list[tuple[int, ...]]:
    return [heads for heads in product(range(size + 1), repeat=size) if tree_problem(heads) is None]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_decoding_gives_the_best_of_all_trees(size: int, batch: int, seed: int, rounded: bool) -> None:
    scores = torch.randn(batch, size, size + 1, generator=torch.Generator().manual_seed(seed))
    if rounded:  # many trees are equally good
        scores = scores.round()
    scores[:, torch.arange(size), torch.arange(1, size + 1)] = -1e9
    found = spanning_trees(scores)
    for table, heads in zip(scores, found.tolist(), strict=True):
        assert tree_problem(heads) is None

        def total(heads: Sequence[int], table: Tensor = table) -> float:
            return sum(float(table[word, head]) for word, head in enumerate(heads))

        assert total(heads) == pytest.approx(max(map(total, all_trees(size))), abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10_000), st.sampled_from(["pairs", "heads"]))
def test_whatever_the_logits_answers_are_trees(size: int, seed: int, scores: str) -> None:
    data = make_data([make_tree(["a", "b"], [0, 1], ["root", "x"]), make_tree(["a", "b"], [0, 1], ["root", "y"])])
    model = data.new_model({**EDGE, "scores": scores})
    generator = torch.Generator().manual_seed(seed)
    logits = 10 * torch.randn(2, size, size + 1, 4, generator=generator)
    arcs, labels = model.best_arcs(logits)
    heads = spanning_trees(arcs)
    names = list(model.labels)
    for row, of_row in enumerate(heads.tolist()):
        assert tree_problem(of_row) is None
        for word, head in enumerate(of_row):
            assert (names[int(labels[row, word, head])] == "root") == (head == 0)


def test_the_score_of_a_tree_is_its_probability(model: TreeParser) -> None:
    """With `pairs`, all pairs answer for themselves, null or a label: the best tree is the likeliest set of answers."""
    size, labels = 3, len(model.labels)
    logits = torch.randn(1, size, size + 1, 1 + labels)
    model.root_label = None
    arcs, best = model.best_arcs(logits)
    chances = logits.log_softmax(-1)
    totals = {}
    for heads in all_trees(size):
        likely = chances[0, :, :, 0].sum()
        for word, head in enumerate(heads):
            likely = likely - chances[0, word, head, 0] + chances[0, word, head, 1:].max()
        totals[heads] = float(likely)
    [found] = spanning_trees(arcs).tolist()
    assert tuple(found) == max(totals, key=lambda heads: totals[heads])
    assert int(best[0, 0, found[0]]) == int(logits[0, 0, found[0], 1:].argmax())


def test_no_numbers_no_trees() -> None:
    with pytest.raises(ValueError, match="nan or inf"):
        spanning_trees(torch.full((1, 2, 3), float("nan")))


# --- answers ----------------------------------------------------------------------------------------------------------


def test_predictions_of_lines(model: TreeParser) -> None:
    lines = ["the dog\n", "\n", '{"tokens": ["a b", "c"]}\n', '["x"]\n']
    answers = list(model.predict_lines(lines, "here"))
    assert [answer["tokens"] for answer in answers] == [["the", "dog"], ["a b", "c"], ["x"]]
    assert all(tree_problem(answer["heads"]) is None for answer in answers)
    assert answers == model.predict(["the dog", {"tokens": ["a b", "c"]}, ["x"]])
    found = model.predict_lines(["the dog", '{"'], "here")
    assert next(found)["tokens"] == ["the", "dog"]
    with pytest.raises(DataError, match=r"here:2: found '\{\"'"):
        next(found)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "sentence 1: found ''; expected a sentence of at least one word"),
        ([], "expected a sentence of at least one word"),
        ([1], "expected a sentence of at least one word"),
        (["a\tb"], "without tabs"),
        (["a"] * 513, "a sentence of 513 words; expected at most 512"),
        ({"words": []}, 'expected an object with "tokens"'),
    ],
)
def test_sentences_that_are_none(model: TreeParser, sentence: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.parse([sentence])


def test_one_sentence_as_a_text(model: TreeParser) -> None:
    assert model.parse("the dog ran") == model.parse(["the dog ran"])[0]


def test_what_came_with_a_sentence_comes_back_with_its_tree(model: TreeParser) -> None:
    lines = ['{"id": "s 1", "tokens": ["the", "dog"], "heads": [7], "from": {"page": 3}}\n', "the cat\n"]
    lines += ['{"tokens": ["ran"], "id": 4}\n', '{"tokens": ["ran"], "id": ["no", "name"]}\n']
    first, second, third, fourth = model.predict_lines(lines, "here")
    assert (first["id"], first["from"], len(first["heads"])) == ("s 1", {"page": 3}, 2)
    assert set(second) == {"tokens", "heads", "relations"}
    assert (third["id"], fourth["id"]) == (4, ["no", "name"])
    named, unnamed = model.parse([{"tokens": ["ran"], "id": "s 1"}, {"tokens": ["ran"], "id": "two\nlines"}])
    assert (named.lines[0], unnamed.lines[0]) == ("# sent_id = s 1", "# text = ran")
    assert (named.sent_id, unnamed.sent_id) == ("s 1", None)
    in_conllu = ["# sent_id = weblog-7\n", "1\tran" + "\t_" * 8 + "\n", "\n"]
    assert [answer["id"] for answer in model.predict_lines(in_conllu, "here")] == ["weblog-7"]


def test_lines_that_are_no_text_end_the_answers_and_lose_none(model: TreeParser) -> None:
    answers = model.predict_lines(ArrivingLines(io.BytesIO(b"the dog\n\xff\xfe\ncat\n")), "here")
    assert next(answers)["tokens"] == ["the", "dog"]
    with pytest.raises(DataError, match="here:2: found"):
        next(answers)


def test_a_model_comes_back(model: TreeParser, trees: list[DependencySentence]) -> None:
    description = json.loads(json.dumps(model.description()))
    again = TreeParser.from_description(description)
    again.load_state_dict(model.state_dict())
    assert again.parse(trees) == model.parse(trees)
    assert model.training
    one_by_one = [found for each in trees for found in model.parse([each])]
    assert one_by_one == model.parse(trees)


def test_parsing_keeps_what_is_not_the_tree(model: TreeParser, tmp_path: Path) -> None:
    lines = ["# sent_id = 1", "1-2\tcan't\t_\t_\t_\t_\t_\t_\t_\tX=y", "1\tca\tcan\tAUX\tMD\t_\t9\tzzz\t_\t_"]
    lines += ["2\tn't\tnot\tPART\tRB\t_\t_\t_\t_\tSpaceAfter=No", "2.1\tgo\t_\t_\t_\t_\t_\t_\t_\t_"]
    (tmp_path / "in.conllu").write_text("\n".join(lines) + "\n\n")
    [parsed] = model.parse(list(read_conllu(tmp_path / "in.conllu", trees=False)))
    cells = [line.split("\t") for line in parsed.lines]
    assert parsed.lines[:2] == tuple(lines[:2])
    assert cells[2][:6] == lines[2].split("\t")[:6]
    assert (int(cells[2][6]), cells[2][7]) == (parsed.heads[0], parsed.relations[0])
    assert cells[3][9] == "SpaceAfter=No"
    assert parsed.lines[4] == lines[4]
