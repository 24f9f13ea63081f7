"""The report: its numbers against numbers worked out by hand, and the same bytes each time."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import edge_transformer.report
from edge_transformer.errors import DataError, UserError
from edge_transformer.figures import Points, draw_figure
from edge_transformer.records import Record, append_record, latest_runs, scored_elsewhere
from edge_transformer.report import Report, build_report, report_tables
from edge_transformer.result_tables import ABOVE, BELOW, Row, result_tables
from edge_transformer.run import RunConfig

VERSIONS = {"torch": "2.13.0", "edge-transformer": "0.1.0"}


def run(seed: int, metrics: dict[str, float], **fields: Any) -> Record:
    """A finished run that never was."""
    preset = fields.get("preset", "clutrr/cpu")
    values: dict[str, Any] = {
        "task": "clutrr",
        "data": {"name": "official", "fingerprint": "0a1b", "train_k": "2,3,4", "train_rows": 12064},
        "model": "edge",
        "preset": preset,
        "overrides": {},
        "minutes": 10.0 * seed,
        "threads": 1,
        "versions": VERSIONS,
        "command": f"edge-transformer train clutrr --preset {preset} --seed {seed}",
        "finished": "2025-03-01T12:00:00+00:00",
    }
    return Record(seed=seed, metrics=metrics, **{**values, **fields})


def runs(values: Sequence[float], metric: str = "k=10", **fields: Any) -> list[Record]:
    return [run(seed, {metric: value}, **fields) for seed, value in enumerate(values, start=1)]


def write(folder: Path, records: Iterable[Record]) -> Report:
    for record in records:
        append_record(folder / "results" / f"{record.task}.jsonl", record)
    return build_report(folder / "results", folder / "RESULTS.md")


def only_row(records: Sequence[Record]) -> Row:
    (table,) = result_tables(records)
    (row,) = (row for row in table.rows if not row.is_paper)
    return row


def table_lines(report: Report) -> list[list[str]]:
    lines = report.path.read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]


def test_mean_and_standard_error_by_hand(tmp_path: Path) -> None:
    # k=6: 90, 92, 97: mean 93, deviations -3, -1, 4: variance 26/2 = 13, error sqrt(13/3) = 2.0817
    # k=10: 80, 80, 83: mean 81, deviations -1, -1, 2: variance 6/2 = 3, error sqrt(3/3) = 1
    values = [(0.90, 0.80), (0.92, 0.80), (0.97, 0.83)]
    report = write(tmp_path, [run(seed, {"k=10": b, "k=6": a, "loss": 9.0}) for seed, (a, b) in enumerate(values, 1)])
    score = report.tables[0].rows[0].scores["k=6"]
    assert score.mean == pytest.approx(0.93)
    assert score.error == pytest.approx((13 / 3) ** 0.5 / 100)
    head, _, ours, paper = table_lines(report)
    assert head == ["Model", "Preset", "Runs", "k=6", "k=7", "k=8", "k=9", "k=10", "Minutes", "CPU minutes", "Threads"]
    assert ours[:4] == ["Edge Transformer", "`clutrr/cpu`", "3 seeds", f"93.0 ± 2.1 {BELOW}"]
    assert ours[4:] == ["–", "–", "–", f"81.0 ± 1.0 {BELOW}", "20.0", "–", "1"]
    assert paper[:5] == ["Edge Transformer", "paper", "10 runs", "98.1 ± 0.3", "97.9 ± 0.7"]
    assert paper[5:] == ["95.3 ± 1.5", "92.3 ± 1.5", "92.1 ± 1.5", "–", "–", "–"]


def test_cpu_minutes_where_all_runs_have_them(tmp_path: Path) -> None:
    runs = [run(seed, {"k=2": 0.9}, cpu_minutes=3.0 * seed) for seed in (1, 2)]
    assert table_lines(write(tmp_path, runs))[2][-3:] == ["15.0", "4.5", "1"]
    assert table_lines(write(tmp_path, [*runs, run(3, {"k=2": 0.9})]))[2][-3:] == ["20.0", "–", "1"]


def test_one_seed_has_no_error(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 0.9876})])
    assert table_lines(report)[2][2:4] == ["1 seed", "98.8"]
    assert "With 1 seed there is\nno standard error" in report.path.read_text()


# The paper: k=10 with k=2,3,4 is 92.1 ± 1.5 over 10 runs, so a spread of 1.5 * sqrt(10) = 4.743 over seeds.
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


def test_options_of_all_rows_are_told_once(tmp_path: Path) -> None:
    shared = {"data.train_k": [2, 3]}
    records = [
        *runs([0.9, 0.8], overrides=shared),
        *runs([0.7], overrides={**shared, "model.dim": 8}),
        *runs([0.5], overrides=shared, preset="clutrr/cpu-rat", model="rat"),
    ]
    report = write(tmp_path, records)
    assert [row.options for row in report.tables[0].rows if not row.is_paper] == ["", "model.dim=8", ""]
    assert report.tables[0].common == "data.train_k=[2, 3]"
    assert "\nAll our rows: `data.train_k=[2, 3]`.\n" in report.path.read_text()
    (alone,) = result_tables(runs([0.9, 0.8], overrides=shared))
    assert [row.options for row in alone.rows if not row.is_paper] == ["data.train_k=[2, 3]"]
    assert alone.common == ""


def test_the_parts_of_trials_stand_side_by_side(tmp_path: Path) -> None:
    task: dict[str, Any] = {"task": "graphs", "data": {"name": "mine", "fingerprint": "4"}, "preset": "graphs/cpu"}
    scores = {"test": 0.5, "test/deep": 0.25}
    records = [run(1, scores, overrides={"model.dim": dim}, **task) for dim in (8, 9)]
    text = write(tmp_path, records).path.read_text()
    assert "| Part | `graphs/cpu` `model.dim=8`, 1 seed | `graphs/cpu` `model.dim=9`, 1 seed |" in text
    assert "| test/deep | 25.0 | 25.0 |" in text


def test_the_papers_other_setting() -> None:
    (table,) = result_tables(runs([0.9], data={"name": "mine", "fingerprint": "2", "train_k": "2, 3"}))
    assert table.title == "CLUTRR, trained on k=2,3"
    assert table.trained == (2, 3)
    score = table.rows[1].scores["k=10"]
    assert (score.mean, score.error, score.runs) == (pytest.approx(0.581), pytest.approx(0.028), 10)


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


def test_tasks_without_an_axis_need_no_code(tmp_path: Path) -> None:
    split = {"name": "cfq", "fingerprint": "3", "split": "mcd3"}
    parses = [run(1, {"LAS": 0.96, "EM": 0.89}, task="dependency", data=split, preset="dependency/cpu")]
    unknown = [run(1, {"hits": 0.5}, task="links", data={"name": "wn18", "fingerprint": "4"}, preset="links/cpu")]
    report = write(tmp_path, [*unknown, *parses])
    assert [table.title for table in report.tables] == ["Dependency parsing, CFQ MCD3", "links, wn18"]
    assert report.figures == ()
    lines = table_lines(report)
    assert lines[0][3:5] == ["EM", "LAS"]
    assert lines[3][1:5] == ["paper", "10 runs", "89.1 ± 0.2", "96.3 ± 0.1"]
    assert lines[6][:4] == ["Edge Transformer", "`links/cpu`", "1 seed", "50.0"]


def test_numbers_of_another_treebank_are_shown_as_such(tmp_path: Path) -> None:
    ours = {"name": "cfq-dep", "fingerprint": "3", "treebank": "cfq-dependencies"}
    harder = {"name": "harder", "fingerprint": "4", "treebank": "cfq-dependencies-split-anew"}
    parses = [
        run(1, {"LAS": 0.99, "EM": 0.5}, task="dependency", data=data, preset="cfq-dep/cpu")
        for data in (ours | {"split": "mcd1"}, ours, harder)
    ]
    report = write(tmp_path, parses)
    titles = [table.title for table in report.tables]
    assert titles[-1] == "Dependency parsing, CFQ, trees of our own grammar, a split of our own"
    assert all(title.startswith("Dependency parsing, CFQ, trees of our own grammar") for title in titles)
    text = report.path.read_text(encoding="utf-8")
    assert text.count("| paper, MCD1 of another treebank | 10 runs | 97.4 ± 0.8 |") == 2
    assert text.count("The trees are ours") == 3
    assert "Against the paper" not in text
    assert not any(row.marks for table in report.tables for row in table.rows)


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


def test_a_metric_that_some_runs_lack_says_so(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 1.0, "k=3": 0.9}), run(2, {"k=2": 1.0})])
    assert table_lines(report)[2][3:5] == ["100.0 ± 0.0", "90.0 (of 1)"]


def test_trials_on_validation_rows_are_listed_below_the_table(tmp_path: Path) -> None:
    trial = run(1, {"valid k=10": 0.75, "loss": 0.1}, overrides={"data.test": False})
    report = write(tmp_path, [*runs([0.5, 0.7]), trial])
    assert all("data.test" not in cell for line in table_lines(report) for cell in line)
    text = report.path.read_text()
    assert "Trials, with `data.test=false` each, scored on validation rows alone:" in text
    assert "\n| `clutrr/cpu` | 1 seed | 75.0 |\n" in text


def test_parts_of_the_test_rows_have_a_table_of_their_own(tmp_path: Path) -> None:
    of_cogs = {"task": "cogs", "data": {"name": "cogs", "fingerprint": "5"}}
    records = [
        run(1, {"gen": 0.7, "gen/prim": 0.5, "gen/cp_recursion": 1.0}, preset="cogs/cpu", **of_cogs),
        run(2, {"gen": 0.7, "gen/prim": 0.7, "gen/cp_recursion": 1.0}, preset="cogs/cpu", **of_cogs),
        run(1, {"gen": 0.7, "gen/prim": 0.1}, preset="cogs/cpu-untied", **of_cogs),
        run(1, {"gen": 0.7}, preset="cogs/paper", **of_cogs),  # was not asked for parts
    ]
    text = write(tmp_path, records).path.read_text(encoding="utf-8")
    assert text.count("By parts of the test rows:") == 1
    assert (
        """
| Part | `cogs/cpu`, 2 seeds | `cogs/cpu-untied`, 1 seed |
| :-- | --: | --: |
| gen/cp\\_recursion | 100.0 ± 0.0 | – |
| gen/prim | 60.0 ± 10.0 | 10.0 |
"""
        in text
    )


def test_sources_below_a_table(tmp_path: Path) -> None:
    records = [*runs([0.9, 0.8, 0.7]), *runs([0.9], preset="clutrr/paper", versions={"torch": "2.6.0"})]
    text = write(tmp_path, records).path.read_text()
    assert "- Data: `official`, fingerprint `0a1b`, train\\_k `2,3,4`, train\\_rows `12064`\n" in text
    assert "- Versions: edge-transformer 0.1.0, torch 2.6.0 / 2.13.0\n" in text
    assert "for seed in 1 2 3; do edge-transformer train clutrr --preset clutrr/cpu --seed $seed; done\n" in text
    assert "\nedge-transformer train clutrr --preset clutrr/paper --seed 1\n" in text


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
    settings = RunConfig.from_preset("clutrr", "clutrr/cpu", {}, 1).settings
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
    (tmp_path / "my.yaml").write_text("task: clutrr\nbase: clutrr/cpu\ntrain: {lr: 9}\n")
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


def test_same_records_same_bytes(tmp_path: Path) -> None:
    records = [run(seed, {"k=2": 0.9, "k=3": 0.1 * seed}, preset=p) for seed in (1, 2, 3) for p in ("a/b", "a/untied")]
    one, two = write(tmp_path / "one", records), write(tmp_path / "two", reversed(records))
    assert one.path.read_bytes() == two.path.read_bytes()
    assert [path.name for path in one.figures] == [path.name for path in two.figures]
    assert [path.read_bytes() for path in one.figures] == [path.read_bytes() for path in two.figures]


def test_generated_notice_and_links(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 1.0, "k=3": 0.9})])
    text = report.path.read_text()
    assert text.splitlines()[0].startswith("<!-- Generated by `edge-transformer report`")
    assert "Do not edit" in text.splitlines()[0]
    assert [str(path.relative_to(tmp_path)) for path in report.figures] == [
        "results/figures/clutrr-trained-on-k-2-3-4.svg",
        "results/figures/clutrr-trained-on-k-2-3-4.png",
    ]
    assert all(f"({path.relative_to(tmp_path)})" in text for path in report.figures)


def test_a_report_in_another_folder_links_back(tmp_path: Path) -> None:
    append_record(tmp_path / "my results" / "a.jsonl", run(1, {"k=2": 1.0, "k=3": 0.9}))
    text = build_report(tmp_path / "my results", tmp_path / "docs" / "RESULTS.md").path.read_text()
    assert "(../my%20results/figures/clutrr-trained-on-k-2-3-4.svg)" in text


def test_odd_texts_do_not_break_the_markdown(tmp_path: Path) -> None:
    odd = "a|b`c\n$x_1$ [red]<b>"
    report = write(tmp_path, runs([0.9], preset="my.yaml", overrides={"note": odd}, model=odd, command=f"{odd} ```"))
    head, rule, ours = table_lines(report)
    assert len(head) == len(rule) == len(ours)
    assert ours[1] == "`my.yaml` `note=a\\|b'c $x_1$ [red]<b>`"
    assert ours[0] == "a\\|b\\`c $x\\_1$ \\[red\\]\\<b\\>"
    assert "\n````sh\na|b`c $x_1$ [red]<b> ```\n````\n" in report.path.read_text()


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    (tmp_path / "results").mkdir()
    with pytest.raises(UserError, match="no finished runs"):
        build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    assert not (tmp_path / "RESULTS.md").exists()


def test_a_broken_record_leaves_the_old_report(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 1.0})])
    before = report.path.read_bytes()
    (tmp_path / "results" / "z.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"z\.jsonl:1: found no field 'task'"):
        build_report(tmp_path / "results", report.path)
    assert report.path.read_bytes() == before


def test_parts_of_a_score_have_no_columns() -> None:
    scores = {"test": 0.5, "test/short": 0.75, "test/long": 0.25}
    [whole] = result_tables([run(1, scores, task="mine")])
    assert whole.metrics == ("test",)
    [parts] = result_tables([run(1, {"test/short": 0.75}, task="mine")])  # where there is nothing else
    assert parts.metrics == ("test/short",)


def test_terminal_tables_fit_80_columns() -> None:
    screen = io.StringIO()
    records = [run(seed, {f"k={k}": 0.9 for k in range(2, 11)}) for seed in (1, 2, 3)]
    for table in report_tables(records):
        Console(file=screen, width=80).print(table)
    text = screen.getvalue()
    assert "…" not in text
    assert f"90.0{BELOW}" in text  # k=6 is 98.1 ± 0.3 in the paper
    assert "3 seeds" in text
    assert "paper, 10 runs" in text


# Figures


def test_ablations_have_a_figure_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, Any]] = []

    def spy(series: Mapping[str, Points], paper: Mapping[str, Points], **about: Any) -> Any:
        drawn.append({"series": set(series), "paper": set(paper), "dashed": about["dashed"]})
        return draw_figure(series, paper, **about)

    monkeypatch.setattr(edge_transformer.report, "draw_figure", spy)
    presets = ("clutrr/cpu", "clutrr/paper", "clutrr/cpu-untied", "clutrr/cpu-rat")
    records = [
        run(1, {"k=6": 0.9, "k=10": 0.8}, preset=preset, model="rat" if "rat" in preset else "edge")
        for preset in presets
    ]
    report = write(tmp_path, records)
    edge, rat = "Edge Transformer", "Relation-aware Transformer"
    of_presets = {f"{edge}, clutrr/cpu", f"{edge}, clutrr/paper"}
    assert drawn == [
        {"series": {*of_presets, rat}, "paper": {f"{edge}, clutrr/paper"}, "dashed": {rat}},
        {"series": {edge, f"{edge}, untied weights"}, "paper": {edge, f"{edge}, untied weights"}, "dashed": set()},
    ]
    assert [path.name for path in report.figures[::2]] == [
        "clutrr-trained-on-k-2-3-4.svg",
        "clutrr-trained-on-k-2-3-4-ablations.svg",
    ]


def test_importing_the_report_does_not_import_matplotlib() -> None:
    # an empty package in place of the real one, which takes seconds to import torch
    folder = Path(edge_transformer.report.__file__).parent
    code = f"""
import sys, types
sys.modules["edge_transformer"] = package = types.ModuleType("edge_transformer")
package.__path__ = [{str(folder)!r}]
import edge_transformer.report
sys.exit("matplotlib" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_committed_report_is_that_of_the_committed_records(tmp_path: Path) -> None:
    """Whoever commits records makes the report too: `edge-transformer report`."""
    root = Path(__file__).parents[1]
    shutil.copytree(root / "results", tmp_path / "results", ignore=shutil.ignore_patterns("figures"))
    made = build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    assert made.path.read_text(encoding="utf-8") == (root / "RESULTS.md").read_text(encoding="utf-8")
    named = {path.relative_to(tmp_path) for path in made.figures}
    assert named == {path.relative_to(root) for path in (root / "results/figures").iterdir()}
