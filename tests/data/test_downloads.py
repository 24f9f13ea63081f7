"""Fetching the benchmarks: from a server on this machine, which has small ones; and the sums of the real files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from command_line import refused, run
from edge_transformer.data import downloads
from edge_transformer.data.downloads import Benchmark, benchmarks, download, hash_of_rows
from edge_transformer.data.pair_folders import pair_files
from edge_transformer.errors import UserError
from official_data import benchmark as official

LINES = "".join(f"IN: walk {word} OUT: I_WALK\n" for word in ("left", "right", "twice"))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("served")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def lines_benchmark(served: tuple[Path, str], *names: str) -> Benchmark:
    folder, address = served
    for name in names:
        (folder / name).write_text(LINES, encoding="utf-8")
    rows = {name: hash_of_rows(folder / name) for name in names}
    return Benchmark("lines/of", "MIT", "https://example.org", address, rows)


# --- the sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", benchmarks())
def test_sums_are_those_of_the_official_files(name: str) -> None:
    benchmark = benchmarks()[name]
    folder = official(benchmark.folder)
    if not folder.exists():
        pytest.skip(f"needs {folder}")
    assert {file: hash_of_rows(folder / file) for file in benchmark.rows} == benchmark.rows


def test_rows_are_the_same_in_any_order_and_packed(tmp_path: Path) -> None:
    rows = [f"{number}\té {number % 7}" for number in range(100)]
    (tmp_path / "a").write_text("\n".join(rows), encoding="utf-8")
    expected = hash_of_rows(tmp_path / "a")
    random.Random(1).shuffle(rows)
    (tmp_path / "b").write_bytes("\r\n".join([*rows, "", ""]).encode())
    (tmp_path / "c.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    assert hash_of_rows(tmp_path / "b") == hash_of_rows(tmp_path / "c.gz") == expected
    for changed in (rows[1:], [*rows, rows[0]], [rows[0] + "x", *rows[1:]]):
        (tmp_path / "d").write_text("\n".join(changed), encoding="utf-8")
        assert hash_of_rows(tmp_path / "d") != expected


# --- fetching ---------------------------------------------------------------------------------------------------------


def test_files_are_fetched_once(served: tuple[Path, str], tmp_path: Path) -> None:
    benchmark = lines_benchmark(served, "a,b.txt", "c.txt")
    told: list[int] = []
    files = download(benchmark, tmp_path, told.append)
    assert files == [tmp_path / "lines/of/a,b.txt", tmp_path / "lines/of/c.txt"]
    assert {path.read_text() for path in files} == {LINES}
    assert sum(told) == 2 * len(LINES)
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["a,b.txt", "c.txt"]
    assert download(benchmark, tmp_path) == []
    files[1].unlink()
    assert download(benchmark, tmp_path) == [files[1]]


def test_other_rows_are_neither_kept_nor_replaced(served: tuple[Path, str], tmp_path: Path) -> None:
    benchmark = lines_benchmark(served, "d.txt")
    (served[0] / "d.txt").write_text(LINES + "more\n")
    with pytest.raises(UserError, match=r"/d\.txt: found other rows than those that results .*; nothing is kept"):
        download(benchmark, tmp_path)
    assert list((tmp_path / "lines/of").iterdir()) == []
    mine = tmp_path / "lines/of/d.txt"
    mine.write_text("mine")
    with pytest.raises(UserError, match=r"found other rows than those of .*; expected none, or the same"):
        download(benchmark, tmp_path)
    assert mine.read_text() == "mine"


def test_what_cannot_be_fetched(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = lines_benchmark(served, "e.txt")
    (served[0] / "e.txt").unlink()
    with pytest.raises(UserError, match=r"/e\.txt: could not be fetched \(404 .*\); the same command tries again"):
        download(benchmark, tmp_path)
    (served[0] / "e.txt").write_text(LINES)
    monkeypatch.setattr(downloads, "MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match=r"/e\.txt: found more than 10 bytes; expected a smaller file"):
        download(benchmark, tmp_path)
    assert list((tmp_path / "lines/of").iterdir()) == []


# --- CFQ, whose files are made from an archive ------------------------------------------------------------------------


def cfq_archive(path: Path) -> str:
    """Six questions and their queries, packed as CFQ is: the SHA-256 of the archive."""
    query = "SELECT count(*) WHERE {{\nM{0} ns:film.actor.film M1\n}}"
    rows = [
        {"questionPatternModEntities": f"Did M{n} star in M1?", "sparqlPatternModEntities": query.format(n)}
        for n in range(6)
    ]
    split = {"trainIdxs": [0, 2, 4], "devIdxs": [1], "testIdxs": [5]}
    files = {"cfq/dataset.json": rows, "cfq/LICENSE": "free", "../elsewhere.json": {}}
    files |= {f"cfq/splits/{name}.json": split for name in downloads.SPLITS}
    with tarfile.open(path, "w:gz") as packed:
        for name, value in files.items():
            content = json.dumps(value).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_cfq_is_cut_into_words(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = served
    found = cfq_archive(folder / "cfq.tar.gz")
    texts = {
        part: "".join(
            f"Did M{n} star in M1 ?\tSELECT count ( * ) WHERE {{ M{n} film.actor.film M1 }}\n" for n in numbers
        )
        for part, numbers in (("train", (0, 2, 4)), ("dev", (1,)), ("test", (5,)))
    }
    rows = {f"{part}.tsv.gz": hashlib.sha256(text.encode()).hexdigest() for part, text in texts.items()}
    benchmark = Benchmark("cfq/mcd1", "CC BY 4.0", "https://example.org", f"{address}/cfq.tar.gz", rows, found)
    files = download(benchmark, tmp_path)
    assert {path.relative_to(tmp_path / "cfq").as_posix() for path in files} == {
        "dataset.json",
        *(f"splits/{name}.json" for name in downloads.SPLITS),
        *(f"mcd1/{name}" for name in rows),
    }
    assert sorted(path.name for path in (tmp_path / "cfq/mcd1").iterdir()) == sorted(rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cfq"]
    parts = ("train", "dev", "test")
    columns, whole = pair_files(tmp_path / "cfq/mcd1").read(parts), pair_files(tmp_path / "cfq", "mcd1").read(parts)
    assert columns == whole
    assert {
        part: gzip.decompress((tmp_path / f"cfq/mcd1/{part}.tsv.gz").read_bytes()).decode() for part in texts
    } == texts
    assert download(benchmark, tmp_path) == []


def test_another_archive_is_refused(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = served
    found = cfq_archive(folder / "other.tar.gz")
    benchmark = Benchmark("cfq/mcd1", "", "", f"{address}/other.tar.gz", {"train.tsv.gz": "0"}, "0" * 64)
    with pytest.raises(UserError, match=f"other.tar.gz: found SHA-256 {found}; expected {'0' * 64}"):
        download(benchmark, tmp_path)
    assert list((tmp_path / "cfq/mcd1").iterdir()) == []


# --- the command ------------------------------------------------------------------------------------------------------


def test_command(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("data", "download")
    assert (told.code, told.err) == (0, "")
    assert [line.split(":")[0] for line in told.out.splitlines()] == ["clutrr", "cogs", "scan", "cfq"]
    small = lines_benchmark(served, "tasks_train_x.txt", "tasks_test_x.txt")
    monkeypatch.setattr(downloads, "benchmarks", lambda: {"lines": small})
    arguments = ["data", "download", "lines", "--out", str(tmp_path)]
    first, second = run(*arguments), run(*arguments)
    assert first.out.splitlines() == [
        "lines: https://example.org, licence MIT",
        f"  written: {tmp_path}/lines/of/tasks_train_x.txt",
        f"  written: {tmp_path}/lines/of/tasks_test_x.txt",
    ]
    assert second.out.splitlines()[1:] == [f"  all files are in {tmp_path}/lines/of already"]
    assert refused("data", "download", "words") == "found 'words'; expected lines"
