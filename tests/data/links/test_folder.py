"""Folders of facts: which files are found, Countries, and the real graphs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edge_transformer.data.links.folder import holds_links, link_files, link_fingerprint, link_versions, read_links
from edge_transformer.data.links.rows import Entity, Fact, LinkRows, without_duplicates
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

GRAPHS = benchmark("knowledge_graphs")
COUNTRIES = GRAPHS / "countries"
LINE = "Ann\tmother\tEve\n"
ANN = Fact("Ann", "mother", "Eve")


def write(folder: Path, **texts: str) -> Path:
    """Files by name; `__` stands for the dot."""
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def test_files_by_split(tmp_path: Path) -> None:
    names = ("train__nt", "dev__tsv", "test__csv", "test-long__txt", "entities__jsonl", "notes__txt", "test__md")
    write(tmp_path, **dict.fromkeys(names, ""))
    found = {name: path.name for name, path in link_files(tmp_path).items()}
    assert found == {
        "train": "train.nt",
        "valid": "dev.tsv",
        "test": "test.csv",
        "test-long": "test-long.txt",
        "entities": "entities.jsonl",
    }
    assert list(found) == ["train", "valid", "test", "test-long", "entities"]
    assert list(link_files(tmp_path, testing=False)) == ["train", "valid", "entities"]
    assert list(link_files(tmp_path, testing=None)) == list(found)
    for name in ("test.csv", "test-long.txt"):
        (tmp_path / name).unlink()
    assert list(link_files(tmp_path, testing=None)) == ["train", "valid", "entities"]  # needs none


@pytest.mark.parametrize(
    ("names", "training", "testing", "missing"),
    [
        (["train.tsv", "test.tsv"], True, True, None),
        (["train.tsv"], True, False, None),
        (["train.tsv", "valid.txt"], True, True, "no test file"),
        (["test.tsv"], True, True, "no train file"),
        (["test.tsv"], False, True, None),
        (["valid.txt"], False, True, None),
        (["train.tsv"], False, True, "no test file"),
        ([], True, True, "no train file"),
        ([], False, False, None),
    ],
)
def test_files_that_are_needed(
    names: list[str], training: bool, testing: bool, missing: str | None, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()
    if missing is None:
        assert sorted(path.name for path in link_files(tmp_path, training, testing).values()) == sorted(names)
    else:
        with pytest.raises(UserError, match=f"found {missing}; expected train, dev or valid, and test"):
            link_files(tmp_path, training, testing)


@pytest.mark.parametrize(
    ("one", "other"), [("dev.tsv", "valid.tsv"), ("test.tsv", "test.txt"), ("train.nt", "train.nt.gz")]
)
def test_two_files_of_one_split(one: str, other: str, tmp_path: Path) -> None:
    for name in {"train.tsv" if one != "train.nt" else one, one, other}:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"found {one} and {other}; expected one of them"):
        link_files(tmp_path)


def test_folders_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, file="")
    for name, found in (("file", "found a file"), ("none", "no such folder")):
        with pytest.raises(UserError, match=f"{name}: {found}; expected one with train, dev or valid"):
            link_files(tmp_path / name)


def test_a_folder_is_read(tmp_path: Path) -> None:
    known = '{"entity": "Eve", "types": ["person"], "features": [1]}\n'
    write(tmp_path, train__tsv=LINE * 2, test__jsonl='["Ann", "mother", "Eve"]\n{"entity": "Bob"}\n')
    write(tmp_path, entities__jsonl=known, valid__csv="tail,head,relation\nEve,Ann,mother\n")
    counted: list[int] = []
    data = read_links(tmp_path, counted.append)
    assert data.splits == {"train": [ANN, ANN], "valid": [ANN], "test": [ANN]}
    assert data.entities == {"Eve": Entity(("person",), (1.0,)), "Bob": Entity()}
    assert (data.name, data.candidates) == (tmp_path.name, ())
    assert sum(counted) == 4
    assert data.fingerprint == link_fingerprint(tmp_path)
    write(tmp_path, entities__jsonl=known * 2)
    assert link_fingerprint(tmp_path) != data.fingerprint
    write(tmp_path, entities__jsonl=known + '["Ann", "mother", "Eve"]')
    with pytest.raises(DataError, match=r'entities.jsonl:2: found a fact; expected an object with "entity"'):
        read_links(tmp_path)


def test_other_graphs_to_score_a_model_on(tmp_path: Path) -> None:
    write(tmp_path, test__txt=LINE)
    assert read_links(tmp_path, training=False).splits == {"test": [ANN]}
    write(tmp_path, train__txt=LINE)  # what is known of the graph
    assert list(read_links(tmp_path, training=False).splits) == ["train", "test"]


@pytest.mark.parametrize("name", ["train.tsv", "train.txt", "test.csv", "train.jsonl", "dev.nt", "train.tsv.gz"])
def test_empty_files(name: str, tmp_path: Path) -> None:
    write(tmp_path, train__tsv=LINE, test__tsv=LINE)
    for ending in (".tsv", ".txt"):
        (tmp_path / f"{name.partition('.')[0]}{ending}").unlink(missing_ok=True)
    (tmp_path / name).write_bytes(gzip.compress(b"\n") if name.endswith(".gz") else b"\n \n")
    with pytest.raises(DataError, match=f"{name}:1: found no (facts|header); expected "):
        read_links(tmp_path)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"train__tsv": LINE}, True),
        ({"train__txt": "\nAnn mother Eve\n"}, True),
        ({"test__csv": "Subject,Predicate,Object\n"}, True),
        ({"train__csv": "id,head,relation,tail\n"}, True),
        ({"dev__jsonl": '["Ann", "mother", "Eve"]'}, True),
        ({"train__jsonl": '{"head": "Ann", "relation": "mother", "tail": "Eve"}'}, True),
        ({"train__nt": ""}, True),
        ({"countries_S2__tsv": ""}, True),
        ({}, False),
        ({"train__tsv": "jump\tJUMP\n"}, False),
        ({"train__tsv": "jump to it\n"}, False),
        ({"train__jsonl": '{"edges": [["a", "r", "b"]], "query": ["a", "b"], "target": "t"}'}, False),
        ({"train__jsonl": "["}, False),
        ({"train__jsonl": ""}, False),
        ({"train__csv": "id,story,query\n"}, False),
        ({"readme__txt": "Ann mother Eve\n"}, False),
    ],
)
def test_which_folders_hold_facts(texts: dict[str, str], expected: bool, tmp_path: Path) -> None:
    assert holds_links(write(tmp_path, **texts)) is expected


# --- Countries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A small folder in the layout of Countries."""
    inside = "ghana\tlocatedIn\twest\nwest\tlocatedIn\tafrica\npalau\tlocatedIn\tpacific\npacific\tlocatedIn\toceania\n"
    write(tmp_path, countries_S1__tsv=inside, countries_S2__tsv="ghana\tneighbor\ttogo\n")
    return write(tmp_path, dev__txt="ghana\n", test__txt="\npalau\n", regions__txt="africa\noceania\n")


def test_countries(places: Path) -> None:
    data = read_links(places, split="S2")
    assert data.splits == {
        "train": [Fact("ghana", "neighbor", "togo")],
        "valid": [Fact("ghana", "locatedIn", "africa")],
        "test": [Fact("palau", "locatedIn", "oceania")],
    }
    assert data.candidates == ("africa", "oceania")
    assert data.name == f"{places.name}-S2"
    assert list(read_links(places, split="S1", testing=False).splits) == ["train", "valid"]
    assert data.fingerprint == link_fingerprint(places, split="S2") != link_fingerprint(places, split="S1")
    assert link_versions(places) == ["S1", "S2"]
    write(places, test__txt="palau\nparis\n")
    with pytest.raises(DataError, match=r"test.txt:2: found paris, in none of them; expected a country in one of afri"):
        read_links(places, split="S2")


def test_countries_need_the_choice_of_a_version(places: Path) -> None:
    with pytest.raises(UserError, match="found Countries, S1, S2; expected one of them to be named"):
        read_links(places)
    with pytest.raises(UserError, match=r"found the versions S1, S2 of Countries; expected data.split=S3 to be one of"):
        read_links(places, split="S3")


def test_other_folders_have_no_versions(tmp_path: Path) -> None:
    write(tmp_path, train__tsv=LINE, test__tsv=LINE)
    assert link_versions(tmp_path) == [None]
    with pytest.raises(UserError, match=r"found no versions of one graph; expected data.split=S1 to be one of them"):
        read_links(tmp_path, split="S1")


@pytest.mark.parametrize("name", ["dev.txt", "test.txt", "regions.txt", "countries_S1.tsv"])
def test_countries_need_all_their_files(name: str, places: Path) -> None:
    (places / name).unlink()
    with pytest.raises(UserError, match=f"found countries_S2.tsv but no {name}; expected dev.txt, test.txt, regions."):
        read_links(places, split="S2")


@pytest.mark.parametrize(("text", "found"), [("", "no names"), ("ghana\nghana\n", "'ghana'"), ("a\tb\n", "'a.tb'")])
def test_broken_lists_of_countries(text: str, found: str, places: Path) -> None:
    write(places, dev__txt=text)
    with pytest.raises(DataError, match=rf"dev.txt:\d: found {found}; expected "):
        read_links(places, split="S1")


# --- real graphs ------------------------------------------------------------------------------------------------------


def read(name: str, split: str | None = None) -> LinkRows:
    if not (GRAPHS / name).is_dir():
        pytest.skip(f"needs {GRAPHS / name}, the files of this benchmark")
    return read_links(GRAPHS / name, split=split)


@pytest.mark.parametrize(
    ("name", "facts", "entities", "relations"),
    [
        ("nations", (1_592, 199, 201), 14, 55),
        ("kinship", (8_544, 1_068, 1_074), 104, 25),
        ("umls", (5_216, 652, 661), 135, 46),
        ("inductive/WN18RR_v1", (5_410, 630, 638), 2_746, 9),
        ("inductive/WN18RR_v1_ind", (1_618, 185, 188), 922, 8),
        ("inductive/fb237_v1", (4_245, 489, 492), 1_594, 180),
        ("inductive/fb237_v1_ind", (1_993, 206, 205), 1_093, 142),
        ("inductive/nell_v1", (4_687, 414, 439), 3_103, 14),
        ("inductive/nell_v1_ind", (833, 101, 100), 225, 14),
    ],
)
def test_real_graphs(name: str, facts: tuple[int, int, int], entities: int, relations: int) -> None:
    data = read(name)
    assert {split: len(rows) for split, rows in data.splits.items()} == dict(
        zip(("train", "valid", "test"), facts, strict=True)
    )
    train = data.splits["train"]
    assert len({node for fact in train for node in (fact.head, fact.tail)}) == entities
    assert len({fact.relation for fact in train}) == relations
    assert len(without_duplicates(train)) == len(train)
    assert holds_links(GRAPHS / name)


def test_real_countries() -> None:
    versions = {name: read("countries", name) for name in ("S1", "S2", "S3")}
    assert [len(data.splits["train"]) for data in versions.values()] == [1_111, 1_063, 979]
    regions = {"oceania", "asia", "europe", "africa", "americas"}
    told = {"S1": 13, "S2": 13, "S3": 6}  # answers of dev.txt that train has, in the official files
    for name, data in versions.items():
        assert set(data.candidates) == regions
        asked = [*data.splits["valid"], *data.splits["test"]]
        assert (len(asked), len(set(asked))) == (48, 41)  # seven countries stand in both lists
        assert {fact.tail for fact in asked} <= regions
        assert not set(data.splits["test"]) & set(data.splits["train"])
        assert len(set(data.splits["valid"]) & set(data.splits["train"])) == told[name]
        assert asked == [*versions["S1"].splits["valid"], *versions["S1"].splits["test"]]
    answers = {fact.head: fact.tail for fact in versions["S3"].splits["test"]}
    assert (answers["ghana"], answers["bulgaria"], answers["saudi_arabia"]) == ("africa", "europe", "asia")
