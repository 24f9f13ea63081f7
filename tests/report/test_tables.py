"""Tables of records: their numbers against numbers worked out by hand, the paper's beside them, titles and orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_transformer.io.records import Record, latest_runs, scored_elsewhere
from edge_transformer.report.tables import ABOVE, BELOW, Row, result_tables
from edge_transformer.training.config import RunConfig
from record_cases import run, runs


def only_row(records: Sequence[Record]) -> Row:
    (table,) = result_tables(records)
    (row,) = (row for row in table.rows if not row.is_paper)
    return row


@pytest.mark.parametrize(
    ("values", "mark"),
    [
        # one seed: 2 * sqrt(4.743² + 1.5²) = 9.950
        ([0.8216], ""),
        ([0.8214], BELOW),
        # three that agree: our error is the paper's spread / sqrt(3) = 2.739: 2 * sqrt(2.739² + 1.5²) = 6.245
        ([0.8586] * 3, ""),
        ([0.8585] * 3, BELOW),
        ([0.9835] * 3, ABOVE),
        # three that do not: ours is 10 / sqrt(3) = 5.774, which is larger: 2 * sqrt(5.774² + 1.5²) = 11.931
        ([0.7018, 0.8018, 0.9018], ""),
        ([0.7016, 0.8016, 0.9016], BELOW),
        # five that agree stand alone: 2 * 1.5 = 3
        ([0.8911] * 5, ""),
        ([0.8909] * 5, BELOW),
        ([0.9511] * 5, ABOVE),
    ],
)
def test_marks_by_hand(values: list[float], mark: str) -> None:
    assert only_row(runs(values)).marks == {"k=10": mark}


def test_no_mark_where_the_paper_gives_no_error() -> None:
    cogs: dict[str, Any] = {"task": "cogs", "data": {"name": "cogs", "fingerprint": "1"}, "model": "universal"}
    assert only_row(runs([0.1] * 6, "gen", **cogs)).marks == {"gen": ""}


@pytest.mark.parametrize(
    ("fields", "title", "paper_k10"),
    [
        ({"preset": "clutrr/paper"}, "Edge Transformer", 92.1),
        ({"preset": "clutrr/cpu-untied"}, "Edge Transformer, untied weights", 90.2),
        ({"preset": "clutrr/cpu-value-ablation"}, "Edge Transformer, value ablation", 75.2),
        ({"preset": "clutrr/cpu-attention-ablation"}, "Edge Transformer, attention ablation", 78.7),
        ({"overrides": {"model.tied": False}}, "Edge Transformer, untied weights", 90.2),
        ({"overrides": {"value": "left"}}, "Edge Transformer, value ablation", 75.2),
        ({"preset": "clutrr/cpu-untied", "overrides": {"tied": True}}, "Edge Transformer", 92.1),
        ({"preset": "my.yaml", "settings": {"model": {"key": "ij"}}}, "Edge Transformer, attention ablation", 78.7),
        ({"overrides": {"tied": False, "key": "ij"}}, "Edge Transformer, untied weights, attention ablation", None),
        ({"preset": "clutrr/rat", "model": "rat"}, "Relation-aware Transformer", None),
        ({"preset": "clutrr/new", "model": "new"}, "new", None),
    ],
)
def test_the_papers_row_for_each_variant(fields: dict[str, Any], title: str, paper_k10: float | None) -> None:
    (table,) = result_tables(runs([0.9], **fields))
    whole_model = "Edge Transformer"
    beside = {whole_model} if title.startswith(whole_model) else set()  # what the paper is about has its row there
    assert {row.model for row in table.rows} == {title} | beside
    paper = {row.model: round(100 * row.scores["k=10"].mean, 6) for row in table.rows if row.is_paper}
    assert paper.pop(title, None) == paper_k10
    assert paper == dict.fromkeys(beside - {title}, 92.1)


def test_the_papers_other_setting() -> None:
    (table,) = result_tables(runs([0.9], data={"name": "mine", "fingerprint": "2", "train_k": "2, 3"}))
    assert table.title == "CLUTRR, trained on k=2,3"
    assert table.trained == (2, 3)
    score = table.rows[1].scores["k=10"]
    assert (score.mean, score.error, score.runs) == (pytest.approx(0.581), pytest.approx(0.028), 10)


def test_relations_of_ones_own_are_not_those_of_the_paper() -> None:
    mine = {"name": "mine", "fingerprint": "2", "train_k": "2,3", "corpus": "relations"}
    other = {**mine, "name": "other", "fingerprint": "3"}
    tables = result_tables([*runs([0.9], data=mine), *runs([0.8], data=other)])
    assert [table.title for table in tables] == ["Relations, mine", "Relations, other"]
    assert [[row.is_paper for row in table.rows] for table in tables] == [[False], [False]]
    assert [table.notes for table in tables] == [(), ()]


def test_scores_on_other_test_files_have_a_table_of_their_own() -> None:
    own = runs([0.9, 0.8], data={"name": "mine", "fingerprint": "2", "train_k": "2,3"})
    command = "edge-transformer evaluate runs/mine-seed{} --data large --results results/clutrr.jsonl"
    large = [
        scored_elsewhere(record, "large", "77", {"k=9": 0.6, "k=10": 0.5}, command.format(record.seed))
        for record in reversed(own)
    ]
    official = runs([0.9])
    assert len(latest_runs([*own, *large])) == 4
    tables = result_tables([*large, *official, *own])
    ending = "trained on k=2,3"
    assert [table.title for table in tables] == [
        f"CLUTRR, {title}" for title in ("trained on k=2,3,4", ending, f"{ending}, tested on large")
    ]
    assert [row.is_paper for row in tables[1].rows] == [False, True]
    (row,) = tables[2].rows  # the paper was not tested there
    assert (row.scores["k=10"].mean, row.runs, row.marks) == (0.5, 2, {})
    assert tables[2].commands == (f"for seed in 1 2; do {command.format('$seed')}; done",)
    assert tables[2].trained == (2, 3)


def test_order_of_tables_rows_and_columns() -> None:
    metrics = {f"k={k}": 0.9 for k in (10, 9, 2, 3)}
    short = {"name": "own", "fingerprint": "5", "train_k": "2,3"}
    tables = result_tables(
        [
            run(1, metrics, model="rat", preset="clutrr/cpu-rat"),
            run(1, metrics, data=short),
            run(1, metrics, preset="clutrr/cpu-value-ablation"),
            run(1, metrics, preset="clutrr/cpu-untied"),
            run(1, metrics, overrides={"dim": 64}),
            run(1, metrics, preset="clutrr/paper"),
            run(1, metrics),
        ],
    )
    assert [table.title[-5:] for table in tables] == ["2,3,4", "k=2,3"]
    assert tables[0].metrics[:3] == ("k=2", "k=3", "k=6")  # k=6 to k=8 are only in the paper
    assert tables[0].metrics[-2:] == ("k=9", "k=10")
    assert [(row.preset, row.options) for row in tables[0].rows] == [
        ("clutrr/cpu", ""),
        ("clutrr/cpu", "dim=64"),
        ("clutrr/paper", ""),
        ("", ""),
        ("clutrr/cpu-untied", ""),
        ("", ""),
        ("clutrr/cpu-value-ablation", ""),
        ("", ""),
        ("clutrr/cpu-rat", ""),
    ]


def test_a_repeated_run_counts_once() -> None:
    again = run(1, {"k=10": 0.5}, finished="2025-03-02T12:00:00+00:00")
    row = only_row(latest_runs([again, *runs([0.9, 0.7])]))
    assert (row.runs, row.scores["k=10"].mean) == (2, pytest.approx(0.6))


def test_one_command_for_many_runs_is_told_once() -> None:
    (table,) = result_tables(runs([0.9, 0.8], command="edge-transformer experiment e.yaml"))
    assert table.commands == ("edge-transformer experiment e.yaml",)


def test_the_seed_is_found_as_a_whole_word_only() -> None:
    (table,) = result_tables(runs([0.9, 0.8], command="train --seed 12 --set seed=1"))
    assert table.commands == ("train --seed 12 --set seed=1",)


def test_numbers_of_the_data_differ_from_row_to_row() -> None:
    data = {"name": "official", "fingerprint": "6", "train_k": "2,3", "distinct": True, "train_rows": 9}
    fewer = [{**data, "distinct": False, "train_rows": rows} for rows in (10, 9)]
    (table,) = result_tables(
        [
            run(1, {"k=2": 1.0}, data=data),
            *(run(seed, {"k=2": 1.0}, data=fewer[seed], preset="clutrr/paper") for seed in (0, 1)),
        ]
    )
    assert [row.runs for row in table.rows] == [1, 2, 10]
    assert table.data == (
        "`official`, fingerprint `6`, train\\_k `2,3`",
        "`clutrr/cpu`: distinct `true`, train\\_rows `9`",
        "`clutrr/paper`: distinct `false`, train\\_rows `9 / 10`",
    )


def test_runs_before_and_after_a_change_of_the_preset_are_two_rows() -> None:
    old, new = ({"train": {"lr": lr, "epochs": 50}, "model": {"tied": True}} for lr in (0.1, 0.2))
    for preset in ("my.yaml", "clutrr/gone"):
        records = [*runs([0.9, 0.8], settings=old, preset=preset), *runs([0.7], settings=new, preset=preset)]
        (table,) = result_tables(records)
        assert [(row.preset, row.options, row.runs) for row in table.rows[:2]] == [
            (preset, "train.lr=0.1", 2),
            (preset, "train.lr=0.2", 1),
        ]


def settings_of_today(**changes: Any) -> dict[str, Any]:
    """Those of clutrr/cpu, with changes to its `train:` section."""
    settings = RunConfig.from_preset("relations", "clutrr/cpu", {}, 1).settings
    return {**settings, "train": {**settings["train"], **changes}}


def test_runs_before_a_change_of_the_preset_have_the_options_that_make_them_today() -> None:
    before = settings_of_today(lr=0.5, weight_decay=0.25)  # of the two the preset names one
    (table,) = result_tables([*runs([0.9, 0.8], settings=before), *runs([0.7], settings=settings_of_today())])
    assert [(row.options, row.runs) for row in table.rows[:2]] == [
        ("", 1),
        ("train.lr=0.5, train.weight_decay=0.25", 2),
    ]
    assert sum("--set train.lr=0.5 --set train.weight_decay=0.25" in command for command in table.commands) == 1
    assert len(table.commands) == 2


def test_runs_of_code_that_is_gone_have_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = result_tables(runs([0.9], settings=settings_of_today(luck=1)))
    assert (table.rows[0].options, table.commands) == ("train.luck=1", ())
    (table,) = result_tables(runs([0.9], settings=settings_of_today(), overrides={"train.luck": 1}))
    assert (table.rows[0].options, table.commands) == ("train.luck=1", ())
    (tmp_path / "my.yaml").write_text("task: relations\nbase: clutrr/cpu\ntrain: {lr: 9}\n")
    monkeypatch.chdir(tmp_path)  # a file of one's own may have changed too, or be another one
    (table,) = result_tables(runs([0.9], settings=settings_of_today(), preset="my.yaml"))
    assert (table.rows[0].options, len(table.commands)) == ("", 1)


def test_tables_of_like_data_get_different_titles_and_files() -> None:
    def titles(*kinds: dict[str, Any]) -> list[tuple[str, str]]:
        return [
            (table.title, table.name) for table in result_tables([run(1, {"k=2": 1.0}, data=data) for data in kinds])
        ]

    one, two = ({"name": name, "fingerprint": fingerprint, "train_k": "2,3"} for name, fingerprint in ("a1", "b2"))
    assert titles(two) == [("CLUTRR, trained on k=2,3", "clutrr-trained-on-k-2-3")]
    assert titles(two, one) == [
        ("CLUTRR, trained on k=2,3 (a)", "clutrr-trained-on-k-2-3-a"),
        ("CLUTRR, trained on k=2,3 (b)", "clutrr-trained-on-k-2-3-b"),
    ]
    assert titles(one, {**two, "name": "a"}) == [
        ("CLUTRR, trained on k=2,3 (fingerprint=1)", "clutrr-trained-on-k-2-3-fingerprint-1"),
        ("CLUTRR, trained on k=2,3 (fingerprint=2)", "clutrr-trained-on-k-2-3-fingerprint-2"),
    ]
    assert len({name for _, name in titles({**one, "name": "a+"}, {**two, "name": "a-"})}) == 2


def test_parts_of_a_score_have_no_columns() -> None:
    scores = {"test": 0.5, "test/short": 0.75, "test/long": 0.25}
    [whole] = result_tables([run(1, scores, task="mine")])
    assert whole.metrics == ("test",)
    [parts] = result_tables([run(1, {"test/short": 0.75}, task="mine")])  # where there is nothing else
    assert parts.metrics == ("test/short",)


def test_pairs_held_out_make_a_trial_no_result() -> None:
    data = {"name": "scan", "fingerprint": "1", "corpus": "scan", "split": "mcd1"}
    whole = run(1, {"EM": 0.5, "held-out EM": 0.9}, task="seq2seq", data=data, preset="scan/cpu")
    trial = run(
        1,
        {"held-out EM": 0.8},
        task="seq2seq",
        data=data,
        preset="scan/cpu",
        overrides={"data.test": False},
        settings={"data": {"test": False}},
    )
    [table] = result_tables([whole, trial])
    assert [row.scores.keys() for row in table.rows] == [{"EM", "held-out EM"}]
    assert [row.scores.keys() for row in table.trials] == [{"held-out EM"}]


def test_fewer_test_rows_are_not_compared_with_the_paper() -> None:
    cfq = {"name": "mcd1", "fingerprint": "1", "corpus": "cfq", "split": "mcd1"}
    fields = {"task": "seq2seq", "preset": "cfq/cpu"}
    records = [
        run(1, {"EM": 0.5}, data=cfq, **fields),
        run(1, {"EM": 0.5}, data={**cfq, "scored": "targets of at most 29 words"}, **fields),
        run(1, {"EM": 0.5}, data={**cfq, "scored": "a sample of 9 rows"}, **fields),
    ]
    tables = result_tables(records)
    assert [bool(table.rows[0].marks) for table in tables] == [False, True, False]
    assert tables[0].title == "Sequence to sequence, CFQ MCD1, queries under 30 tokens"
