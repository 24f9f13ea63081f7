"""Generated folders: made once, known again, never mixed up with others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge_transformer.data.relations.clutrr import read_clutrr
from edge_transformer.data.relations.generate import GeneratedData
from edge_transformer.errors import UserError
from edge_transformer.io.settings import from_dict


@pytest.fixture
def wanted(tmp_path: Path) -> GeneratedData:
    return GeneratedData(
        str(tmp_path / "families"), (2, 3), (2, 3, 4), (3, 5), rows=60, test_rows=5, valid_rows=7, seed=3
    )


def contents(data: GeneratedData) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(data.out).iterdir()}


def test_a_missing_folder_is_made_and_then_known(wanted: GeneratedData, tmp_path: Path) -> None:
    told: list[int] = []
    assert wanted.ensure(told.append)
    assert sum(told) == wanted.stories == 60 + 15 + 14
    data = read_clutrr(wanted.out)
    assert (len(data.train), {k: len(rows) for k, rows in data.tests.items()}) == (60, {2: 5, 3: 5, 4: 5})
    assert sorted(story.k for story in data.valid) == [3] * 7 + [5] * 7
    made = contents(wanted)
    assert not wanted.ensure()
    assert contents(wanted) == made
    assert [path.name for path in tmp_path.iterdir()] == ["families"], "nothing is left behind"
    # The same description gives the same bytes, through the command's way too.
    other = replace(wanted, out=str(tmp_path / "again"))
    other.write()
    assert contents(other) == made
    assert not other.ensure()


def test_validation_stories_have_patterns_of_their_own(wanted: GeneratedData) -> None:
    wanted.ensure()
    data = read_clutrr(wanted.out)
    known = {story.relations for rows in (data.train, *data.tests.values()) for story in rows}
    assert not known & {story.relations for story in data.valid}


@pytest.mark.parametrize(
    ("change", "message"), [({"seed": 4}, "their seed is 3, asked for is 4"), ({"valid_k": (5,)}, "their valid_k is")]
)
def test_other_stories_are_refused(wanted: GeneratedData, change: dict, message: str) -> None:
    wanted.ensure()
    made = contents(wanted)
    with pytest.raises(UserError, match=message):
        replace(wanted, **change).ensure()
    assert contents(wanted) == made


def test_changed_files_are_noticed(wanted: GeneratedData) -> None:
    wanted.ensure()
    (Path(wanted.out) / "1.5_valid.csv").unlink()
    with pytest.raises(UserError, match="its files have changed"):
        wanted.ensure()


@pytest.mark.parametrize("description", [None, "broken", "[]"])
def test_a_folder_of_something_else_is_left_alone(wanted: GeneratedData, description: str | None) -> None:
    Path(wanted.out).mkdir()
    (Path(wanted.out) / "precious.txt").write_text("mine")
    if description is not None:
        (Path(wanted.out) / "generated.json").write_text(description)
    with pytest.raises(UserError, match=r"holds no readable generated\.json"):
        wanted.ensure()
    assert (Path(wanted.out) / "precious.txt").read_text() == "mine"


def test_nothing_half_made_is_left(wanted: GeneratedData, tmp_path: Path) -> None:
    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wanted.ensure(stop)
    assert list(tmp_path.iterdir()) == []


def test_another_process_that_was_faster(wanted: GeneratedData) -> None:
    def be_slow(count: int) -> None:
        if not Path(wanted.out).exists():
            replace(wanted).write()

    assert not wanted.ensure(be_slow)


def test_as_an_entry_of_a_file() -> None:
    entry = {"kind": "clutrr", "train_k": [2, 3], "rows": 35000, "seed": 1, "out": "x"}
    assert from_dict(GeneratedData, entry) == GeneratedData("x", (2, 3), rows=35000)
    with pytest.raises(UserError, match="kind: found 'cogs'; expected one of 'clutrr'"):
        from_dict(GeneratedData, {**entry, "kind": "cogs"})
    description = GeneratedData("x", (2, 3))._description()
    assert json.loads(json.dumps(description)) == description
