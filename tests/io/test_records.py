"""Records: what is written is read again, broken lines are named, and nothing that happens at once gets lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import subprocess
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.errors import DataError, UserError
from edge_transformer.io import records
from edge_transformer.io.records import (
    MAX_LINE_BYTES,
    Record,
    append_record,
    code_commit,
    is_fraction,
    latest_runs,
    read_records,
    run_key,
)

EXAMPLE = Record(
    task="relations",
    data={"name": "official", "fingerprint": "0a1b", "train_k": "2,3,4", "rows": 12064},
    model="edge",
    preset="clutrr/cpu",
    overrides={"lr": 0.001, "tied": True},
    seed=1,
    metrics={"k=2": 1.0, "k=10": 0.921, "loss": 3.5},
    minutes=41.5,
    threads=1,
    versions={"torch": "2.13.0"},
    command="edge-transformer train relations --preset clutrr/cpu --seed 1",
    finished="2025-03-01T12:00:00+00:00",
)


def change(**fields: Any) -> str:
    """The example as a line of JSON with some fields changed; a field set to ... is left out."""
    values = {**asdict(EXAMPLE), **fields}
    return json.dumps({name: value for name, value in values.items() if value is not ...})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(lambda text: bool(text.strip()))
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
made_records = st.builds(
    Record,
    task=names,
    data=st.fixed_dictionaries({"name": names, "fingerprint": names, "rows": scalars}),
    model=names,
    preset=names,
    overrides=st.dictionaries(texts, scalars | st.lists(scalars, max_size=3), max_size=3),
    seed=st.integers(-(2**63), 2**63),
    metrics=st.dictionaries(texts, st.floats(0, 1), max_size=5),
    minutes=st.floats(0, 1e9),
    cpu_minutes=st.none() | st.floats(0, 1e9),
    threads=st.integers(1, 512),
    versions=st.dictionaries(texts, texts, max_size=3),
    command=texts,
    finished=st.datetimes().map(lambda time: time.isoformat()),
    settings=st.dictionaries(texts, st.dictionaries(texts, scalars, max_size=3), max_size=2),
    commit=st.none() | names,
)


@settings(max_examples=50, deadline=None)  # a disk may take its time for one of many fsyncs
@given(st.lists(made_records, max_size=4, unique_by=Record.to_json))
def test_what_is_appended_is_read(tmp_path_factory: pytest.TempPathFactory, made: list[Record]) -> None:
    path = tmp_path_factory.mktemp("records") / "all.jsonl"
    path.touch()
    for record in made:
        append_record(path, record)
    assert read_records(path) == made
    assert [record.key for record in read_records(path)] == [record.key for record in made]


def test_a_record_cannot_be_changed() -> None:
    overrides: dict[str, Any] = {"train_k": [2, 3]}
    record = replace(EXAMPLE, overrides=overrides)
    overrides["train_k"].append(4)
    assert record.overrides == {"train_k": [2, 3]}
    with pytest.raises(FrozenInstanceError):
        record.seed = 2  # type: ignore[misc]


def test_key_is_what_defines_a_run() -> None:
    about: dict[str, Any] = {"versions": {}, "command": "", "finished": "2026-01-01", "commit": COMMIT}
    same = replace(EXAMPLE, metrics={}, minutes=1, threads=2, **about)
    renamed = replace(same, data={**EXAMPLE.data, "name": "a copy"}, overrides={"tied": True, "lr": 1e-3})
    assert same.key == renamed.key == EXAMPLE.key
    others = [
        replace(EXAMPLE, task="graphs"),
        replace(EXAMPLE, data={**EXAMPLE.data, "fingerprint": "0a1c"}),
        replace(EXAMPLE, data={**EXAMPLE.data, "train_k": "2,3"}),
        replace(EXAMPLE, preset="clutrr/paper"),
        replace(EXAMPLE, overrides={"lr": 0.001, "tied": 1}),  # 1 == True in Python, but it is another option
        replace(EXAMPLE, overrides={}),
        replace(EXAMPLE, seed=2),
    ]
    assert len({record.key for record in [EXAMPLE, *others]}) == 1 + len(others)


def test_key_of_a_run_with_all_its_settings_is_known_before_it_runs() -> None:
    sections = {"model": {"dim": 64, "tied": True}, "data": {"train_k": [2, 3]}}
    record = replace(EXAMPLE, settings=sections)
    in_another_order = {"data": {"train_k": [2, 3]}, "model": {"tied": True, "dim": 64}}
    assert record.key == run_key("relations", "0a1b", in_another_order, 1)
    assert record.key == replace(record, preset="mine.yaml", overrides={}).key  # the same settings by another name
    assert record.key != replace(record, settings={**sections, "model": {"dim": 128, "tied": True}}).key
    assert record.key != EXAMPLE.key


def test_latest_runs_takes_the_last_of_a_repeated_run() -> None:
    early = replace(EXAMPLE, finished="2025-03-01T12:30:00+01:00", metrics={"k=2": 0.5})  # 11:30 in UTC
    other = replace(EXAMPLE, seed=2)
    assert latest_runs([EXAMPLE, other, early]) == latest_runs([early, EXAMPLE, other]) == [EXAMPLE, other]


@pytest.mark.parametrize(
    ("metric", "fraction"),
    [("k=2", True), ("LAS", True), ("gen", True), ("loss", False), ("valid_loss", False), ("train/loss", False)],
)
def test_is_fraction(metric: str, fraction: bool) -> None:
    assert is_fraction(metric) is fraction


@pytest.mark.parametrize(
    ("line", "found", "expected"),
    [
        ("{", "{ (Expecting", "a JSON object"),
        ("[1]", "[1]", "a JSON object"),
        ("[" * 30000, "[[[", "a JSON object"),
        ('{"task": "a", "task": "b"}', "a name given twice", "a JSON object"),
        (change(metrics={"k=2": float("nan")}), "NaN is not a JSON number", "a JSON object"),
        (change().replace("41.5", "1e999"), "inf", "minutes"),
        (change(seed=...), "no field 'seed'", "the fields task, data,"),
        (change(sed=1), "an unknown field 'sed'", "the fields task, data,"),
        (change(seed="1"), "'1'", "an integer as 'seed'"),
        (change(seed=True), "True", "an integer as 'seed'"),
        (change(threads=0), "0", "a positive integer as 'threads'"),
        (change(minutes=-1), "-1", "a number of minutes"),
        (change(cpu_minutes="3"), "'3'", "a number of minutes or null as 'cpu_minutes'"),
        (change(task=" "), "' '", "a name as 'task'"),
        (change(data={"name": "x"}), "{'name': 'x'}", '"fingerprint"'),
        (change(overrides=["lr=1"]), "['lr=1']", "plain values as 'overrides'"),
        (change(overrides={"a": [[[[[1]]]]]}), "{'a': [[[[[1]]]]]}", "plain values as 'overrides'"),
        (change(settings=None), "None", "plain values as 'settings'"),
        (change(commit=7), "7", "a name or null as 'commit'"),
        (change(metrics={"k=2": "high"}), "{'k=2': 'high'}", "finite numbers as 'metrics'"),
        (change(metrics={"k=2": 98.1}), "98.1 as metric 'k=2'", "a fraction between 0 and 1"),
        (change(versions={"torch": 2}), "{'torch': 2}", "texts as 'versions'"),
        (change(finished="yesterday"), "'yesterday'", "a time in ISO 8601"),
        (change(command="\ud800"), "'\\ud800'", "a text as 'command'"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, line: str, found: str, expected: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{change()}\n\n{line}\n{change()}\n")
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}:3: ") as caught:
        read_records(path)
    assert (caught.value.path, caught.value.line) == (path, 3)
    assert found in caught.value.found
    assert expected in caught.value.expected
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("field", ["settings", "cpu_minutes", "commit"])
def test_older_records_lack_some_fields(tmp_path: Path, field: str) -> None:
    (tmp_path / "old.jsonl").write_text(change(**{field: ...}) + "\n")
    assert read_records(tmp_path / "old.jsonl") == [EXAMPLE]


COMMIT, OTHER = "0123456789abcdef" * 2 + "01234567", "f" * 40


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({".git/HEAD": COMMIT}, COMMIT),
        ({".git/HEAD": "ref: refs/heads/a", ".git/refs/heads/a": COMMIT, ".git/packed-refs": OTHER}, COMMIT),
        (
            {
                ".git/HEAD": "ref: refs/heads/a",
                ".git/packed-refs": f"# peeled\n{OTHER} refs/heads/b/a\n^{OTHER}\n{COMMIT} refs/heads/a",
            },
            COMMIT,
        ),
        (
            {
                ".git": "gitdir: ../first/.git/worktrees/w",
                "../first/.git/worktrees/w/HEAD": "ref: refs/heads/a",
                "../first/.git/worktrees/w/commondir": "../..",
                "../first/.git/refs/heads/a": COMMIT,
            },
            COMMIT,
        ),
        ({".git/HEAD": "ref: refs/heads/a", ".git/packed-refs": f"{OTHER} refs/heads/b"}, None),
        ({".git/HEAD": "ref: refs/heads/a"}, None),
        ({".git/HEAD": "what is this"}, None),
        ({}, None),
    ],
)
def test_the_commit_of_a_checkout(tmp_path: Path, files: dict[str, str], commit: str | None) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    assert code_commit(root) == commit


def test_the_commit_of_this_checkout() -> None:
    root = Path(records.__file__).parents[3]
    if shutil.which("git") and (root / ".git").exists():
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        assert code_commit() == found.stdout.strip()


def test_lines_that_are_not_utf8_or_too_long(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"task": "\xff"}\n')
    with pytest.raises(DataError, match=r"runs\.jsonl:1: found bytes that are no text .*expected UTF-8"):
        read_records(path)
    path.write_bytes(change().encode() + b"\n" + b" " * (MAX_LINE_BYTES + 1))
    with pytest.raises(DataError, match=r"runs\.jsonl:2: found a longer line"):
        read_records(path)


def test_bad_values_never_reach_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"98\.1 as metric 'k=2'; expected a fraction"):
        replace(EXAMPLE, metrics={"k=2": 98.1})
    with pytest.raises(UserError, match="finite numbers"):
        replace(EXAMPLE, metrics={"loss": float("nan")})
    path = tmp_path / "runs.jsonl"
    with pytest.raises(UserError, match="at most"):
        append_record(path, replace(EXAMPLE, command="x" * MAX_LINE_BYTES))
    assert not path.exists()


def test_reading_folders_and_lists(tmp_path: Path) -> None:
    second, first = replace(EXAMPLE, seed=2), EXAMPLE
    append_record(tmp_path / "results" / "b.jsonl", second)
    append_record(tmp_path / "results" / "a.jsonl", first)
    (tmp_path / "results" / "notes.txt").write_text("not a record")
    assert read_records(tmp_path / "results") == [first, second]
    assert read_records([tmp_path / "results" / "b.jsonl", str(tmp_path / "results" / "a.jsonl")]) == [second, first]
    with pytest.raises(UserError, match="no such file"):
        read_records(tmp_path / "nothing")


def test_half_a_record_at_the_end_goes_with_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append_record(path, EXAMPLE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    with pytest.warns(UserWarning, match=r"runs\.jsonl:2: left out an unfinished last line"):
        assert read_records(path) == [EXAMPLE]
    with pytest.warns(UserWarning, match="removed an unfinished last line"):
        append_record(path, replace(EXAMPLE, seed=2))
    assert [record.seed for record in read_records(path)] == [1, 2]


def test_a_whole_record_without_line_end_stays(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(EXAMPLE.to_json())
    assert read_records(path) == [EXAMPLE]
    append_record(path, replace(EXAMPLE, seed=2))
    assert [record.seed for record in read_records(path)] == [1, 2]


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    append_record(path, EXAMPLE)
    before = path.read_bytes()
    write = os.write
    monkeypatch.setattr(records.os, "write", lambda handle, data: write(handle, data[:20]))
    with pytest.raises(OSError, match="only 20 of"):
        append_record(path, replace(EXAMPLE, seed=2))
    assert path.read_bytes() == before


def test_the_same_record_is_added_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{EXAMPLE.to_json()}\nnot a record\n")
    before = path.read_bytes()
    append_record(path, EXAMPLE)
    assert path.read_bytes() == before
    again = replace(EXAMPLE, finished="2025-03-02T12:00:00+00:00")  # the same run, done once more
    append_record(path, again)
    append_record(path, again)
    assert path.read_bytes() == before + again.to_json().encode() + b"\n"


def append_many(path: Path, worker: int, count: int) -> None:
    for index in range(count):
        append_record(path, replace(EXAMPLE, seed=1000 * worker + index, command="x" * (worker * 5000)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_processes_append_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    context = multiprocessing.get_context(
        "fork"
    )  # the work is a matter of milliseconds, a fresh interpreter of seconds
    workers = [context.Process(target=append_many, args=(path, worker, 25)) for worker in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        if path.exists():
            read_records(path)  # a reader in between never sees half a line
        for worker in workers:
            worker.join(0.05)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    seeds = [record.seed for record in read_records(path)]
    assert sorted(seeds) == [1000 * worker + index for worker in range(4) for index in range(25)]
    assert len(path.read_bytes().splitlines()) == 100


# Notebooks


def test_a_notebook_shows_the_scores_as_a_table() -> None:
    page = ElementTree.fromstring(EXAMPLE._repr_html_())
    assert page.findtext("caption") == "relations, edge, trained on official, seed 1, 41.5 minutes"
    rows = [[cell.text for cell in row] for row in page.iter("tr")]
    assert rows == [["k=2", "100.0 %"], ["k=10", "92.1 %"], ["loss", "3.5"]]
    hostile = replace(EXAMPLE, metrics={"<script>": 0.5}, data={"name": "<script>", "fingerprint": "0"})
    assert "<script" not in hostile._repr_html_()


def test_errors_in_units_are_no_percentages() -> None:
    assert records.shown_scores({"MAE": 1.25, "R2": 0.5, "k=2 MAE": 75.0}) == [
        ("MAE", "1.25"),
        ("R2", "0.5"),
        ("k=2 MAE", "75"),
    ]
    assert records.shown_scores({"accuracy": 0.5, "valid loss": 0.75}) == [
        ("accuracy", "50.0 %"),
        ("valid loss", "0.75"),
    ]
