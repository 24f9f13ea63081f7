"""CFQ's official files: real rows, the official splits, rows picked in order, and broken files, which are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from edge_transformer.data.pairs.cfq import question_words, read_cfq, read_cfq_rows
from edge_transformer.data.splits import read_split_file
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

OFFICIAL = benchmark("cfq")


def words(text: str) -> list[str]:
    return text.split()


def row(number: int) -> dict[str, Any]:
    return {
        "questionPatternModEntities": f"Did M0 's child edit film {number}",
        "sparql": "SELECT count(*) WHERE {\nns:m.0x ns:film.editor.film ns:m.1y\n}",
        "sparqlPatternModEntities": "SELECT count(*) WHERE {\nM0 ns:film.editor.film M1\n}",
        "complexityMeasures": {"parseTreeLeafCount": number},
    }


def write(folder: Path, rows: Any, split: Any) -> tuple[Path, Path]:
    (folder / "dataset.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")
    (folder / "mcd1.json").write_text(json.dumps(split), encoding="utf-8")
    return folder / "dataset.json", folder / "mcd1.json"


SPLIT = {"trainIdxs": [3, 0], "devIdxs": [1], "testIdxs": []}


def test_words_of_questions() -> None:
    assert question_words("Was M1 M0 's editor , star , and child") == [
        "Was",
        "M1",
        "M0",
        "'",
        "s",
        "editor",
        ",",
        "star",
        ",",
        "and",
        "child",
    ]


@pytest.mark.parametrize(("name", "count"), [("train", 1621), ("dev", 223), ("test", 220)])
def test_official_rows(name: str, count: int) -> None:
    path = OFFICIAL / f"official_rows/multicfq_{name}.json"
    if not path.is_file():
        pytest.skip(f"needs official rows of CFQ in {path}")
    pairs = list(read_cfq_rows(path))
    assert len(pairs) == count
    lines = path.read_text(encoding="utf-8").splitlines()
    for pair in pairs[:20]:
        assert pair is not None
        assert pair.line is not None
        assert lines[pair.line - 1].strip().startswith(("{", "[{"))
        assert pair.target[0] == "SELECT"
        assert not any(word.startswith("ns:") for word in pair.target)


@pytest.mark.parametrize("name", ["mcd1", "mcd2", "mcd3", "random_split"])
def test_official_splits(name: str) -> None:
    path = OFFICIAL / f"splits/{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"needs the official splits of CFQ in {path}")
    parts = read_split_file(path)
    sizes = (95_744, 11_967, 11_967) if name == "random_split" else (95_743, 11_968, 11_968)
    assert tuple(map(len, parts.values())) == sizes
    assert max(max(rows) for rows in parts.values()) < 239_357


def test_rows_are_picked_in_the_order_of_the_split(tmp_path: Path) -> None:
    told: list[int] = []
    data = read_cfq(*write(tmp_path, [row(number) for number in range(5)], SPLIT), progress=told.append)
    assert [pair.source[-1] for pair in data["train"]] == ["3", "0"]
    assert [pair.source[-1] for pair in data["dev"]] == ["1"]
    assert data["test"] == ()
    assert data["dev"][0].target == tuple(words("SELECT count ( * ) WHERE { M0 film.editor.film M1 }"))
    assert sum(told) == 5
    named = read_cfq(tmp_path / "dataset.json", tmp_path / "mcd1.json", "sparql")
    assert named["dev"][0].target == tuple(words("SELECT count ( * ) WHERE { m_0x film.editor.film m_1y }"))


def test_queries_with_names_of_entities_are_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    rows = [row(number) for number in range(5)]
    read_cfq(*write(tmp_path, rows, SPLIT), note=notes.append)
    read_cfq(*write(tmp_path, rows, SPLIT), "sparql", note=notes.append)  # asked for
    assert notes == []
    for each in rows:
        del each["sparqlPatternModEntities"]
    paths = write(tmp_path, rows, SPLIT)
    assert "m_0x" in read_cfq(*paths, note=notes.append)["dev"][0].target
    [note] = notes
    assert "rows have no sparqlPatternModEntities; the queries of sparql name entities (m_...)" in note
    with pytest.raises(DataError, match="a text as sparqlPatternModEntities"):
        read_cfq(*paths, "sparqlPatternModEntities")


def test_gzipped_files(tmp_path: Path) -> None:
    dataset, split = write(tmp_path, [row(number) for number in range(5)], SPLIT)
    expected = read_cfq(dataset, split)
    for path in (dataset, split):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_cfq(f"{dataset}.gz", f"{split}.gz") == expected


@pytest.mark.parametrize(
    ("rows", "line", "found", "expected"),
    [
        ([], 1, "no rows", "at least one"),
        ([row(0), 7], 8, "7", "an object"),
        (
            [row(0), {"sparqlPatternModEntities": "a"}],
            None,
            "the fields sparqlPatternModEntities",
            "a text as question",
        ),
        ([row(0), {**row(1), "sparqlPatternModEntities": None}], None, "sparqlPatternModEntities = null", "a text as"),
        ([row(0), {**row(1), "sparqlPatternModEntities": " "}], None, "a second text of 0 words", "1 to"),
        ({"rows": []}, 1, "{", "a JSON array"),
    ],
)
def test_broken_rows_are_named(rows: Any, line: int | None, found: str, expected: str, tmp_path: Path) -> None:
    paths = write(tmp_path, rows, {"trainIdxs": [0], "devIdxs": [1], "testIdxs": []})
    with pytest.raises(DataError) as error:
        read_cfq(*paths)
    assert error.value.path == paths[0]
    assert error.value.line is not None
    assert found in error.value.found
    assert expected in error.value.expected


@pytest.mark.parametrize(
    ("split", "found"),
    [
        ([], "list"),
        ({"trainIdxs": [0]}, "the keys trainIdxs"),
        ({**SPLIT, "testIdxs": [-1]}, r"testIdxs\[0\] = -1"),
        ({**SPLIT, "testIdxs": [True]}, r"testIdxs\[0\] = true"),
        ({**SPLIT, "testIdxs": [3]}, "row 3 in trainIdxs and in testIdxs"),
        ({**SPLIT, "testIdxs": [17]}, "row 17; expected rows of .*dataset.json, which are 0 to 4"),
    ],
)
def test_broken_splits_are_named(split: Any, found: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"mcd1.json: found {found}"):
        read_cfq(*write(tmp_path, [row(number) for number in range(5)], split))


def test_files_that_are_no_json(tmp_path: Path) -> None:
    dataset, split = write(tmp_path, [row(0)], SPLIT)
    split.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"mcd1.json:1: found no JSON"):
        read_cfq(dataset, split)
    with pytest.raises(UserError, match="No such file"):
        read_cfq(tmp_path / "absent.json", tmp_path / "absent.json")
