"""Relational reasoning on data: the loss is that of the single rows, and the score forgets none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import relation_cases
from agreement import gradients_of
from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.generate import generate, generate_valid
from edge_transformer.data.relations.rows import RelationRows, Story
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.relations.table import GraphTable
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import UserError
from edge_transformer.io.settings import from_dict
from edge_transformer.tasks.relations import model as task
from edge_transformer.tasks.relations.data import RelationData, RelationSettings
from edge_transformer.tasks.relations.model import RelationModel
from relation_cases import CPU, MODEL, as_json, single

pytestmark = pytest.mark.usefixtures("one_thread")
stories, data, model = relation_cases.stories, relation_cases.data, relation_cases.model  # the fixtures


# --- loss -------------------------------------------------------------------------------------------------------------


def test_loss_and_gradient_are_those_of_the_single_rows(
    stories: RelationRows, data: RelationData, model: RelationModel
) -> None:
    torch.manual_seed(2)
    last = len(stories.train)
    rows = torch.cat([torch.randperm(last)[:30], torch.tensor([last - 1, last - 2, last - 2, 0])])

    batches = list(data.batches(rows))
    assert sum(len(batch.labels) for batch in batches) < len(rows)  # or there was nothing to save
    assert len(batches) > 1
    loss = torch.stack([data.loss(model, batch, CPU) for batch in batches]).sum() / data.weight(rows)

    losses = []
    for row in rows.tolist():
        story = stories.train[row]
        answer = torch.tensor(list(model.answers).index(story.target))
        losses.append(nn.functional.cross_entropy(single(model, story), answer))
    expected = torch.stack(losses).mean()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    mine = gradients_of(model, loss)
    for name, theirs in gradients_of(model, expected).items():
        assert theirs.abs().max() > 0, name
        torch.testing.assert_close(mine[name], theirs, rtol=1e-4, atol=1e-6, msg=name)


def test_every_row_has_the_same_weight(data: RelationData) -> None:
    assert data.weight(torch.arange(7)) == 7.0
    counts = [batch.asked.sum().item() for batch in data.batches(torch.arange(data.train_rows))]
    assert sum(counts) == data.train_rows


# --- which rows -------------------------------------------------------------------------------------------------------


def test_rows_and_vocabularies(stories: RelationRows, data: RelationData) -> None:
    assert data.train_rows == len(stories.train) == 62
    assert list(data.relations) == sorted({relation for story in stories.train for relation in story.relations})
    assert list(data.answers) == sorted({story.target for story in stories.train})
    assert data.evaluation_rows() <= 24


def test_train_k(stories: RelationRows) -> None:
    data = RelationData(stories, RelationSettings(train_k=(3,)), seed=1)
    assert data.train_rows == sum(story.k == 3 for story in stories.train) > 0
    assert data.identity()["train_k"] == "3"
    with pytest.raises(UserError, match=r"data\.train_k = \[7\]: no training story"):
        RelationData(stories, RelationSettings(train_k=(7,)), seed=1)


def test_held_out_rows_are_scored_and_not_trained_on(stories: RelationRows) -> None:
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


def test_validation_files_are_scored_by_length_and_held_out_rows_apart(stories: RelationRows) -> None:
    with_files = replace(stories, valid=(*stories.tests[2], *stories.tests[4][:5]))
    for settings, sizes in (
        (RelationSettings(), {"test": 24, "valid": 17}),
        (RelationSettings(held_out=0.5), {"test": 24, "valid": 31, "valid files": 17}),
        (RelationSettings(valid_share=0.5), {"test": 24, "valid": 17}),
    ):
        splits = RelationData(with_files, settings, 1)._splits
        assert {name: len(rows) for name, rows in splits.items()} == sizes
    assert set(RelationData(stories, RelationSettings(), 1)._splits) == {"test"}


def test_a_validation_part_is_split_off_by_whole_graphs(stories: RelationRows) -> None:
    twice = replace(stories, train=stories.train * 2)
    data = RelationData(twice, RelationSettings(valid_share=0.1), seed=1)
    valid = data._splits["valid"]
    assert 20 <= len(valid) <= len(twice.train) // 5
    assert len(valid) + data.train_rows == len(twice.train)
    assert not {story.graph for story in valid} & {story.graph for story in data._train}
    again = RelationData(twice, RelationSettings(valid_share=0.1), seed=2)
    assert again._splits["valid"] != valid


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
    sizes = {"test": 5, "valid": 14 if ending == "csv" else 2}
    assert {name: len(rows) for name, rows in data._splits.items()} == sizes
    assert data.identity()["valid_fingerprint"] == RelationData.valid_fingerprint(settings) != ""
    if ending == "jsonl":  # what training never told counts as wrong, and that is said
        assert "valid: 1 of 2 rows have a relation, label or answer that no training row has" in "".join(data.notes())
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
    assert set(scored.evaluate(trained, CPU)) == {"accuracy", "k=2"}
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
    assert set(RelationData.load(tmp_path, settings, 1, model)._splits) == {"test", "valid"}


def test_held_out_must_leave_something(stories: RelationRows) -> None:
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
        return self.logits.expand(*query.shape[:-1], -1)


def test_scores_count_every_row(stories: RelationRows, data: RelationData) -> None:
    answer = stories.tests[4][0].target
    fixed = Always(list(data.answers).index(str(answer)), len(data.answers))
    told: list[int] = []
    scores = data.evaluate(fixed, CPU, told.append)
    right = {k: sum(story.target == answer for story in tests) / len(tests) for k, tests in stories.tests.items()}
    assert scores == {"accuracy": pytest.approx((right[2] + right[4]) / 2)} | {
        f"k={k}": pytest.approx(share) for k, share in right.items()
    }
    assert data.evaluate_midway(fixed, CPU) == {}  # test rows are scored once, at the end
    assert scores["k=4"] > 0
    assert sum(told) == data.evaluation_rows()


def test_rows_that_nobody_could_answer_count_as_wrong(stories: RelationRows) -> None:
    first = stories.train[0]
    unseen = (replace(first, target="great-aunt"), replace(first, relations=("boss",) * first.k))
    tests = {3: (first, first, *unseen), 5: (replace(first, needed=5),)}
    data = RelationData(replace(stories, tests=tests), RelationSettings(), seed=1)
    scores = data.evaluate(Always(list(data.answers).index(str(first.target)), len(data.answers)), CPU)
    assert scores == {"accuracy": 0.6, "k=3": 0.5, "k=5": 1.0}
    assert data.notes() == [
        "test: 2 of 5 rows have a relation, label or answer that no training row has; they count as wrong"
    ]
    assert data.evaluation_rows() == 4
    complete = RelationData(replace(stories, tests={2: (first,)}), RelationSettings(), seed=1)
    assert complete.notes() == []


def test_score_of_a_real_model_is_that_of_its_answers(
    stories: RelationRows, data: RelationData, model: RelationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [story for story in stories.tests[4] if model.schema.edges(story) is not None]
    right = sum(
        answer["answer"] == story.target
        for story, answer in zip(known, model.predict([as_json(story) for story in known]), strict=True)
    )
    assert data.evaluate(model, CPU)["k=4"] == right / len(stories.tests[4])
    monkeypatch.setattr(task, "PREDICT_EDGES", 30)
    assert data.evaluate(model, CPU)["k=4"] == right / len(stories.tests[4])


def test_a_trained_model_brings_its_own_vocabularies(stories: RelationRows, data: RelationData) -> None:
    schema = Schema(Vocab([*reversed(list(data.relations)), "boss"]), Vocab(reversed(list(data.answers))))
    model = RelationModel(MODEL, schema)
    again = RelationData(stories, RelationSettings(), seed=1, model=model)
    assert list(again.relations) == list(model.relations)
    assert list(again.answers) == list(model.answers)
    answer = list(model.answers).index(str(stories.tests[4][0].target))
    before = list(data.answers).index(str(stories.tests[4][0].target))
    mine = again.evaluate(Always(answer, len(model.answers)), CPU)
    assert mine["accuracy"] == data.evaluate(Always(before, len(data.answers)), CPU)["accuracy"] > 0
    assert list(mine) == ["accuracy", "n=3", "n=4", "n=5"]  # by nodes where not all relations are of families


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

    def count(data: RelationData, rows: Sequence[Story]) -> tuple[GraphTable, list[int]]:
        tabulated.append(len(rows))
        return tabulate(data, rows)

    monkeypatch.setattr(RelationData, "_tabulate", count)
    for settings, rows in ((RelationSettings(held_out=0.5), [24, 30]), (RelationSettings(), [24])):
        tabulated.clear()
        RelationData.load(tmp_path, settings, 1, model).evaluate(model, CPU)
        assert tabulated == rows  # the tests and what was held out, and no row that was trained on
    (tmp_path / "1.2,1.3_train.csv").write_text("broken")
    told.clear()
    tests_alone = RelationData.load(tmp_path, RelationSettings(), 1, model, told.append)
    assert sum(told) == 24
    scores = whole.evaluate(model, CPU)
    assert tests_alone.evaluate(model, CPU) == {name: scores[name] for name in ("accuracy", "k=2", "k=4")}


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
        "corpus": "clutrr",
    }
    assert json.loads(json.dumps(data.identity())) == data.identity()
    train = [replace(story, relations=("boss", *story.relations[1:])) for story in train]
    write_clutrr(tmp_path / "own", train, tests)
    assert "corpus" not in RelationData.load(tmp_path / "own", settings, seed=1).identity()


# --- longer rows that are made of others ------------------------------------------------------------------------------


def test_augmented_rows_are_trained_on_and_named(stories: RelationRows) -> None:
    plain = RelationData(stories, RelationSettings(), seed=1)
    augmented = RelationData(stories, RelationSettings(augmented=0.5, augmented_k=6), seed=1)
    more = augmented.train_rows - plain.train_rows
    assert 0 < more <= plain.train_rows / 2
    assert augmented.identity()["augmented_rows"] == more
    assert augmented.identity()["train_k"] == plain.identity()["train_k"]  # of the rows that the file has
    sizes = {
        batch.labels.shape[-1] for batch in augmented.batches(torch.arange(plain.train_rows, augmented.train_rows))
    }
    assert max(sizes) > max(batch.labels.shape[-1] for batch in plain.batches(torch.arange(plain.train_rows)))
    assert list(augmented.answers) == list(plain.answers)
    assert not any("augmented" in note for note in augmented.notes())
    with pytest.raises(ValueError, match=r"augmented must be from 0 to 100, but is -1"):
        RelationSettings(augmented=-1)


def test_augmented_rows_that_cannot_be_made_are_told(stories: RelationRows) -> None:
    short = RelationData(stories, RelationSettings(augmented=0.5, augmented_k=2), seed=1)
    asked = round(len(stories.train) / 2)
    assert f"data.augmented asks for {asked} stories of up to 2 relations; 0 could be made" in short.notes()
    nameless = replace(stories, train=tuple(replace(story, genders=()) for story in stories.train))
    settings = RelationSettings(augmented=0.5, augmented_k=6, augmented_returns=0.5)
    assert any(
        note.startswith("data.augmented_returns changes nothing")
        for note in RelationData(nameless, settings, 1).notes()
    )
    assert not any("returns" in note for note in RelationData(stories, settings, 1).notes())


def test_rows_unlike_the_others_are_named_by_their_own_number_also_where_some_are_held_out() -> None:
    rows = [
        {"nodes": {"a": [n]}, "edges": [["a", "r" if n % 2 else "s", f"b{n}"]], "query": ["a", f"b{n}"], "target": "x"}
        for n in range(20)
    ]
    for place in range(1, 20):
        for change, found in (({"target": 1.5}, "a number in row {}"), ({"nodes": {"a": [1, 2]}}, "row {} of train")):
            broken = [*rows[:place], rows[place] | change, *rows[place + 1 :]]
            with pytest.raises(UserError, match=found.format(place + 1)):
                RelationData.from_rows({"train": broken}, RelationSettings(valid_share=0.2), seed=1)
    tests = [rows[0], rows[1] | {"nodes": {"a": [1, 2]}}]
    with pytest.raises(UserError, match="row 2 of test: found other features; expected 1 numbers a node and 0 an edge"):
        RelationData.from_rows({"train": rows, "test": tests}, RelationSettings(), seed=1)
