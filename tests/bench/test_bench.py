"""From cases to measurements, files, tables, figure and page."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from edge_transformer.bench import PARTS, Bench, Measurement, Settings, Size, make_cases, measure
from edge_transformer.bench import cases as cases_module
from edge_transformer.bench import run as run_module
from edge_transformer.bench.tables import draw, show, show_bytes, show_seconds, tables
from edge_transformer.draw.style import write_figure
from edge_transformer.errors import DataError, UserError
from edge_transformer.ops import native
from edge_transformer.ops.attention import ENGINES

REPOSITORY = Path(__file__).parents[2]
QUICK = Settings(seconds=0.0)
CPU_ENGINES = [name for name, engine in ENGINES.items() if name != "triton" and engine.unavailable() is None]


def bench(*parts: str, sizes: Sequence[str] = ("1,4,8,2",), settings: Settings = QUICK, engines: Any = ()) -> Bench:
    return measure(make_cases(parts, sizes, engines), settings, "edge-transformer bench")


@pytest.fixture(scope="module")
def all_parts() -> Bench:
    return bench(*PARTS, sizes=["1,4,8,2", "1,16,32,2"])


def by_name(found: Bench, part: str, what: str) -> dict[str, Measurement]:
    return {each.name: each for each in found.of_part(part) if each.what == what and each.size.n == 4}


# --- cases ------------------------------------------------------------------------------------------------------------


def test_all_parts_are_measured_unless_some_are_chosen() -> None:
    assert [case.part for case in make_cases()] == [part for part in PARTS for _ in PARTS[part].configurations]
    assert {case.part for case in make_cases(["threads", "core"])} == {"core", "threads"}
    assert [(case.part, case.size) for case in make_cases(own_sizes=["4,30,128,8"])] == [("core", Size(4, 30, 128, 8))]
    assert [case.part for case in make_cases(["layers"], ["1,2,8,2"])] == ["layers"]


def test_the_sizes_of_the_parts() -> None:
    sizes = {part: [str(case.size) for case in make_cases([part])] for part in PARTS}
    paper = ["400,5,200,4", "100,11,200,4", "100,10,64,4", "38,13,360,4", "8,60,256,8"]
    assert sizes["layers"] == paper
    assert sizes["core"] == [*paper, "1,100,256,8"]
    assert sizes["scaling"] == [f"1,{n},64,4" for n in (64, 128, 256, 512)]
    assert [case.size.n for case in make_cases(["baselines"])] == [13, 30, 60, 100]
    assert [case.size.n for case in make_cases(["threads"])] == [60, 100, 200]
    assert {"1,200,64,4", "1,512,64,4"} <= set(sizes["memory"])


def test_engines() -> None:
    assert list(make_cases(["core"])[0].names) == CPU_ENGINES
    assert make_cases(["core"], engines=["blocked", "einsum"])[0].names == ("einsum", "blocked")
    assert make_cases(["core"], engines=["blocked"])[0].reference is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engines": ["fast"]}, "--engine fast: unknown; known are einsum, blocked, native, triton"),
        ({"parts": ["all"]}, "--part all: unknown; known are core, scaling, baselines, threads, memory, layers"),
        ({"own_sizes": ["1,2,3"]}, "--size 1,2,3: expected four numbers"),
        ({"device": "abacus"}, "--device abacus: "),
        ({"device": "meta", "parts": ["threads"]}, "--device meta: "),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_cases(**arguments)


def test_an_engine_that_is_missing_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    with pytest.raises(
        UserError, match='--engine native: engine="native" cannot be used: no compiled kernels: told so'
    ):
        make_cases(engines=["native"])
    assert "native" not in make_cases(["core"])[0].names


# --- measurements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["core", "scaling"])
@pytest.mark.parametrize("what", ["forward", "forward+backward"])
def test_engines_are_timed_as_ratios_to_einsum(part: str, what: str, all_parts: Bench) -> None:
    found = by_name(all_parts, part, what)
    assert list(found) == CPU_ENGINES
    base = found["einsum"].value
    for each in found.values():
        assert each.value
        assert base
        assert each.low is not None
        assert each.high is not None
        assert 0 < each.low <= each.value <= each.high
        assert each.rounds >= 2
        assert (each.reference, each.ratio) == ("einsum", each.value / base)


def test_layers_are_timed_as_ratios_to_the_floor(all_parts: Bench) -> None:
    found = by_name(all_parts, "layers", "training step")
    assert list(found) == ["floor", "step", "step with dropout"]
    assert found["floor"].ratio == 1
    assert {each.reference for each in found.values()} == {"floor"}
    aims = {case.name: dict(case.aims) for case in make_cases(["layers"])}
    assert aims["CFQ semantic, 6 layers, dropout 0.1"] == {"step": 1.5, "step with dropout": 1.8}
    assert aims["COGS, 3 layers, dropout 0.1"]["step with dropout"] == 2


def test_threads_are_set_back(all_parts: Bench) -> None:
    before = torch.get_num_threads()
    bench("threads", settings=replace(QUICK, threads=2))
    assert torch.get_num_threads() == before
    assert all_parts.machine["threads"] == all_parts.settings["threads"] == 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_memory_is_in_bytes(all_parts: Bench) -> None:
    for each in by_name(all_parts, "memory", "peak").values():
        assert each.unit == "bytes"
        assert each.value is not None


def test_progress_counts_cases_and_names_what_runs() -> None:
    told: list[tuple[int, str]] = []
    measure(make_cases(["core"], ["1,3,4,2"], ["einsum"]), QUICK, progress=lambda done, note: told.append((done, note)))
    assert sum(done for done, _ in told) == 1
    assert (0, "core: own size, einsum") in told


# --- what is left out -------------------------------------------------------------------------------------------------


def test_what_needs_too_much_memory_is_skipped_and_said() -> None:
    found = bench("core", "memory", sizes=["1,90,32,2"], settings=replace(QUICK, budget=50 * 10**6), engines=["einsum"])
    assert {(each.skipped, each.value) for each in found.measurements} == {("needs 0 GB", None)}
    for table in tables(found):
        assert all("needs 0 GB" in row for row in table.rows)
        assert "Skipped where more than 50.0 MB would be needed (--memory)." in table.notes


def test_what_takes_too_long_is_skipped_and_said() -> None:
    settings = replace(QUICK, limit=1e-6)
    found = bench("scaling", sizes=["1,16,8,2", "1,100,8,2"], settings=settings, engines=["blocked"])
    small, large = ([each for each in found.measurements if each.size.n == n] for n in (16, 100))
    assert all(each.value and each.skipped is None for each in small)  # small graphs are measured without asking
    assert all(each.value is None and str(each.skipped).startswith("takes ") for each in large)
    (table,) = tables(found)
    assert table.rows[-1][3].startswith("takes ")
    assert "Skipped where one run would take more than 1e-06 s (--limit)." in table.notes


def test_memory_has_more_patience_because_it_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "time_once", lambda *arguments: 1.0)
    monkeypatch.setattr(run_module, "measure_alone", lambda *arguments: 1)
    settings = replace(QUICK, limit=30.0)  # a probe of 1 s foretells 64 s
    timed, alone = make_cases(["scaling", "memory"], ["1,100,8,2"], ["einsum"])
    assert {each.skipped for each in measure([timed], settings).measurements} == {"takes 64 s"}
    assert {each.skipped for each in measure([alone], settings).measurements} == {None}


def test_others_have_no_ratio_where_the_reference_is_skipped() -> None:
    sizes = ["1,60,64,2"]
    found = bench("core", sizes=sizes, settings=replace(QUICK, budget=40 * 10**6), engines=["einsum", "blocked"])
    values = {each.name: each for each in found.measurements}
    assert values["einsum"].skipped
    assert values["blocked"].value
    assert values["blocked"].ratio is None


def test_a_baseline_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "floydnet", None)
    monkeypatch.setattr(cases_module, "floydnet_missing", lambda: "not installed; pip install it")
    found = bench("baselines")
    values = {each.name: each for each in found.measurements if each.what == "forward"}
    assert values.pop("floydnet").skipped == "not installed; pip install it"
    assert [each.value is not None for each in values.values()] == [True]
    (table,) = tables(found)
    assert table.rows[0][3] == "not installed"
    assert "Skipped: not installed; pip install it." in table.notes


def test_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases_module, "usable_cores", lambda: 1)
    found = list(bench("threads").measurements)
    assert [each.skipped for each in found] == [None, "one core", "one core"] * 2


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "measure_alone", lambda *arguments: None)
    found = bench("memory", engines=["einsum"])
    assert [each.skipped for each in found.measurements] == ["no /proc"]


# --- files, tables, figure, page --------------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_measured(all_parts: Bench, tmp_path: Path) -> None:
    path = tmp_path / "new" / "speed.json"
    all_parts.write(path)
    assert Bench.read(path) == all_parts
    values = json.loads(path.read_text())
    assert values["command"] == "edge-transformer bench"
    assert values["machine"]["torch"] == torch.__version__
    assert values["settings"]["seconds"] == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "edge-transformer bench 1"}', "\udcff"])
def test_a_file_of_something_else(content: str, tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match="expected what `edge-transformer bench --json` writes"):
        Bench.read(path)


def test_the_table_shows_every_number_of_the_file(all_parts: Bench) -> None:
    shown = {table.part: " ".join(" ".join(row) for row in table.rows) for table in tables(all_parts)}
    assert list(shown) == list(PARTS)
    for each in all_parts.measurements:
        assert show(each) in shown[each.part]
    for table in tables(all_parts):
        assert all(len(row) == len(table.header) for row in table.rows)
        console = Console(width=80, file=io.StringIO())
        console.print(table.rich())
        printed = console.file.getvalue()  # type: ignore[attr-defined]
        assert all(word in printed for row in table.rows for cell in row for word in cell.split())
        assert "…" not in printed  # nothing is cut off


def test_cells() -> None:
    found = Measurement("layers", "x", Size(1, 2, 4, 2), "training step", "step", value=1.5)
    assert show(found) == "1.50 s"
    assert show(replace(found, reference="floor", ratio=1.456, aim=1.5)) == "1.50 s ×1.46 (aim 1.5)"
    assert show(replace(found, reference="floor", ratio=0.0123)) == "1.50 s ×0.012"
    assert show(replace(found, reference="step", ratio=1.0)) == "1.50 s"
    assert show(replace(found, unit="bytes", value=3.21e9)) == "3.21 GB"
    assert show(None) == ""
    assert [show_seconds(value) for value in (12.34, 0.1234, 0.00001234)] == ["12.3 s", "123 ms", "12.3 µs"]
    assert [show_bytes(value) for value in (2e9, 5e6)] == ["2.00 GB", "5.00 MB"]


def test_the_spread_is_that_of_the_widest() -> None:
    size = Size(1, 2, 4, 2)
    found = [
        Measurement("core", "x", size, "forward", name, value=1.0, low=low, high=high)
        for name, low, high in (("einsum", 0.9, 1.05), ("native", 0.99, 1.2))
    ]
    (table,) = tables(Bench("", {}, {}, tuple(found)))
    assert table.rows == (("x", "1,2,4,2", "forward", "1.00 s", "1.00 s", "±20 %"),)


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_figure(suffix: str, all_parts: Bench, tmp_path: Path) -> None:
    figure = draw(all_parts)
    assert len(figure.axes) == 3
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert {line.get_label() for line in figure.axes[0].lines} == set(CPU_ENGINES)
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write_figure(figure, first)
    write_figure(draw(all_parts), second)
    assert first.read_bytes() == second.read_bytes()


def test_nothing_to_draw() -> None:
    with pytest.raises(UserError, match="a figure shows the parts scaling and memory"):
        draw(bench("core", engines=["einsum"]))


def test_no_other_room_imports_the_benchmark() -> None:
    package = REPOSITORY / "src" / "edge_transformer"
    users = [
        path.name
        for path in package.rglob("*.py")
        if path.parent.name != "bench" and re.search(r"^ *(?:from|import) .*\bbench\b", path.read_text(), re.MULTILINE)
    ]
    assert users == ["machine.py"]


@pytest.mark.parametrize(("keep_memory", "told"), [(False, 0), (True, 1)])
def test_freed_memory_is_kept_where_asked(keep_memory: bool, told: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr("edge_transformer.bench.run.keep_freed_memory", lambda: calls.append(True))
    cases = make_cases(own_sizes=["1,3,4,2"], engines=["einsum"])
    measure(cases, Settings(seconds=0.0, keep_memory=keep_memory))
    assert len(calls) == told
