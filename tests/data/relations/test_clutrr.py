"""CLUTRR's files: the official set is read as it is, and what is written is read again."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clutrr_rows import ROW, STORY, read_row, write_rows
from edge_transformer.data.relations.clutrr import (
    COLUMNS,
    REQUIRED_COLUMNS,
    clutrr_files,
    read_clutrr,
    read_stories,
    write_clutrr,
)
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import ProofStep, RelationRows, Story
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

OFFICIAL = benchmark("clutrr/data_db9b8f04")
TEST_ROWS = dict(zip(range(2, 11), (38, 107, 77, 185, 105, 155, 135, 124, 122), strict=True))
INPUT_RELATIONS = {"father", "mother", "son", "daughter", "brother", "sister", "husband", "wife"}
INPUT_RELATIONS |= {"grandfather", "grandmother", "grandson", "granddaughter", "uncle", "aunt"}


def edges_of(story: Story) -> set[tuple[int, str, int]]:
    return {(a, relation, b) for (a, b), relation in zip(story.edges, story.relations, strict=True)}


# --- the official set -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> RelationRows:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official CLUTRR set in {OFFICIAL}")
    return read_clutrr(OFFICIAL)


def test_official_counts(official: RelationRows) -> None:
    assert official.name == "data_db9b8f04"
    assert len(official.train) == 15_083
    assert {k: len(stories) for k, stories in official.tests.items()} == TEST_ROWS
    assert list(official.tests) == sorted(official.tests)
    assert official.valid == ()
    assert {story.k for story in official.train} == {2, 3, 4}


def test_official_relations_and_targets(official: RelationRows) -> None:
    assert {relation for story in official.train for relation in story.relations} == INPUT_RELATIONS
    in_laws = {f"{who}-in-law" for who in ("father", "mother", "son", "daughter")}
    targets = {story.target for story in official.train}
    assert targets == INPUT_RELATIONS - {"husband", "wife"} | {"nephew", "niece"} | in_laws
    assert (len(INPUT_RELATIONS), len(targets)) == (14, 18)


def test_official_proofs_lead_from_the_story_to_the_answer(official: RelationRows) -> None:
    for story in (*official.train, *(story for stories in official.tests.values() for story in stories)):
        assert len(story.proof) == story.k - 1
        conclusions = {step.conclusion for step in story.proof}
        leaves = {premise for step in story.proof for premise in step.premises} - conclusions
        assert leaves == edges_of(story)
        assert story.proof[0].conclusion == (story.query[0], story.target, story.query[1])
        for step in story.proof:
            (a, _, c), ((a1, _, b), (b1, _, c1)) = step.conclusion, step.premises
            assert (a, b, c) == (a1, b1, c1)


def test_official_people(official: RelationRows) -> None:
    for story in official.train:
        assert len(story.genders) == story.size == len(set(story.names))
        assert set(story.genders) <= {"male", "female"}
    first = official.train[0]
    assert first.names == ("Ashley", "Lillian", "Nicholas")
    assert first.relations == ("daughter", "brother")
    assert (first.edges, first.query, first.target) == (((0, 1), (1, 2)), (0, 2), "son")


def test_official_round_trip(official: RelationRows, tmp_path: Path) -> None:
    files = write_clutrr(tmp_path, official.train, official.tests)
    assert [path.name for path in files] == ["1.2,1.3,1.4_train.csv", *(f"1.{k}_test.csv" for k in range(2, 11))]
    again = read_clutrr(tmp_path)
    assert again.train == official.train
    assert again.tests == official.tests
    with open(files[0], encoding="utf-8", newline="") as mine, open(OFFICIAL / files[0].name, newline="") as theirs:
        assert next(csv.reader(mine)) == next(csv.reader(theirs)) == list(COLUMNS)


def test_progress_is_told_every_row(official: RelationRows) -> None:
    told: list[int] = []
    stories = read_stories(OFFICIAL / "1.3_test.csv", told.append)
    assert sum(told) == len(stories) == 107


# --- writing ----------------------------------------------------------------------------------------------------------


def test_generated_round_trip(tmp_path: Path) -> None:
    train, tests = generate([2, 4], [3, 6], rows=60, seed=5, test_rows=10)
    write_clutrr(tmp_path, train, tests)
    data = read_clutrr(tmp_path)
    assert list(data.train) == train
    assert {k: list(stories) for k, stories in data.tests.items()} == tests


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
words = texts.filter(bool)
odd_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=","), max_size=8)


@st.composite
def random_stories(draw: st.DrawFn) -> Story:
    names = draw(st.lists(odd_names, min_size=2, max_size=6, unique=True))
    node = st.integers(0, len(names) - 1)
    edges = draw(st.lists(st.tuples(node, node), min_size=1, max_size=7, unique=True))
    genders = draw(st.just(()) | st.tuples(*[st.sampled_from(("male", "female"))] * len(names)))
    fact = st.tuples(node, texts, node)
    return Story(
        edges=tuple(edges),
        relations=tuple(draw(st.lists(words, min_size=len(edges), max_size=len(edges)))),
        query=draw(st.tuples(node, node)),
        target=draw(words),
        names=tuple(names),
        genders=genders,
        proof=tuple(draw(st.lists(st.builds(ProofStep, fact, st.tuples(fact, fact)), max_size=3))),
        needed=draw(st.none() | st.integers(2, len(edges) - 1)) if len(edges) > 2 else None,
    )


@settings(max_examples=60, deadline=None)
@given(stories=st.lists(random_stories(), min_size=1, max_size=4))
def test_random_stories_are_read_as_they_were_written(
    stories: list[Story], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stories")
    write_clutrr(folder, stories, {2: stories[:1]})
    data = read_clutrr(folder)
    assert list(data.train) == stories
    assert data.tests == {stories[0].k: (stories[0],)}


@pytest.mark.parametrize(
    "name", ['O\'Neil "Bo"', "Ann: the first", "\u00c5sa \U0001f600", "two\nlines", "a\rb", "\x00", "", " "]
)
def test_odd_names_survive(name: str, tmp_path: Path) -> None:
    story = replace(STORY, names=(name, "Bob", "Eve"))
    write_clutrr(tmp_path, [story], {2: [story]})
    assert read_clutrr(tmp_path).train == (story,)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"names": ("Smith, Ann", "Bob", "Eve")}, "genders"),  # commas separate persons in the cell
        ({"names": ("Ann:male,Al", "Bob", "Eve")}, "names"),  # would be read as four persons
        ({"genders": ("x:y", "male", "female")}, "names"),
        ({"genders": ("x,y:z", "male", "female")}, "names"),
        ({"genders": ("female", "male")}, "shorter"),
        ({"names": ("Ann", "Ann", "Eve")}, "proof_state"),  # who of the two is meant?
        ({"names": ("\ud800", "Bob", "Eve")}, "surrogates"),
        ({"relations": ("son", "")}, "edge_types"),
        ({"target": ""}, "target"),
        ({"edges": (), "relations": ()}, "story_edges"),
        ({"edges": ((0, 1), (0, 1))}, "edge_types"),  # two relations for one edge
        ({"needed": 1}, "needed"),
        ({"needed": 3}, "needed"),
    ],
)
def test_stories_that_would_be_read_as_others_are_refused(changes: dict[str, tuple], why: str, tmp_path: Path) -> None:
    write_clutrr(tmp_path, [STORY], {2: [STORY]})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = replace(STORY, **changes)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"1\.2_test\.csv: story 1 .*cannot be written") as caught:
        write_clutrr(tmp_path, [replace(STORY, target="aunt")], {2: [STORY, broken]})
    assert why in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_equal_names_are_fine_without_a_proof(tmp_path: Path) -> None:
    story = replace(STORY, names=("Ann", "Ann", "Eve"), proof=())
    write_clutrr(tmp_path, [story], {2: [story]})
    assert read_clutrr(tmp_path).train == (story,)


def test_needed_that_says_nothing_new_is_fine(tmp_path: Path) -> None:
    write_clutrr(tmp_path, [replace(STORY, needed=2)], {2: [STORY]})
    assert read_clutrr(tmp_path).train == (STORY,)


def test_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no stories"):
        write_clutrr(tmp_path / "a", [], {2: [STORY]})
    with pytest.raises(UserError, match=r"1\.2_test\.csv: found no stories"):
        write_clutrr(tmp_path / "b", [STORY], {2: []})
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_other_data_in_the_folder_are_not_mixed_in(tmp_path: Path) -> None:
    write_clutrr(tmp_path, [STORY], {2: [STORY]})
    longer = Story(((0, 1), (1, 2), (2, 3)), ("son",) * 3, (0, 3), "son", tuple("abcd"))
    with pytest.raises(UserError, match=r"other data in it, 1\.2_train\.csv;"):
        write_clutrr(tmp_path, [longer], {2: [STORY]})
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["1.2_test.csv", "1.2_train.csv"]
    changed = replace(STORY, target="niece")
    write_clutrr(tmp_path, [changed], {2: [STORY]})  # the same files are replaced
    assert read_clutrr(tmp_path).train == (changed,)


def test_nodes_without_names_or_edges_are_kept(tmp_path: Path) -> None:
    story = Story(((0, 1),), ("knows",), (1, 0), "known by", ("a", "b", "alone"))
    write_clutrr(tmp_path, [story], {1: [story]})
    assert read_clutrr(tmp_path).train == (story,)


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_all_cells_of_a_row(tmp_path: Path) -> None:
    assert read_row(tmp_path) == STORY


def test_only_the_required_columns(tmp_path: Path) -> None:
    row = {column: ROW[column] for column in REQUIRED_COLUMNS}
    [story] = read_stories(write_rows(tmp_path / "train.csv", [row], REQUIRED_COLUMNS))
    assert story == Story(STORY.edges, STORY.relations, STORY.query, STORY.target, ("0", "1", "2"))


def test_target_text_and_validation_file(tmp_path: Path) -> None:
    columns = [*ROW, "target_text"]
    for split, target in (("train", "daughter"), ("validation", "aunt"), ("test", "niece")):
        write_rows(tmp_path / f"{split}.csv", [ROW | {"target": "7", "target_text": target}], columns)
    data = read_clutrr(tmp_path)
    assert [story.target for story in data.train] == ["daughter"]
    assert [story.target for story in data.valid] == ["aunt"]
    assert [story.target for story in data.tests[2]] == ["niece"]


def test_several_files_of_a_split_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b_train", "a_train", "b_test", "a_test"):
        write_rows(tmp_path / f"{name}.csv", [ROW | {"target": name}])
    (tmp_path / "notes.csv").write_text("not, a, story\n")
    data = read_clutrr(tmp_path)
    assert [story.target for story in data.train] == ["a_train", "b_train"]
    assert [story.target for story in data.tests[2]] == ["a_test", "b_test"]
    assert {split: len(paths) for split, paths in clutrr_files(tmp_path).items()} == {"train": 2, "test": 2, "valid": 0}


@pytest.mark.parametrize(
    ("task_name", "k"),
    [
        ("task_2.2", 2),  # the third edge is noise
        ("task_1.3", 3),
        ("task_1.4", 3),  # never more than there are edges
        ("task_1.1", 3),
        ("task_1.0", 3),
        ("task", 3),
        ("", 3),
        ("task_1.two", 3),
        ("task_1." + "9" * 5000, 3),
    ],
)
def test_k_of_stories_with_noise(task_name: str, k: int, tmp_path: Path) -> None:
    story = read_row(
        tmp_path, task_name=task_name, story_edges="[(0, 1), (1, 2), (1, 0)]", edge_types="['son', 'sister', 'mother']"
    )
    assert story.k == k
    assert story.needed == (None if k == 3 else k)
    assert len(story.edges) == 3


def test_noise_facts_without_relations_are_refused_with_the_reason(tmp_path: Path) -> None:
    edges = {"story_edges": "[(0, 1), (1, 2), (1, 0)]", "edge_types": "['son', 'sister']"}
    with pytest.raises(DataError, match=r"one relation for each of the 3 edges; in CLUTRR's robustness sets only"):
        read_row(tmp_path, task_name="task_3.2", **edges)
    with pytest.raises(DataError, match=r"one relation for each of the 3 edges$"):
        read_row(tmp_path, task_name="task_1.2", **edges)


def test_tests_are_keyed_by_the_edges_that_the_answer_needs(tmp_path: Path) -> None:
    noisy = {"task_name": "task_2.2", "story_edges": "[(0, 1), (1, 2), (1, 0)]", "edge_types": "['a', 'b', 'c']"}
    write_rows(tmp_path / "train.csv", [ROW])
    write_rows(tmp_path / "test.csv", [ROW | noisy, ROW])
    assert [len(stories) for stories in read_clutrr(tmp_path).tests.values()] == [2]


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW], sorted(ROW, reverse=True))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_stories(path) == [STORY, STORY]


def test_edges_told_twice_are_fine_where_they_agree(tmp_path: Path) -> None:
    story = read_row(tmp_path, story_edges="[(0, 1), (1, 2), (0, 1)]", edge_types="['son', 'sister', 'son']")
    assert story.graph == replace(STORY, needed=2).graph
    assert story.k == 2


def test_fingerprint_follows_every_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.csv", [ROW])
    write_rows(tmp_path / "test.csv", [ROW])
    before = read_clutrr(tmp_path).fingerprint
    assert read_clutrr(tmp_path).fingerprint == before
    write_rows(tmp_path / "test.csv", [ROW | {"target": "aunt"}])
    assert read_clutrr(tmp_path).fingerprint != before


def test_graph_does_not_depend_on_names_or_order() -> None:
    turned = replace(STORY, edges=STORY.edges[::-1], relations=STORY.relations[::-1], names=("x", "y", "z"))
    assert turned.graph == STORY.graph
    assert replace(STORY, query=(2, 0)).graph != STORY.graph
    assert replace(STORY, relations=("son", "brother")).graph != STORY.graph
    assert replace(STORY, names=("x", "y", "z", "w")).graph != STORY.graph
