"""The training loop: resuming, processes, schedule, what is written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import two_processes
from edge_transformer import load
from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.generate import generate
from edge_transformer.errors import UserError
from edge_transformer.nn.layer import FeedForward
from edge_transformer.training.config import Hardware, RunConfig, TrainConfig
from edge_transformer.training.folder import CHECKPOINT_FILE, load_checkpoint
from edge_transformer.training.optimizer import learning_rate
from edge_transformer.training.trainer import Trainer

TINY = {
    "model.dim": 16,
    "model.heads": 2,
    "model.layers": 2,
    "model.min_layers": 1,
    "model.dropout": 0.2,
    "train.epochs": 4,
    "train.batch_size": 20,
    "train.warmup_steps": 5,
    "train.lr": 0.01,
    "train.average": 0.9,
    "train.evaluate_every": 2,
}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("families")
    write_clutrr(folder, *generate((2, 3), (2, 4), 90, seed=5, test_rows=10))
    return folder


def make_run(**changes: Any) -> RunConfig:
    return RunConfig.from_preset("relations", "clutrr/cpu", {**TINY, **changes}, seed=3)


def make_trainer(families: Path, folder: Path, **changes: Any) -> Trainer:
    run = make_run(**changes)
    return Trainer(run, run.load_data(families), folder, Hardware("cpu", threads=1), "a command")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def test_learning_rate_rises_then_falls_to_zero() -> None:
    config = TrainConfig(epochs=1, batch_size=1, lr=1.0, warmup_steps=4)
    rates = [learning_rate(config, step, total=20) for step in range(20)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4:] == pytest.approx([(20 - step) / 16 for step in range(4, 20)])
    short = [learning_rate(config, step, total=10) for step in range(10)]
    assert short[:3] == [0.5, 1.0, 1.0]  # a fifth of its steps, as it would hardly come down otherwise
    assert short[-1] == 1 / 8
    assert learning_rate(TrainConfig(epochs=1, batch_size=1, lr=2.0), 0, total=1) == 2.0


def test_training_lowers_the_loss_and_leaves_model_and_record(families: Path, tmp_path: Path) -> None:
    trainer = make_trainer(families, tmp_path / "run", **{"train.epochs": 12, "model.dropout": 0.0})
    record = trainer.train()
    assert record is not None
    losses = [entry["loss"] for entry in trainer.history]
    assert losses[-1] < 0.6 * losses[0]
    assert record.metrics["loss"] == losses[-1]
    assert set(record.metrics) == {"accuracy", "k=2", "k=4", "loss"}
    assert record.settings["model"]["dim"] == 16
    assert record.settings["model"]["norm"] == "released"  # defaults are recorded too
    assert record.settings["train"]["clip"] == 1.0
    assert record.settings["data"]["held_out"] == 0.0  # a default, and yet named
    assert record.settings["precision"] == "32-true"
    assert record.threads == 1
    assert record.data["train_k"] == "2,3"
    assert json.loads((tmp_path / "run/record.json").read_text())["seed"] == 3
    # The saved model scores what the record says.
    scores = trainer.data.evaluate(load(tmp_path / "run"), torch.device("cpu"))
    assert scores == {name: value for name, value in record.metrics.items() if name != "loss"}


def test_a_finished_run_is_not_trained_again(families: Path, tmp_path: Path) -> None:
    first = make_trainer(families, tmp_path / "run").train()
    again = make_trainer(families, tmp_path / "run")
    again._train_step = None  # type: ignore[method-assign, assignment]  # would fail if it were called
    assert again.train() == first


@pytest.mark.parametrize("what", ["hidden", "layers"])
def test_what_is_computed_again_gives_the_same_weights(families: Path, tmp_path: Path, what: str) -> None:
    make_trainer(families, tmp_path / "plain").train()
    run = make_run()
    hardware = Hardware("cpu", threads=1, recompute=what)
    trainer = Trainer(run, run.load_data(families), tmp_path / "again", hardware, "a command")
    encoder = trainer.model.get_submodule("encoder")
    assert encoder.recompute == what
    assert [each.keep_hidden for each in encoder.modules() if isinstance(each, FeedForward)] == [what == "layers"]
    trainer.train()
    assert_same_weights(weights(tmp_path / "plain"), weights(tmp_path / "again"))


class Killed(Exception):
    pass


UNTIED = {"model.tied": False, "model.layers": 4}  # with random depth, some layers get no gradient in some steps


@pytest.mark.parametrize(("kills", "changes"), [((1,), {}), ((4, 5), UNTIED), ((9, 13, 17), {}), ((11,), UNTIED)])
def test_a_killed_run_ends_with_the_same_bits(
    families: Path, tmp_path: Path, kills: tuple[int, ...], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_trainer(families, tmp_path / "whole", **changes).train()
    assert whole is not None
    for kill in kills:  # die in the middle of a step, some steps after the last checkpoint
        trainer = make_trainer(families, tmp_path / "cut", **changes)
        average = trainer._average_weights

        def die(trainer: Trainer = trainer, average: Any = average, kill: int = kill) -> None:
            if trainer.step == kill:
                raise Killed
            average()

        monkeypatch.setattr(trainer, "_average_weights", die)
        with pytest.raises(Killed):
            trainer.train(checkpoint_seconds=0.02)
        trainer.release_folder()  # as the end of the process would
    resumed = make_trainer(families, tmp_path / "cut", **changes)
    record = resumed.train()
    assert record is not None
    assert record.metrics == whole.metrics
    assert_same_weights(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_a_sigkilled_process_can_be_resumed_by_the_same_command(families: Path, tmp_path: Path) -> None:
    changes = [f"--set={name}={value}" for name, value in {**TINY, "train.epochs": 40}.items()]
    command = [sys.executable, "-m", "edge_transformer", "train", "relations", "--data", str(families), *changes]
    command += ["--threads", "1", "--checkpoint-seconds", "0", "--seed", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, env=environment, capture_output=True)

    process = subprocess.Popen([*command, "--out", str(tmp_path / "cut")], env=environment, stderr=subprocess.PIPE)
    checkpoint = tmp_path / "cut" / CHECKPOINT_FILE
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut/record.json").exists(), "the run ended before it could be killed"
    done = subprocess.run([*command, "--out", str(tmp_path / "cut")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resuming" in done.stderr
    assert_same_weights(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_ctrl_c_leaves_a_resumable_run(families: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    trainer = make_trainer(families, tmp_path / "run")
    step = trainer._train_step

    def interrupt(shown: Any) -> None:
        step(shown)
        if trainer.step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    trainer._train_step = interrupt  # type: ignore[method-assign]
    assert trainer.train() is None
    assert load_checkpoint(tmp_path / "run" / CHECKPOINT_FILE)[1]["step"] == 7
    trainer.release_folder()
    assert make_trainer(families, tmp_path / "run").step == 7
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("last", [False, True])
def test_ctrl_c_ends_scoring_which_begins_anew_later(
    last: bool, families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"train.epochs": 4, "train.evaluate_every": 2, "data.held_out": 0.4}
    whole = make_trainer(families, tmp_path / "whole", **changes)
    record = whole.train()
    trainer = make_trainer(families, tmp_path / "cut", **changes)
    stop = whole.total_steps if last else whole.total_steps // 2
    scored = []

    def interrupted(evaluate: Callable[..., dict[str, float]], *how: Any) -> dict[str, float]:
        if trainer.step == stop:
            os.kill(os.getpid(), signal.SIGINT)
        scores = evaluate(*how)
        scored.append(trainer.step)
        return scores

    for name in ("evaluate", "evaluate_midway"):
        monkeypatch.setattr(trainer.data, name, partial(interrupted, getattr(trainer.data, name)))
    assert trainer.train() is None
    assert scored == [entry["step"] for entry in trainer.history] == ([whole.total_steps // 2] if last else [])
    trainer.release_folder()
    resumed = make_trainer(families, tmp_path / "cut", **changes)
    assert resumed.step == trainer.step == stop
    again = resumed.train()
    assert record is not None
    assert again is not None
    assert again.metrics == record.metrics
    assert resumed.history == whole.history
    assert_same_weights(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_two_processes_take_the_same_step_as_one(families: Path, tmp_path: Path) -> None:
    # Dropout and random depth are drawn by each process for itself.
    same_on_all = {**TINY, "model.dropout": 0.0, "model.min_layers": "null", "train.epochs": 1}
    two_processes.assert_same_step("relations", families, same_on_all, tmp_path)


def test_another_run_in_the_folder_is_refused(families: Path, tmp_path: Path) -> None:
    make_trainer(families, tmp_path / "run").release_folder()
    with pytest.raises(UserError, match=r"holds another run; its model\.dim is 16, this one's is 32\."):
        make_trainer(families, tmp_path / "run", **{"model.dim": 32})
    other = Trainer(make_run(), make_run().load_data(families), tmp_path / "double", Hardware("cpu", "64-true", 1))
    other.release_folder()
    with pytest.raises(UserError, match=r"holds another run; its precision is '64-true', this one's is '32-true'"):
        make_trainer(families, tmp_path / "double")


def test_data_may_be_moved_before_a_run_is_resumed(families: Path, tmp_path: Path) -> None:
    def trained_on() -> str:
        return json.loads((tmp_path / "run/run.json").read_text())["data_folder"]

    make_trainer(families, tmp_path / "run").release_folder()
    assert trained_on() == str(families)
    shutil.copytree(families, tmp_path / "moved")
    make_trainer(tmp_path / "moved", tmp_path / "run").release_folder()
    assert trained_on() == str(tmp_path / "moved")
    (tmp_path / "moved/1.4_test.csv").unlink()
    with pytest.raises(UserError, match="holds another run; its data is"):
        make_trainer(tmp_path / "moved", tmp_path / "run")


def test_what_a_killed_process_was_writing_is_no_obstacle(families: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.run.json.abc.tmp").write_text("{")
    make_trainer(families, tmp_path / "run").release_folder()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "lock"}


def test_a_damaged_record_is_said(families: Path, tmp_path: Path) -> None:
    make_trainer(families, tmp_path / "run").release_folder()
    (tmp_path / "run/record.json").write_text('{"task": 3}')
    with pytest.raises(UserError, match=r"record\.json"):
        make_trainer(families, tmp_path / "run").train()


def test_a_foreign_folder_is_refused(families: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty and not a run"):
        make_trainer(families, tmp_path)


def test_two_processes_in_one_folder_are_refused(families: Path, tmp_path: Path) -> None:
    first = make_trainer(families, tmp_path / "run")
    with pytest.raises(UserError, match="another process is training"):
        make_trainer(families, tmp_path / "run")
    assert first.step == 0


def test_a_damaged_checkpoint_is_refused(families: Path, tmp_path: Path) -> None:
    trainer = make_trainer(families, tmp_path / "run")
    trainer.save_checkpoint()
    trainer.release_folder()
    path = tmp_path / "run" / CHECKPOINT_FILE
    whole = path.read_bytes()
    flipped = whole[:-40] + bytes(byte ^ 1 for byte in whole[-40:])
    for damaged in (whole[: len(whole) // 2], flipped, b"no checkpoint at all"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            make_trainer(families, tmp_path / "run")


def test_divergence_is_said_and_leaves_the_last_good_checkpoint(families: Path, tmp_path: Path) -> None:
    trainer = make_trainer(families, tmp_path / "run")
    step = trainer._train_step

    def poison(shown: Any) -> None:
        if trainer.step == 3:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(torch.nan)
        step(shown)

    trainer._train_step = poison  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"step 3 of 20: training diverged.*smaller learning rate"):
        trainer.train(checkpoint_seconds=0)
    tensors, state = load_checkpoint(tmp_path / "run" / CHECKPOINT_FILE)
    assert state["step"] == 3
    assert all(torch.isfinite(tensor.float()).all() for tensor in tensors.values())


def test_the_average_is_what_is_scored_and_saved(families: Path, tmp_path: Path) -> None:
    trainer = make_trainer(families, tmp_path / "run")
    trainer.train()
    saved = weights(tmp_path / "run")
    for (name, last), average in zip(trainer.model.named_parameters(), trainer.averaged, strict=True):
        assert torch.equal(saved[name], average)
        if name == "input.embedding.weight":
            assert not torch.equal(saved[name], last)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train.epochs", 0, "epochs must be at least 1"),
        ("train.lr", "fast", "train.lr: found 'fast'; expected a number"),
        ("train.lr", float("nan"), "train.lr: found nan; expected a number"),
        ("train.optimizer", "sgd", "optimizer='sgd' is not known"),
        ("train.speed", 1, "unknown setting 'speed'"),
        ("data.train_k", "2", "data.train_k"),
        ("training.lr", 1, "found no section"),
    ],
)
def test_nonsense_settings_are_refused_before_any_data_are_read(name: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_run(**{name: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device here")
def test_a_device_that_is_not_there(families: Path, tmp_path: Path) -> None:
    run = RunConfig.from_preset("relations", "clutrr/cpu", {}, seed=1)
    with pytest.raises(UserError, match="--device cuda: PyTorch finds no such device; here are auto, cpu"):
        Trainer(run, run.load_data(families), tmp_path / "run", Hardware("cuda", threads=1))


# --- the best weights, patience and time ------------------------------------------------------------------------------

KEPT = {"train.keep": "best", "data.held_out": 0.4, "train.evaluate_every": 1, "train.average": 0.0}


def test_the_best_weights_on_validation_rows_are_scored_and_saved(
    families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(families, tmp_path / "run", **KEPT, **{"train.epochs": 4})
    best: list[list[torch.Tensor]] = []

    def choice(scores: dict[str, float]) -> tuple[float, float]:
        if len(trainer.history) == 2:  # the second score is the best
            best.append([weight.detach().clone() for weight in trainer.model.parameters()])
            return 1.0, 0.0
        return 0.0, 0.0

    monkeypatch.setattr(trainer.data, "choice", choice)
    record = trainer.train()
    assert record is not None
    assert trainer.best.chosen["step"] == 2 * trainer.batches_an_epoch
    for mine, theirs in zip(trainer.trained_model().parameters(), best[0], strict=True):
        assert mine.equal(theirs)
    assert record.metrics["accuracy"] == trainer.data.evaluate(trainer.model, trainer.device)["accuracy"]


def test_patience_ends_a_run_that_is_then_scored_once_and_resumes_as_finished(families: Path, tmp_path: Path) -> None:
    changes = {**KEPT, "train.epochs": 30, "train.patience": 2, "train.lr": 0.0}
    trainer = make_trainer(families, tmp_path / "run", **changes)
    record = trainer.train()
    assert record is not None
    assert (trainer.stopped_by, trainer.step) == ("patience", 3 * trainer.batches_an_epoch)
    assert trainer.total_steps < trainer.planned_steps
    assert {"accuracy", "valid", "loss"} <= set(record.metrics)
    assert [entry["is_last"] for entry in trainer.history] == [False, False, True]
    assert "accuracy" not in trainer.history[0]["scores"]
    trainer.release_folder()
    assert make_trainer(families, tmp_path / "run", **changes).train() == record


def test_a_run_keeps_to_its_minutes(families: Path, tmp_path: Path) -> None:
    trainer = make_trainer(families, tmp_path / "run", **{"train.epochs": 100_000, "train.minutes": 0.03})
    record = trainer.train()
    assert record is not None
    assert trainer.stopped_by == "minutes"
    assert 10 <= trainer.step == trainer.total_steps < trainer.planned_steps
    assert record.minutes < 0.5
