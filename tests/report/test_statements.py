"""What the report says in words: against the paper, and of our models against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_transformer.io.records import Record, append_record
from edge_transformer.report.page import build_report
from edge_transformer.report.statements import model_statements, paper_statements
from edge_transformer.report.tables import ResultTable, result_tables
from edge_transformer.training.config import RunConfig
from record_cases import run


def runs(preset: str, *scores: dict[str, float], **fields: Any) -> list[Record]:
    """One a seed."""
    return [run(seed, metrics, preset=preset, **fields) for seed, metrics in enumerate(scores, start=1)]


def table(*records: Record) -> ResultTable:
    (found,) = result_tables(records)
    return found


def test_against_the_paper() -> None:
    # The paper: k=9 92.3 ± 1.5, k=10 92.1 ± 1.5 over 10 runs. Five seeds that agree: 3 points are explained.
    found = paper_statements(table(*runs("clutrr/cpu", *[{"k=2": 0.1, "k=9": 0.9, "k=10": 0.8}] * 5)))
    assert found == [
        "Edge Transformer, `clutrr/cpu` (5 seeds): below the paper at k=10 (-12.1); "
        "elsewhere no difference that both errors do not explain."
    ]
    [line] = paper_statements(table(*runs("clutrr/cpu", *[{"k=9": 0.99, "k=10": 0.8}] * 5)))
    assert "above the paper at k=9 (+6.7); below the paper at k=10 (-12.1)." in line


def test_one_seed_has_no_error_and_says_so() -> None:
    [line] = paper_statements(table(*runs("clutrr/cpu", {"k=10": 0.9})))
    assert line.startswith("Edge Transformer, `clutrr/cpu` (1 seed): no difference that both errors do not explain; ")
    assert "1 seed, which has no standard error of its own" in line
    [line] = model_statements(
        table(*runs("clutrr/cpu", {"k=10": 0.9}), *runs("clutrr/cpu-rat", {"k=10": 0.1}, {"k=10": 0.1}, model="rat"))
    )
    assert line.endswith(": not told apart, as 1 seed has no standard error.")


def test_nothing_is_claimed_where_the_paper_gives_no_error() -> None:
    cogs: dict[str, Any] = {"task": "cogs", "data": {"name": "cogs", "fingerprint": "1"}, "model": "universal"}
    [line] = paper_statements(table(*runs("cogs/cpu", *[{"gen": 0.1}] * 6, **cogs)))
    assert line.endswith("(6 seeds): gen (-68.4) to the paper, which gives no errors.")
    assert paper_statements(table(*runs("clutrr/cpu-new", {"k=10": 0.5}, model="new"))) == []


# Ours has 90 and 92: mean 91, error 1. The rival has r - 2 and r + 2: error 2. The joint error: √5 = 2.236
@pytest.mark.parametrize(
    ("rival", "said"),
    [
        (0.8652, "ahead at k=10 (+4.5 ± 2.2); not told apart at k=2."),
        (0.8653, "ahead by a little at k=10 (+4.5 ± 2.2); not told apart at k=2."),
        (0.8876, "ahead by a little at k=10 (+2.2 ± 2.2); not told apart at k=2."),
        (0.8877, "not told apart at k=2, k=10."),
        (0.9323, "not told apart at k=2, k=10."),
        (0.9324, "behind by a little at k=10 (-2.2 ± 2.2); not told apart at k=2."),
        (0.9547, "behind by a little at k=10 (-4.5 ± 2.2); not told apart at k=2."),
        (0.9548, "behind at k=10 (-4.5 ± 2.2); not told apart at k=2."),
    ],
)
def test_against_each_other(rival: float, said: str) -> None:
    edge = runs("clutrr/cpu", {"k=2": 1.0, "k=10": 0.90}, {"k=2": 1.0, "k=10": 0.92})
    scores = [{"k=2": 1.0, "k=10": rival - 0.02}, {"k=2": 1.0, "k=10": rival + 0.02}]
    [line] = model_statements(table(*edge, *runs("clutrr/cpu-rat", *scores, model="rat")))
    names = "Edge Transformer, `clutrr/cpu` (2 seeds) against Relation-aware Transformer, `clutrr/cpu-rat` (2 seeds)"
    assert line == f"{names}: {said}"


def test_gaps_of_the_paper_stand_behind_ours() -> None:
    two = [{"EM": 0.9, "LAS": 0.95}, {"EM": 0.92, "LAS": 0.97}]
    ours: dict[str, Any] = {
        "task": "dependency",
        "data": {"name": "d", "fingerprint": "1", "treebank": "cfq-dependencies"},
    }
    [first, second] = model_statements(
        table(
            *runs("cfq-dep/cpu", *two, **ours),
            *runs("cfq-dep/cpu-transformer", *two, model="transformer", **ours),
            *runs("cfq-dep/cpu-gat", *two, model="gat", **ours),  # which the paper does not have
        )
    )
    [with_paper, without] = sorted((first, second), key=lambda line: "paper" not in line)
    assert with_paper.endswith(" In the paper, MCD1 of another treebank: EM (+22.1), LAS (+2.4).")
    assert without.endswith("not told apart at EM, LAS.")


def test_only_what_belongs_together_is_compared() -> None:
    two = [{"k=10": 0.9}, {"k=10": 0.91}]
    small = {"model.dim": 8}
    found = model_statements(
        table(
            *runs("clutrr/cpu", *two),
            *runs("clutrr/paper", *two),
            *runs("clutrr/cpu", *two, overrides=small),
            *runs("clutrr/cpu-untied", *two),
            *runs("clutrr/paper-rat", *two, model="rat"),
            *runs("clutrr/cpu-gat", *two, model="gat", overrides=small),
        )
    )
    pairs = [[part.split("`")[1] for part in line.split(" against ")] for line in found]
    assert pairs == [
        ["clutrr/cpu", "clutrr/cpu-untied"],
        ["clutrr/cpu", "clutrr/cpu-gat"],
        ["clutrr/paper", "clutrr/paper-rat"],
    ]
    assert found[1].count("`model.dim=8`") == 2


def test_the_report_has_the_statements_and_keeps_validation_out_of_the_table(tmp_path: Path) -> None:
    settings = RunConfig.from_preset("relations", "clutrr/cpu", {}, 1).settings
    data = {"name": "official", "fingerprint": "0a1b", "train_k": "2,3,4"}
    records = [
        *runs("clutrr/cpu", {"k=10": 0.9, "valid": 0.5, "valid k=6": 0.25, "valid k=10": 0.125}, settings=settings),
        *runs("clutrr/cpu-rat", {"k=10": 0.8}, model="rat", data={**data, "valid_fingerprint": "0c"}),
    ]
    for record in records:
        append_record(tmp_path / "results/a.jsonl", record)
    report = build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    [found] = report.tables  # other validation stories make no other table
    assert found.metrics == ("k=6", "k=7", "k=8", "k=9", "k=10")
    text = report.path.read_text()
    assert "\nAgainst the paper:\n\n- Edge Transformer, `clutrr/cpu` (1 seed): " in text
    assert "\nAgainst each other:\n\n- Edge Transformer, `clutrr/cpu` (1 seed) against " in text
    assert "not test rows:\n\n- `clutrr/cpu`: valid 50.0, valid k=6 25.0, valid k=10 12.5\n" in text
    assert "by more than twice that error" in text


def test_a_recipe_with_untied_weights_is_compared_with_its_rivals() -> None:
    scan: dict[str, Any] = {"task": "seq2seq", "data": {"name": "scan", "fingerprint": "1", "corpus": "scan"}}
    untied = {"settings": {"model": {"tied": False}}, **scan}
    records = [
        *runs("scan/cpu", {"EM": 0.8}, {"EM": 0.82}, **untied),
        *runs("scan/cpu-universal", {"EM": 0.5}, {"EM": 0.52}, model="universal", **scan),
        *runs("scan/cpu-tied", {"EM": 0.7}, {"EM": 0.72}, **scan),
    ]
    lines = model_statements(table(*records))
    ours = "Edge Transformer, untied weights, `scan/cpu` (2 seeds) against "
    assert lines == [
        f"{ours}Edge Transformer, `scan/cpu-tied` (2 seeds): ahead at EM (+10.0 ± 1.4).",
        f"{ours}Universal Transformer, `scan/cpu-universal` (2 seeds): ahead at EM (+30.0 ± 1.4).",
    ]


def test_the_best_recipe_is_compared_with_the_one_it_is_based_on() -> None:
    best = runs("clutrr/best", {"k=4": 0.95, "k=10": 0.98}, {"k=4": 0.96, "k=10": 0.99})
    cpu = runs("clutrr/cpu", {"k=4": 0.99, "k=10": 0.90}, {"k=4": 0.98, "k=10": 0.91})
    [line] = model_statements(table(*best, *cpu))
    assert line == (
        "Edge Transformer, `clutrr/best` (2 seeds) against Edge Transformer, `clutrr/cpu` (2 seeds): "
        "ahead at k=10 (+8.0 ± 0.7); behind at k=4 (-3.0 ± 0.7)."
    )


def test_where_all_seeds_agree_they_tell_no_error() -> None:
    [line] = model_statements(
        table(
            *runs("clutrr/cpu", *[{"k=3": 0.9, "k=9": 0.9}] * 3),
            *runs("clutrr/cpu-gat", *[{"k=3": 0.95, "k=9": each} for each in (0.5, 0.6)], model="gat"),
        )
    )
    assert line.endswith(": ahead at k=9 (+35.0 ± 5.0); not told apart at k=3.")
