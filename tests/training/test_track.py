"""Callbacks get every step once, in order, also over a resume; TensorBoard shows the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from command_line import refused
from edge_transformer.training.track import TensorBoard, TrainingStep, check_tracker

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS = [
    {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"], "target": "daughter"},
    {"edges": [["Cem", "wife", "Dee"], ["Dee", "son", "Jon"]], "query": ["Cem", "Jon"], "target": "son"},
] * 6
STEPS = 6  # 3 epochs of 2 batches


def train(out: Path | None = None, **options: Any) -> Any:
    sizes = {"dim": 8, "heads": 2, "layers": 1, "min_layers": 1, "epochs": 3, "batch_size": 6, "evaluate_every": 1}
    rows = {"train": ROWS, "valid": ROWS[:2], "test": ROWS}
    return et.train("relations", rows, out=out, progress=False, preset="clutrr/cpu", threads=1, **sizes, **options)


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def untimed(steps: list[TrainingStep]) -> list[TrainingStep]:
    return [replace(step, minutes=0.0) for step in steps]


def test_a_callback_gets_every_step() -> None:
    told: list[TrainingStep] = []
    model = train(callback=told.append)
    assert [now.step for now in told] == list(range(1, STEPS + 1))
    assert {now.total_steps for now in told} == {STEPS}
    assert [now.epoch for now in told] == [1, 1, 2, 2, 3, 3]
    assert [bool(now.scores) for now in told] == [False, True] * 3
    assert all(now.loss > 0 and now.learning_rate > 0 and now.minutes > 0 for now in told)
    assert told[-1].scores == {name: value for name, value in model.record.metrics.items() if name != "loss"}
    mean = (told[-2].loss + told[-1].loss) / 2
    assert model.record.metrics["loss"] == pytest.approx(mean, abs=1e-5)


def test_an_error_of_a_callback_loses_nothing(tmp_path: Path) -> None:
    whole: list[TrainingStep] = []
    expected = weights(train(callback=whole.append))
    told: list[TrainingStep] = []

    def break_down(now: TrainingStep) -> None:
        told.append(now)
        if now.step in (3, 4):  # 4 is one that was scored
            raise ConnectionError("no tracker")

    for _ in range(2):
        with pytest.raises(ConnectionError, match="no tracker"):
            train(tmp_path / "run", callback=break_down)
    model = train(tmp_path / "run", callback=break_down)
    assert untimed(told) == untimed(whole)
    for found, wanted in zip(weights(model), expected, strict=True):
        assert torch.equal(found, wanted)
    train(tmp_path / "run", callback=told.append)  # nothing is left to do, and to tell
    assert len(told) == STEPS


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    events = accumulator(str(folder))
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_shows_every_step_once_after_a_resume(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    told: list[TrainingStep] = []

    def stop(now: TrainingStep) -> None:
        told.append(now)
        if now.step == 3:
            raise KeyError

    with pytest.raises(KeyError):
        train(tmp_path / "run", track="tensorboard", callback=stop)
    # What a process that was killed has written beyond its last checkpoint.
    lost = TensorBoard(tmp_path / "run/tensorboard")
    lost(replace(told[-1], step=5, loss=99.0))
    lost.close()
    train(tmp_path / "run", track="tensorboard", callback=told.append)
    shown = scalars(tmp_path / "run/tensorboard")
    by_step = {now.step: now for now in told}
    assert len(by_step) == STEPS
    assert [step for step, _ in shown["loss"]] == list(range(1, STEPS + 1))
    for tag, of in (("loss", "loss"), ("learning_rate", "learning_rate")):
        for step, value in shown[tag]:
            assert value == pytest.approx(getattr(by_step[step], of), rel=1e-5)
    assert [step for step, _ in shown["scores/valid"]] == [2, 4, 6]
    assert shown["scores/k=2"][-1][1] == pytest.approx(told[-1].scores["k=2"])


def test_what_cannot_be_tracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    message = refused("train", "relations", "--data", str(tmp_path / "data"), "--track", "wandb")
    assert message == "--track wandb: unknown tracker; known: tensorboard. For others, give et.train a callback"
    with pytest.raises(et.UserError, match=r"^--track tensorboard: found no folder of the run; expected one to write"):
        train(track="tensorboard")
    monkeypatch.setattr("edge_transformer.training.track.find_spec", lambda name: None)
    with pytest.raises(et.UserError, match=r"TensorBoard is not installed; pip install '\.\[track\]' in a clone"):
        check_tracker("tensorboard", tmp_path)
