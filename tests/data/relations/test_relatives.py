"""Facts about relatives: of whole families, all true, and every person known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from edge_transformer.data.links.folder import read_links
from edge_transformer.data.relations.problems import write_problem
from edge_transformer.data.relations.problems.relatives import FEWEST, relatives

BACK: dict[str, set[str]] = {"husband": {"wife"}, "wife": {"husband"}}
BACK |= {name: {"son", "daughter"} for name in ("mother", "father")}
BACK |= {name: {"mother", "father"} for name in ("son", "daughter")}
BACK |= {name: {"grandson", "granddaughter"} for name in ("grandmother", "grandfather")}
BACK |= {name: {"brother", "sister"} for name in ("brother", "sister")}


def test_facts_are_of_whole_families_and_none_stands_twice() -> None:
    for seed in (1, 2):
        splits = relatives(seed)
        facts = [(row["head"], row["relation"], row["tail"]) for rows in splits.values() for row in rows]
        assert len(set(facts)) == len(facts)
        told = {(head, tail): relation for head, relation, tail in facts}
        for (head, tail), relation in told.items():
            assert head.split()[1] == tail.split()[1]  # families have their names
            assert told[tail, head] in BACK.get(relation, set(told.values()))
        mothers = [(head, tail) for (head, tail), relation in told.items() if relation == "mother"]
        for child, mother in mothers:
            for parent in ("mother", "father"):
                beyond = [tail for (head, tail), relation in told.items() if (head, relation) == (mother, parent)]
                assert all(told[child, each] == f"grand{parent}" for each in beyond)


def test_held_out_facts_leave_every_person_some() -> None:
    splits = relatives(1)
    assert abs(len(splits["dev"]) - len(splits["test"])) <= 1
    assert 0.08 < len(splits["test"]) / sum(map(len, splits.values())) < 0.12
    left = Counter(name for row in splits["train"] for name in (row["head"], row["tail"]))
    assert all(
        left[row[end]] >= FEWEST for split in ("dev", "test") for row in splits[split] for end in ("head", "tail")
    )


def test_the_same_seed_gives_the_same_files_and_the_task_reads_them(tmp_path: Path) -> None:
    counts = write_problem("relatives", tmp_path / "a", 3)
    write_problem("relatives", tmp_path / "b", 3)
    assert [(tmp_path / "b" / path.name).read_bytes() for path in counts] == [path.read_bytes() for path in counts]
    assert relatives(3) != relatives(4)
    assert relatives(3, families=2) != relatives(3)
    read = read_links(tmp_path / "a")
    assert {name: len(facts) for name, facts in read.splits.items()} == {
        {"dev": "valid"}.get(path.stem, path.stem): count for path, count in counts.items()
    }
