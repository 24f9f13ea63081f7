"""The model of relational reasoning: answers keep the order of the questions, and its options do what they say."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import torch

import relation_cases
from edge_transformer.data.relations.rows import RelationRows, Story
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import ArrivingLines
from edge_transformer.tasks.base import get_task
from edge_transformer.tasks.relations import model as task
from edge_transformer.tasks.relations.data import RelationData
from edge_transformer.tasks.relations.model import RelationModel
from edge_transformer.training.config import RunConfig
from relation_cases import MODEL, as_json, question, single

pytestmark = pytest.mark.usefixtures("one_thread")
stories, data, model = relation_cases.stories, relation_cases.data, relation_cases.model  # the fixtures


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers_in_the_order_of_the_questions(stories: RelationRows, model: RelationModel) -> None:
    asked = [story for pair in zip(stories.train[:15], stories.train[15:30], strict=True) for story in pair]
    assert len({story.size for story in asked}) > 1
    questions = [as_json(story) for story in asked]
    answers = model.predict(questions)
    assert list(model.predict_lines(iter(map(json.dumps, questions)), "lines")) == answers
    for story, asked_for, answer in zip(asked, questions, answers, strict=True):
        assert set(answer) == {"query", "answer", "probabilities"}
        assert answer["query"] == asked_for["query"]
        probabilities = single(model, story).softmax(-1)
        assert answer["answer"] == list(model.answers)[int(probabilities.argmax())]
        assert list(answer["probabilities"]) == sorted(
            answer["probabilities"], key=answer["probabilities"].__getitem__, reverse=True
        )
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-4)
        assert answer["probabilities"][story.target] == pytest.approx(
            probabilities[list(model.answers).index(story.target)].item(), abs=1e-5
        )


def test_a_question_that_clutrr_never_asks_has_a_note(model: RelationModel) -> None:
    relation = next(iter(model.relations))
    told = {"edges": [["Ann", relation, "Bob"], ["Bob", relation, "Eve"]]}
    queries = [["Ann", "Eve"], ["Ann", "Bob"], ["Bob", "Ann"], ["Eve", "Eve"]]
    usual, *others = model.predict([told | {"query": query} for query in queries])
    assert "note" not in usual
    for answer, reason in zip(
        others, (f"Ann -{relation}-> Bob is told", "no told edges lead from Bob to Ann", "both ends"), strict=True
    ):
        assert answer["note"].startswith(f"a guess, however sure: {reason}")


def test_no_questions_no_answers(model: RelationModel) -> None:
    assert model.predict([]) == []
    assert list(model.predict_lines(iter(["", "\n"]), "lines")) == []


def test_answers_come_while_questions_are_read_and_batches_stay_small(
    stories: RelationRows, model: RelationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "PREDICT_EDGES", 60)
    edges: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: edges.append(inputs[0].numel()))
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for story in stories.train:
            read += 1
            yield json.dumps(as_json(story))

    answers = model.predict_lines(lines(), "lines")
    next(answers)
    assert read < 10
    assert 1 + len(list(answers)) == len(stories.train)
    assert max(edges) <= 60
    assert len(edges) > 5


def test_what_has_come_is_answered_in_a_pause(stories: RelationRows, model: RelationModel) -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for story in stories.train[:9]:
            read += 1
            yield json.dumps(as_json(story))

    read_before_answer = []
    for _ in model.predict_lines(lines(), "lines", pausing=lambda: read in (1, 5)):
        read_before_answer.append(read)
    assert read_before_answer == [1] + [5] * 4 + [9] * 4


def test_predicting_leaves_the_model_as_it_was(stories: RelationRows, data: RelationData) -> None:
    model = data.new_model({**MODEL, "dropout": 0.5})
    model.train()
    questions = [as_json(stories.train[0])]
    assert model.predict(questions) == model.predict(questions)  # no dropout
    assert model.training
    model.eval()
    model.predict(questions)
    assert not model.training


def test_unknown_relations_are_refused_with_their_line(model: RelationModel) -> None:
    bad = {"edges": [["a", "boss", "b"]], "query": ["a", "b"]}
    with pytest.raises(
        UserError, match=r'^input 0: found \["a", "boss", "b"\]; expected a relation that the model knows'
    ):
        model.predict([bad])
    with pytest.raises(DataError) as caught:
        list(model.predict_lines(iter([json.dumps(question(model)), "", json.dumps(bad)]), "questions"))
    assert str(caught.value).startswith("questions:3: ")
    assert str(caught.value).endswith(", ".join(model.relations))


@pytest.mark.parametrize(("about", "found"), [(1.5, "other features"), ("boss", "the labels of nodes boss")])
def test_labels_and_features_that_training_lacks_are_refused_with_their_line(
    model: RelationModel, about: float | str, found: str
) -> None:
    good = question(model)
    bad = good | {"nodes": dict.fromkeys(good["query"], about)}
    with pytest.raises(DataError, match=f"^input 1: found {found}; expected "):
        model.predict([good, bad])
    answered = model.predict_lines(iter([json.dumps(good), "", json.dumps(bad)]), "questions")
    assert next(answered)["answer"] in model.answers  # lines before a broken one are answered
    with pytest.raises(DataError, match=f"^questions:3: found {found}; expected "):
        next(answered)


def test_bytes_that_are_no_text_are_refused_with_their_line(model: RelationModel) -> None:
    good = json.dumps(question(model)).encode() + b"\n"
    lines = ArrivingLines(io.BytesIO(good + b"\n" + b"\xff\n" + good))
    answers = model.predict_lines(lines, "questions", lines.pausing)
    assert next(answers)["query"] == ["a", "b"]
    with pytest.raises(DataError, match=r"^questions:3: found bytes that are no text"):
        next(answers)


def test_broken_questions_are_refused(model: RelationModel) -> None:
    with pytest.raises(UserError, match=r"input 1: found 7; expected an object"):
        model.predict([question(model), 7])  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"questions:2: found 'x'"):
        list(model.predict_lines(iter(["\n", "x"]), "questions"))


# --- descriptions -----------------------------------------------------------------------------------------------------


def test_description_builds_the_same_model(stories: RelationRows, model: RelationModel) -> None:
    again = RelationModel.from_description(json.loads(json.dumps(model.description())))
    assert again.description() == model.description()
    again.load_state_dict(model.state_dict())
    questions = [as_json(story) for story in stories.train[:5]]
    assert again.predict(questions) == model.predict(questions)


def test_labels_start_at_one() -> None:
    story = Story(((0, 1), (1, 0)), ("b", "a"), (0, 1), "t", ("x", "y"))
    assert Schema(Vocab(["a", "b"]), Vocab(["t"])).edges(story) == [(0, 1, 2), (1, 0, 1)]
    assert Schema(Vocab(["a"]), Vocab(["t"])).edges(story) is None


def test_tasks_by_name() -> None:
    assert get_task("relations") == (RelationData, RelationModel)
    with pytest.raises(UserError, match="unknown task 'chess'; known are relations"):
        get_task("chess")


def test_unknown_kind_of_model(data: RelationData) -> None:
    with pytest.raises(UserError, match=r"model\.kind: found 'rnn'"):
        data.new_model({**MODEL, "kind": "rnn"})
    with pytest.raises(UserError, match="model: unknown setting 'dims'"):
        data.new_model({**MODEL, "dims": 3})


# --- options of the model ---------------------------------------------------------------------------------------------


def test_inverse_edges_change_the_input_only(data: RelationData) -> None:
    model = data.new_model({**MODEL, "inverse_edges": True})
    assert len(model.input.embedding.weight) == 2 * len(data.relations) + 2
    again = RelationModel.from_description(model.description())
    again.load_state_dict(model.state_dict())
    (batch, *_) = data.batches(torch.arange(10))
    torch.testing.assert_close(again(batch.labels, batch.pairs), model(batch.labels, batch.pairs))


def test_options_are_settings_like_others() -> None:
    run = RunConfig.from_preset("relations", "clutrr/cpu", {"model.inverse_edges": True}, seed=1)
    assert run.settings["model"]["inverse_edges"] is True
    with pytest.raises(UserError, match="inverse_edges"):
        RunConfig.from_preset("relations", "clutrr/cpu", {"model.inverse_edges": "yes"}, seed=1)
