"""The generator of kinship stories: its families, its stories, their agreement with the official CLUTRR files, and the
folders that it writes, made once and never mixed up with others.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.clutrr import read_clutrr
from edge_transformer.data.relations.families import JOINED, MAX_PERSONS, Family, FamilyShape, simulate_family
from edge_transformer.data.relations.generate import (
    MAX_K,
    RELATIONS,
    TARGETS,
    GeneratedData,
    _draw_plot,
    _tell,
    generate,
)
from edge_transformer.data.relations.rows import Fact, Story
from edge_transformer.errors import UserError
from edge_transformer.io.settings import from_dict
from official_data import benchmark

ROOT = Path(__file__).parents[3]
OFFICIAL = benchmark("clutrr/data_db9b8f04")
MALE = {"father", "son", "brother", "grandfather", "grandson", "uncle", "husband", "nephew"}
MALE |= {"father-in-law", "son-in-law"}
REVERSE = {  # by the generations between; which of the two depends on the gender of the one it is said of
    ("father", "mother"): ("son", "daughter"),
    ("brother", "sister"): ("brother", "sister"),
    ("grandfather", "grandmother"): ("grandson", "granddaughter"),
    ("uncle", "aunt"): ("nephew", "niece"),
    ("husband", "wife"): ("husband", "wife"),
    ("father-in-law", "mother-in-law"): ("son-in-law", "daughter-in-law"),
}
REVERSE |= {b: a for a, b in REVERSE.items()}


# --- families ---------------------------------------------------------------------------------------------------------

# Ann and Abe have Bea and Ben; Bea marries Carl, they have Dora; Ben marries Cleo, they have Dan, who marries Eve.
PERSONS = ["Abe", "Ann", "Bea", "Ben", "Carl", "Cleo", "Dora", "Dan", "Eve"]
MEN = {"Abe", "Ben", "Carl", "Dan"}
COUPLES = [("Abe", "Ann"), ("Bea", "Carl"), ("Ben", "Cleo"), ("Dan", "Eve")]
PARENTS = {"Bea": ("Abe", "Ann"), "Ben": ("Abe", "Ann"), "Dora": ("Bea", "Carl"), "Dan": ("Ben", "Cleo")}


def small_family(by_marriage: bool) -> Family:
    spouse = dict(COUPLES) | {b: a for a, b in COUPLES}
    return Family(
        male=[person in MEN for person in PERSONS],
        parents=[tuple(PERSONS.index(parent) for parent in PARENTS.get(person, ())) for person in PERSONS],
        spouse=[PERSONS.index(spouse[person]) if person in spouse else None for person in PERSONS],
        by_marriage=by_marriage,
    )


def names_between(family: Family, a: str, b: str) -> set[str]:
    i, j = PERSONS.index(a), PERSONS.index(b)
    return {table[i][j] for table in (family.relatives, family.in_laws) if j in table[i]}


def test_relations_by_birth() -> None:
    family = small_family(by_marriage=False)
    expected = {
        ("Bea", "Abe"): "father",
        ("Abe", "Bea"): "daughter",
        ("Bea", "Ben"): "brother",
        ("Dora", "Ann"): "grandmother",
        ("Ann", "Dora"): "granddaughter",
        ("Dora", "Ben"): "uncle",
        ("Bea", "Dan"): "nephew",
        ("Ben", "Cleo"): "wife",
        ("Carl", "Ann"): "mother-in-law",
        ("Abe", "Cleo"): "daughter-in-law",
        ("Eve", "Ben"): "father-in-law",
    }
    for (a, b), name in expected.items():
        assert names_between(family, a, b) == {name}, (a, b)
    for a, b in [("Dora", "Cleo"), ("Carl", "Ben"), ("Carl", "Cleo"), ("Dora", "Dan"), ("Dora", "Eve"), ("Eve", "Ann")]:
        assert names_between(family, a, b) == set(), (a, b)


def test_relations_by_marriage_are_those_of_a_spouse_with_children() -> None:
    family = small_family(by_marriage=True)
    expected = {
        ("Carl", "Ann"): {"mother-in-law", "mother"},
        ("Abe", "Cleo"): {"daughter-in-law", "daughter"},
        ("Carl", "Ben"): {"brother"},
        ("Carl", "Cleo"): {"sister"},
        ("Dora", "Cleo"): {"aunt"},
        ("Carl", "Dan"): {"nephew"},
        ("Carl", "Bea"): {"wife"},  # not a sister, though both have the same parents now
        ("Eve", "Ben"): {"father-in-law"},  # Eve has no children, so nothing changes for her
        ("Eve", "Ann"): set(),
        ("Dora", "Dan"): set(),  # cousins have no name in CLUTRR
    }
    for (a, b), names in expected.items():
        assert names_between(family, a, b) == names, (a, b)


shapes = st.builds(
    lambda levels, least, more, p_marry, by_marriage: FamilyShape(levels, least, least + more, p_marry, by_marriage),
    st.integers(3, 4),
    st.integers(1, 3),
    st.integers(0, 1),
    st.sampled_from([0.6, 1.0]),
    st.booleans(),
)
families = st.builds(lambda seed, shape: simulate_family(random.Random(seed), shape), st.integers(0, 10**6), shapes)


@settings(max_examples=40, deadline=None)
@given(families)
def test_relations_fit_genders_and_have_reverses(family: Family) -> None:
    for table in (family.relatives, family.in_laws):
        for a, relations in enumerate(table):
            assert a not in relations
            for b, name in relations.items():
                assert (name in MALE) == family.male[b]
                kind = next(kind for kind in REVERSE if name in kind)
                assert table[b][a] == REVERSE[kind][0 if family.male[a] else 1]


@settings(max_examples=25, deadline=None)
@given(families)
def test_siblings_share_everything_above_them(family: Family) -> None:
    above = {"father", "mother", "grandfather", "grandmother", "uncle", "aunt"}
    for a, relations in enumerate(family.relatives):
        for b, name in relations.items():
            if name in ("brother", "sister"):
                mine, theirs = ({c: n for c, n in family.relatives[x].items() if n in above} for x in (a, b))
                assert mine == theirs


@settings(max_examples=15, deadline=None)
@given(families)
def test_splits_are_the_steps_that_conclude_the_relation(family: Family) -> None:
    for a, relations in enumerate(family.relatives):
        for c, name in relations.items():
            through = sorted(b for group in family.splits(a, c) for b in group)
            assert through == [b for b in range(len(family.male)) if family.conclusion(a, b, c) == name]


def shown_compositions(seed: int, by_marriage: bool, number: int = 12) -> set[tuple[str, str, str, str]]:
    """(gender of a, r1, r2, conclusion) of every single step there is in some families."""
    rng = random.Random(seed)
    shown = set()
    for _ in range(number):
        family = simulate_family(rng, FamilyShape(by_marriage=by_marriage))
        for a, first in enumerate(family.relatives):
            for b in first:
                for c in family.relatives[b]:
                    name = family.conclusion(a, b, c)
                    if name is not None:
                        gender = "male" if family.male[a] else "female"
                        shown.add((gender, first[b], family.relatives[b][c], name))
    return shown


@pytest.mark.parametrize("by_marriage", [True, False])
def test_each_pair_of_relations_has_one_conclusion(by_marriage: bool) -> None:
    shown = {step[1:] for step in shown_compositions(1, by_marriage)}
    assert {(first, second) for first, second, _ in shown} == set(JOINED)
    assert len(shown) == len(JOINED)
    assert {name for _, _, name in shown} == set(TARGETS)


# --- stories ----------------------------------------------------------------------------------------------------------


def check_story(story: Story, k: int) -> None:
    """Everything that can be said of a story without its family."""
    assert story.k == k == len(story.relations)
    walk = [story.edges[0][0], *(b for _, b in story.edges)]
    assert list(story.edges) == list(pairwise(walk))
    assert list(dict.fromkeys(walk)) == list(range(story.size))
    assert story.query == (walk[0], walk[-1])
    assert walk[0] != walk[-1]
    assert story.query not in story.edges
    assert story.query[::-1] not in story.edges
    assert len(set(story.edges)) == k
    assert set(story.relations) <= set(RELATIONS)
    assert story.target in TARGETS
    assert len(story.names) == len(set(story.names)) == len(story.genders)
    assert set(story.genders) <= {"male", "female"}
    check_proof(story)
    for _, relation, b in facts_of(story):
        assert (relation in MALE) == (story.genders[b] == "male")
    for a, relation, b in told(story):
        if relation in ("husband", "wife"):
            assert story.genders[a] != story.genders[b]


def told(story: Story) -> list[Fact]:
    return [(a, relation, b) for (a, b), relation in zip(story.edges, story.relations, strict=True)]


def facts_of(story: Story) -> list[Fact]:
    return [fact for step in story.proof for fact in (step.conclusion, *step.premises)]


def check_proof(story: Story) -> None:
    """One tree from the query down to the told edges, each of which it uses once."""
    assert len(story.proof) == story.k - 1
    assert story.proof[0].conclusion == (story.query[0], story.target, story.query[1])
    open_facts = Counter([story.proof[0].conclusion])
    for step in story.proof:
        (a, _, b), (b_again, _, c) = step.premises
        assert b == b_again
        assert (step.conclusion[0], step.conclusion[2]) == (a, c)
        assert open_facts[step.conclusion] == 1  # a step comes after the step that needs it
        del open_facts[step.conclusion]
        open_facts.update(step.premises)
    assert open_facts == Counter(told(story))
    pairs = [(a, b) for a, _, b in facts_of(story)[:1] + [f for step in story.proof for f in step.premises]]
    assert len(pairs) == len(set(pairs))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.sampled_from([*range(2, 13), 20, MAX_K]),
    revisits=st.sampled_from([0.0, 0.6, 1.0]),
    by_marriage=st.booleans(),
)
def test_every_fact_of_a_story_is_true_in_its_family(seed: int, k: int, revisits: float, by_marriage: bool) -> None:
    rng = random.Random(seed)
    family = simulate_family(rng, FamilyShape(by_marriage=by_marriage))
    for _ in range(20):
        plot = _draw_plot(rng, family, k, revisits)
        if plot is None:
            continue
        story = _tell(rng, family, plot, plot.pattern(family))
        check_story(story, k)
        person = list(dict.fromkeys(plot.walk))
        assert all(family.holds(person[a], relation, person[b]) for a, relation, b in facts_of(story))
        for step in story.proof:
            (a, _, b), (_, _, c) = step.premises
            assert family.conclusion(person[a], person[b], person[c]) == step.conclusion[1]
        assert story.genders == tuple("male" if family.male[p] else "female" for p in person)
        if revisits == 0:
            assert story.size == k + 1


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(-5, 10**6),
    train_k=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    test_k=st.lists(st.integers(2, 10), min_size=1, max_size=3),
    rows=st.integers(1, 60),
    test_rows=st.integers(1, 20),
)
def test_generate_gives_what_was_asked_for(
    seed: int, train_k: list[int], test_k: list[int], rows: int, test_rows: int
) -> None:
    done: list[int] = []
    train, tests = generate(train_k, test_k, rows, seed, test_rows=test_rows, progress=done.append)
    assert len(train) == rows
    counts = Counter(story.k for story in train)
    assert set(counts) <= set(train_k)
    assert max(counts.values()) - min(counts[k] for k in set(train_k)) <= 1
    assert list(tests) == sorted(set(test_k))
    assert all(len(stories) == test_rows for stories in tests.values())
    assert sum(done) == rows + test_rows * len(tests)
    for story in train:
        check_story(story, story.k)
    for k, stories in tests.items():
        for story in stories:
            check_story(story, k)
        shared = {story.relations for story in train} & {story.relations for story in stories}
        if k >= 3:
            assert not shared
        elif counts[2]:
            assert shared == {story.relations for story in stories}


def test_training_stories_are_shuffled_and_vary() -> None:
    train, _ = generate((2, 3), (2,), 2000, 5, test_rows=1)
    assert len({story.k for story in train[:20]}) == 2
    assert len({story.names for story in train}) > 1900
    assert {story.target for story in train} == set(TARGETS)
    assert {relation for story in train for relation in story.relations} == set(RELATIONS)


def test_the_set_of_the_paper_at_a_tenth_of_its_size() -> None:
    train, tests = generate((2, 3), range(2, 11), 3500, 0, test_rows=30)
    assert Counter(story.k for story in train) == {2: 1750, 3: 1750}
    assert {story.relations for story in train if story.k == 2} == set(JOINED)
    assert list(tests) == list(range(2, 11))
    assert not {story.relations for story in tests[3]} & {story.relations for story in train}
    # Only k = 3 has anything to hold out: about a fifth of its 328 patterns.
    assert 220 <= len({story.relations for story in train if story.k == 3}) <= 300


def test_no_pattern_is_held_out_where_training_has_no_such_length() -> None:
    train, _ = generate((3,), (4,), 20_000, 0, test_rows=1)
    assert len({story.relations for story in train}) > 320


def test_patterns_are_about_equally_frequent() -> None:
    train, _ = generate((2, 3), (10,), 16_000, 0, test_rows=1)
    for k, most in ((2, 1.5), (3, 3.0)):
        counts = Counter(story.relations for story in train if story.k == k)
        assert max(counts.values()) * len(counts) / counts.total() < most


def test_share_of_stories_that_come_back_to_someone() -> None:
    # The shares in the official files, which have too few long stories to be more exact.
    official = {3: 0.0, 4: 0.09, 5: 0.29, 6: 0.41, 7: 0.47, 8: 0.49, 9: 0.61, 10: 0.70}
    _, tests = generate((2,), list(official), 1, 0, test_rows=400)
    for k, share in official.items():
        ours = sum(story.size <= k for story in tests[k]) / len(tests[k])
        assert abs(ours - share) <= (0.2 if share else 0.0), k
    _, tests = generate((2,), (10,), 1, 0, test_rows=50, revisits=0)
    assert all(story.size == 11 for story in tests[10])


def test_more_rows_continue_the_same_stories() -> None:
    small, small_tests = generate((2, 4), (4, 6), 40, 9, test_rows=10)
    large, large_tests = generate((2, 4), (4, 6), 80, 9, test_rows=20)
    assert Counter(small) <= Counter(large)
    assert all(large_tests[k][:10] == small_tests[k] for k in (4, 6))


DIGEST = """
import hashlib
from edge_transformer.data.relations.generate import generate
stories = generate((2, 3, 4), (2, 3, 4, 7, 10), 300, 42, test_rows=20)
print(hashlib.sha256(repr(stories).encode()).hexdigest())
"""


def test_same_seed_same_stories_in_every_process() -> None:
    def digest(hash_seed: str) -> str:
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        env = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        run = subprocess.run([sys.executable, "-c", DIGEST], env=env, capture_output=True, text=True, check=True)
        return run.stdout

    assert digest("1") == digest("2")
    first, again, other = (generate((2, 3), (3, 5), 50, seed, test_rows=5) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_k": ()}, "train_k is empty"),
        ({"test_k": ()}, "test_k is empty"),
        ({"train_k": (1, 2)}, "train_k has k = 1"),
        ({"test_k": (MAX_K + 1,)}, f"test_k has k = {MAX_K + 1}"),
        ({"rows": 0}, "rows is 0"),
        ({"test_rows": 0}, "test_rows is 0"),
        ({"holdout": 0.0}, "holdout is 0"),
        ({"holdout": 1.0}, "holdout is 1"),
        ({"revisits": -0.1}, "revisits is -0.1"),
        ({"levels": 2}, "levels is 2"),
        ({"min_children": 0}, "children range from 0"),
        ({"min_children": 3, "max_children": 2}, "children range from 3 to 2"),
        ({"p_marry": 0.0}, "p_marry is 0"),
        ({"levels": 10**9}, f"more than {MAX_PERSONS} persons"),
        ({"train_k": (3,), "test_k": (3,), "holdout": 1e-9}, "no fitting story of k = 3"),
        (
            {"test_k": (MAX_K,), "min_children": 1, "max_children": 1, "revisits": 0.0},
            f"no fitting story of k = {MAX_K}",
        ),
    ],
)
def test_impossible_requests(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"train_k": (2,), "test_k": (2,), "rows": 2, "seed": 0, "test_rows": 1}
    with pytest.raises(UserError, match=re.escape(message)):
        generate(**(arguments | change))  # type: ignore[arg-type]


# --- agreement with the official files --------------------------------------------------------------------------------


@dataclass(frozen=True)
class OfficialRow:
    relations: tuple[str, ...]
    target: str
    steps: list[list[tuple[str, str, str]]]  # conclusion, first premise, second premise; persons by name
    genders: dict[str, str]
    person: dict[str, int]  # a name's place in the simulated family, always of the same shape


@pytest.fixture(scope="module")
def official() -> list[OfficialRow]:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official CLUTRR files in {OFFICIAL}")
    rows = []
    for path in sorted(OFFICIAL.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += [read_official_row(row) for row in csv.DictReader(file)]
    assert len(rows) > 15_000
    return rows


def read_official_row(row: dict[str, str]) -> OfficialRow:
    facts = re.findall(r"\('([^']+)', '([^']+)', '([^']+)'\)", row["proof_state"])
    relations = tuple(row["f_comb"].split("-"))
    assert len(facts) == 3 * (len(relations) - 1)
    genders = dict(pair.split(":") for pair in row["genders"].split(","))
    names = list(genders)
    places = re.findall(r"(\d+): (\d+)", row["node_mapping"])
    return OfficialRow(
        relations=relations,
        target=row["target"],
        steps=[facts[i : i + 3] for i in range(0, len(facts), 3)],
        genders=genders,
        person={names[int(node)]: int(person) for person, node in places},
    )


def official_family() -> Family:
    """Its persons in the official order: a couple, its 4 children, for each the spouse and 4 children, their spouses.

    Everyone is male here: the genders differ from row to row, and only the kind of relation is looked at.
    """
    parents: list[tuple[int, ...]] = [(0, 1) if 2 <= person <= 5 else () for person in range(42)]
    couples = [(0, 1)]
    for child in range(2, 6):
        partner = 6 + 5 * (child - 2)
        couples.append((child, partner))
        for grandchild in range(partner + 1, partner + 5):
            parents[grandchild] = (child, partner)
            couples.append((grandchild, 26 + 4 * (child - 2) + grandchild - partner - 1))
    spouse: list[int | None] = [None] * 42
    for a, b in couples:
        spouse[a], spouse[b] = b, a
    return Family([True] * 42, parents, spouse)


def test_relation_names_are_the_official_ones(official: list[OfficialRow]) -> None:
    assert {relation for row in official for relation in row.relations} == set(RELATIONS)
    assert {row.target for row in official} == set(TARGETS)


def test_official_facts_hold_by_our_definitions(official: list[OfficialRow]) -> None:
    family = official_family()
    male_name = {name: pair[0] for pair in REVERSE for name in pair}
    seen = set()
    for row in official:
        for a, relation, b in (fact for step in row.steps for fact in step):
            assert (row.genders[b] == "male") == (relation in MALE)
            seen.add((row.person[a], male_name[relation], row.person[b]))
    assert all(family.holds(a, relation, b) for a, relation, b in seen)
    # And nearly every fact that follows from our definitions does occur there.
    ours = {
        (a, name, b)
        for table in (family.relatives, family.in_laws)
        for a, relations in enumerate(table)
        for b, name in relations.items()
    }
    assert len(seen) > 0.95 * len(ours)


@pytest.mark.parametrize("by_marriage", [True, False])
def test_families_show_every_official_composition_and_no_other(official: list[OfficialRow], by_marriage: bool) -> None:
    steps = {
        (row.genders[first[0]], first[1], second[1], conclusion[1])
        for row in official
        for conclusion, first, second in row.steps
    }
    pairs = {(*row.relations, row.target) for row in official if len(row.relations) == 2}
    shown = shown_compositions(2, by_marriage)
    assert steps == shown
    assert pairs == {step[1:] for step in shown}


def test_stories_of_three_relations_have_the_official_patterns_and_answers(official: list[OfficialRow]) -> None:
    """Among them are patterns with two answers: both occur here too."""
    theirs = {(row.relations, row.target) for row in official if len(row.relations) == 3}
    assert sum(count > 1 for count in Counter(pattern for pattern, _ in theirs).values()) == 8
    train, _ = generate((3,), (2,), 30_000, 0, test_rows=1)
    assert {(story.relations, story.target) for story in train} == theirs


# --- folders ----------------------------------------------------------------------------------------------------------


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
