"""Relational reasoning: the loss is that of the single rows, the score forgets none, answers keep their order."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.config import from_dict
from edge_transformer.data.batching import GraphTable
from edge_transformer.data.clutrr import ClutrrData, Story, write_clutrr
from edge_transformer.data.kinship import generate, generate_valid
from edge_transformer.data.vocab import Vocab
from edge_transformer.errors import DataError, UserError
from edge_transformer.lines import ArrivingLines
from edge_transformer.run import RunConfig
from edge_transformer.tasks import clutrr as task
from edge_transformer.tasks import get_task
from edge_transformer.tasks.clutrr import RelationData, RelationModel, RelationSettings, labelled_edges

MODEL = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2, "dropout": 0.0}
CPU = torch.device("cpu")


def make_data(rows: int = 60) -> ClutrrData:
    train, tests = generate([2, 3], [2, 4], rows=rows, seed=3, test_rows=12)
    conflicting = replace(train[0], target="son" if train[0].target != "son" else "aunt")
    return ClutrrData(
        name="families",
        fingerprint="abc",
        train=(*train, train[0], conflicting),  # a graph of three rows and two answers
        tests={k: tuple(stories) for k, stories in tests.items()},
    )


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Many threads on tiny tensors wait for each other longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def stories() -> ClutrrData:
    return make_data()


@pytest.fixture
def data(stories: ClutrrData) -> RelationData:
    return RelationData(stories, RelationSettings(), seed=1)


@pytest.fixture
def model(data: RelationData) -> RelationModel:
    torch.manual_seed(1)
    return data.new_model(MODEL)


def as_json(story: Story) -> dict[str, Any]:
    edges = zip(story.edges, story.relations, strict=True)
    names = story.names
    return {
        "edges": [[names[start], relation, names[end]] for (start, end), relation in edges],
        "query": [names[node] for node in story.query],
    }


def question(model: RelationModel) -> dict[str, Any]:
    return {"edges": [["a", next(iter(model.relations)), "b"]], "query": ["a", "b"]}


def single(model: RelationModel, story: Story) -> Tensor:
    """The logits of one story, computed alone."""
    labels = torch.zeros(1, story.size, story.size, dtype=torch.long)
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        labels[0, start, end] = list(model.relations).index(relation) + 1
    return model(labels, torch.tensor([story.query]))[0]


# --- loss -------------------------------------------------------------------------------------------------------------


def test_loss_and_gradient_are_those_of_the_single_rows(
    stories: ClutrrData, data: RelationData, model: RelationModel
) -> None:
    torch.manual_seed(2)
    last = len(stories.train)
    rows = torch.cat([torch.randperm(last)[:30], torch.tensor([last - 1, last - 2, last - 2, 0])])

    batches = list(data.batches(rows))
    assert sum(len(batch.labels) for batch in batches) < len(rows)  # or there was nothing to save
    assert len(batches) > 1
    loss = torch.stack([data.loss(model, batch, CPU) for batch in batches]).sum() / data.weight(rows)
    loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}

    model.zero_grad(set_to_none=True)
    losses = []
    for row in rows.tolist():
        story = stories.train[row]
        answer = torch.tensor(list(model.answers).index(story.target))
        losses.append(nn.functional.cross_entropy(single(model, story), answer))
    expected = torch.stack(losses).mean()
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        mine, theirs = gradients[name], weight.grad
        assert mine is not None
        assert theirs is not None
        assert theirs.abs().max() > 0, name
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6, msg=name)


def test_every_row_has_the_same_weight(data: RelationData) -> None:
    assert data.weight(torch.arange(7)) == 7.0
    counts = [batch.counts.sum().item() for batch in data.batches(torch.arange(data.train_rows))]
    assert sum(counts) == data.train_rows


# --- which rows -------------------------------------------------------------------------------------------------------


def test_rows_and_vocabularies(stories: ClutrrData, data: RelationData) -> None:
    assert data.train_rows == len(stories.train) == 62
    assert list(data.relations) == sorted({relation for story in stories.train for relation in story.relations})
    assert list(data.answers) == sorted({story.target for story in stories.train})
    assert data.evaluation_rows() <= 24


def test_train_k(stories: ClutrrData) -> None:
    data = RelationData(stories, RelationSettings(train_k=(3,)), seed=1)
    assert data.train_rows == sum(story.k == 3 for story in stories.train) > 0
    assert data.identity()["train_k"] == "3"
    with pytest.raises(UserError, match=r"data\.train_k = \[7\]: no training story"):
        RelationData(stories, RelationSettings(train_k=(7,)), seed=1)


def test_held_out_rows_are_scored_and_not_trained_on(stories: ClutrrData) -> None:
    # A name of its own for each row, so that equal stories can be told apart.
    rows = tuple(replace(story, names=(f"row {n}", *story.names[1:])) for n, story in enumerate(stories.train))
    numbered = replace(stories, train=rows)

    def split(seed: int) -> tuple[set[str], set[str]]:
        data = RelationData(numbered, RelationSettings(held_out=0.25), seed)
        train, valid = data._train, data._splits["valid"]
        assert (len(train), len(valid)) == (data.train_rows, round(0.25 * len(rows)))
        return {story.names[0] for story in train}, {story.names[0] for story in valid}

    train, valid = split(1)
    assert not train & valid
    assert train | valid == {story.names[0] for story in rows}
    assert split(1) == (train, valid)
    assert split(2)[1] != valid


def test_validation_files_are_scored_by_length_and_held_out_rows_apart(stories: ClutrrData) -> None:
    with_files = replace(stories, valid=(*stories.tests[2], *stories.tests[4][:5]))
    sizes = {"k=2": 12, "k=4": 12, "valid k=2": 12, "valid k=4": 5}
    for settings, held_out in ((RelationSettings(), {}), (RelationSettings(held_out=0.5), {"valid": 31})):
        splits = RelationData(with_files, settings, 1)._splits
        assert {name: len(rows) for name, rows in splits.items()} == sizes | held_out
    assert set(RelationData(stories, RelationSettings(), 1)._splits) == {"k=2", "k=4"}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_validation_stories_of_another_folder(ending: str, tmp_path: Path) -> None:
    train, tests = generate([2, 3], [2], rows=60, seed=3, test_rows=5)
    write_clutrr(tmp_path / "data", train, tests)
    longer = tmp_path / "longer"
    if ending == "csv":
        write_clutrr(longer, train[:1], tests, generate_valid([5, 6], 7, seed=4))
    else:
        longer.mkdir()
        known = [["a", train[0].relations[0], "b"], ["b", train[0].relations[0], "c"]]
        line = json.dumps({"edges": known, "query": ["a", "c"], "target": train[0].target})
        odd = json.dumps({"edges": [*known, ["c", "robot", "d"]], "query": ["a", "d"], "target": train[0].target})
        (longer / "valid.jsonl").write_text(f"{line}\n{odd}\n")
    settings = RelationSettings(valid=str(longer))
    data = RelationData.load(tmp_path / "data", settings, 1)
    sizes = (
        {"k=2": 5, "valid k=5": 7, "valid k=6": 7} if ending == "csv" else {"k=2": 5, "valid k=2": 1, "valid k=3": 1}
    )
    assert {name: len(rows) for name, rows in data._splits.items()} == sizes
    assert data.identity()["valid_fingerprint"] == RelationData.valid_fingerprint(settings) != ""
    if ending == "jsonl":  # what training never told counts as wrong, and that is said
        assert "valid k=3: 1 of 1 rows have a relation or answer that no training row has" in "".join(data.notes())
        model = data.new_model(MODEL)
        assert data.evaluate(model, CPU)["valid k=3"] == 0.0
    # A trained model can be scored without that folder, which is said; nothing is trained without it.
    trained = data.new_model(MODEL)
    for path in longer.iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"longer: found neither \*valid\*\.jsonl nor"):
        RelationData.load(tmp_path / "data", settings, 1)
    longer.rmdir()
    scored = RelationData.load(tmp_path / "data", settings, 1, trained)
    assert set(scored.evaluate(trained, CPU)) == {"k=2"}
    assert "validation stories are not scored" in scored.notes()[0]


def test_without_testing_no_test_file_is_read(tmp_path: Path) -> None:
    train, tests = generate([2, 3], [2, 4], rows=60, seed=3, test_rows=5)
    write_clutrr(tmp_path, train, tests)
    settings = RelationSettings(held_out=0.1, test=False)
    (tmp_path / "1.4_test.csv").write_text("no story at all")
    garbage = RelationData.load(tmp_path, settings, 1)
    assert set(garbage._splits) == {"valid"}
    for path in tmp_path.glob("*test.csv"):
        path.unlink()
    absent = RelationData.load(tmp_path, settings, 1)
    model = absent.new_model(MODEL)
    assert absent.evaluate(model, CPU) == garbage.evaluate(model, CPU)
    with pytest.raises(UserError, match=r"found no \*test\.csv"):
        RelationData.load(tmp_path, RelationSettings(), 1)
    write_clutrr(tmp_path, train, tests)
    # Who scores the trained model asks for the tests.
    assert set(RelationData.load(tmp_path, settings, 1, model)._splits) == {"k=2", "k=4", "valid"}


def test_held_out_must_leave_something(stories: ClutrrData) -> None:
    with pytest.raises(UserError, match=r"data\.held_out = 0\.999: leaves none of 62 rows"):
        RelationData(stories, RelationSettings(held_out=0.999), seed=1)
    for share in (1.0, -0.1):
        with pytest.raises(UserError, match="data: held_out must be at least 0 and below 1"):
            from_dict(RelationSettings, {"held_out": share}, "data")


# --- score ------------------------------------------------------------------------------------------------------------


class Always(nn.Module):
    """Always the same answer."""

    def __init__(self, answer: int, answers: int) -> None:
        super().__init__()
        self.logits = nn.functional.one_hot(torch.tensor(answer), answers).float()

    def forward(self, labels: Tensor, query: Tensor) -> Tensor:
        return self.logits.expand(len(labels), -1)


def test_scores_count_every_row(stories: ClutrrData, data: RelationData) -> None:
    answer = stories.tests[4][0].target
    fixed = Always(list(data.answers).index(answer), len(data.answers))
    told: list[int] = []
    scores = data.evaluate(fixed, CPU, told.append)
    assert scores == {
        f"k={k}": pytest.approx(sum(story.target == answer for story in tests) / len(tests))
        for k, tests in stories.tests.items()
    }
    assert scores["k=4"] > 0
    assert sum(told) == data.evaluation_rows()


def test_rows_that_nobody_could_answer_count_as_wrong(stories: ClutrrData) -> None:
    first = stories.train[0]
    unseen = (replace(first, target="great-aunt"), replace(first, relations=("boss",) * first.k))
    tests = {2: (first, first, *unseen), 5: (first,)}
    data = RelationData(replace(stories, tests=tests), RelationSettings(), seed=1)
    scores = data.evaluate(Always(list(data.answers).index(first.target), len(data.answers)), CPU)
    assert scores == {"k=2": 0.5, "k=5": 1.0}
    assert data.notes() == ["k=2: 2 of 4 rows have a relation or answer that no training row has; they count as wrong"]
    assert data.evaluation_rows() == 3
    complete = RelationData(replace(stories, tests={2: (first,)}), RelationSettings(), seed=1)
    assert complete.notes() == []


def test_score_of_a_real_model_is_that_of_its_answers(
    stories: ClutrrData, data: RelationData, model: RelationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [story for story in stories.tests[4] if labelled_edges(story, model.relations) is not None]
    right = sum(
        answer["answer"] == story.target
        for story, answer in zip(known, model.predict([as_json(story) for story in known]), strict=True)
    )
    assert data.evaluate(model, CPU)["k=4"] == right / len(stories.tests[4])
    monkeypatch.setattr(task, "PREDICT_EDGES", 30)
    assert data.evaluate(model, CPU)["k=4"] == right / len(stories.tests[4])


def test_a_trained_model_brings_its_own_vocabularies(stories: ClutrrData, data: RelationData) -> None:
    model = RelationModel(MODEL, Vocab([*reversed(list(data.relations)), "boss"]), Vocab(reversed(list(data.answers))))
    again = RelationData(stories, RelationSettings(), seed=1, model=model)
    assert list(again.relations) == list(model.relations)
    assert list(again.answers) == list(model.answers)
    answer = list(model.answers).index(stories.tests[4][0].target)
    before = list(data.answers).index(stories.tests[4][0].target)
    assert again.evaluate(Always(answer, len(model.answers)), CPU) == data.evaluate(
        Always(before, len(data.answers)), CPU
    )


def test_only_what_is_scored_is_read(
    data: RelationData, model: RelationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, tests = generate([2, 3], [2, 4], rows=60, seed=3, test_rows=12)
    write_clutrr(tmp_path, train, tests)
    told: list[int] = []
    whole = RelationData.load(tmp_path, RelationSettings(held_out=0.5), 1, model, told.append)
    assert sum(told) == 60 + 24
    tabulated: list[int] = []
    tabulate = RelationData._tabulate

    def count(data: RelationData, rows: Sequence[Story]) -> GraphTable:
        tabulated.append(len(rows))
        return tabulate(data, rows)

    monkeypatch.setattr(RelationData, "_tabulate", count)
    for settings, rows in ((RelationSettings(held_out=0.5), [12, 12, 30]), (RelationSettings(), [12, 12])):
        tabulated.clear()
        RelationData.load(tmp_path, settings, 1, model).evaluate(model, CPU)
        assert tabulated == rows  # the tests and what was held out, and no row that was trained on
    (tmp_path / "1.2,1.3_train.csv").write_text("broken")
    told.clear()
    tests_alone = RelationData.load(tmp_path, RelationSettings(), 1, model, told.append)
    assert sum(told) == 24
    scores = whole.evaluate(model, CPU)
    assert tests_alone.evaluate(model, CPU) == {name: scores[name] for name in ("k=2", "k=4")}


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers_in_the_order_of_the_questions(stories: ClutrrData, model: RelationModel) -> None:
    asked = [story for pair in zip(stories.train[:15], stories.train[15:30], strict=True) for story in pair]
    assert len({story.size for story in asked}) > 1
    questions = [as_json(story) for story in asked]
    answers = model.predict(questions)
    assert list(model.predict_lines(iter(map(json.dumps, questions)), "lines")) == answers
    for story, asked_for, answer in zip(asked, questions, answers, strict=True):
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


def test_no_questions_no_answers(model: RelationModel) -> None:
    assert model.predict([]) == []
    assert list(model.predict_lines(iter(["", "\n"]), "lines")) == []


def test_answers_come_while_questions_are_read_and_batches_stay_small(
    stories: ClutrrData, model: RelationModel, monkeypatch: pytest.MonkeyPatch
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


def test_what_has_come_is_answered_in_a_pause(stories: ClutrrData, model: RelationModel) -> None:
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


def test_predicting_leaves_the_model_as_it_was(stories: ClutrrData, data: RelationData) -> None:
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


def test_description_builds_the_same_model(stories: ClutrrData, model: RelationModel) -> None:
    again = RelationModel.from_description(json.loads(json.dumps(model.description())))
    assert again.description() == model.description()
    again.load_state_dict(model.state_dict())
    questions = [as_json(story) for story in stories.train[:5]]
    assert again.predict(questions) == model.predict(questions)


def test_identity_and_fingerprint(tmp_path: Path) -> None:
    train, tests = generate([2], [2], rows=20, seed=1, test_rows=5)
    write_clutrr(tmp_path / "small", train, tests)
    settings = RelationSettings(held_out=0.1)
    told: list[int] = []
    data = RelationData.load(tmp_path / "small", settings, seed=1, progress=told.append)
    assert sum(told) == 25
    assert data.identity() == {
        "name": "small",
        "fingerprint": RelationData.fingerprint(tmp_path / "small"),
        "train_k": "2",
        "train_rows": data.train_rows,
        "held_out": 0.1,
    }
    assert json.loads(json.dumps(data.identity())) == data.identity()


def test_labels_start_at_one() -> None:
    story = Story(((0, 1), (1, 0)), ("b", "a"), (0, 1), "t", ("x", "y"))
    assert labelled_edges(story, Vocab(["a", "b"])) == [(0, 1, 2), (1, 0, 1)]
    assert labelled_edges(story, Vocab(["a"])) is None


def test_tasks_by_name() -> None:
    assert get_task("clutrr") == (RelationData, RelationModel)
    with pytest.raises(UserError, match="unknown task 'chess'; known are clutrr"):
        get_task("chess")


def test_unknown_kind_of_model(data: RelationData) -> None:
    with pytest.raises(UserError, match=r"model\.kind: found 'rnn'"):
        data.new_model({**MODEL, "kind": "rnn"})
    with pytest.raises(UserError, match="model: unknown setting 'dims'"):
        data.new_model({**MODEL, "dims": 3})


# --- options of the model ---------------------------------------------------------------------------------------------


def test_the_loss_of_every_layer(data: RelationData) -> None:
    torch.manual_seed(1)
    model = data.new_model({**MODEL, "layers": 3, "min_layers": 2, "layer_loss": True})
    (batch, *_) = data.batches(torch.arange(10))
    expected = []
    for layers in (2, 3):
        same = data.new_model({**MODEL, "layers": layers})
        same.load_state_dict(model.state_dict())
        expected.append(data.loss(same, batch, CPU))
    torch.testing.assert_close(data.loss(model, batch, CPU), torch.stack(expected).mean())
    assert model(batch.labels, batch.query).dim() == 2  # answers come from the last layer alone


def test_inverse_edges_change_the_input_only(data: RelationData) -> None:
    model = data.new_model({**MODEL, "inverse_edges": True})
    assert len(model.input.embedding.weight) == 2 * len(data.relations) + 2
    again = RelationModel.from_description(model.description())
    again.load_state_dict(model.state_dict())
    (batch, *_) = data.batches(torch.arange(10))
    torch.testing.assert_close(again(batch.labels, batch.query), model(batch.labels, batch.query))


def test_only_the_edge_transformer_is_read_at_every_layer(data: RelationData) -> None:
    with pytest.raises(UserError, match=r"model\.layer_loss: only the Edge Transformer"):
        data.new_model({"kind": "rat", "dim": 16, "heads": 2, "layers": 2, "layer_loss": True})


def test_options_are_settings_like_others() -> None:
    run = RunConfig.from_preset("clutrr", "clutrr/cpu", {"model.inverse_edges": True}, seed=1)
    assert run.settings["model"]["inverse_edges"] is True
    assert run.settings["model"]["layer_loss"] is False
    with pytest.raises(UserError, match="inverse_edges"):
        RunConfig.from_preset("clutrr", "clutrr/cpu", {"model.inverse_edges": "yes"}, seed=1)


def test_spliced_rows_are_trained_on_and_named(stories: ClutrrData) -> None:
    plain = RelationData(stories, RelationSettings(), seed=1)
    spliced = RelationData(stories, RelationSettings(spliced=0.5, spliced_k=6), seed=1)
    more = spliced.train_rows - plain.train_rows
    assert 0 < more <= plain.train_rows / 2
    assert spliced.identity()["spliced_rows"] == more
    assert spliced.identity()["train_k"] == plain.identity()["train_k"]  # of the rows that the file has
    sizes = {batch.labels.shape[-1] for batch in spliced.batches(torch.arange(plain.train_rows, spliced.train_rows))}
    assert max(sizes) > max(batch.labels.shape[-1] for batch in plain.batches(torch.arange(plain.train_rows)))
    assert list(spliced.answers) == list(plain.answers)
    assert not any("spliced" in note for note in spliced.notes())
    with pytest.raises(ValueError, match=r"spliced must be from 0 to 100, but is -1"):
        RelationSettings(spliced=-1)


def test_spliced_rows_that_cannot_be_made_are_told(stories: ClutrrData) -> None:
    short = RelationData(stories, RelationSettings(spliced=0.5, spliced_k=2), seed=1)
    asked = round(len(stories.train) / 2)
    assert f"data.spliced asks for {asked} longer stories of up to 2 relations; 0 could be made" in short.notes()
    nameless = replace(stories, train=tuple(replace(story, genders=()) for story in stories.train))
    settings = RelationSettings(spliced=0.5, spliced_k=6, spliced_returns=0.5)
    assert any(
        note.startswith("data.spliced_returns changes nothing") for note in RelationData(nameless, settings, 1).notes()
    )
    assert not any("returns" in note for note in RelationData(stories, settings, 1).notes())
