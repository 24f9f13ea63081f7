"""Files of facts: what was written is read again, and changed lines are read right or refused by their number.

FUZZ_ROWS says how many changed lines to try of each form.
"""

from __future__ import annotations

import builtins
import csv
import gzip
import io
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_transformer.data.links import triples
from edge_transformer.data.links.rows import Entities, Entity, Fact
from edge_transformer.data.links.triples import header_order, read_facts
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import MAX_CHARACTERS

ROWS = int(os.environ.get("FUZZ_ROWS", "2500"))
Facts = Sequence[tuple[str, str, str]]


def read(path: Path, text: str | bytes, entities: Entities | None = None) -> list[Fact]:
    path.unlink(missing_ok=True)  # some file systems wait for the disk where a file is overwritten
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_facts(path, entities or Entities())


# --- writers ----------------------------------------------------------------------------------------------------------


def columns(facts: Facts) -> str:
    return "".join("\t".join(fact) + "\n" for fact in facts)


def blanks(facts: Facts) -> str:
    return "".join("  ".join(fact) + " \n" for fact in facts)


def csv_table(facts: Facts, header: Sequence[str] = ("head", "relation", "tail")) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(facts)
    return file.getvalue()


def json_lists(facts: Facts) -> str:
    return "".join(json.dumps(fact) + "\n" for fact in facts)


def json_objects(facts: Facts) -> str:
    return "".join(json.dumps(dict(zip(Fact._fields, fact, strict=True)), ensure_ascii=False) + "\n" for fact in facts)


def n_triples(facts: Facts) -> str:
    """Names with a scheme are IRIs, those with _: blank nodes, and others literals."""

    def term(name: str) -> str:
        if name.startswith("_:"):
            return name
        if re.fullmatch(r"[a-z]+:[^\s\"<>\\]*", name):
            return f"<{name}>"
        return '"' + "".join(c if c.isascii() and c not in '"\\\n\r' else f"\\U{ord(c):08x}" for c in name) + '"@en'

    return "".join(f"{term(head)} {term(relation)} {term(tail)} .\n" for head, relation, tail in facts)


WRITERS: dict[str, tuple[str, Callable[[Facts], str]]] = {
    "tabs": ("tsv", columns),
    "blanks": ("txt", blanks),
    "csv": ("csv", csv_table),
    "lists": ("jsonl", json_lists),
    "objects": ("jsonl", json_objects),
    "n-triples": ("nt", n_triples),
}


def names(without: str = "") -> st.SearchStrategy[str]:
    """Names that are no blanks around something, as all forms strip those."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufeff" + without)
    return st.text(letters, min_size=1, max_size=6).filter(lambda name: name == name.strip())


IRIS = st.text("abcé/#~1", max_size=5).map("http://x/".__add__)
BLANK_NODES = st.from_regex(r"_:[a-zA-Z0-9]{1,3}", fullmatch=True)
NAMES = {
    "tabs": names("\t\n"),
    "blanks": names("\t\n ").filter(lambda name: not any(map(str.isspace, name))),
    "csv": names(),
    "lists": names(),
    "objects": names(),
}


def fact_lists(form: str) -> st.SearchStrategy[list[tuple[str, str, str]]]:
    if form == "n-triples":
        fact = st.tuples(IRIS | BLANK_NODES, IRIS, IRIS | BLANK_NODES | st.text(NAMED, min_size=1, max_size=5))
    else:
        fact = st.tuples(*[NAMES[form]] * 3)
    return st.lists(fact, min_size=1, max_size=8).filter(lambda facts: header_order(facts[0]) is None)


NAMED = st.characters(exclude_categories=["Cs"], exclude_characters=":")


@pytest.mark.parametrize("form", WRITERS)
@given(data=st.data(), packed=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_was_written_is_read(form: str, data: st.DataObject, packed: bool, tmp_path: Path) -> None:
    ending, write = WRITERS[form]
    facts = data.draw(fact_lists(form))
    text = write(facts).encode()
    name = f"train.{ending}{'.gz' * packed}"
    found = read(tmp_path / name, gzip.compress(text) if packed else text)
    assert found == facts
    assert all(isinstance(fact, Fact) for fact in found)


@given(facts=fact_lists("n-triples"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_n_triples_are_as_rdflib_reads_them(facts: Facts, tmp_path: Path) -> None:
    rdflib = pytest.importorskip("rdflib")
    text = n_triples([fact for fact in facts if not any(name.startswith("_:") for name in fact)])
    graph = rdflib.Graph().parse(data=text, format="nt")
    found = read(tmp_path / "train.nt", text) if text else []
    assert set(found) == {(str(head), str(relation), str(tail)) for head, relation, tail in graph}


# --- by hand ----------------------------------------------------------------------------------------------------------

AB, CD = Fact("a", "r", "b"), Fact("c", "s", "d")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.tsv", "\n a\tr\tb \n\t\t\nc\ts\td", [AB, CD]),
        ("t.tsv", "\ufeffhead\tRelation\ttail\na\tr\tb\r\nc\ts\td\r\n", [AB, CD]),
        ("t.txt", "object\tsubject\tpredicate\nb\ta\tr\n", [AB]),
        ("t.txt", "a r b\n\nc\ts  \td\n", [AB, CD]),
        ("t.txt", "a r b\nNew York\tin\tUS A\n", [AB, ("New York", "in", "US A")]),
        ("t.txt", "h r t\na r b\n", [AB]),
        ("t.txt", "New York\tin\tUS A\n", [("New York", "in", "US A")]),
        ("t.csv", "T,id,R,H\nb,1,r,a\n\nd,,s,c\n", [AB, CD]),
        ("t.csv", 'predicate,object,subject\nr,"b, c",a\n', [("a", "r", "b, c")]),
        ("t.jsonl", '["a", "r", "b"]\n\n{"head": "c", "relation": "s", "tail": "d", "id": 7}', [AB, CD]),
        ("t.jsonl", "[1, 2, 3]", [("1", "2", "3")]),
        (
            "t.nt",
            "# says\n<a:b> <r:s> _:x .\n\n_:x <r:s> <a:b>. # more",
            [("a:b", "r:s", "_:x"), ("_:x", "r:s", "a:b")],
        ),
        ("t.nt", '<a:b> <r:s> "01"^^<x:int> .', [("a:b", "r:s", "01")]),
        ("t.nt", '<a:b> <r:\\u00e9> "\\"x\\" \\n"@en-GB .', [("a:b", "r:é", '"x" \n')]),
    ],
)
def test_files(name: str, text: str, expected: Any, tmp_path: Path) -> None:
    assert read(tmp_path / name, text) == expected


_COLUMNS = "head, relation and tail with tabs between them"


@pytest.mark.parametrize(
    ("name", "text", "line", "found", "expected"),
    [
        ("t.tsv", "a\tr\tb\na\tr\n", 2, r"2 columns: 'a\tr'", _COLUMNS),
        ("t.tsv", "a\tr\tb\n\na\tr\tb\tc\n", 3, r"4 columns: 'a\tr\tb\tc'", _COLUMNS),
        ("t.tsv", "a\tr\tb\na r b\n", 2, "1 column: 'a r b'", _COLUMNS),
        ("t.tsv", "a\tr\tb\na\t \tb\n", 2, r"an empty column: 'a\t \tb'", _COLUMNS),
        ("t.txt", "ghana\n", 1, "1 column: 'ghana'", _COLUMNS),
        ("t.txt", "a r b\n1\t\tUS A\n", 2, "an empty column", _COLUMNS),
        ("t.txt", "a r b\na r\tb\n", 2, "2 columns", _COLUMNS),
        ("t.tsv", "h\tr\tt\n", 1, "no facts", "at least one"),
        ("t.tsv", b"a\tr\tb\na\tr\t\xff\n", 2, "bytes that are no text", "UTF-8"),
        ("t.tsv", "a\tr\tb\n" + "x" * (MAX_CHARACTERS + 1), 2, "a line of more than 10000000 characters", "at most"),
        ("t.csv", "", 1, "no header", "head, relation, tail or subject, predicate, object or h, r, t"),
        ("t.csv", "head,relaton,tail\n", 1, "the columns head, relaton, tail", "; did you mean relation?"),
        ("t.csv", "head,relation,tail,weight\n", 1, "the columns head, relation, tail, weight", "a header with head"),
        ("t.csv", "head,relation,tail\n\na,r\n", 3, "2 cells", "3, as the header has"),
        ("t.csv", "head,relation,tail\na,,b\n", 2, "an empty relation", "a head, a relation and a tail in each line"),
        ("t.csv", 'head,relation,tail\na,r,"b\n', 2, "unexpected end of data", "a line of a CSV file"),
        ("t.jsonl", '["a", "r", "b"]\n\n["a", "r"]', 3, '["a", "r"]', "a fact, such as"),
        ("t.jsonl", '["a", "r", "b"', 1, '\'["a", "r", "b"\'', "one JSON object a line"),
        ("t.jsonl", '{"entity": "a"}', 1, "no facts", "at least one"),
        (
            "t.nt",
            "<a:b> <r:s> <c:d> .\n<a:b> <c:d> .",
            2,
            "'<a:b> <c:d> .'",
            "a triple <subject> <predicate> <object> .",
        ),
        ("t.nt", '<a:b> <r:s> "" .', 1, "an empty literal", "a text"),
        ("t.nt", '"a" <r:s> <c:d> .', 1, "'\"a\" <r:s> <c:d> .'", "a triple"),
        ("t.nt", "<a:b> <r:s> <c:d>\n", 1, "'<a:b> <r:s> <c:d>'", "a triple"),
        ("t.nt", '<a:b> <r:s> "\\UFFFFFFFF" .', 1, "'<a:b>", "a triple"),
    ],
)
def test_broken_files(name: str, text: str | bytes, line: int, found: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path / name, text)
    assert str(error.value).startswith(f"{tmp_path / name}:{line}: found {found}")
    assert expected in error.value.expected


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.tsv: No such file"):
        read_facts(tmp_path / "none.tsv", Entities())
    with pytest.raises(DataError, match=r"t.tsv.gz: found bytes that cannot be unpacked"):
        read(tmp_path / "t.tsv.gz", b"a\tr\tb\n")


def test_nodes_among_facts(tmp_path: Path) -> None:
    entities = Entities()
    assert read(tmp_path / "t.jsonl", '{"entity": "a", "types": "x"}\n["a", "r", "b"]', entities) == [AB]
    assert entities.known == {"a": Entity(("x",))}
    with pytest.raises(DataError, match=r't.jsonl:2: found the entity "a" a second time'):
        read(tmp_path / "t.jsonl", '["a", "r", "b"]\n{"entity": "a", "types": "y"}', entities)


def test_names_are_stored_once(tmp_path: Path) -> None:
    for name, write in (("t.tsv", columns), ("t.csv", csv_table), ("t.jsonl", json_lists)):
        first, second = read(tmp_path / name, write([("a long name", "r", "b"), ("c", "r", "a long name")]))
        assert first.head is second.tail


def test_more_facts_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triples, "free_memory", lambda: 1_200_000)
    expected = "more than 10,000 facts; expected at most 10,000 facts, at 120 bytes each in 0.0012 GB of free memory"
    assert len(read(tmp_path / "t.tsv", "a\tr\tb\n" * 10_000)) == 10_000
    with pytest.raises(DataError, match=expected):
        read(tmp_path / "t.tsv", "a\tr\tb\n" * 10_001)
    monkeypatch.setattr(triples, "free_memory", lambda: None)
    assert len(read(tmp_path / "t.tsv", "a\tr\tb\n" * 10_001)) == 10_001


def test_progress_counts_facts(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tr\tb\n" * 50_001)
    counts: list[int] = []
    read_facts(tmp_path / "t.tsv", Entities(), counts.append)
    assert sum(counts) == 50_001
    assert len(counts) > 1


def test_n_triples_without_rdflib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("rdflib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        UserError, match=r"t.nt: found N-Triples, and no rdflib to read them; expected it: pip install '\.\[rdf\]'"
    ):
        read(tmp_path / "t.nt", "<a:b> <r:s> <c:d> .")


# --- changed lines ----------------------------------------------------------------------------------------------------

GRAPH = [
    ("http://x/ann", "http://x/mother", "http://x/eve"),
    ("_:b1", "http://x/knows", "http://x/ann"),
    ("http://x/eve", "http://x/name", "http://x/é,ü"),
    ("http://x/eve", "http://x/knows", "_:b1"),
]
SPECIAL = ["\t", " ", "\n", ",", '"', "'", "[", "]", "{", "}", ":", "\\", "\\u12", "<", ">", ".", "#", "_:", "\x00"]
SPECIAL += ["é", "\u2028", "\ufeff", "\x85", "head", "null", "1e999", "-", "NaN", "x" * 50]
ODD_BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\x00", b"\t\t"]


def changed(line: bytes, rng: random.Random) -> bytes:
    """A line with a few changes, as slips of hands, programs and disks make them."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(line) + 1)
        to = min(len(line), at + rng.choice([0, 0, 1, 1, 3, 10]))
        odd = rng.choice(ODD_BYTES) if rng.random() < 0.2 else rng.choice(SPECIAL).encode()
        how = rng.randrange(4)
        if how == 0:
            line = line[:at] + odd + line[to:]
        elif how == 1:
            line = line[:at] + line[to:]
        elif how == 2:
            line = line[:at] + line[at:to] * 2 + line[to:]
        else:
            line = line[at:] + line[:at]
    return line


def read_or_refused(path: Path, text: bytes) -> tuple[list[Fact], DataError | None]:
    try:
        return read(path, text), None
    except DataError as error:
        return [], error


@pytest.mark.parametrize("form", WRITERS)
def test_changed_lines_are_read_right_or_refused(form: str, tmp_path: Path) -> None:
    ending, write = WRITERS[form]
    rng = random.Random(form)
    lines = write(GRAPH).encode().splitlines()
    first = len(lines) - len(GRAPH)  # the line of the first fact, after a header
    path = tmp_path / f"train.{ending}"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(ROWS):
        place = rng.randrange(len(lines))
        broken = changed(lines[place], rng)
        ends = broken.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n")
        text = b"\n".join([*lines[:place], broken, *lines[place + 1 :]]) + b"\n"
        facts, error = read_or_refused(path, text)
        if error is not None:
            outcomes["refused"] += 1
            # A quote that opens in CSV may close in a later line. The first line decides how all are cut.
            last = len(lines) + ends if form == "csv" or place == 0 else place + 1 + ends
            assert error.line is not None
            assert place < error.line <= last, error
            assert str(error).startswith(f"{path}:{error.line}: found ")
            continue
        outcomes["read"] += 1
        assert all(len(fact) == 3 and all(fact) for fact in facts)
        assert all(isinstance(fact, Fact) for fact in facts)
        if place >= first:
            assert facts[: place - first] == GRAPH[: place - first]
            if form != "csv" and place > 0:
                after = GRAPH[place - first + 1 :]
                assert facts[len(facts) - len(after) :] == after
    assert min(outcomes.values()) > ROWS / 50, outcomes
