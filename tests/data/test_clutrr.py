"""CLUTRR's files: the official set is read as it is, what is written is read again, what is broken is named."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.clutrr import (
    COLUMNS,
    MAX_CELL,
    MAX_NODES,
    REQUIRED_COLUMNS,
    ClutrrData,
    ProofStep,
    Story,
    clutrr_files,
    read_clutrr,
    read_stories,
    write_clutrr,
)
from edge_transformer.data.kinship import generate
from edge_transformer.errors import DataError, UserError

OFFICIAL = Path(__file__).parents[2].parent / "shared/data/clutrr/data_db9b8f04"
TEST_ROWS = dict(zip(range(2, 11), (38, 107, 77, 185, 105, 155, 135, 124, 122), strict=True))
INPUT_RELATIONS = {"father", "mother", "son", "daughter", "brother", "sister", "husband", "wife"}
INPUT_RELATIONS |= {"grandfather", "grandmother", "grandson", "granddaughter", "uncle", "aunt"}

ROW = {  # a chain of two relations, every column that the reader knows
    "id": "0",
    "story": "Bob is Ann's son. Eve is Bob's sister.",
    "target": "daughter",
    "proof_state": "[{('Ann', 'daughter', 'Eve'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
    "task_name": "task_1.2",
    "story_edges": "[(0, 1), (1, 2)]",
    "edge_types": "['son', 'sister']",
    "query_edge": "(0, 2)",
    "genders": "Ann:female,Bob:male,Eve:female",
}
STORY = Story(
    edges=((0, 1), (1, 2)),
    relations=("son", "sister"),
    query=(0, 2),
    target="daughter",
    names=("Ann", "Bob", "Eve"),
    genders=("female", "male", "female"),
    proof=(ProofStep((0, "daughter", 2), ((0, "son", 1), (1, "sister", 2))),),
)


def write_rows(path: Path, rows: Iterable[dict[str, str]], columns: Iterable[str] = tuple(ROW)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_row(folder: Path, **cells: str) -> Story:
    """The story that is read from the row above with some of its cells changed."""
    [story] = read_stories(write_rows(folder / "train.csv", [ROW | cells], (ROW | cells).keys()))
    return story


def edges_of(story: Story) -> set[tuple[int, str, int]]:
    return {(a, relation, b) for (a, b), relation in zip(story.edges, story.relations, strict=True)}


# --- the official set -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> ClutrrData:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official CLUTRR set in {OFFICIAL}")
    return read_clutrr(OFFICIAL)


def test_official_counts(official: ClutrrData) -> None:
    assert official.name == "data_db9b8f04"
    assert len(official.train) == 15_083
    assert {k: len(stories) for k, stories in official.tests.items()} == TEST_ROWS
    assert list(official.tests) == sorted(official.tests)
    assert official.valid == ()
    assert {story.k for story in official.train} == {2, 3, 4}


def test_official_relations_and_targets(official: ClutrrData) -> None:
    assert {relation for story in official.train for relation in story.relations} == INPUT_RELATIONS
    in_laws = {f"{who}-in-law" for who in ("father", "mother", "son", "daughter")}
    targets = {story.target for story in official.train}
    assert targets == INPUT_RELATIONS - {"husband", "wife"} | {"nephew", "niece"} | in_laws
    assert (len(INPUT_RELATIONS), len(targets)) == (14, 18)


def test_official_proofs_lead_from_the_story_to_the_answer(official: ClutrrData) -> None:
    for story in (*official.train, *(story for stories in official.tests.values() for story in stories)):
        assert len(story.proof) == story.k - 1
        conclusions = {step.conclusion for step in story.proof}
        leaves = {premise for step in story.proof for premise in step.premises} - conclusions
        assert leaves == edges_of(story)
        assert story.proof[0].conclusion == (story.query[0], story.target, story.query[1])
        for step in story.proof:
            (a, _, c), ((a1, _, b), (b1, _, c1)) = step.conclusion, step.premises
            assert (a, b, c) == (a1, b1, c1)


def test_official_people(official: ClutrrData) -> None:
    for story in official.train:
        assert len(story.genders) == story.size == len(set(story.names))
        assert set(story.genders) <= {"male", "female"}
    first = official.train[0]
    assert first.names == ("Ashley", "Lillian", "Nicholas")
    assert first.relations == ("daughter", "brother")
    assert (first.edges, first.query, first.target) == (((0, 1), (1, 2)), (0, 2), "son")


def test_official_round_trip(official: ClutrrData, tmp_path: Path) -> None:
    files = write_clutrr(tmp_path, official.train, official.tests)
    assert [path.name for path in files] == ["1.2,1.3,1.4_train.csv", *(f"1.{k}_test.csv" for k in range(2, 11))]
    again = read_clutrr(tmp_path)
    assert again.train == official.train
    assert again.tests == official.tests
    with open(files[0], encoding="utf-8", newline="") as mine, open(OFFICIAL / files[0].name, newline="") as theirs:
        assert next(csv.reader(mine)) == next(csv.reader(theirs)) == list(COLUMNS)


def test_progress_is_told_every_row(official: ClutrrData) -> None:
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


# --- broken files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(
            ("story_edges", cell)
            for cell in (
                "",
                "[]",
                "(0, 1)",
                "[0, 1]",
                "[(0, 1), 2]",
                "[(0, 1), (1,)]",
                "[(0, 1), (1, 2, 3)]",
                "[[0, 1], [1, 2]]",
                "[(0, 1), (1, 'a')]",
                "[(0, 1), (1, 2.0)]",
                "[(0, 1), (1, True)]",
                "[(0, 1), (1, -1)]",
                "[(0, 1), (1, None)]",
                f"[(0, 1), (1, {MAX_NODES})]",
                "[(0, 1), (1, 99999999999999999999999)]",
                f"[(0, 1), (1, {'9' * 5000})]",
                "[(0, 1), (1, 3)]",  # the story has three persons
                "[(0, 1), (1, 2)",
            )
        ),
        *(
            ("edge_types", cell)
            for cell in (
                "",
                "son",
                "('son', 'sister')",
                "['son']",
                "['son', 'sister', 'aunt']",
                "['son', 3]",
                "['son', '']",
                "['son', None]",
            )
        ),
        *(("query_edge", cell) for cell in ("", "0", "[0, 2]", "(0, 1, 2)", "(0, 3)", "(-1, 2)", "(False, 2)", "(0,")),
        ("target", ""),
        *(("genders", cell) for cell in ("Ann", "Ann:female,Bob", ",", ",".join(["x:male"] * (MAX_NODES + 1)))),
        *(
            ("proof_state", cell)
            for cell in (
                "{",
                "{}",
                "[1]",
                "[[]]",
                "[{('Ann', 'aunt', 'Eve'): []}]",
                "[{('Ann', 'aunt', 'Eve'): [('Ann', 'son', 'Bob')]}]",
                "[{('Ann', 'aunt', 'Eve'): 7}]",
                "[{('Ann', 'aunt'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
                "[{('Ann', 'aunt', 'Zoe'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Zoe')]}]",
                "[{('Ann', 1, 'Eve'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
                "[{('Ann', 'aunt', 'Eve'): [(['Ann'], 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
            )
        ),
    ],
)
def test_broken_cells_are_named_with_their_line(column: str, cell: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW | {column: cell}, ROW])
    with pytest.raises(DataError) as caught:
        read_stories(path)
    assert str(caught.value).startswith(f"{path}:3: found {column} = ")
    assert "; expected " in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, 3)
    assert len(str(caught.value)) < len(str(path)) + 500


def test_largest_node_number(tmp_path: Path) -> None:
    unnamed = {"genders": "", "proof_state": ""}
    assert read_row(tmp_path, story_edges=f"[(0, 1), (1, {MAX_NODES - 1})]", **unnamed).size == MAX_NODES
    with pytest.raises(DataError, match=rf"train\.csv:2: found story_edges = .*{MAX_NODES}"):
        read_row(tmp_path, story_edges=f"[(0, 1), (1, {MAX_NODES})]", **unnamed)


def test_two_relations_for_one_edge(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:2: found edge_types = .*expected one relation an edge"):
        read_row(tmp_path, story_edges="[(0, 1), (1, 2), (0, 1)]", edge_types="['son', 'sister', 'nephew']")


def test_proof_over_two_nodes_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:2: found proof_state = .*all different"):
        read_row(tmp_path, genders="Ann:female,Ann:female,Eve:female,Bob:male")


@pytest.mark.parametrize(
    "code",
    [
        "[" * 10_000,
        "(" * 10_000 + ")" * 10_000,
        "{" * 5000,
        "-" * 50_000 + "1",
        "1+" * 20_000 + "1",
        "__import__('pathlib').Path(TRACE).touch()",
        "[__import__('pathlib').Path(TRACE).touch()]",
        "[(0, __import__('pathlib').Path(TRACE).touch())]",
        "[(0, 1) for _ in [open(TRACE, 'w')]]",
        "(lambda: open(TRACE, 'w'))()",
        "f'{open(TRACE, chr(119))}'",
        "2**99999999",
        "'a' * 10**9",
        "\x00",
    ],
)
@pytest.mark.parametrize("column", ["story_edges", "edge_types", "query_edge", "proof_state"])
def test_code_is_refused_and_not_run(column: str, code: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(DataError, match=rf"train\.csv:2: found {column} = "):
        read_row(tmp_path, **{column: code.replace("TRACE", repr(str(trace)))})
    assert not trace.exists()


@pytest.mark.parametrize("column", REQUIRED_COLUMNS)
def test_missing_column(column: str, tmp_path: Path) -> None:
    columns = [name for name in ROW if name != column]
    path = write_rows(tmp_path / "train.csv", [{name: ROW[name] for name in columns}], columns)
    with pytest.raises(DataError) as caught:
        read_stories(path)
    assert str(caught.value) == (
        f"{path}:1: found {', '.join(columns)}; expected the columns {', '.join(REQUIRED_COLUMNS)}"
    )


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "train.csv").touch()
    with pytest.raises(DataError, match=r"train\.csv:1: found no header; expected the columns story_edges"):
        read_stories(tmp_path / "train.csv")


def test_header_only(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:1: found no rows; expected at least one story"):
        read_stories(write_rows(tmp_path / "train.csv", []))


@pytest.mark.parametrize(("extra", "cells"), [(",one more", 10), ("", 9)])
def test_row_with_another_number_of_cells(extra: str, cells: int, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW])
    text = path.read_text()
    last = text.splitlines()[-1]
    broken = last + extra if extra else last.removeprefix("0,")
    path.write_text(text + broken + "\n")
    found = cells if extra else cells - 1
    with pytest.raises(DataError, match=rf"train\.csv:3: found a row of {found} cells; expected 9,"):
        read_stories(path)


def test_line_of_a_broken_row_after_rows_of_several_lines(tmp_path: Path) -> None:
    tale = 'First line.\nSecond, "quoted" line.\r\nThird line.'
    rows = [ROW | {"story": tale}, ROW, ROW | {"story": tale, "target": ""}]
    path = write_rows(tmp_path / "train.csv", rows)
    with pytest.raises(DataError, match=r"train\.csv:6: found target = ''"):
        read_stories(path)


def test_line_of_a_broken_row_after_blank_lines(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW | {"target": ""}])
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, "", first, "", "", second, ""]))
    with pytest.raises(DataError, match=r"train\.csv:6: found target = ''"):
        read_stories(path)
    path.write_text("\n".join([header, "", first, "", "", first, "", ""]))
    assert read_stories(path) == [STORY, STORY]


def test_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW])
    path.write_text(path.read_text() + '1,"no end\nand on\nand on\n')
    with pytest.raises(DataError, match=r"train\.csv:4: found unexpected end of data; expected a CSV file"):
        read_stories(path)


def test_cell_of_more_than_a_million_characters(tmp_path: Path) -> None:
    assert read_row(tmp_path, story="x" * (MAX_CELL - 1)) == STORY
    with pytest.raises(DataError, match=r"train\.csv:2: found field larger than field limit .*; expected a CSV file"):
        read_row(tmp_path, story="x" * (MAX_CELL + 1))


@pytest.mark.parametrize("before", [0, 1, 500])
def test_bytes_that_are_no_text(before: int, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW] * before)
    good = path.read_bytes()
    path.write_bytes(good + b"0,caf\xe9,...\n" + good)
    with pytest.raises(DataError, match=rf"train\.csv:{before + 2}: found bytes that are no text .*; expected UTF-8"):
        read_stories(path)


def test_folders_that_hold_no_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder; expected .*train\.csv"):
        read_clutrr(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"found no \*train\.csv"):
        read_clutrr(tmp_path)
    write_rows(tmp_path / "train.csv", [ROW])
    with pytest.raises(UserError, match=r"found no \*test\.csv"):
        read_clutrr(tmp_path)
    with pytest.raises(UserError, match=r"found no \*test\.csv; expected a CLUTRR folder with test files"):
        read_clutrr(tmp_path, training=False)
    with pytest.raises(UserError, match=r"train\.csv: no such folder"):
        read_clutrr(tmp_path / "train.csv")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.csv: No such file"):
        read_stories(tmp_path / "none.csv")
    (tmp_path / "a_train.csv").mkdir()
    write_rows(tmp_path / "a_test.csv", [ROW])
    with pytest.raises(UserError, match=r"a_train\.csv: Is a directory"):
        read_clutrr(tmp_path)
