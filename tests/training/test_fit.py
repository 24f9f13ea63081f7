"""Settings fitted to the data: deterministic, open to changes, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import edge_transformer as et
from edge_transformer.data.relations.problems import PROBLEMS
from edge_transformer.tasks.base import DataFacts
from edge_transformer.training.fit import fitted_settings

pytestmark = pytest.mark.usefixtures("one_thread")


def facts(**changes: Any) -> DataFacts:
    values = {"rows": 240, "valid_rows": 24, "mean_size": 8.0, "longest": 2, "labels": 5, "classes": 6}
    return DataFacts(**{**values, **changes})


def test_small_data_get_many_epochs_of_small_batches_and_large_data_a_wider_model() -> None:
    small, large = (fitted_settings("relations", facts(rows=rows))[0] for rows in (240, 15_083))
    assert small["train"]["epochs"] * (240 / small["train"]["batch_size"]) >= 1000
    assert small["model"]["dim"] < large["model"]["dim"]
    assert small["train"]["batch_size"] < large["train"]["batch_size"]
    assert large["train"]["epochs"] >= 10
    assert fitted_settings("relations", facts(longest=4))[0]["model"]["layers"] > small["model"]["layers"]


def test_every_choice_is_told_in_three_lines_with_how_to_change_it() -> None:
    settings, reasons = fitted_settings("relations", facts())
    assert len(reasons) == 3
    assert "240 training rows" in reasons[0]
    assert f"dim {settings['model']['dim']}" in reasons[1]
    assert "--set model.dim=" in reasons[1]
    assert "--minutes" in reasons[2]


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
