"""Settings fitted to the data: deterministic, open to changes, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.relations.problems import PROBLEMS
from edge_transformer.tasks.base import DataFacts
from edge_transformer.tasks.scores import Scores, label_scores, number_scores
from edge_transformer.training.best import BestWeights
from edge_transformer.training.config import RunConfig, TrainConfig
from edge_transformer.training.fit import beside_baseline, fitted_settings, reasons, what_limited

pytestmark = pytest.mark.usefixtures("one_thread")


def facts(**changes: Any) -> DataFacts:
    values = {"rows": 240, "valid_rows": 24, "mean_size": 8.0, "longest": 2, "labels": 5, "classes": 6}
    return DataFacts(**{**values, **changes})


def run_of(task: str, data: DataFacts, **given: Any) -> RunConfig:
    return RunConfig.of(task, "fitted", fitted_settings(task, data, given), given, 1)


def test_small_data_get_many_epochs_of_small_batches_and_large_data_a_wider_model() -> None:
    small, large = (fitted_settings("relations", facts(rows=rows)) for rows in (240, 15_083))
    assert small["train"]["epochs"] * (240 / small["train"]["batch_size"]) >= 1000
    assert small["model"]["dim"] < large["model"]["dim"]
    assert small["train"]["batch_size"] < large["train"]["batch_size"]
    assert large["train"]["epochs"] >= 10
    assert fitted_settings("relations", facts(longest=4))["model"]["layers"] > small["model"]["layers"]


def test_every_choice_is_told_in_three_lines_with_how_to_change_it() -> None:
    run = run_of("relations", facts())
    data, model, training = reasons(run, facts())
    assert data == "data: 240 training rows of 8 nodes on average, 5 labels, 6 answers; 24 validation rows"
    assert "dim 64 for fewer than 5,000 rows, 5 layers for questions over 2 edges" in model
    assert "--set model.dim=" in model
    assert training.startswith("training: up to 134 epochs of 15 batches of 16, at most 10 minutes (--minutes)")


def test_what_the_user_has_set_is_told_as_it_is() -> None:
    given = {"model.dim": 32, "train.batch_size": 120, "train.epochs": 3, "train.minutes": 0.5, "data.augmented": 2.0}
    run = run_of("relations", facts(composes=True, most_edges=4), **given)
    assert (run.train.epochs, run.train.batch_size, run.train.evaluate_every) == (3, 120, 1)
    data, model, training = reasons(run, facts(composes=True, most_edges=4))
    assert "2 longer rows made of each (up to 8 edges)" in data
    assert "dim 32, 5 layers for" in model
    assert training.startswith("training: up to 3 epochs of 6 batches of 120, at most 0.5 minutes")
    alone = reasons(run_of("relations", facts(rows=1)), facts(rows=1, valid_rows=0, classes=1, longest=1))
    assert "1 training row of" in alone[0]
    assert alone[0].endswith("1 answer; no validation rows")
    assert alone[2].endswith(
        "of 1 batch of 16, at most 10 minutes (--minutes); no rows say which weights are best: it keeps the last"
    )
    assert "numbers as answers" in reasons(run_of("relations", facts()), facts(numbers=True))[0]


def test_more_rows_a_step_get_more_epochs_as_steps_should_stay() -> None:
    steps = []
    for batch in (16, 64):
        train = run_of("relations", facts(), **{"train.batch_size": batch}).train
        steps.append(train.epochs * 240 // train.batch_size)
    assert min(steps) >= 1990


def test_whole_graphs_get_distances_and_are_read_by_mean_and_maximum() -> None:
    run = run_of("graph-labels", facts())
    assert (run.settings["model"]["pool"], run.settings["model"]["distances"]) == ("mean-max", 6)
    assert f"distances, dropout {run.settings['model']['dropout']}" in reasons(run, facts())[1]
    assert fitted_settings("node-labels", facts())["model"]["distances"] == 6
    others = run_of("relations", facts())
    assert "pool" not in others.settings["model"]
    assert "distances" not in reasons(others, facts())[1]


class Finished:
    """A trainer after its run, as far as what limited it is concerned."""

    def __init__(self, stopped_by: str, score: float, losses: tuple[float, float], better: int = 1) -> None:
        self.stopped_by, self.total_steps, self.planned_steps = stopped_by, 30, 100
        self.config = TrainConfig(1, 1, 1.0, minutes=2.0)
        self.run = run_of("relations", facts())
        self.history = [{"loss": losses[0]}] * 5
        self.best = BestWeights()
        self.best.chosen = {"score": score, "error": 0.1, "loss": losses[1], "better": better}


@pytest.mark.parametrize(
    ("trainer", "limit"),
    [
        (Finished("minutes", 1.0, (0.1, 0.1)), "time: 30% of the planned steps in 2 minutes"),
        (Finished("", 0.9, (0.1, 0.1), better=4), "time: it still got better when its epochs ended"),
        (Finished("patience", 1.0, (0.1, 0.1)), "nothing that the validation rows show"),
        (Finished("patience", 0.9, (0.1, 0.3)), "data: it knows its training rows better"),
        (Finished("", 0.9, (0.1, 0.1)), "the model: it does not know its training rows much better"),
    ],
)
def test_what_limited_a_run(trainer: Any, limit: str) -> None:
    found = what_limited(trainer)
    assert found is not None
    assert found.startswith(f"limited by {limit}")


def test_time_limits_no_run_that_answers_its_validation_rows() -> None:
    trainer: Any = Finished("minutes", 1.0, (0.1, 0.1))
    trainer.config = TrainConfig(1, 1, 1.0, minutes=2.0, patience=8)
    assert "nothing that the validation rows show" in str(what_limited(trainer))
    trainer.best.chosen["score"] = 0.9
    assert "time: 30%" in str(what_limited(trainer))


def test_a_run_without_validation_rows_knows_whether_time_limited_it() -> None:
    trainer: Any = Finished("minutes", 1.0, (0.1, 0.1))
    trainer.best = BestWeights()
    assert "time: 30%" in str(what_limited(trainer))
    trainer.stopped_by = ""
    assert what_limited(trainer) is None


def test_scores_stand_beside_those_of_answering_without_looking() -> None:
    logits = torch.zeros(40, 2)
    logits[:, 0] = 1.0
    targets = torch.tensor([0] * 25 + [1] * 15)
    poor = label_scores(logits, targets, ["a", "b"], majority=0)
    good = label_scores(torch.nn.functional.one_hot(targets, 2).float(), targets, ["a", "b"], majority=0)
    line = "baseline: always giving the most frequent answer of training has an accuracy of 62.5"
    assert beside_baseline(Scores(poor, {"test": poor.details})) == f"{line}; the model is not clearly better"
    assert beside_baseline(Scores(good, {"test": good.details})) == line
    numbers = number_scores(torch.tensor([1.0, 2.0]), torch.tensor([11.0, 12.0]), mean_of_training=11.0)
    found = beside_baseline(Scores(numbers, {"test": numbers.details}))
    assert (
        found == "baseline: always answering the training mean, 11, has an MAE of 0.5; the model is not clearly better"
    )
    assert beside_baseline({"accuracy": 1.0}) is None


def test_train_without_a_preset_fits_settings_and_takes_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = PROBLEMS["organisation"](3)
    data = {"train": rows["train"], "test": rows["test"][:20]}
    model = et.train("relations", data, out=tmp_path / "run", dim=16, heads=2, layers=3, epochs=2, minutes=5)
    told = capsys.readouterr().err
    assert told.count("data: 210 training rows") == 1
    assert "30 validation rows" in told
    assert "limited by" in told
    assert "baseline: always giving the most frequent answer of training" in told
    settings = model.record.settings
    assert (settings["model"]["dim"], settings["train"]["epochs"], settings["train"]["minutes"]) == (16, 2, 5)
    assert settings["model"]["inverse_edges"] is True
    assert settings["train"]["keep"] == "best"
    assert model.record.preset == "fitted"
    assert {"accuracy", "valid"} <= set(model.record.metrics)
    again = et.train("relations", data, out=tmp_path / "run", dim=16, heads=2, layers=3, epochs=2, minutes=5)
    assert again.record == model.record
    history = json.loads((tmp_path / "run" / "status.json").read_text())["history"]
    assert all("accuracy" not in entry["scores"] for entry in history[:-1])  # test rows are scored once


def test_other_tasks_have_a_preset_by_default() -> None:
    with pytest.raises(et.UserError, match="has no settings that are fitted to data"):
        et.api.first_run("graphs", {}, 1)
