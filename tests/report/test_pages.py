"""RESULTS.md and the pages of benchmarks: their numbers and structure, the same bytes each time, and what they cost."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_transformer.errors import DataError, UserError
from edge_transformer.io.records import Record, append_record, scored_elsewhere
from edge_transformer.report.pages import Report, build_report
from edge_transformer.report.tables import ABOVE, BELOW, paper
from record_cases import COGS, DERIVED, STORIES, run, runs

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_FILES = 200, 10
RULE = re.compile(r"\| :?-")


def write(folder: Path, records: Iterable[Record]) -> Report:
    for record in records:
        append_record(folder / "results" / "records" / f"{record.task}.jsonl", record)
    return build_report(folder / "results", folder / "RESULTS.md")


def page_of(report: Report) -> str:
    (page,) = report.pages
    return page.read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands below the first heading that begins with these words, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}.*\n((?:(?!^#).*\n)*)", text, flags=re.MULTILINE)
    assert found is not None, title
    return found[1]


def table_in(text: str) -> list[list[str]]:
    """The cells of the first table, without the rule below its head."""
    rows: list[str] = []
    for line in text.splitlines():
        if line.startswith("| "):
            rows.append(line)
        elif rows:
            break
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows if not RULE.match(line)]


# RESULTS.md


def test_scores_of_a_long_table_are_columns(tmp_path: Path) -> None:
    # three seeds: k=6 93 ± 2.1 and the paper's 98.1 ± 0.3 of 10 runs; k=10 81 ± 1.0 and 92.1 ± 1.5
    values = [(0.90, 0.80), (0.92, 0.80), (0.97, 0.83)]
    ours = [run(seed, {"k=10": b, "k=6": a}) for seed, (a, b) in enumerate(values, 1)]
    text = write(tmp_path, [*ours, run(1, {"k=10": 0.5}, model="rat", preset="clutrr/cpu-rat")]).path.read_text()
    head, edge, difference, reported, rat = table_in(section(text, "Figure 3: CLUTRR, trained on k=2,3,4"))
    assert head == ["Model", "Preset", "Runs", *(f"k={k}" for k in range(2, 11))]
    assert edge[:3] == ["Edge Transformer", "`clutrr/cpu`", "3 seeds"]
    assert edge[7:] == ["93.0 ± 2.1", "not measured", "not measured", "not measured", "81.0 ± 1.0"]
    # k=6: sqrt(2.08² + 0.3²) = 2.10; k=10: max(1.0, 4.74 / sqrt(3) = 2.74), sqrt(2.74² + 1.5²) = 3.12
    assert difference[1:3] == ["difference", ""]
    assert difference[7:] == [f"-5.1 ± 2.1 {BELOW}", "–", "–", "–", f"-11.1 ± 3.1 {BELOW}"]
    assert reported[1:3] == ["paper", "10 runs"]
    assert reported[7:] == ["98.1 ± 0.3", "97.9 ± 0.7", "95.3 ± 1.5", "92.3 ± 1.5", "92.1 ± 1.5"]
    assert rat == ["RAT", "`clutrr/cpu-rat`", "1 seed", *["not measured"] * 8, "50.0"]
    assert [line[1] for line in table_in(section(text, "Table 5: CLUTRR ablations, trained on k=2,3,4"))] == [
        "Preset",
        *("`clutrr/cpu`", "difference", "paper"),
        *("not measured", "paper") * 3,
    ]


def test_scores_of_a_short_table_are_lines(tmp_path: Path) -> None:
    records = [
        *runs([0.80, 0.82], "gen", preset="cogs/cpu", **COGS),
        *runs([0.7], "gen", preset="cogs/cpu-universal", model="universal", **COGS),
        *runs([0.6], "gen", preset="cogs/cpu-transformer", model="transformer", **COGS),
    ]
    head, *lines = table_in(section(write(tmp_path, records).path.read_text(), "Table 4"))
    assert head == ["Model", "Preset", "Seeds", "Score", "Ours", "Paper", "Difference"]
    assert lines[:3] == [
        # our error is the paper's spread of 1.26 / sqrt(2) = 0.89, not 1.0: sqrt(1² + 0.4²) = 1.08
        ["Edge Transformer", "`cogs/cpu`", "2", "gen", "81.0 ± 1.0", "87.4 ± 0.4 (10 runs)", f"-6.4 ± 1.1 {BELOW}"],
        ["Universal Transformer", "`cogs/cpu-universal`", "1", "gen", "70.0", "78.4", "-8.4"],
        ["Transformer", "`cogs/cpu-transformer`", "1", "gen", "60.0", "–", "–"],
    ]
    assert [line[1:3] + line[4:] for line in lines[3:]] == [
        ["–", "–", "–", "82.0 ± 1.0", "–"],
        ["–", "–", "–", "81.0 ± 0.0", "–"],
    ]


def test_other_data_are_footnotes_and_never_marked(tmp_path: Path) -> None:
    text = section(write(tmp_path, runs([0.5] * 6, "EM", preset="cfq-dep/cpu", **DERIVED)).path.read_text(), "Table 2")
    lines = table_in(text)
    places = (("MCD1", "a"), ("MCD2", "b"), ("MCD3", "b"))  # the note on MCD2 and MCD3 stands once
    assert lines[0][3:] == [f"{name} {score}<sup>{sign}</sup>" for name, sign in places for score in ("EM", "LAS")]
    assert lines[-3][3:] == ["50.0 ± 0.0", *["not measured"] * 5]
    assert lines[-2][3] == "-47.4 ± 0.8"
    assert lines[-1][3:5] == ["97.4 ± 0.8", "99.4 ± 0.2"]
    assert re.findall(r"^- <sup>(.)</sup>", text, flags=re.MULTILINE) == ["a", "b"]
    assert ABOVE not in text
    assert BELOW not in text


def test_tables_of_which_nothing_was_measured_are_left_out(tmp_path: Path) -> None:
    mine = run(1, {"k=2": 1.0}, data={"name": "mine", "fingerprint": "2", "train_k": "2"})
    report = write(tmp_path, [mine])
    text = report.path.read_text()
    assert re.findall(r"^## (.*)", text, flags=re.MULTILINE) == ["How to read the numbers"]
    assert [path.name for path in report.pages] == ["relations.md"]
    assert "[relations](results/relations.md)" in text


def test_beyond_the_paper(tmp_path: Path) -> None:
    records = [
        *runs([0.98, 0.96], "gen", preset="cogs/best", **COGS),
        *runs([0.90, 0.92], "gen", preset="cogs/best-universal", model="universal", **COGS),
        *runs([0.90, 0.90], "gen", preset="cogs/best-transformer", model="transformer", **COGS),
        *runs([0.99], preset="clutrr/best"),
    ]
    head, *lines = table_in(section(write(tmp_path, records).path.read_text(), "Beyond the paper"))
    assert len(head) == 5
    assert [line[1:] for line in lines] == [
        ["k=10", "99.0 (`clutrr/best`, 1 seed)", "not measured", "–"],
        [
            "gen",
            "97.0 ± 1.0 (`cogs/best`, 2 seeds)",
            "91.0 ± 1.0 (Universal Transformer, `cogs/best-universal`, 2 seeds)",
            f"+6.0 ± 1.4 {ABOVE}",
        ],
    ]


# Pages of benchmarks


def test_the_table_of_a_page(tmp_path: Path) -> None:
    records = [run(seed, {"k=9": 0.8, "k=10": 0.5, "loss": 0.25}, cpu_minutes=3.0 * seed) for seed in (1, 2)]
    head, ours, reported = table_in(page_of(write(tmp_path, records)))
    names = ["k=6", "k=7", "k=8", "k=9", "k=10"]
    assert head == ["Model", "Preset", "Runs", *names, "Train loss", "Minutes", "CPU minutes", "Threads"]
    assert ours[:3] == ["Edge Transformer", "`clutrr/cpu`", "2 seeds"]
    assert ours[3:8] == ["–", "–", "–", f"80.0 ± 0.0 {BELOW}", f"50.0 ± 0.0 {BELOW}"]
    assert ours[8:] == ["0.2500", "15.0", "4.5", "1"]
    assert reported[1:4] == ["paper", "10 runs", "98.1 ± 0.3"]
    assert reported[8:] == ["–"] * 4
    _, ours, _ = table_in(page_of(write(tmp_path, [run(3, {"k=9": 0.8})])))
    assert ours[6:] == [f"80.0 ± 0.0 {BELOW}", f"50.0 ± 0.0 (of 2) {BELOW}", "–", "20.0", "–", "1"]


def test_options_of_all_rows_are_said_once(tmp_path: Path) -> None:
    shared = {"data.train_k": [2, 3]}
    records = [
        *runs([0.9, 0.8], overrides=shared),
        *runs([0.7], overrides={**shared, "model.dim": 8}),
        *runs([0.5], overrides=shared, preset="clutrr/cpu-rat", model="rat"),
    ]
    text = page_of(write(tmp_path, records))
    assert [line[1] for line in table_in(text)[1:]] == [
        "`clutrr/cpu`",
        "`clutrr/cpu` `model.dim=8`",
        "paper",
        "`clutrr/cpu-rat`",
    ]
    assert "\nAll our rows: `data.train_k=[2, 3]`.\n" in text


def test_differences_between_models(tmp_path: Path) -> None:
    values = {
        "clutrr/cpu": [{"k=3": 0.9, "k=10": each} for each in (0.79, 0.80, 0.81)],  # ± 0.58
        "clutrr/cpu-rat": [{"k=3": 0.8, "k=10": each} for each in (0.59, 0.61)],  # ± 1.0
        "clutrr/cpu-untied": [{"k=10": 0.7}],
        "clutrr/best": [{"k=3": 0.8, "k=10": each} for each in (0.90, 0.92)],  # ± 1.0
        "clutrr/paper": [{"k=10": 0.9}],
    }
    records = [
        run(seed, metrics, preset=preset, model="rat" if "rat" in preset else "edge")
        for preset, each in values.items()
        for seed, metrics in enumerate(each)
    ]
    head, *lines = table_in(section(page_of(write(tmp_path, records)), "Differences between models"))
    assert (head[1], head[-1]) == ("k=3", "k=10")
    assert {line[0]: (line[1], line[-1]) for line in lines} == {
        "`clutrr/best` minus `clutrr/cpu`": ("-10.0 ± 0.0", f"+11.0 ± 1.2 {ABOVE}"),
        "`clutrr/cpu` minus `clutrr/cpu-untied`": ("–", "+10.0"),
        "the same in the paper": ("–", "+1.9 ± 2.1"),
        "`clutrr/cpu` minus `clutrr/cpu-rat`": ("+10.0 ± 0.0", f"+20.0 ± 1.2 {ABOVE}"),
    }


def test_categories_have_a_table_of_their_own(tmp_path: Path) -> None:
    records = [
        run(1, {"gen": 0.7, "gen/prim": 0.5, "gen/cp_recursion": 1.0}, preset="cogs/cpu", **COGS),
        run(2, {"gen": 0.7, "gen/prim": 0.7, "gen/cp_recursion": 1.0}, preset="cogs/cpu", **COGS),
        run(1, {"gen": 0.7, "gen/prim": 0.1}, preset="cogs/cpu-untied", **COGS),
        run(1, {"gen": 0.7}, preset="cogs/paper", **COGS),  # was not asked for parts
    ]
    assert table_in(section(page_of(write(tmp_path, records)), "Scores by category")) == [
        ["Category", "`cogs/cpu`, 2 seeds", "`cogs/cpu-untied`, 1 seed"],
        ["gen/cp\\_recursion", "100.0 ± 0.0", "–"],
        ["gen/prim", "60.0 ± 10.0", "10.0"],
    ]


def test_categories_of_runs_of_one_preset(tmp_path: Path) -> None:
    task: dict[str, Any] = {"task": "graphs", "data": {"name": "mine", "fingerprint": "4"}, "preset": "graphs/cpu"}
    records = [run(1, {"test": 0.5, "test/deep": 0.25}, overrides={"model.dim": dim}, **task) for dim in (8, 9)]
    head, line = table_in(section(page_of(write(tmp_path, records)), "Scores by category"))
    assert head[1:] == ["`graphs/cpu` `model.dim=8`, 1 seed", "`graphs/cpu` `model.dim=9`, 1 seed"]
    assert line == ["test/deep", "25.0", "25.0"]


def test_validation_scores_and_trials(tmp_path: Path) -> None:
    trials = [
        run(1, {"valid k=10": 0.75}, overrides={"data.test": False, "data.train_k": [2, 3], "x": [value, 5]})
        for value in (1, 4)
    ]
    validated = run(9, {"k=10": 0.5, "valid k=9": 0.25, "valid k=10": 0.125}, preset="clutrr/paper")
    text = page_of(write(tmp_path, [*runs([0.5, 0.7]), *trials, validated]))
    assert "valid" not in " ".join(table_in(text)[0])
    found = section(text, "Search trials")
    assert "`data.test=false, data.train_k=[2, 3]`" in found
    assert table_in(found) == [
        ["Preset", "Runs", "valid k=10"],
        ["`clutrr/cpu` `x=[1, 5]`", "1 seed", "75.0"],
        ["`clutrr/cpu` `x=[4, 5]`", "1 seed", "75.0"],
    ]
    assert table_in(section(text, "Validation scores")) == [
        ["Preset", "Runs", "valid k=9", "valid k=10"],
        ["`clutrr/paper`", "1 seed", "25.0", "12.5"],
    ]


def test_data_versions_and_commands(tmp_path: Path) -> None:
    fewer = {**STORIES, "train_rows": 9}
    records = [
        *runs([0.9, 0.8, 0.7]),
        *runs([0.9], preset="clutrr/paper", versions={"torch": "2.6.0"}, data=fewer, commit="0123abcd"),
        run(4, {"valid k=6": 0.5}, overrides={"data.test": False}, data=fewer, command="a trial"),
    ]
    text = section(page_of(write(tmp_path, records)), "Data, versions and commands")
    assert text.split("```")[0].splitlines()[1:-1] == [
        "- Data: `official`, corpus `clutrr`, fingerprint `d3af2724bb7e63b5`, train\\_k `2,3,4`",
        "  - `clutrr/cpu`: train\\_rows `12064`",
        "  - `clutrr/paper`, trial `clutrr/cpu`: train\\_rows `9`",
        "- Versions: commit `0123abcd`, edge-transformer `0.1.0`, torch `2.6.0 / 2.13.0`",
    ]
    assert text.split("```")[1].splitlines() == [
        "sh",
        "for seed in 1 2 3; do edge-transformer train relations --preset clutrr/cpu --seed $seed; done",
        "edge-transformer train relations --preset clutrr/paper --seed 1",
        "a trial",
    ]
    alike = page_of(write(tmp_path / "alike", runs([0.9])))
    assert "train\\_k `2,3,4`, train\\_rows `12064`\n" in alike


@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (["experiment e.yaml"] * 2, ["experiment e.yaml"]),
        (["train --seed 12 --set seed=1"] * 2, ["train --seed 12 --set seed=1"]),
        (["evaluate a-seed1", "evaluate a-seed2"], ["for seed in 1 2; do evaluate a-seed$seed; done"]),
        (["", ""], []),
    ],
)
def test_commands_that_differ_in_the_seed_are_one(tmp_path: Path, commands: Sequence[str], shown: list[str]) -> None:
    records = [run(seed, {"k=2": 0.5}, command=command) for seed, command in enumerate(commands, 1)]
    code = page_of(write(tmp_path, records)).split("```")
    assert code[1].splitlines()[1:] == shown if shown else len(code) == 1


def test_caveats_stand_at_the_end(tmp_path: Path) -> None:
    records = [*runs([0.9]), *runs([0.8], "gen", preset="cogs/cpu", **COGS)]
    report = write(tmp_path, records)
    assert [path.name for path in report.pages] == ["clutrr.md", "cogs.md"]
    for path in report.pages:
        caveats = [f"- {each}" for each in paper()["benchmarks"][path.stem]["caveats"]]
        assert path.read_text(encoding="utf-8").rstrip().splitlines()[-len(caveats) :] == caveats


def test_scores_on_other_rows_stand_on_the_page_of_their_task(tmp_path: Path) -> None:
    own = runs([0.9], data={"name": "mine", "fingerprint": "2", "train_k": "2"})
    report = write(tmp_path, [*own, scored_elsewhere(own[0], "large", "77", {"k=10": 0.5}, "evaluate")])
    assert re.findall(r"^## (.*)", page_of(report), flags=re.MULTILINE) == ["mine", "mine, tested on large"]


# Files


def test_same_records_same_bytes(tmp_path: Path) -> None:
    records = [run(seed, {"k=2": 0.9, "k=3": 0.1 * seed}, preset=p) for seed in (1, 2, 3) for p in ("a/b", "a/untied")]
    one, two = (write(tmp_path / name, each) for name, each in (("one", records), ("two", reversed(records))))
    for first, second in ((one.pages, two.pages), (one.figures, two.figures), ([one.path], [two.path])):
        assert [path.name for path in first] == [path.name for path in second]
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_notice_names_and_links(tmp_path: Path) -> None:
    append_record(tmp_path / "my results" / "a.jsonl", run(1, {"k=2": 1.0, "k=3": 0.9}))  # no folder of records
    report = build_report(tmp_path / "my results", tmp_path / "docs" / "RESULTS.md")
    assert [str(path.relative_to(tmp_path)) for path in report.figures] == ["my results/figures/clutrr-k234.svg"]
    overview, page = report.path.read_text(), page_of(report)
    assert "(../my%20results/figures/clutrr-k234.svg)" in overview
    assert "(../my%20results/clutrr.md)" in overview
    assert "(figures/clutrr-k234.svg)" in page
    assert "(../docs/RESULTS.md)" in page
    for text in (overview, page):
        assert "Do not edit" in text.splitlines()[0]


def test_odd_texts_do_not_break_the_markdown(tmp_path: Path) -> None:
    odd = "a|b`c\n$x_1$ [red]<b>"
    records = [
        *runs([0.9], preset="my.yaml", overrides={"note": odd}, model=odd, command=f"{odd} ```"),
        *runs([0.9], preset="my.yaml", model=odd),
    ]
    text = page_of(write(tmp_path, records))
    head, _, ours = table_in(text)
    assert len(head) == len(ours)
    assert ours[1] == "`my.yaml` `note=a\\|b'c $x_1$ [red]<b>`"
    assert ours[0] == "a\\|b\\`c $x\\_1$ \\[red\\]\\<b\\>"
    assert "\n````sh\n" in text
    assert "\na|b`c $x_1$ [red]<b> ```\n````\n" in text


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    (tmp_path / "results/records").mkdir(parents=True)
    with pytest.raises(UserError, match="no finished runs"):
        build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    assert not (tmp_path / "RESULTS.md").exists()


def test_a_broken_record_leaves_the_old_report(tmp_path: Path) -> None:
    report = write(tmp_path, [run(1, {"k=2": 1.0})])
    before = report.path.read_bytes()
    (tmp_path / "results/records/z.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"z\.jsonl:1: found no field 'task'"):
        build_report(tmp_path / "results", report.path)
    assert report.path.read_bytes() == before


# What is committed, and what it costs


def test_the_committed_pages_are_those_of_the_committed_records(tmp_path: Path) -> None:
    """Whoever commits records makes the pages too: `edge-transformer report`."""
    shutil.copytree(ROOT / "results/records", tmp_path / "results/records")
    made = build_report(tmp_path / "results", tmp_path / "RESULTS.md")
    pages = [made.path, *made.pages]
    for path in pages:
        assert path.read_text(encoding="utf-8") == (ROOT / path.relative_to(tmp_path)).read_text(encoding="utf-8")
    committed = [*(ROOT / "results").glob("*.md"), *(ROOT / "results/figures").iterdir()]
    assert {path.relative_to(tmp_path) for path in (*made.pages, *made.figures)} == {
        path.relative_to(ROOT) for path in committed
    }
    shown = {name for path in pages for name in re.findall(r"figures/([\w-]+\.svg)\)", path.read_text())}
    assert shown == {path.name for path in made.figures}


def test_the_committed_comparison_is_short_and_whole() -> None:
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    titles = re.findall(r"^## (.*)", text, flags=re.MULTILINE)
    numbers = ["Figure 3", "Figure 3", "Table 2", "Table 3", "Table 4", "Table 5", "Table 5", "Table 6"]
    assert [title.split(":")[0] for title in titles[:-2]] == numbers
    assert titles[-2:] == ["Beyond the paper", "How to read the numbers"]
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / link).is_file(), link


FILES_THAT_RUN = """
import json, sys
import edge_transformer.report.pages
early = sorted({"torch", "matplotlib"} & set(sys.modules))
from edge_transformer.__main__ import main

files = set()

def is_import(frame):
    return frame.f_code.co_name == "<module>" and "/edge_transformer/" in frame.f_code.co_filename

def profile(frame, event, argument):
    if event == "call" and "/edge_transformer/" in frame.f_code.co_filename:
        caller = frame
        while caller is not None and not is_import(caller):
            caller = caller.f_back
        if caller is None:
            files.add(frame.f_code.co_filename.split("/edge_transformer/")[-1])

sys.setprofile(profile)
try:
    main()
except SystemExit as ending:
    assert not ending.code
sys.setprofile(None)
print(json.dumps([early, "torch" in sys.modules, sorted(files - {"__init__.py", "__main__.py"})]))
"""


def test_a_report_runs_little_of_the_package(tmp_path: Path) -> None:
    """Functions of a few files, not counting what modules do when imported; no PyTorch, and matplotlib late."""
    shutil.copytree(ROOT / "results/records", tmp_path / "results/records")
    options = ["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "R.md")]
    command = [sys.executable, "-c", FILES_THAT_RUN, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    early, with_torch, files = json.loads(done.stdout.splitlines()[-1])
    assert early == []
    assert not with_torch
    assert len(files) <= MOST_FILES, files
    assert (tmp_path / "R.md").is_file()
