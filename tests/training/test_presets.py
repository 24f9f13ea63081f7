"""Presets: every bundled one makes a run, files build on each other, `--set` reads what a person types."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.errors import UserError
from edge_transformer.tasks.base import get_task
from edge_transformer.training.config import RunConfig, TrainConfig
from edge_transformer.training.presets import load_preset, override, parse_changes, preset_names, read_yaml, yaml_value

TASKS = ("relations", "graphs", "trees", "seq2seq", "links")
DESCRIPTIONS: dict[str, dict[str, Any]] = {  # what a task's model has besides its settings
    "relations": {"relations": ["aunt", "son"], "answers": ["niece", "uncle", "wife"]},
    "graphs": {"tokens": ["Emma", "ran"], "columns": {"role": ["", "agent"], "category": ["", "VERB"]}},
    "trees": {
        "lexicon": {"words": ["Emma", "ran"], "letters": "aemn", "lower_case": True},
        "labels": ["nsubj", "root"],
        "root_label": "root",
    },
    "seq2seq": {"source": ["did", "m0"], "target": None, "lower_case": True, "longest": 9},
    "links": {
        "entities": ["Ann", "Eve"],
        "relations": ["aunt"],
        "types": [],
        "sizes": [0, 0, 0],
        "features": False,
        "facts": 1,
        "temperature": 1.0,
    },
}
EDGES = {  # the same for presets of graphs with any number of edges a token
    "form": "edges",
    "lexicon": DESCRIPTIONS["trees"]["lexicon"],
    "edges": ["agent", "theme"],
    "own": ["root"],
    "columns": {"category": ["", "VERB"]},
    "sentence": {"asks": ["no", "yes"]},
    "text": "",
}


def task_of(preset: str) -> str:
    return str(load_preset(preset)["task"])


def test_every_task_has_presets() -> None:
    assert set(map(task_of, preset_names())) == set(TASKS) == set(DESCRIPTIONS)
    for task in TASKS:
        assert f"{task}/cpu" in preset_names()  # the command line's default


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_makes_a_run_and_a_model(name: str) -> None:
    task = task_of(name)
    run = RunConfig.from_preset(task, name, {}, seed=1)
    assert isinstance(run.train, TrainConfig)
    assert isinstance(run.data_settings, get_task(task).data.Settings)
    description = (
        EDGES if name.startswith(("graphs/edges", "cfq-graph/", "slog/", "ewt-enhanced/")) else DESCRIPTIONS[task]
    )
    model = get_task(task).model.from_description({"model": run.settings["model"], **description})
    assert sum(weight.numel() for weight in model.parameters()) > 10_000


def test_settings_of_the_paper() -> None:
    preset = load_preset("clutrr/paper")
    assert preset["task"] == "relations"
    model, train = preset["model"], preset["train"]
    assert (model["dim"], model["heads"], model["layers"], model["dropout"]) == (200, 4, 8, 0.2)
    assert (train["epochs"], train["batch_size"], train["lr"], train["warmup_steps"]) == (50, 400, 0.001, 100)
    assert preset["data"] == {"held_out": 0.2, "merge_equal": False}
    assert RunConfig.from_preset("relations", "clutrr/paper", {}, 1).train.clip == 1.0


def test_the_baseline_of_the_best_parser_has_its_recipe_and_its_own_model() -> None:
    baseline, best, plain = (load_preset(f"cogs/{name}") for name in ("best-universal", "best", "cpu-universal"))
    assert (baseline["train"], baseline["data"], baseline["model"]) == (best["train"], best["data"], plain["model"])


# --- files ------------------------------------------------------------------------------------------------------------


def write(folder: Path, **texts: str) -> Path:
    """Write the files; the path of the last one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{name}.yaml"


def test_a_file_of_your_own(tmp_path: Path) -> None:
    path = write(tmp_path, mine="task: relations\nmodel:\n  dim: 8\ntrain:\n  lr: 1e-3\n")
    assert load_preset(str(path)) == {"task": "relations", "model": {"dim": 8}, "train": {"lr": 0.001}}


def test_files_build_on_each_other(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        first="task: relations\nmodel:\n  dim: 8\n  heads: 2\ntrain:\n  epochs: 3\ndata:\n",
        second="base: first.yaml\nmodel:\n  dim: 16\ndata:\n  held_out: 0.5\n",
        third="base: second.yaml\nmodel:\n  layers: 4\ntrain:\n",
    )
    assert load_preset(str(path)) == {
        "task": "relations",
        "model": {"dim": 16, "heads": 2, "layers": 4},
        "train": {"epochs": 3},
        "data": {"held_out": 0.5},
    }


def test_base_is_seen_from_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", base="task: relations\n")
    path = write(tmp_path / "a" / "b", mine="base: ../base.yaml\nmodel:\n  dim: 3\n")
    monkeypatch.chdir(tmp_path)
    assert load_preset(str(path.relative_to(tmp_path))) == {"task": "relations", "model": {"dim": 3}}


def test_null_takes_away_what_the_base_says(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("model: {kind: edge, tied: false, dim: 8}\ntrain: {steps: 3}\n")
    (tmp_path / "other.yaml").write_text("base: base.yaml\nmodel: {kind: transformer, tied: null}\ntrain: {lr: null}\n")
    assert load_preset(str(tmp_path / "other.yaml")) == {
        "model": {"kind": "transformer", "dim": 8},
        "train": {"steps": 3},
    }


def test_base_may_be_a_bundled_preset(tmp_path: Path) -> None:
    path = write(tmp_path, mine="base: clutrr/paper\nmodel:\n  dim: 40\n")
    expected = load_preset("clutrr/paper")
    expected["model"]["dim"] = 40
    assert load_preset(str(path)) == expected
    assert load_preset("clutrr/paper")["model"]["dim"] == 200  # loading changes nothing


@pytest.mark.parametrize("length", [1, 2, 3])
def test_circles_are_refused(length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(length):
        write(tmp_path, **{f"p{number}": f"base: p{(number + 1) % length}.yaml\n"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"is based on itself: p0\.yaml -> "):
        load_preset("p0.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found nothing; expected settings as key: value"),
        ("- a\n- b\n", "found list; expected settings"),
        ("just text", "found str; expected settings"),
        ("model: {dim: 3", "no readable YAML"),
        ("model: !!python/object/apply:os.system ['true']\n", "no readable YAML"),
        ("model: 2020-13-45\n", "no readable YAML: month must be"),
        ("[" * 1200, "no readable YAML"),
        (
            "models:\n  dim: 3\n",
            r"unknown setting 'models'; did you mean model\? Known are task, base, model, train, data",
        ),
        ("1: 2\nfoo: 3\n", "unknown setting 1; known are"),
        ("model: 3\n", "model: found 3; expected settings as key: value"),
        ("train: [1]\n", r"train: found \[1\]; expected settings"),
        ("task: 3\n", "task: found 3; expected a name"),
        ("base: 3\n", "base: found 3; expected a name"),
        ("base:\n", "base: found None; expected a name"),
        ("base: nothing/here\n", r"broken\.yaml: unknown preset 'nothing/here'"),
        ("base: nowhere.yaml\n", r"nowhere\.yaml: No such file"),
    ],
)
def test_broken_files(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, broken=text)
    with pytest.raises(UserError, match=message) as caught:
        load_preset(str(path))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: No such file"):
        load_preset(str(tmp_path / "none.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UserError, match=r"folder\.yaml: Is a directory"):
        load_preset(str(tmp_path / "folder.yaml"))
    (tmp_path / "latin.yaml").write_bytes("task: caf\xe9".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.yaml:1: found bytes that are no text"):
        read_yaml(str(tmp_path / "latin.yaml"))


@pytest.mark.parametrize(
    "name", ["clutrr/gpu", "clutrr", "", "../presets/clutrr/cpu", "/etc/passwd", "clutrr/../clutrr/cpu"]
)
def test_unknown_presets(name: str) -> None:
    with pytest.raises(UserError, match=r"unknown preset .*known are .*clutrr/cpu, .*or give a \.yaml file"):
        load_preset(name)


# --- changes ----------------------------------------------------------------------------------------------------------


def test_override_leaves_the_original_alone() -> None:
    before: dict[str, Any] = {"task": "relations", "model": {"dim": 8, "heads": 2}, "data": None}
    after = override(before, {"model.dim": 16, "train.lr": 0.5, "data.held_out": 0.1})
    assert after == {
        "task": "relations",
        "model": {"dim": 16, "heads": 2},
        "train": {"lr": 0.5},
        "data": {"held_out": 0.1},
    }
    assert before == {"task": "relations", "model": {"dim": 8, "heads": 2}, "data": None}
    assert override(before, {}) == before


@pytest.mark.parametrize("key", ["dim", "modle.dim", "task", "base.x", "model.", ".dim", ""])
def test_override_wants_a_section(key: str) -> None:
    with pytest.raises(UserError, match=r"found no section; expected one of model\.NAME, train\.NAME, data\.NAME"):
        override({}, {key: 3})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("-2.5E+4", -25000.0),
        ("1.e-3", 0.001),
        (".5e1", 5.0),
        ("5e-324", 5e-324),
        ("true", True),
        ("null", None),
        ("", None),
        ("pre", "pre"),
        ("e5", "e5"),
        ("1e", "1e"),
        ("'1e-3'", "1e-3"),
        ("[2, 3]", [2, 3]),
        ("a=b", "a=b"),
    ],
)
def test_values_as_a_person_types_them(text: str, value: Any) -> None:
    [(key, read)] = parse_changes([f" train.x ={text}"]).items()
    assert key == "train.x"
    assert read == value
    assert type(read) is type(value)


def test_later_changes_win() -> None:
    assert parse_changes([]) == {}
    assert parse_changes(["model.dim=1", "model.heads=2", "model.dim=3"]) == {"model.dim": 3, "model.heads": 2}


@pytest.mark.parametrize("option", ["model.dim", "", "64"])
def test_changes_without_equals_sign(option: str) -> None:
    with pytest.raises(UserError, match="found no '='; expected key=value"):
        parse_changes([option])


@pytest.mark.parametrize(
    "value",
    ["[1, 2", "{", "a: b: c", "\x07", "2020-99-99", "9" * 5000, "[" * 1200, "!!python/name:os.system", "*a", "&"],
)
def test_changes_that_are_no_yaml(value: str) -> None:
    with pytest.raises(UserError, match=r"^--set model\.dim=(.|\n)*expected a YAML value$"):
        parse_changes([f"model.dim={value}"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.lr=fast", r"train\.lr: found 'fast'; expected a number"),
        ("train.epochs=1.5", r"train\.epochs: found 1\.5; expected a whole number"),
        ("train.epochs=0", "train: epochs must be at least 1"),
        ("train.epoch=3", r"train: unknown setting 'epoch'; did you mean epochs\? Known are epochs, "),
        ("data.held_out=1", "data: held_out must be at least 0 and below 1"),
        ("data.train_k=[a]", r"data\.train_k: found 'a'; expected a whole number"),
        ("data.train_k=&x [*x]", r"data\.train_k: found \[\[\.\.\.\]\]; expected a whole number"),
    ],
)
def test_wrong_settings_are_refused_before_any_data_are_read(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.from_preset("relations", "clutrr/cpu", parse_changes([change]), seed=1)


def test_preset_of_another_task(tmp_path: Path) -> None:
    path = write(tmp_path, other="task: chess\n")
    with pytest.raises(UserError, match="is for the task 'chess', not for 'relations'"):
        RunConfig.from_preset("relations", str(path), {}, seed=1)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
) | st.sampled_from(
    ["1e-3", "1E5", "yes", "null", "~", "...", "---", "a\nb", "\n", "\x85", "\u2028", " a ", "#", "- a"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_yaml_value_is_one_line_that_is_read_back(value: Any) -> None:
    text = yaml_value(value)
    assert len(text.splitlines()) == 1
    read = parse_changes([f"model.x={text}"])["model.x"]
    assert read == value
    assert type(read) is type(value)


def test_yaml_value_of_plain_settings_is_what_a_person_would_type() -> None:
    assert [yaml_value(value) for value in (64, 0.5, True, None, "pre", [2, 3])] == [
        *("64", "0.5", "true", "null", "pre", "[2, 3]")
    ]
    assert yaml_value(math.inf) == ".inf"


def test_arguments_of_a_run_lead_back_to_it() -> None:
    changes = {"train.lr": 1e-5, "data.train_k": [2, 3], "model.norm": "pre", "model.tied": False}
    run = RunConfig.from_preset("relations", "clutrr/cpu", changes, seed=7)
    arguments = run.arguments("some folder")
    options = [value for flag, value in pairwise(arguments) if flag == "--set"]
    assert parse_changes(options) == changes
    assert RunConfig.from_preset("relations", "clutrr/cpu", parse_changes(options), seed=7) == run
