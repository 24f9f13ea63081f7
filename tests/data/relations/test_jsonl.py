"""Labelled graphs as JSON lines: what is read, what is refused, and which files of a folder are taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.folder import graph_files, read_folder
from edge_transformer.data.relations.rows import MAX_LINE, MAX_NODES, Story, graph_from_json, read_graph_lines
from edge_transformer.errors import DataError, UserError

EDGES = [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]
GRAPH = {"edges": EDGES, "query": ["Ann", "Bob"], "target": "son"}
LINE = json.dumps(GRAPH)


def read(*lines: str, needs_target: bool = False) -> list[Story]:
    return list(read_graph_lines(lines, "graphs.jsonl", needs_target))


def fail(line: str, **options: Any) -> str:
    """The message that a file with this as its third line ends in."""
    with pytest.raises(DataError) as caught:
        list(read_graph_lines([LINE, "", line, LINE], "graphs.jsonl", **options))
    assert caught.value.line == 3
    assert str(caught.value).startswith("graphs.jsonl:3: found ")
    return str(caught.value).removeprefix("graphs.jsonl:3: ")


def test_a_graph() -> None:
    [story] = read(LINE, needs_target=True)
    assert story == Story(((0, 1), (1, 2)), ("daughter", "brother"), (0, 2), "son", ("Ann", "Lil", "Bob"))
    assert (story.k, story.size) == (2, 3)


def test_nodes_are_numbered_by_first_mention() -> None:
    [story] = read('{"edges": [["c", "r", "a"], ["b", "s", "c"]], "query": ["a", "b"]}')
    assert story.names == ("c", "a", "b")
    assert story.edges == ((0, 1), (2, 0))
    assert story.query == (1, 2)
    assert story.target == ""  # a question


def test_nodes_may_be_whole_numbers() -> None:
    [numbers] = read('{"edges": [[7, "r", -3], [-3, "s", 100000000000000000000]], "query": [7, 100000000000000000000]}')
    assert numbers.names == ("7", "-3", "100000000000000000000")
    [mixed] = read('{"edges": [[7, "r", "x"]], "query": ["7", "x"]}')  # 7 and "7" are the same node
    assert (mixed.query, mixed.size) == ((0, 1), 2)


def test_blank_lines_are_passed_over_and_counted() -> None:
    assert len(read("", LINE, "  \n", "\t", LINE, "")) == 2
    with pytest.raises(DataError) as caught:
        read("", "\n", LINE, "", "{}")
    assert caught.value.line == 5


def test_lines_are_read_as_they_come() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield LINE

    stories = read_graph_lines(endless(), "stream")
    assert next(stories) == next(stories)


def test_self_loops_and_edges_that_agree() -> None:
    [story] = read('{"edges": [["a", "r", "a"], ["a", "r", "a"]], "query": ["a", "a"]}')
    assert (story.edges, story.query, story.size) == (((0, 0), (0, 0)), (0, 0), 1)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "{",
        LINE + LINE,
        "'single quotes'",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"edges": [[0, "r", ' + "9" * 5000 + "]]}",
        "\ufeff" + LINE,
        "[" * 990 + "]" * 990,
        "[" * 993 + "]" * 993,
    ],
)
def test_lines_that_are_no_json_object(line: str) -> None:
    message = fail(line)
    assert "object" in message
    assert len(message) < 500


@pytest.mark.parametrize("value", [None, 3, "text", [], [GRAPH], True])
def test_json_that_is_no_object(value: Any) -> None:
    assert fail(json.dumps(value)) == f'found {json.dumps(value)}; expected an object with "edges" and "query"'


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"edges": None}, "null", '"edges": a list of'),
        ({"edges": []}, "[]", '"edges": a list of'),
        ({"edges": {"a": "b"}}, '{"a": "b"}', '"edges": a list of'),
        ({"edges": ["abc"]}, '"abc"', "an edge as [from, relation, to]"),
        ({"edges": [["a", "r"]]}, '["a", "r"]', "an edge as"),
        ({"edges": [["a", "r", "b", "c"]]}, '["a", "r", "b", "c"]', "an edge as"),
        ({"edges": [["a", 1, "b"]]}, '["a", 1, "b"]', "an edge as"),
        ({"edges": [["a", "", "b"]]}, '["a", "", "b"]', "an edge as"),
        ({"edges": [["a", None, "b"]]}, '["a", null, "b"]', "an edge as"),
        ({"edges": [[1.0, "r", "b"]]}, '[1.0, "r", "b"]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", True]]}, '["a", "r", true]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", None]]}, '["a", "r", null]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", ["b"]]]}, '["a", "r", ["b"]]', "nodes that are texts or whole numbers"),
        ({"edges": [*EDGES, ["Ann", "niece", "Lil"]]}, '[["Ann", "daughter"', "one relation an edge"),
        ({"query": None}, "null", '"query": the two nodes'),
        ({"query": ["Ann"]}, '["Ann"]', '"query": the two nodes'),
        ({"query": ["Ann", "Lil", "Bob"]}, '["Ann", "Lil", "Bob"]', '"query": the two nodes'),
        ({"query": "Ann"}, '"Ann"', '"query": the two nodes'),
        ({"query": ["Ann", "Zoe"]}, '["Ann", "Zoe"]', "nodes that some edge mentions: Ann, Lil, Bob"),
        ({"query": ["Ann", None]}, '["Ann", null]', "nodes that some edge mentions"),
        ({"edges": [["True", "r", "b"]], "query": [True, "b"]}, '[true, "b"]', "nodes that are texts"),
        ({"target": 3}, "3", '"target"'),
        ({"target": None}, "null", '"target"'),
    ],
)
def test_broken_graphs_are_named(changes: dict[str, Any], found: str, expected: str) -> None:
    message = fail(json.dumps(GRAPH | changes))
    assert message.startswith(f"found {found}")
    assert f"; expected {expected}" in message


@pytest.mark.parametrize("name", ["edges", "query"])
def test_missing_fields(name: str) -> None:
    message = fail(json.dumps({key: value for key, value in GRAPH.items() if key != name}))
    assert f'expected "{name}"' in message


def test_target_is_needed_for_training_only() -> None:
    question = json.dumps({"edges": EDGES, "query": ["Ann", "Bob"]})
    assert read(question)[0].target == ""
    assert 'expected "target"' in fail(question, needs_target=True)
    assert 'expected "target"' in fail(json.dumps(GRAPH | {"target": ""}), needs_target=True)


def test_relations_outside_a_vocabulary_are_refused_where_one_is_given() -> None:
    assert len(list(read_graph_lines([LINE], "x", known=["brother", "daughter"]))) == 1
    message = fail(json.dumps(GRAPH | {"edges": [["a", "boss", "b"]]}), known=["brother", "daughter"])
    assert message == 'found ["a", "boss", "b"]; expected a relation that the model knows: brother, daughter'


def test_most_nodes() -> None:
    def star(nodes: int) -> str:
        return json.dumps({"edges": [[0, "r", node] for node in range(1, nodes)], "query": [0, 1]})

    assert read(star(MAX_NODES))[0].size == MAX_NODES
    assert fail(star(MAX_NODES + 1)) == f"found a graph of {MAX_NODES + 1} nodes; expected at most {MAX_NODES}"
    assert fail(star(4), max_nodes=3) == "found a graph of 4 nodes; expected at most 3"


def test_longest_line() -> None:
    def of_length(length: int) -> str:
        return LINE + " " * (length - len(LINE))

    assert len(read(of_length(MAX_LINE))) == 1
    assert fail(of_length(MAX_LINE + 1)) == f"found a line of {MAX_LINE + 1} characters; expected at most {MAX_LINE}"


def test_errors_of_values_that_come_without_a_line() -> None:
    with pytest.raises(DataError, match=r"^input 4: found 3; expected an object"):
        graph_from_json(3, "input 4")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(edges=json_values | st.lists(st.lists(json_values, min_size=3, max_size=3), max_size=3), query=json_values)
def test_any_json_is_read_or_refused(edges: Any, query: Any) -> None:
    try:
        [story] = read(json.dumps({"edges": edges, "query": query}))
    except DataError:  # anything else would be a traceback to the user
        return
    assert len(story.relations) == len(story.edges) == len(edges)
    assert max(max(edge) for edge in (*story.edges, story.query)) < story.size


# --- folders ----------------------------------------------------------------------------------------------------------


def write_lines(path: Path, *targets: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(GRAPH | {"target": target}) + "\n\n" for target in targets), encoding="utf-8")


def test_folder_of_json_lines(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a", "b")
    write_lines(tmp_path / "valid.jsonl", "c")
    write_lines(tmp_path / "easy_test.jsonl", "d")
    write_lines(tmp_path / "hard_test.jsonl", "e", "ü")
    told: list[int] = []
    data = read_folder(tmp_path, told.append)
    assert data.name == tmp_path.name
    assert [story.target for story in data.train] == ["a", "b"]
    assert [story.target for story in data.valid] == ["c"]
    assert [story.target for story in data.tests[2]] == ["d", "e", "ü"]
    assert sum(told) == 6


def test_tests_are_keyed_by_the_number_of_edges(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    lines = [{"edges": [["a", "r", str(node)] for node in range(edges)], "query": ["a", "0"]} for edges in (3, 1, 3)]
    text = "\n".join(json.dumps({**line, "target": "t"}) for line in lines)
    (tmp_path / "test.jsonl").write_text(text)
    assert {k: len(stories) for k, stories in read_folder(tmp_path).tests.items()} == {1: 1, 3: 2}


def test_json_lines_come_before_csv(tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "from csv", ("a", "b"))
    write_clutrr(tmp_path, [story], {1: [story]})
    assert {path.suffix for paths in graph_files(tmp_path).values() for path in paths} == {".csv"}
    assert read_folder(tmp_path).train[0].target == "from csv"
    write_lines(tmp_path / "train.jsonl", "from json")
    write_lines(tmp_path / "test.jsonl", "from json")
    assert {path.suffix for paths in graph_files(tmp_path).values() for path in paths} == {".jsonl"}
    assert read_folder(tmp_path).train[0].target == "from json"


def test_byte_order_mark(tmp_path: Path) -> None:
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + LINE.encode() + b"\r\n")
    assert len(read_folder(tmp_path).train) == 1


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    (tmp_path / "test.jsonl").write_text(f"{LINE}\n\n{LINE}\nbroken\n")
    with pytest.raises(DataError, match=r"test\.jsonl:4: found 'broken'; expected one JSON object a line"):
        read_folder(tmp_path)
    (tmp_path / "test.jsonl").write_text(f"{LINE}\n" + json.dumps({"edges": EDGES, "query": ["Ann", "Bob"]}))
    with pytest.raises(DataError, match=r'test\.jsonl:2: found ""; expected "target"'):
        read_folder(tmp_path)


@pytest.mark.parametrize("before", [0, 1, 700])
def test_bytes_that_are_no_text(before: int, tmp_path: Path) -> None:
    write_lines(tmp_path / "test.jsonl", "a")
    (tmp_path / "train.jsonl").write_bytes(f"{LINE}\n".encode() * before + b'{"edges": "\xff"}\n' + LINE.encode())
    with pytest.raises(DataError, match=rf"train\.jsonl:{before + 1}: found bytes that are no text"):
        read_folder(tmp_path)


def test_folders_that_hold_no_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"found neither \*train\.jsonl nor \*train\.csv"):
        read_folder(tmp_path)
    write_lines(tmp_path / "train.jsonl", "a")
    with pytest.raises(UserError, match=r"found no rows in \*test\.jsonl"):
        read_folder(tmp_path)
    (tmp_path / "test.jsonl").write_text("\n\n")
    with pytest.raises(UserError, match=r"found no rows in \*test\.jsonl"):
        read_folder(tmp_path)
    write_lines(tmp_path / "test.jsonl", "a")
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(UserError, match=r"found no rows in \*train\.jsonl"):
        read_folder(tmp_path)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_test_files_are_enough_without_training(suffix: str, tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "t", ("a", "b"))
    if suffix == "csv":
        write_clutrr(tmp_path, [story], {1: [story]})
    else:
        write_lines(tmp_path / "1.1_train.jsonl", "t", "t")
        write_lines(tmp_path / "1.1_test.jsonl", "t")
    whole = read_folder(tmp_path)
    told: list[int] = []
    tests = read_folder(tmp_path, told.append, training=False)
    assert (tests.train, tests.tests, tests.fingerprint) == ((), whole.tests, whole.fingerprint)
    assert sum(told) == 1
    (tmp_path / f"1.1_train.{suffix}").unlink()
    alone = read_folder(tmp_path, training=False)
    assert (alone.train, alone.tests) == ((), whole.tests)
    assert alone.fingerprint != whole.fingerprint
    with pytest.raises(
        UserError, match=r"found neither \*train\.jsonl nor \*train\.csv; expected one of them, and test"
    ):
        read_folder(tmp_path)
    (tmp_path / f"1.1_test.{suffix}").unlink()
    with pytest.raises(UserError, match=r"found neither \*test\.jsonl nor \*test\.csv; expected one of them$"):
        read_folder(tmp_path, training=False)


def test_training_files_decide_which_files_are_read(tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "from csv", ("a", "b"))
    write_clutrr(tmp_path, [story], {1: [story]})
    write_lines(tmp_path / "test.jsonl", "from json")
    for training in (True, False):
        assert [story.target for story in read_folder(tmp_path, training=training).tests[1]] == ["from csv"]


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").mkdir()
    write_lines(tmp_path / "test.jsonl", "a")
    with pytest.raises(UserError, match=r"train\.jsonl: Is a directory"):
        read_folder(tmp_path)


def test_fingerprint_follows_the_files_that_are_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    write_lines(tmp_path / "test.jsonl", "a")
    before = read_folder(tmp_path).fingerprint
    (tmp_path / "notes.txt").write_text("not read")
    assert read_folder(tmp_path).fingerprint == before
    write_lines(tmp_path / "valid.jsonl", "a")
    assert read_folder(tmp_path).fingerprint != before
