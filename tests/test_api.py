"""The public way in. What all tasks do alike is in contracts/test_tasks.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from command_line import run
from edge_transformer.training.trainer import Trainer
from fake_notebook import open_notebook
from task_rows import CASES

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS = CASES["relations"].rows
TINY: dict[str, Any] = CASES["relations"].settings


def train(data: Any = None, **options: Any) -> et.RelationModel:
    return et.train("relations", data if data is not None else ROWS, **{"progress": False, **TINY, **options})


def test_rows_may_be_any_iterable(tmp_path: Path) -> None:
    wanted = train({"train": ROWS, "test": ROWS}).record
    tuples = [{**row, "edges": tuple(map(tuple, row["edges"])), "query": tuple(row["query"])} for row in ROWS]
    for rows in ((row for row in ROWS), iter(ROWS), tuple(ROWS), tuples):
        found = train({"train": rows, "test": ROWS}).record
        assert found.metrics == wanted.metrics
    alone = train(ROWS).record
    assert list(alone.metrics) == ["loss"]
    assert list(tmp_path.iterdir()) == []


def test_validation_rows_are_scored_under_their_own_name() -> None:
    record = train({"train": ROWS, "test": ROWS}, valid=ROWS[:3]).record
    assert {"k=2", "valid k=2"} <= record.metrics.keys()
    assert train({"train": ROWS, "dev": ROWS}).record.metrics["valid k=2"] >= 0


def test_settings_by_keyword_and_by_dotted_name() -> None:
    record = train(lr=0.5, **{"data.held_out": 0.25, "model.ff_factor": 1}).record
    assert record.settings["train"]["lr"] == 0.5
    assert (record.settings["data"]["held_out"], record.settings["model"]["ff_factor"]) == (0.25, 1)
    assert record.overrides["train.lr"] == 0.5
    assert record.preset == "fitted"
    assert train(preset="clutrr/cpu").record.preset == "clutrr/cpu"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dims": 8}, r"unknown setting 'dims'; did you mean dim\?"),
        ({"epoch": 8}, r"unknown setting 'epoch'; did you mean epochs\?"),
        ({"zzz": 8}, "unknown setting 'zzz'; known are "),
        ({"model.dims": 8}, r"model: unknown setting 'dims'; did you mean dim\? Known are dim, "),
        ({"dim": "wide"}, r"model\.dim: found 'wide'; expected a whole number"),
        ({"preset": "clutrr/gpu"}, "unknown preset"),
        ({"device": "cuda:99"}, "--device cuda:99"),
        ({"precision": "8-bit"}, "precision='8-bit' is not known"),
        ({"threads": 0}, "threads must be at least 1, but is 0"),
        ({"seed": -1}, "seed: found -1; expected a whole number from 0"),
    ],
)
def test_settings_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(et.UserError, match=message):
        train(**arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"test": ROWS}, 'found the splits test; expected "train"'),
        ({"train": ROWS, "test": []}, "found no rows in 'test'"),
        ({"train": 3}, "found int; expected rows, a DataFrame, or graphs"),
        ({"train": ROWS, "exam": ROWS}, "found the split 'exam'"),
        ({"train": [*ROWS, 3]}, r"train\[12\]: found 3; expected an object"),
        ({"train": [{**ROWS[0], "query": ["a"]}]}, r'train\[0\]: found \["a"\]; expected "query"'),
        (
            {"train": [{**ROWS[0], "colour": 3}]},
            r'train\[0\]: found the field "colour"; expected no other than "nodes", "edges"',
        ),
        ({"train": [{"edges": ROWS[0]["edges"]}]}, r'train\[0\]: found no "query"; expected "query"'),
        ("no-such-folder", "no-such-folder: no such folder"),
        (
            {"train": ROWS, "dev": ROWS, "valid": ROWS},
            r"found validation rows twice, as data\['dev'\] and as data\['valid'\]; expected them once",
        ),
        ({"train": None}, "data: found None as 'train'; expected rows, or no such split"),
        ({"train": ROWS, "valid": None}, "data: found None as 'valid'; expected rows, or no such split"),
        ({"train": ROWS, "dev": ROWS, "valid": None}, "data: found None as 'valid'"),
        ({"train": ROWS, "valid": []}, "found no rows in 'valid'"),
    ],
)
def test_data_that_are_refused(data: Any, message: str) -> None:
    with pytest.raises(et.UserError, match=message):
        train(data)


@pytest.mark.parametrize("split", ["dev", "valid"])
def test_validation_rows_twice(split: str) -> None:
    message = rf"found validation rows twice, as data\['{split}'\] and as the argument valid; expected them once"
    with pytest.raises(et.UserError, match=message):
        train({"train": ROWS, split: ROWS}, valid=ROWS)


def test_unknown_tasks_and_names_that_are_taken() -> None:
    with pytest.raises(
        et.UserError,
        match="unknown task 'chess'; known are relations, node-labels",
    ):
        et.train("chess", ROWS)
    from edge_transformer.tasks.base import get_task

    with pytest.raises(ValueError, match="there is a task 'relations' already"):
        et.register_task("relations", *get_task("relations"))


def test_the_process_of_the_caller_stays_as_it_was() -> None:
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    train(threads=2)
    assert torch.equal(torch.rand(3), wanted)
    assert torch.get_num_threads() == 1


def test_fewer_layers_than_a_preset_is_made_for() -> None:
    record = et.train("relations", ROWS, dim=8, heads=2, layers=1, epochs=1, progress=False).record
    assert (record.settings["model"]["layers"], record.settings["model"]["min_layers"]) == (1, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "found no rows in 'test'"),
        ({"train": ROWS}, "found training rows alone"),
        (5, "found int; expected rows"),
    ],
)
def test_rows_that_cannot_be_scored(data: Any, message: str) -> None:
    with pytest.raises(et.UserError, match=message):
        et.evaluate("clutrr-small", data)
    with pytest.raises(et.UserError, match="split mcd1: found rows in memory"):
        et.evaluate("clutrr-small", ROWS, split="mcd1")


@pytest.mark.parametrize("model", ["clutrr-small", "cogs-small"])
def test_a_single_text_is_no_list(model: str) -> None:
    with pytest.raises(et.UserError, match=r"found a single .*; expected a list of them"):
        et.load(model).predict("A cat ran .")


def test_an_answer_repeats_the_id_of_its_question() -> None:
    question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
    plain, named = et.load("clutrr-small").predict([question, question | {"id": "q7"}])
    assert named == {"id": "q7", **plain}


def test_predict_reads_texts_in_json_and_parse_reads_quotes_as_words() -> None:
    result = run("predict", "cogs-small", stdin='Emma ran .\n"Emma ran ."\n["Emma", "ran", "."]\n')
    assert len(set(result.out.splitlines())) == 1
    result = run("parse", stdin='" Emma ran . "\n')
    assert json.loads(result.out)["tokens"] == ['"', "Emma", "ran", ".", '"']


def test_models_are_loaded_by_their_class() -> None:
    assert et.RelationModel.load("clutrr-small").predict([ROWS[0]])[0]["answer"] == "daughter"
    with pytest.raises(et.UserError, match="clutrr-small: found a RelationModel; expected a GraphParser"):
        et.GraphParser.load("clutrr-small")


def test_evaluating_a_run_needs_no_data(tmp_path: Path) -> None:
    import json

    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    model = train(tmp_path, out=tmp_path / "run")
    assert et.evaluate(tmp_path / "run", progress=False) == {
        name: model.record.metrics[name] for name in ("accuracy", "k=2")
    }
    with pytest.raises(et.UserError, match=r"clutrr-small: found no run\.json that names a data folder"):
        et.evaluate("clutrr-small")


@pytest.mark.parametrize("was_training", [True, False])
def test_evaluating_leaves_a_model_in_its_mode(was_training: bool) -> None:
    model = train().train(was_training)
    et.evaluate(model, ROWS, progress=False)
    assert model.training is was_training


def test_nothing_is_shown_without_progress(capfd: pytest.CaptureFixture[str]) -> None:
    train({"train": ROWS, "test": ROWS})
    assert capfd.readouterr() == ("", "")
    train({"train": ROWS, "test": ROWS}, progress=True)
    shown = capfd.readouterr().err
    assert "training on 12 rows" in shown  # half of them longer ones, made of the others
    assert "epoch 2 of 2" in shown


def test_a_notebook_gets_one_bar_and_no_scroll_of_lines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cell = open_notebook(monkeypatch)
    monkeypatch.setattr("edge_transformer.api.say", lambda text: None)  # rich shows these lines by IPython
    train({"train": ROWS, "test": ROWS}, progress=True)
    assert "epoch" not in capfd.readouterr().err
    [pages] = cell.outputs
    assert pages[-1].startswith("<div")
    assert "100 %" in pages[-1]
    assert "epoch 2 of 2: loss" in pages[-1]
    assert "<polyline" in pages[-1]


def interrupt_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C to this process after so many steps."""
    take_step = Trainer.take_step

    def step(self: Trainer, rows: torch.Tensor) -> float:
        if self.step == steps:
            signal.raise_signal(signal.SIGINT)
        return take_step(self, rows)

    monkeypatch.setattr(Trainer, "take_step", step)


def test_ctrl_c_returns_what_is_trained_and_the_same_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = {"train": ROWS, "test": ROWS}
    whole = train(data, epochs=4)
    with monkeypatch.context() as patch:
        interrupt_after(5, patch)
        stopped = train(data, epochs=4, out=tmp_path / "run", progress=True)
    assert not stopped.has_record
    assert stopped.predict(ROWS[:1])[0]["answer"]
    told = capfd.readouterr().err.replace("\n", " ")
    assert f"run the same again to go on from {tmp_path / 'run'}" in told
    again = train(data, epochs=4, out=tmp_path / "run")
    for one, other in zip(again.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_stopped_command_says_which_command_resumes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    interrupt_after(1, monkeypatch)
    command = ["train", "relations", "--data", str(tmp_path), "--out", str(tmp_path / "run"), "--set", "train.epochs=9"]
    stopped = run(*command)
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1] == f"to resume: edge-transformer {' '.join(command)}"


def test_ctrl_c_without_a_folder_has_its_usual_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train({"train": ROWS, "test": ROWS})


def test_training_in_a_thread_works() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(train().record))
    thread.start()
    thread.join(60)
    assert found[0] is not None


def test_help_does_not_import_pytorch() -> None:
    code = "import sys; sys.argv = ['x', '--help']\nfrom edge_transformer.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(Path(et.__file__).parents[1])}
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
    assert time.monotonic() - started < 30
