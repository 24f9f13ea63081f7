"""The problems: answers that follow from the rows, no test row in training, the same rows from the same seed."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from command_line import refused, run
from edge_transformer.data.relations.clutrr import read_clutrr, write_clutrr
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.problems import PROBLEMS, graph_key, sample_clutrr, write_problem
from edge_transformer.data.relations.problems.drawing import answers_by_share
from edge_transformer.data.relations.problems.molecules import VALENCES, molecules
from edge_transformer.data.relations.problems.spatial import distance
from edge_transformer.data.relations.problems.stories import row_of
from edge_transformer.data.relations.problems.world import graph, link
from edge_transformer.errors import UserError

SIZES = {
    "organisation": (240, 500),
    "permissions": (600, 500),
    "spatial": (1000, 500),
    "family": (300, 510),
    "graph": (800, 400),
    "molecules": (1000, 500),
}
Row = dict[str, Any]


@cache
def rows_of(name: str) -> dict[str, list[Row]]:
    return PROBLEMS[name](1)


def all_rows(name: str) -> list[Row]:
    return [row for rows in rows_of(name).values() for row in rows]


# --- all problems -----------------------------------------------------------------------------------------------------


def test_all_problems_are_tested() -> None:
    assert [*SIZES, "relatives"] == list(PROBLEMS)  # test_relatives.py has the tests of the last


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_shares(name: str) -> None:
    splits = rows_of(name)
    assert (len(splits["train"]), len(splits["test"])) == SIZES[name]
    known = Counter(row["target"] for row in splits["train"])
    assert max(known.values()) <= (0.5 if name == "molecules" else 0.35) * len(splits["train"])
    assert {row["target"] for row in splits["test"]} <= set(known)


@pytest.mark.parametrize("name", SIZES)
def test_rows_are_plain_json(name: str) -> None:
    for row in all_rows(name):
        assert json.loads(json.dumps(row)) == row
        kind = {"nodes": dict, "edges": list, "query": list, "target": str}
        assert all(isinstance(value, kind[field]) for field, value in row.items())
        assert all(len(edge) == 3 and all(isinstance(part, str) and part for part in edge) for edge in row["edges"])
        told = [tuple(sorted((a, b))) for a, _, b in row["edges"]]
        if name != "family":  # there a story may come back along an edge
            assert len(set(told)) == len(told), "one edge a pair"
        names = set(row["nodes"]) if "nodes" in row else {node for a, _, b in row["edges"] for node in (a, b)}
        assert names.issuperset(node for pair in told for node in pair)
        assert ("query" in row) == (name != "molecules")
        if "query" in row:
            assert len(set(row["query"])) == 2
            assert names.issuperset(row["query"])


@pytest.mark.parametrize("name", SIZES)
def test_no_test_row_is_in_training(name: str) -> None:
    trained = {graph_key(row) for row in rows_of(name)["train"]}
    tested = [row for row in rows_of(name)["test"] if name != "family" or len(row["edges"]) > 2]
    assert len(tested) >= 340
    assert not [row for row in tested if graph_key(row) in trained]


@pytest.mark.parametrize("name", SIZES)
def test_same_seed_same_rows(name: str) -> None:
    small = {"rows": 30, "test_rows": 30}
    problem: Any = PROBLEMS[name]
    assert problem(3, **small) == problem(3, **small) != problem(4, **small)
    for seed in (5, 6):  # others work too
        assert len(problem(seed, **small)["train"]) == 30


def test_the_key_ignores_names_and_order_only() -> None:
    row = {"edges": [["a", "r", "b"], ["b", "s", "c"]], "query": ["a", "c"], "target": "t"}
    same = {"edges": [["y", "s", "z"], ["x", "r", "y"]], "query": ["x", "z"], "target": "u"}
    assert graph_key(row) == graph_key(same)
    others = [
        {**row, "query": ["c", "a"]},
        {**row, "edges": [["a", "r", "b"], ["c", "s", "b"]]},
        {**row, "edges": [["a", "r", "b"], ["b", "r", "c"]]},
        {**row, "nodes": {"a": "x", "b": "x", "c": "x"}},
        {**row, "nodes": {"a": "x", "b": "y", "c": "x"}},
    ]
    assert len({graph_key(other) for other in (row, *others)}) == 6


def test_answers_by_share() -> None:
    assert Counter(answers_by_share(10, {"a": 0.5, "b": 0.25, "c": 0.25})) == {"a": 6, "b": 2, "c": 2}
    assert Counter(answers_by_share(4, {"a": 1, "b": 1})) == {"a": 2, "b": 2}


# --- answers, found again in another way ------------------------------------------------------------------------------


def test_answers_of_organisation() -> None:
    names = {
        (0, 1): "report",
        (1, 0): "manager",
        (1, 1): "colleague",
        (2, 1): "manager's colleague",
        (1, 2): "colleague's report",
    }
    for row in all_rows("organisation"):
        superior = {b: a for a, label, b in row["edges"] if label == "manages"}
        superior |= {a: b for a, label, b in row["edges"] if label == "assists"}
        leads = {team: a for a, label, team in row["edges"] if label == "leads"}
        superior |= {a: leads[team] for a, label, team in row["edges"] if label == "is in"}
        ways = []  # how far up, and then down again, from the first to the second person
        for person in row["query"]:
            way = [person]
            while way[-1] in superior:
                way.append(superior[way[-1]])
            ways.append(way)
        common = [person for person in ways[0] if person in ways[1]]
        answer = "unrelated"
        if common:
            up, down = ways[0].index(common[0]), ways[1].index(common[0])
            far = "indirect report" if up == 0 else "indirect manager" if down == 0 else "unrelated"
            answer = names.get((up, down), far)
        assert row["target"] == answer, row


def test_answers_of_permissions() -> None:
    for row in all_rows("permissions"):
        user, folder = row["query"]
        assert (row["nodes"][user], row["nodes"][folder]) == ("user", "folder")
        labels = {(a, b): label for a, label, b in row["edges"]}
        granted = set()  # on every way up through the groups
        waiting = [user]
        while waiting:
            node = waiting.pop()
            for (a, b), label in labels.items():
                if a == node and label in ("member of", "part of"):
                    waiting.append(b)
                elif a == node and _is_above(labels, b, folder):
                    granted.add(label)
        order = [("is denied", "denied"), ("may write", "write"), ("may read", "read")]
        answer = next((name for label, name in order if label in granted), "none")
        assert row["target"] == answer, row


def _is_above(labels: dict[tuple[str, str], str], outer: str, inner: str) -> bool:
    if outer == inner:
        return True
    return any(_is_above(labels, outer, b) for (a, b), label in labels.items() if a == inner and label == "inside")


def test_answers_of_spatial() -> None:
    signs = {"left": (-1, 0), "right": (1, 0), "above": (0, 1), "below": (0, -1), "upper": (0, 1), "lower": (0, -1)}
    for row in all_rows("spatial"):
        a, b = row["query"]
        wanted = [signs[word] for word in row["target"].split() if word in signs]
        if wanted:
            expected = (sum(x for x, _ in wanted), sum(y for _, y in wanted))
            assert (_order(row, a, b, 0), _order(row, a, b, 1)) == expected, row
            continue
        boxes = defaultdict(list)
        for start, label, end in row["edges"]:
            if label in ("inside", "contains"):
                boxes[start if label == "inside" else end].append(end if label == "inside" else start)
        above = {node: list(_boxes(boxes, node)) for node in (a, b)}
        answer = "inside" if b in above[a] else "contains" if a in above[b] else "beside"
        assert row["target"] == answer
        assert answer != "beside" or set(above[a]) & set(above[b])


def _boxes(boxes: dict[str, list[str]], node: str) -> list[str]:
    assert len(boxes[node]) <= 1, "a thing is in one box"
    return [outer for box in boxes[node] for outer in (box, *_boxes(boxes, box))]


def _order(row: Row, a: str, b: str, axis: int) -> int:
    """-1, 0 or 1 as the told relations say along an axis; fails where they do not say it, or contradict themselves."""
    nodes = sorted({node for start, _, end in row["edges"] for node in (start, end)})
    less, more = (("left of", "right of"), ("below", "above"))[axis]
    below = {(x, y): False for x in nodes for y in nodes if x == y}  # x is at most y; True: less than y
    for start, label, end in row["edges"]:
        if label in (less, more):
            low, high = (start, end) if label == less else (end, start)
            below[low, high] = True
        else:
            below.setdefault((start, end), False)
            below.setdefault((end, start), False)
    for k, i, j in itertools.product(nodes, repeat=3):
        if (i, k) in below and (k, j) in below:
            below[i, j] = below.get((i, j), False) or below[i, k] or below[k, j]
    assert not any(below[node, node] for node in nodes), "no contradiction"
    if below.get((a, b)):
        return -1
    if below.get((b, a)):
        return 1
    assert (a, b) in below, "said"
    assert (b, a) in below
    return 0


def test_tests_of_spatial_have_longer_chains() -> None:
    lengths = {
        split: Counter(distance([tuple(edge) for edge in row["edges"]], *row["query"]) for row in rows)
        for split, rows in rows_of("spatial").items()
    }
    assert lengths["train"] == {2: 334, 3: 333, 4: 333}
    assert lengths["test"] == dict.fromkeys(range(2, 7), 100)


def test_answers_of_family_are_those_of_the_generator() -> None:
    train, tests = generate((2, 3), (2, 3, 4), 300, 1, test_rows=170)
    assert rows_of("family")["train"] == [row_of(story) for story in train]
    assert [len(row["edges"]) for row in rows_of("family")["test"]] == [2] * 170 + [3] * 170 + [4] * 170
    assert rows_of("family")["test"][-1] == row_of(tests[4][-1])


def test_answers_of_graph_follow_from_the_row_without_names() -> None:
    rng = random.Random(1)
    for row in all_rows("graph"):
        nodes = sorted({node for a, _, b in row["edges"] for node in (a, b)})
        names = dict(zip(nodes, rng.sample(range(100, 999), len(nodes)), strict=True))
        facts = [(f"n{names[a]}", label, f"n{names[b]}") for a, label, b in row["edges"]]
        a, b = (f"n{names[node]}" for node in row["query"])
        assert link(facts, a, b) == row["target"]
        assert not any({a, b} == {start, end} for start, _, end in facts), "the edge itself is hidden"


@pytest.mark.parametrize(
    ("facts", "query", "answer"),
    [
        ("A born_in X; X located_in Y; Y located_in Z", "A Z", "citizen of"),
        ("A born_in X; X located_in Z; A naturalised_in W", "A Z", "native of"),
        ("A born_in X; X located_in Z; A naturalised_in W; B born_in V; V located_in W", "A B", "compatriot of"),
        ("A lives_in X; X located_in Z", "A Z", "resident of"),
        ("A lives_in X; X located_in Z; W borders Z", "A W", "lives next to"),
        ("A works_for X; X based_in Y; Y located_in Z", "A Z", "works in"),
        ("A works_for X; X owned_by Y; Y based_in V; V located_in Z", "A Z", "no link"),
        ("A works_for X; X owned_by Y; B works_for Y", "A B", "colleague of"),
        ("A child_of X; B child_of X", "A B", "sibling of"),
        ("A child_of X; C child_of X; B married_to C", "A B", "in-law of"),
        ("A child_of X; C child_of X; B married_to C", "B A", "in-law of"),
        ("Y owned_by X; Y based_in V; V located_in Z", "X Z", "active in"),
        ("X located_in V; V located_in Z; Y located_in Z", "X Y", "in one country with"),
        ("X located_in V; Y located_in Z; Z borders V", "X Y", "across the border from"),
        ("X located_in V; Y located_in Z; Z part_of W; V part_of W", "X Y", "no link"),
    ],
)
def test_rules_of_graph(facts: str, query: str, answer: str) -> None:
    told = []
    for fact in facts.split("; "):
        a, label, b = fact.split()
        told.append((a, label.replace("_", " "), b))
    a, b = query.split()
    assert link(told, a, b) == answer


def test_pairs_of_graph_are_in_one_split() -> None:
    pairs = {split: {frozenset(row["query"]) for row in rows} for split, rows in rows_of("graph").items()}
    assert not pairs["train"] & pairs["test"]


def test_answers_of_molecules() -> None:
    """Every ring of five atoms, by all choices of five that are bound to each other in a circle."""
    splits = molecules(2, rows=60, test_rows=20)
    for row in [row for rows in splits.values() for row in rows]:
        atoms = row["nodes"]
        bonds = {frozenset((a, b)): label for a, label, b in row["edges"]}
        carbonyls = {
            atom
            for bond, label in bonds.items()
            for atom in bond
            if label == "double" and atoms[atom] == "C" and any(atoms[other] == "O" for other in bond - {atom})
        }
        active = False
        for five in itertools.combinations(atoms, 5):
            inside = [bond for bond in bonds if bond <= set(five)]
            if len(inside) == 5 and all(sum(atom in bond for bond in inside) == 2 for atom in five):
                active |= any({"N", "C"} == {atoms[x] for x in bond} and bond & carbonyls for bond in inside)
        assert row["target"] == ("active" if active else "inactive"), row


def test_molecules_keep_valences_and_hang_together() -> None:
    for row in all_rows("molecules"):
        orders: Counter[str] = Counter()
        for a, label, b in row["edges"]:
            for atom in (a, b):
                orders[atom] += {"single": 1, "double": 2}[label]
        assert all(orders[atom] <= VALENCES[element] for atom, element in row["nodes"].items())
        start = next(iter(row["nodes"]))
        assert all(distance(row["edges"], start, atom) < 22 for atom in row["nodes"])


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_command_writes_files(tmp_path: Path) -> None:
    folder = tmp_path / "org"
    result = run("data", "generate", "organisation", "--seed", "1", "--out", str(folder))
    assert result.out.splitlines() == [
        f"organisation in {folder}:",
        "  train.jsonl: 240 rows",
        "  test.jsonl: 500 rows",
    ]
    for split, rows in rows_of("organisation").items():
        lines = (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == rows


@pytest.mark.parametrize("option", ["--rows=3", "--test-rows=3", "--train-k=2", "--source=x"])
def test_the_command_refuses_options_that_a_problem_lacks(option: str, tmp_path: Path) -> None:
    message = refused("data", "generate", "spatial", option, "--out", str(tmp_path / "x"))
    assert message == f"{option.partition('=')[0]}: found it with spatial, which has no such option"
    assert not (tmp_path / "x").exists()


def test_problems_are_not_mixed_with_other_data(tmp_path: Path) -> None:
    (tmp_path / "valid.jsonl").touch()
    with pytest.raises(UserError, match=r"has other data in it, valid\.jsonl; expected a folder without"):
        write_problem("family", tmp_path)
    with pytest.raises(UserError, match="found the problem 'chess'; expected one of organisation"):
        write_problem("chess", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["valid.jsonl"]


@pytest.fixture
def clutrr(tmp_path: Path) -> Path:
    write_clutrr(tmp_path / "clutrr", *generate((2, 3), (2, 3), 60, 1, test_rows=5))
    return tmp_path / "clutrr"


def test_a_sample_of_clutrr(clutrr: Path, tmp_path: Path) -> None:
    arguments = ("--source", str(clutrr), "--rows", "20")
    result = run("data", "generate", "clutrr-sample", *arguments, "--out", str(tmp_path / "some"))
    names = ["1.2,1.3_train.csv", "1.2_test.csv", "1.3_test.csv"]
    assert result.out.splitlines() == [
        f"20 training stories of {clutrr}, and its test files, in {tmp_path / 'some'}:",
        *(f"  {name}" for name in names),
    ]
    whole, some = read_clutrr(clutrr), read_clutrr(tmp_path / "some")
    assert some.tests == whole.tests
    assert len(some.train) == 20
    stories = iter(whole.train)
    assert all(story in stories for story in some.train), "in their order"
    sample_clutrr(clutrr, tmp_path / "same", 20)
    sample_clutrr(clutrr, tmp_path / "other", 20, seed=2)
    train = (tmp_path / "some" / names[0]).read_bytes()
    assert (tmp_path / "same" / names[0]).read_bytes() == train != (tmp_path / "other" / names[0]).read_bytes()


def test_samples_that_cannot_be_had(clutrr: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match="found 60 training stories; expected at least as many as asked for, 61"):
        sample_clutrr(clutrr, out, 61)
    with pytest.raises(UserError, match="found the folder of the stories itself; expected another"):
        sample_clutrr(clutrr, clutrr, 10)
    assert len(read_clutrr(clutrr).train) == 60
    assert not out.exists()
    message = refused("data", "generate", "clutrr-sample", "--out", str(out))
    assert message == "clutrr-sample: found no --source; expected the CLUTRR folder to take stories from"
    message = refused("data", "generate", "clutrr", "--source", str(clutrr), "--out", str(out))
    assert message == "--source: found it with clutrr, which has no such option"
    out.mkdir()
    (out / "train.jsonl").touch()
    with pytest.raises(UserError, match=r"has other data in it, train\.jsonl; expected a folder without"):
        sample_clutrr(clutrr, out, 10)


def test_the_world_of_graph_is_the_same_for_all_seeds() -> None:
    facts = [
        {tuple(edge) for row in graph(seed, rows=200, test_rows=100)["train"] for edge in row["edges"]}
        for seed in (1, 2)
    ]
    assert len(facts[0] ^ facts[1]) < 0.2 * len(facts[0] | facts[1])
