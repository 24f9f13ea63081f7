"""Saved models and checkpoints: whole, safe, and refused where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import edge_transformer as et
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import UserError
from edge_transformer.tasks.base import get_task
from edge_transformer.tasks.relations.model import RelationModel
from edge_transformer.training.folder import load_checkpoint, save_checkpoint

SETTINGS = {"kind": "edge", "dim": 8, "heads": 2, "layers": 2}
QUESTION = {"edges": [["Ann", "daughter", "Lil"], ["Lil", "son", "Bob"]], "query": ["Ann", "Bob"]}


@pytest.fixture
def model() -> RelationModel:
    torch.manual_seed(0)
    return RelationModel(SETTINGS, Schema(Vocab(["daughter", "son"]), Vocab(["grandson", "nephew", "son"])))


def test_a_saved_model_predicts_the_same(model: RelationModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = et.load(tmp_path / "model")
    assert not loaded.training
    assert loaded.predict([QUESTION]) == model.eval().predict([QUESTION])
    assert (loaded.task, loaded.folder, loaded.has_record) == ("relations", tmp_path / "model", False)
    assert type(loaded) is get_task(loaded.task).model is RelationModel
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors"}
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["model"] == SETTINGS
    assert config["answers"] == ["grandson", "nephew", "son"]


def test_load_says_what_is_wrong(model: RelationModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        et.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r": found no config\.json; expected the folder of a trained model$"):
        et.load(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(
        UserError, match=r"config\.json: its training has not finished; the command that started it resumes it"
    ):
        et.load(tmp_path)
    model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())

    def expect(changed: object, message: str) -> None:
        (tmp_path / "config.json").write_text(changed if isinstance(changed, str) else json.dumps(changed))
        with pytest.raises(UserError, match=message):
            et.load(tmp_path)

    expect("{", r"config\.json: damaged, not JSON")
    expect([1], r"found list; expected an object")
    expect({**config, "format": "something else"}, r"found format 'something else'")
    expect({**config, "task": "cooking"}, r"unknown task 'cooking'")
    expect({name: value for name, value in config.items() if name != "answers"}, r"does not describe a model.*answers")
    expect({**config, "model": {**SETTINGS, "heads": 3}}, r"dim=8 is not divisible by heads=3")
    expect(
        {**config, "model": {**SETTINGS, "dim": 16}}, r"model\.safetensors: not the weights that config\.json describes"
    )
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    expect(config, r"not the weights")


def test_a_checkpoint_keeps_every_bit(tmp_path: Path) -> None:
    tensors = {
        "weights": torch.randn(3, 4),
        "step": torch.tensor(7.0),
        "random": torch.arange(256, dtype=torch.uint8),
        "strided": torch.randn(4, 6).t(),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float64),
    }
    state = {"step": 3, "history": [{"loss": 0.1}], "minutes": 0.25}
    save_checkpoint(tmp_path / "checkpoint", tensors, state)
    loaded, loaded_state = load_checkpoint(tmp_path / "checkpoint")
    assert loaded_state == state
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].numpy().tobytes() == tensor.numpy().tobytes(), name


def test_foreign_and_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(UserError, match="cannot be read"):
        load_checkpoint(path)
    save_file({"weights": torch.zeros(2)}, path)
    with pytest.raises(UserError, match="not a checkpoint of this program"):
        load_checkpoint(path)
    save_checkpoint(path, {"weights": torch.ones(50)}, {"step": 12})
    whole = path.read_bytes()
    place = whole.index(b'\\"step\\": 12') + len(b'\\"step\\": 1')
    for damaged in (whole[:60], whole[:-1] + b"\x7f", whole[:place] + b"3" + whole[place + 1 :]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            load_checkpoint(path)
