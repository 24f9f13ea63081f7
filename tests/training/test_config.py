"""What a run is: all its settings written out, and what run.json says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge_transformer.errors import UserError
from edge_transformer.io.records import Record, read_records
from edge_transformer.training.config import FITTED, RunConfig
from edge_transformer.training.fit import first_run
from edge_transformer.training.folder import SavedRun
from edge_transformer.training.presets import SECTIONS

RECORDS = Path(__file__).parents[2] / "results/records"
RUN = RunConfig.from_preset("relations", "clutrr/paper", {"data.train_k": [2, 3], "train.lr": 1}, seed=2)
SAVED = SavedRun(RUN, {"name": "families", "fingerprint": "0a"}, Path("/data/families"), 1, "32-true")


def test_defaults_are_filled_in() -> None:
    assert RUN.settings["model"]["norm"] == "released"
    assert RUN.settings["train"]["optimizer"] == "adam"
    assert RUN.settings["train"]["lr"] == 1.0
    assert isinstance(RUN.settings["train"]["lr"], float)  # 1 and 1.0 are one setting, and have one key
    given = {"train_k": [2, 3], "held_out": 0.2, "merge_equal": False}
    defaults = {
        "valid_share": 0.0,
        "valid": None,
        "test": True,
        "augmented": 0.0,
        "augmented_k": 8,
        "augmented_returns": 0.0,
    }
    assert RUN.settings["data"] == given | defaults
    assert json.loads(json.dumps(RUN.settings)) == RUN.settings
    assert RUN.recorded_settings("64-true") == {**RUN.settings, "precision": "64-true"}


@pytest.mark.parametrize("record", read_records(RECORDS), ids=lambda record: f"{record.preset}-{record.seed}")
def test_records_name_the_settings_of_today(record: Record) -> None:
    """Fails where a setting is added, renamed or removed: rewrite the records once, with what runs did before."""
    if record.preset == FITTED:
        today = first_run(record.task, {}, seed=1).recorded_settings()
    else:
        today = RunConfig.from_preset(record.task, record.preset, {}, seed=1).recorded_settings()
    assert record.settings.keys() == today.keys()
    for section in SECTIONS:
        assert record.settings[section].keys() == today[section].keys()


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
    other = RunConfig.from_preset("relations", "clutrr/paper", {"data.train_k": [2, 3], "train.lr": 2}, seed=2)
    assert SAVED.difference(replace(SAVED, config=other)) == ("train.lr", 1.0, 2.0)
    unknown = replace(RUN, settings={**RUN.settings, "data": {**RUN.settings["data"], "distinct": True}})
    assert SAVED.difference(replace(SAVED, config=unknown)) == ("data.distinct", None, True)


@pytest.mark.parametrize(
    "text", ["{}", '{"settings": 3}', '{"task": "relations", "settings": {"model": {}, "data": 3}}']
)
def test_files_that_describe_no_run(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json: does not describe a run"):
        SavedRun.read(tmp_path)
