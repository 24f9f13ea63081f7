"""The report: its numbers against numbers worked out by hand, and the same bytes each time."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import edge_transformer.report.page
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.records import Record, append_record
from edge_transformer.report.page import Report, build_report, report_tables
from edge_transformer.report.tables import BELOW, result_tables
from record_cases import run, runs


def write(folder: Path, records: Iterable[Record]) -> Report:
    for record in records:
        append_record(folder / "results" / f"{record.task}.jsonl", record)
    return build_report(folder / "results", folder / "RESULTS.md")


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


def test_tasks_without_an_axis_need_no_code(tmp_path: Path) -> None:
    split = {"name": "cfq", "fingerprint": "3", "split": "mcd3"}
    parses = [run(1, {"LAS": 0.96, "EM": 0.89}, task="dependency", data=split, preset="trees/cpu")]
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


def test_a_metric_that_some_runs_lack_says_so(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 1.0, "k=3": 0.9}), run(2, {"k=2": 1.0})])
    assert table_lines(report)[2][3:5] == ["100.0 ± 0.0", "90.0 (of 1)"]


def test_lists_among_the_options_of_trials_stay_whole(tmp_path: Path) -> None:
    trials = [
        run(1, {"valid k=10": 0.75}, overrides={"data.test": False, "data.train_k": [2, 3], "x": [value, 5]})
        for value in (1, 4)
    ]
    text = write(tmp_path, [*runs([0.5, 0.7]), *trials]).path.read_text()
    assert "Trials, with `data.test=false, data.train_k=[2, 3]` each" in text
    assert "`x=[1, 5]`" in text
    assert "`x=[4, 5]`" in text


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
    assert "for seed in 1 2 3; do edge-transformer train relations --preset clutrr/cpu --seed $seed; done\n" in text
    assert "\nedge-transformer train relations --preset clutrr/paper --seed 1\n" in text


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


def test_importing_the_report_does_not_import_matplotlib() -> None:
    # an empty package in place of the real one, which takes seconds to import torch
    folder = Path(edge_transformer.report.page.__file__).parent
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
    root = Path(__file__).parents[2]
    shutil.copytree(root / "results", tmp_path / "results", ignore=shutil.ignore_patterns("figures"))
    made = build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    assert made.path.read_text(encoding="utf-8") == (root / "RESULTS.md").read_text(encoding="utf-8")
    named = {path.relative_to(tmp_path) for path in made.figures}
    assert named == {path.relative_to(root) for path in (root / "results/figures").iterdir()}
