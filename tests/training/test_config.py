"""What a run is: all its settings written out, and what run.json says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge_transformer.errors import UserError
from edge_transformer.training.config import RunConfig, SavedRun
from edge_transformer.training.presets import load_preset
from edge_transformer.training.records import complete_settings, run_key

RUN = RunConfig.from_preset("clutrr", "clutrr/paper", {"data.train_k": [2, 3], "train.lr": 1}, seed=2)
SAVED = SavedRun(RUN, {"name": "families", "fingerprint": "0a"}, Path("/data/families"), 1, "32-true")


def test_defaults_are_filled_in() -> None:
    assert RUN.settings["model"]["norm"] == "released"
    assert RUN.settings["train"]["optimizer"] == "adam"
    assert RUN.settings["train"]["lr"] == 1.0
    assert isinstance(RUN.settings["train"]["lr"], float)  # 1 and 1.0 are one setting, and have one key
    given = {"train_k": [2, 3], "held_out": 0.2, "merge_equal": False}
    defaults = {"valid": None, "test": True, "spliced": 0.0, "spliced_k": 8, "spliced_returns": 0.0}
    assert RUN.settings["data"] == given | defaults
    assert json.loads(json.dumps(RUN.settings)) == RUN.settings
    assert RUN.recorded_settings("64-true") == {**RUN.settings, "precision": "64-true"}


def test_records_of_before_have_the_keys_of_today() -> None:
    """Fails where a default changes or a setting is added.

    A changed default makes other runs: then name the old value here. A new setting gets a line in UNNAMED_SETTINGS.
    """
    for name in ("clutrr/paper", "clutrr/cpu", "clutrr/cpu-untied"):
        preset = load_preset(name)
        written_then = {section: preset.get(section, {}) for section in ("model", "train", "data")}
        then = complete_settings("clutrr", "edge", written_then)
        now = RunConfig.from_preset("clutrr", name, {}, seed=1).recorded_settings()
        assert run_key("clutrr", "0a", then, 1) == run_key("clutrr", "0a", now, 1)
        kept = {**written_then, "data": {**written_then["data"], "spliced_keep": 0.0}}  # a choice that is gone
        assert complete_settings("clutrr", "edge", kept) == then
        kept["data"]["spliced_keep"] = 0.5
        assert complete_settings("clutrr", "edge", kept) != then


@pytest.mark.parametrize("name", ["cfq/cpu", "cfq/cpu-universal", "scan/cpu", "seq2seq/cpu"])
def test_records_of_pairs_have_the_keys_of_today(name: str) -> None:
    now = RunConfig.from_preset("seq2seq", name, {}, seed=1).recorded_settings()
    then = {**now, "data": {key: value for key, value in now["data"].items() if key != "query"}}
    assert complete_settings("seq2seq", now["model"]["kind"], then) == now


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for saved in (SAVED, replace(SAVED, data_folder=None, processes=2, precision="64-true")):
        saved.write(tmp_path)
        assert SavedRun.read(tmp_path) == saved
        assert saved.difference(SavedRun.read(tmp_path)) is None


def test_what_makes_another_run() -> None:
    moved = replace(SAVED, data_identity={"name": "elsewhere", "fingerprint": "0a"}, data_folder=Path("/elsewhere"))
    assert SAVED.difference(moved) is None
    assert SAVED.difference(replace(SAVED, precision="64-true")) == ("precision", "32-true", "64-true")
    assert SAVED.difference(replace(SAVED, processes=2)) == ("processes", 1, 2)
    assert SAVED.difference(replace(SAVED, data_identity={"fingerprint": "0b"})) == ("data", "0a", "0b")
    validated = {**SAVED.data_identity, "valid_fingerprint": "0c"}
    assert SAVED.difference(replace(SAVED, data_identity=validated)) == ("validation data", None, "0c")
    assert SAVED.difference(replace(SAVED, config=replace(RUN, seed=3))) == ("seed", 2, 3)
    other = RunConfig.from_preset("clutrr", "clutrr/paper", {"data.train_k": [2, 3], "train.lr": 2}, seed=2)
    assert SAVED.difference(replace(SAVED, config=other)) == ("train.lr", 1.0, 2.0)
    unknown = replace(RUN, settings={**RUN.settings, "data": {**RUN.settings["data"], "distinct": True}})
    assert SAVED.difference(replace(SAVED, config=unknown)) == ("data.distinct", None, True)


@pytest.mark.parametrize("text", ["{}", '{"settings": 3}', '{"task": "clutrr", "settings": {"model": {}, "data": 3}}'])
def test_files_that_describe_no_run(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json: does not describe a run"):
        SavedRun.read(tmp_path)
