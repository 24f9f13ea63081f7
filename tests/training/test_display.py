"""What is shown of an experiment: a table that fits its terminal, or a line for each event."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from edge_transformer.io.records import Record
from edge_transformer.training import display as experiment_display
from edge_transformer.training.display import Standing, how_it_stands, short_names, table
from edge_transformer.training.experiment import Experiment, Run, plan
from experiment_cases import COMMITTED_FILES, name_of, plan_committed, write_tiny_experiment

SIZES = [(80, 24), (100, 30), (140, 50)]
SCORES = {
    "links": ("MRR", "Hits@1", "Hits@3", "Hits@10", "valid MRR"),
    "relations": [f"k={k}" for k in range(2, 11)],
    "graph-labels": ["accuracy", "n=9-13", "n=14", "n=15-16", "n=17-18", "n=19-20", "n=21-22", "valid"],
    "graphs": ["dev", "dev logical form", "test", "gen", "gen lexical", "gen structural", "gen logical form", "gen/x"],
    "trees": ["valid LAS", "valid UAS", "valid EM", "LAS", "UAS", "EM"],
    "seq2seq": [f"{of}{kind}" for of in ("held-out ", "valid ", "") for kind in ("EM", "query EM")],
}
MIDWAY = {
    "relations": SCORES["relations"],
    "links": ["valid MRR"],
    "graph-labels": ["valid"],
    "graphs": SCORES["graphs"][:2],
    "trees": SCORES["trees"][:3],
    "seq2seq": SCORES["seq2seq"][:4],
}


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return plan(Experiment.read(write_tiny_experiment(tmp_path)), tmp_path / "runs")


def finish(run: Run, state: str = "finished", minutes: float = 123.4) -> None:
    scores = dict.fromkeys(SCORES[run.config.task], 0.9876)
    run.state = state
    run.record = Record(
        task=run.config.task,
        data={"name": "data", "fingerprint": "0" * 16},
        model="edge",
        preset=run.config.preset,
        overrides=run.config.overrides,
        seed=run.config.seed,
        metrics={**scores, "loss": 0.0123},
        minutes=minutes,
        threads=1,
        versions={"torch": "2"},
        command="edge-transformer train",
        finished="2026-01-01T00:00:00+00:00",
    )


def begin(run: Run, state: str = "running") -> None:
    run.state = state
    run.folder.mkdir(parents=True, exist_ok=True)
    entry = {"loss": 1.25, "scores": dict.fromkeys(MIDWAY[run.config.task], 1.0)}
    status = {"step": 300, "steps": 600, "minutes": 150.0, "history": [entry]}
    (run.folder / "status.json").write_text(json.dumps(status))


def rendered(runs: list[Run], width: int, height: int | None) -> list[str]:
    text = io.StringIO()
    Console(file=text, force_terminal=True, width=width, height=height, color_system=None).print(
        table(runs, width, height)
    )
    return text.getvalue().splitlines()


def check_fits(runs: list[Run], width: int, height: int) -> list[str]:
    lines = rendered(runs, width, height)
    assert len(lines) < height, "the cursor has a line too"
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    _, names = short_names(runs)
    for name, run in zip(names, runs, strict=True):
        if run.state in ("running", "elsewhere"):
            [line] = [line for line in lines if line.split(f" {run.state} ")[0].split() == cells(name, run, runs)]
            assert "50 %" in line
    return lines


def cells(name: str, run: Run, runs: list[Run]) -> list[str]:
    """What a line begins with."""
    several = len({other.config.seed for other in runs}) > 1
    return [*name.split(), *([str(run.config.seed)] if several else [])]


# --- the committed files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMITTED_FILES, ids=name_of)
def test_committed_experiments_fit_the_terminal(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = plan_committed(path, tmp_path, monkeypatch)
    assert len(set(zip(short_names(runs)[1], (run.config.seed for run in runs), strict=True))) == len(runs)
    for width, height in SIZES:  # nothing begun yet
        assert f"0 of {len(runs)} runs finished" in " ".join(check_fits(runs, width, height))
    # The first ones known, some in the middle running, the last one elsewhere.
    middle = len(runs) // 2
    for run in runs[:middle]:
        finish(run, "known")
    for run in runs[middle : middle + 2]:
        begin(run)
    begin(runs[-1], "elsewhere")
    for width, height in SIZES:
        lines = check_fits(runs, width, height)
        assert f"{middle} of {len(runs)} runs finished" in " ".join(lines)
        if width > 80:
            [heads] = [line for line in lines if line.startswith("run ")]
            main = {"relations": " k=10", "graph-labels": " accuracy", "graphs": " gen", "links": " MRR"}
            assert main.get(runs[0].config.task, " EM") in heads
    for run in runs:
        finish(run)
    for width, height in SIZES:
        check_fits(runs, width, height)
        assert len(rendered(runs, width, None)) >= len(runs) + 2, "at the end, all runs"


def test_long_lists_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = [path for path in COMMITTED_FILES if name_of(path) == "clutrr/k23.yaml"]
    # As many seeds of all, so that a further seed of one in the file changes nothing here.
    runs = [run for run in plan_committed(path, tmp_path, monkeypatch) if run.config.seed <= 3]
    assert len(runs) == 24
    for run in runs[:10]:
        finish(run, "known")
    begin(runs[10])
    finish(runs[11])
    lines = rendered(runs, 80, 24)
    assert lines[:2] == [
        "clutrr on data/clutrr/data_db9b8f04, data.train_k=[2, 3]",
        "11 of 24 runs finished, 1 running, 12 waiting",
    ]
    assert lines[2].split() == ["run", "seed", "state", "done", "min", "left", "k=8", "k=9", "k=10"]
    assert lines[13].split() == ["cpu-rrat", "2", "running", "50", "%", "150.0", "100.0", "100.0", "100.0"]
    assert lines[-1] == "not shown: 5 waiting"
    wide = rendered(runs, 140, 24)
    assert wide[2].split() == ["run", "seed", "state", "done", "minutes", "min", "left", "loss", *SCORES["relations"]]
    # Where only three have room: the running one, the one finished last, and the last of those known before.
    low = rendered(runs, 80, 8)
    assert [line.split()[:3] for line in low[3:-1]] == [
        ["cpu-rat", "2", "known"],
        ["cpu-rrat", "2", "running"],
        ["cpu-gat", "2", "finished"],
    ]
    assert low[-1] == "not shown: 9 known, 12 waiting"
    ended = rendered(runs, 80, None)
    assert len(ended) == 3 + 12 + 1, "all that were begun"
    assert ended[-1] == "not shown: 12 waiting"


def test_running_runs_come_before_failed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = [path for path in COMMITTED_FILES if name_of(path) == "cogs/main.yaml"]
    runs = plan_committed(path, tmp_path, monkeypatch)
    for run in runs[:-2]:
        run.state, run.problem = "failed", "no\nmore disk"
    for run in runs[-2:]:
        begin(run)
    lines = check_fits(runs, 80, 12)
    assert [line.split()[0] for line in lines[3:5]] == ["paper-untied", "paper-universal"]
    assert lines[-2] == "failed: paper, seed 3: no more disk"
    assert lines[-1] == f"not shown: {len(runs) - 7} failed"  # two run, and of those that failed five have room


@pytest.mark.parametrize("width", [25, 40, 60])
def test_narrow_terminals(width: int, runs: list[Run]) -> None:
    begin(runs[0])
    runs[1].config.overrides["model.dropout"] = 0.125
    lines = rendered(runs, width, 40)
    assert max(map(len, lines)) <= width
    [untied] = [line for line in lines if line.startswith("cpu-untie")]
    assert untied.split()[-2:] == ["5", "waiting"], "what is cut is the name"
    assert ("…" in untied) == (width < 40)


# --- names ------------------------------------------------------------------------------------------------------------


def planned(folder: Path, **changes: object) -> list[Run]:
    """The runs of the tiny experiment with some of its values replaced, or left out where they are None."""
    path = write_tiny_experiment(folder)
    values = {**yaml.safe_load(path.read_text()), **changes}
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value is not None}))
    return plan(Experiment.read(path), folder / "runs")


def test_names_say_what_differs_and_the_title_what_does_not(tmp_path: Path) -> None:
    shared, names = short_names(planned(tmp_path))
    common = "model.dim=8, model.heads=2, model.layers=2, model.min_layers=1, train.batch_size=20, train.epochs=2"
    assert shared == f"clutrr on {tmp_path / 'families'}, {common}"
    assert names == ["cpu", "cpu-untied", "cpu"]


def test_changes_of_some_runs_are_in_their_names(tmp_path: Path) -> None:
    entries = [
        {"preset": "clutrr/cpu", "set": {"data.train_k": [2, 3]}},
        {"preset": "clutrr/cpu", "set": {"data.train_k": [2, 3], "model.inverse_edges": True}},
    ]
    shared, names = short_names(planned(tmp_path, runs=entries, seeds=[3]))
    assert shared == f"clutrr on {tmp_path / 'families'}, data.train_k=[2, 3], seed 3"
    assert names == ["cpu", "cpu inverse_edges=true"]


def test_folders_are_in_the_names_where_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_tiny_experiment(tmp_path / "other")
    here, there = str(tmp_path / "families"), str(tmp_path / "other/families")
    sets = [{"data": here}, {"data": there, "set": {"data.train_k": [2]}}]
    runs = planned(tmp_path, data=None, training_sets=sets, runs=[{"preset": "clutrr/cpu"}], seeds=[1])
    assert short_names(runs) == ("clutrr, seed 1", [f"cpu on {here}", f"cpu train_k=[2] on {there}"])
    runs[1].data = str(tmp_path / "people")
    assert short_names(runs)[1] == ["cpu on families", "cpu train_k=[2] on people"]


def test_settings_of_the_same_name_keep_their_section(runs: list[Run]) -> None:
    runs[0].config.overrides.update({"model.dropout": 0.1, "data.dropout": 0.2})
    assert short_names(runs)[1] == ["cpu model.dropout=0.1 data.dropout=0.2", "cpu-untied", "cpu"]


def test_what_most_runs_have_is_said_once(runs: list[Run]) -> None:
    for run, clip, data in zip(runs, (1.0, 2.0, 1.0), ("x/one", "y/two", "z/three"), strict=True):
        run.config.overrides.update({"train.clip": clip, "data.elsewhere": data})
    shared, names = short_names(runs)
    assert shared.endswith(", unless named train.clip=1.0")
    assert names == ["cpu elsewhere=one", "cpu-untied clip=2.0 elsewhere=two", "cpu elsewhere=three"]


# --- standings and events ---------------------------------------------------------------------------------------------


def test_how_runs_stand(runs: list[Run]) -> None:
    assert how_it_stands(runs[0]) == Standing()
    begin(runs[0])
    scores = dict.fromkeys(SCORES["relations"], 1.0)
    assert how_it_stands(runs[0]) == Standing("1/2", "50 %", "150.0", "150.0", "1.250", scores)
    (runs[0].folder / "status.json").write_text("{}")  # of some other version
    assert how_it_stands(runs[0]) == Standing()
    finish(runs[1])
    scores = dict.fromkeys(SCORES["relations"], 0.9876)
    assert how_it_stands(runs[1]) == Standing("2/2", "100 %", "123.4", "", "0.012", scores)


def screen(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> io.StringIO:
    text = io.StringIO()
    shown = Console(file=text, force_terminal=terminal, width=100, height=30, color_system=None)
    monkeypatch.setattr(experiment_display, "console", shown)
    return text


def test_one_line_an_event_without_a_terminal(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    text = screen(monkeypatch, terminal=False)
    with experiment_display.display(runs) as shown:
        shown.update()
        assert text.getvalue() == "", "waiting is no event"
        runs[0].state = "running"
        shown.update()
        shown.update()
        runs[0].state, runs[0].problem = "failed", "no more disk"
        shown.update()
    assert [line.partition(":")[0] for line in text.getvalue().splitlines()] == ["started", "failed"]
    assert text.getvalue().endswith("on families, seed 1: no more disk\n")


def test_one_table_in_a_terminal(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    text = screen(monkeypatch, terminal=True)
    with experiment_display.display(runs) as shown:
        begin(runs[0])
        shown.update()
        runs[1].state, runs[1].problem = "failed", "no more disk"
    last = text.getvalue()
    assert "0 of 3 runs finished, 1 running, 1 failed, 1 waiting" in last
    for value in ("running", "50 %", "1.250", "100.0", "failed: cpu-untied, seed 5: no more disk"):
        assert value in last
    assert "not shown: 1 waiting\n" in last, "in the end, all that were begun"
    assert "started" not in last
