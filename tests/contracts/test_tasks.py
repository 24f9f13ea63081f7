"""What every task must do, those of the package and one from outside: a new one gets a case in task_rows.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from agreement import assert_same_weights
from edge_transformer.tasks.base import TaskModel, get_task
from task_rows import CASES, RingData, RingModel

pytestmark = pytest.mark.usefixtures("one_thread")
et.register_task("rings", RingData, RingModel)
tasks = pytest.mark.parametrize("task", CASES)
CPU = torch.device("cpu")


def trained(task: str, **options: Any) -> TaskModel:
    case = CASES[task]
    data = {"train": case.rows, "test": case.rows[:4]}
    return et.train(task, data, **{"progress": False, **case.settings, **options})


@tasks
def test_from_rows_to_a_saved_model(task: str, tmp_path: Path) -> None:
    model = trained(task)
    assert (model.record.task, model.record.data["train_rows"]) == (task, len(CASES[task].rows))
    assert len(model.record.metrics) > 1
    questions = CASES[task].questions()
    answers = model.predict(questions)
    assert len(answers) == len(questions)
    json.dumps(answers)
    model.save(tmp_path / "model")
    again = et.load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.predict(questions) == answers
    assert again.record == model.record
    scores = et.evaluate(again, {"test": CASES[task].rows[:4]}, progress=False)
    assert scores == {name: model.record.metrics[name] for name in scores}
    assert et.evaluate(model, CASES[task].rows[:4], progress=False) == scores


@tasks
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(task: str, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(task, seed=seed).save(tmp_path / name)
    assert_same_weights(tmp_path / "a", tmp_path / "b")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "a", tmp_path / "c")


@tasks
def test_the_loss_of_a_step_is_that_of_its_rows(task: str) -> None:
    """Batches, in whatever groups a task makes of them, have every row once."""
    if task == "links":
        pytest.skip("what is asked for together is hidden together, and the loss of a fact depends on what is left")
    model = trained(task)
    rows = {"train": CASES[task].rows, "test": CASES[task].rows[:4]}
    data = get_task(task).data.from_rows(rows, get_task(task).data.Settings(), 1, None)
    everything = torch.arange(data.train_rows)

    def loss(numbers: torch.Tensor) -> float:
        return sum(float(data.loss(model, batch, CPU)) for batch in data.batches(numbers))

    with torch.no_grad():
        alone = sum(loss(everything[number : number + 1]) for number in range(data.train_rows))
        assert loss(everything) == pytest.approx(alone, rel=1e-4)
    assert sum(data.weight(everything[n : n + 1]) for n in range(data.train_rows)) == data.weight(everything)


@tasks
def test_a_stopped_run_goes_on(task: str, tmp_path: Path) -> None:
    model = trained(task, out=tmp_path / "run")
    again = trained(task, out=tmp_path / "run")
    assert again.record == model.record
    assert et.load(tmp_path / "run").predict(CASES[task].questions()) == model.predict(CASES[task].questions())
    with pytest.raises(et.UserError, match="holds another run"):
        trained(task, out=tmp_path / "run", seed=3)


@pytest.mark.parametrize("task", [task for task in CASES if task != "rings"])
def test_a_row_may_have_an_id_and_no_unknown_field(task: str) -> None:
    data, (row, *_) = get_task(task).data, CASES[task].rows
    assert data.from_rows({"train": [{**row, "id": 7}]}, data.Settings(), 1).train_rows == 1
    with pytest.raises(et.DataError, match=r'^train\[1\]: found the field "colour"; expected no other than "'):
        data.from_rows({"train": [row, {**row, "colour": "red"}]}, data.Settings(), 1)


@tasks
def test_a_broken_row_is_named(task: str) -> None:
    case = CASES[task]
    with pytest.raises(ValueError, match=case.what_is_wrong):
        et.train(task, {"train": [*case.rows, case.broken], "test": case.rows}, progress=False, **case.settings)


@tasks
def test_folders_and_rows_are_the_same_data(task: str, tmp_path: Path) -> None:
    if task in ("trees", "seq2seq"):
        pytest.skip("their folders have other formats than JSON lines")
    case = CASES[task]
    for name, rows in (("train", case.rows), ("test", case.rows[:4])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    from_folder = et.train(task, tmp_path, progress=False, **case.settings)
    from_memory = trained(task).record
    assert from_folder.record.metrics == from_memory.metrics
    assert from_folder.record.command.startswith(f"edge-transformer train {task} --data {tmp_path} ")


@tasks
def test_lines_are_answered_as_rows_are(task: str) -> None:
    model, questions = trained(task), CASES[task].questions()
    lines = [json.dumps(question) + "\n" for question in questions]
    assert list(model.predict_lines(lines, "questions")) == model.predict(questions)
