"""The baselines as kinds of model: their settings, their presets, and that each of them learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import RelationRows
from edge_transformer.errors import UserError
from edge_transformer.nn.encoder import EdgeTransformer, encoder_names, find_encoder
from edge_transformer.tasks.base import build_encoder, encoder_config, model_settings
from edge_transformer.tasks.relations.data import RelationData, RelationSettings
from edge_transformer.tasks.relations.model import RelationModel
from edge_transformer.training.config import RunConfig
from edge_transformer.training.presets import load_preset, preset_names

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
KINDS = encoder_names("graphs")
BASELINES = [kind for kind in KINDS if kind != "edge"]
STEPS = 60
SMALL = {"dim": 12, "heads": 3, "layers": 2}
kinds = pytest.mark.parametrize("kind", KINDS)
baselines = pytest.mark.parametrize("kind", BASELINES)


@pytest.fixture(scope="module")
def data() -> RelationData:
    train, tests = generate([2], [2, 4], rows=600, seed=3, test_rows=60)
    stories = {k: tuple(rows) for k, rows in tests.items()}
    return RelationData(RelationRows("families", "abc", tuple(train), stories), RelationSettings(), seed=1)


# --- settings ---------------------------------------------------------------------------------------------------------


@kinds
def test_the_kind_picks_settings_and_encoder(kind: str) -> None:
    encoder = build_encoder({"kind": kind, **SMALL})
    assert type(encoder) is find_encoder(kind, "graphs").encoder
    assert type(encoder.config) is find_encoder(kind, "graphs").config
    assert encoder.config == encoder_config({"kind": kind, **SMALL})


def test_edge_is_the_default() -> None:
    assert type(build_encoder(SMALL)) is EdgeTransformer
    assert model_settings(SMALL)["kind"] == "edge"


@kinds
def test_all_settings_are_written_out_and_read_back(kind: str) -> None:
    complete = model_settings({"kind": kind, **SMALL}, RelationModel.Options)
    assert complete["kind"] == kind
    assert json.loads(json.dumps(complete)) == complete
    assert model_settings(complete, RelationModel.Options) == complete
    assert {"dropout", "min_layers", "attention_bias"} < complete.keys()


def test_defaults_of_the_paper() -> None:
    for kind in ("rat", "rrat"):
        found = model_settings({"kind": kind, **SMALL})
        assert (found["tied"], found["attention_bias"], found["norm"], found["ff_factor"]) == (True, True, "post", 4)


@pytest.mark.parametrize("kind", ["RAT", "", 3, None, ["rat"]])
def test_unknown_kinds_are_refused(kind: Any) -> None:
    for use in (build_encoder, encoder_config, model_settings):
        with pytest.raises(UserError) as error:
            use({"kind": kind, **SMALL})
        assert str(error.value) == f"model.kind: found {kind!r}; expected one of {', '.join(KINDS)}"


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("rat", "key", "ij"),
        ("rrat", "value", "left"),
        ("gat", "ff_factor", 4),
        ("transformer", "tied", True),  # which is the kind "universal"
        ("universal", "tied", False),
        ("edge", "entities", 3),
    ],
)
def test_settings_of_another_kind_are_refused(kind: str, setting: str, value: Any) -> None:
    known = [name for name in model_settings({"kind": kind, **SMALL}) if name != "kind"]
    with pytest.raises(UserError) as error:
        encoder_config({"kind": kind, **SMALL, setting: value})
    assert str(error.value).startswith(f"model: unknown setting {setting!r}; ")
    assert str(error.value).lower().endswith(f"known are {', '.join(known)}")


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        *((kind, {"heads": 5}, "dim=12 is not divisible by heads=5") for kind in BASELINES),
        *((kind, {"layers": 0}, "layers must be at least 1, but is 0") for kind in BASELINES),
        *((kind, {"dropout": 1.0}, "dropout must be at least 0 and below 1, but is 1.0") for kind in BASELINES),
        *((kind, {"min_layers": 3}, "min_layers must lie between 1 and layers=2, but is 3") for kind in BASELINES),
        ("rat", {"norm": "released"}, "norm='released' is not known; choose one of ['post', 'pre']"),
        ("rrat", {"ff_factor": 0}, "ff_factor must be at least 1, but is 0"),
        ("transformer", {"entities": 0}, "entities must be at least 1, but is 0"),
        ("universal", {"max_distance": 0}, "max_distance must be at least 1, but is 0"),
    ],
    ids=str,
)
def test_nonsense_is_refused(kind: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        encoder_config({"kind": kind, **SMALL, **changed})
    assert str(error.value) == f"model: {message}"


# --- presets ----------------------------------------------------------------------------------------------------------


@baselines
def test_every_baseline_has_two_presets(kind: str) -> None:
    for name in (f"clutrr/paper-{kind}", f"clutrr/cpu-{kind}"):
        assert name in preset_names()
        assert RunConfig.from_preset("relations", name, {}, 1).settings["model"]["kind"] == kind


@pytest.mark.parametrize(("kind", "layers"), [("rat", 8), ("rrat", 6)])
def test_settings_of_the_paper(kind: str, layers: int) -> None:
    settings = RunConfig.from_preset("relations", f"clutrr/paper-{kind}", {}, 1).settings
    model, train = settings["model"], settings["train"]
    assert (model["layers"], model["dim"], model["heads"], train["batch_size"]) == (layers, 320, 8, 200)
    assert (train["lr"], train["epochs"], train["warmup_steps"], train["clip"]) == (0.001, 50, 100, 1.0)
    assert (model["tied"], model["attention_bias"], model["norm"], model["dropout"]) == (True, True, "post", 0.2)
    assert model["min_layers"] is None
    assert settings["data"]["held_out"] == 0.2


@baselines
def test_cpu_presets_train_as_the_edge_transformer_does(kind: str) -> None:
    mine, ours = (load_preset(name) for name in (f"clutrr/cpu-{kind}", "clutrr/cpu"))
    assert mine["train"] == ours["train"]
    assert mine.get("data") == ours.get("data")
    assert mine["model"]["dropout"] == ours["model"]["dropout"]


# --- in the task ------------------------------------------------------------------------------------------------------


@baselines
def test_a_saved_model_gives_the_same_answers(kind: str, data: RelationData, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = data.new_model(model_settings({"kind": kind, **SMALL})).eval()
    model.task = "relations"
    model.save(tmp_path)
    relations = list(data.relations)
    edges = [["a", relations[0], "b"], ["b", relations[1], "c"], ["c", relations[2], "d"]]
    questions = [{"edges": edges[:2], "query": ["a", "c"]}, {"edges": edges, "query": ["d", "a"]}]
    assert et.load(tmp_path).predict(questions) == model.predict(questions)


@baselines
def test_it_learns(kind: str, data: RelationData) -> None:
    """Two relations to combine: after few steps it has most of them right."""
    torch.manual_seed(1)
    names = {"entities": 8} if kind in ("transformer", "universal") else {}  # fewer names are learned sooner
    model = data.new_model({"kind": kind, "dim": 32, "heads": 4, "layers": 2, **names})
    optimizer = torch.optim.Adam(model.parameters())
    rows = torch.arange(data.train_rows)  # all of them: only some sixty graphs are distinct
    losses = []
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 0.005 * min(1, (step + 1) / 10) * (1 - step / STEPS)
        optimizer.zero_grad()
        loss = torch.stack([data.loss(model, batch, CPU) for batch in data.batches(rows)]).sum() / data.weight(rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    assert losses[0] > 2.5
    assert losses[-1] < 0.5 * losses[0]
    assert data.evaluate(model, CPU)["k=2"] > 0.6  # the most frequent answer is right for one story in seven
