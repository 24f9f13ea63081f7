"""Fetching the benchmarks: from a server on this machine, which has small ones; and the sums of the real files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from command_line import refused, run
from edge_transformer.data import download as downloads
from edge_transformer.data.download import Benchmark, benchmarks, download, hash_of_rows
from edge_transformer.data.pairs.folder import pair_files
from edge_transformer.errors import UserError
from official_data import benchmark as official

LINES = "".join(f"IN: walk {word} OUT: I_WALK\n" for word in ("left", "right", "twice"))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


class Steps:
    """What steps there are, and how much each tells; one of them can be stopped by Ctrl-C."""

    def __init__(self, interrupted: str | None = None) -> None:
        self.told: dict[str, int] = {}
        self.interrupted = interrupted

    @contextmanager
    def __call__(self, description: str) -> Iterator[Callable[[int], None]]:
        if description == self.interrupted:
            raise KeyboardInterrupt
        self.told[description] = 0

        def advance(count: int) -> None:
            self.told[description] += count

        yield advance


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


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
    known = {file: rows for file, rows in benchmark.rows.items() if rows is not None}
    assert {file: hash_of_rows(folder / file) for file in known} == known


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
    benchmark = lines_benchmark(served, "a,b#.txt", "c.txt")
    steps = Steps()
    files = download(benchmark, tmp_path, steps)
    assert files == [tmp_path / "lines/of/a,b#.txt", tmp_path / "lines/of/c.txt"]
    assert {path.read_text() for path in files} == {LINES}
    assert steps.told == {"fetching a,b#.txt": len(LINES), "fetching c.txt": len(LINES)}
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["a,b#.txt", "c.txt"]
    assert download(benchmark, tmp_path) == []
    files[1].unlink()
    assert download(benchmark, tmp_path) == [files[1]]


def test_all_files_of_a_benchmark_or_none(served: tuple[Path, str], tmp_path: Path) -> None:
    benchmark = lines_benchmark(served, "first.txt", "second.txt")
    (served[0] / "second.txt").write_text(LINES + "more\n")
    with pytest.raises(UserError, match=r"/second\.txt: found rows of the hash \w{16}; expected \w{16}; no file"):
        download(benchmark, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        download(benchmark, tmp_path, Steps(interrupted="fetching second.txt"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_content_is_not_replaced(served: tuple[Path, str], tmp_path: Path) -> None:
    benchmark = lines_benchmark(served, "d.txt")
    mine = tmp_path / "lines/of/d.txt"
    mine.parent.mkdir(parents=True)
    for content in (b"mine", b"\xff\xfe"):
        mine.write_bytes(content)
        with pytest.raises(UserError, match=r"/d\.txt:.* found "):
            download(benchmark, tmp_path)
        assert mine.read_bytes() == content


def test_what_cannot_be_fetched(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = lines_benchmark(served, "e.txt")
    (served[0] / "e.txt").unlink()
    with pytest.raises(UserError, match=r"/e\.txt: could not be fetched \(404 Client Error: File not found\); docs"):
        download(benchmark, tmp_path)
    (served[0] / "e.txt").write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match=r"/e\.txt: found something else than rows of text; expected those of \w{16}"):
        download(benchmark, tmp_path)
    (served[0] / "e.txt").write_text(LINES)
    monkeypatch.setattr(downloads, "MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match=r"/e\.txt: found more than 10 bytes; expected a smaller file"):
        download(benchmark, tmp_path)
    nowhere = replace(benchmark, source="http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"^http://127\.0\.0\.1:1/e\.txt: could not be fetched \(no connection\)"):
        download(nowhere, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: many\r\n\r\nIN",
        b"HTTP/1.0 200 OK\r\nContent-Length: 500\r\n\r\nIN",
        b"HTTP/1.0 302 Found\r\nLocation: http://[bad\r\n\r\n",
        b"what?\r\n\r\n",
        b"",
    ],
)
def test_strange_answers(answer: bytes, tmp_path: Path) -> None:
    class Strange(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(2**16)
            self.request.sendall(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Strange) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(UserError, match="could not be fetched"):
            download(Benchmark("f", "", "", address, {"a.txt": "0"}), tmp_path)
        server.shutdown()
    assert list(tmp_path.iterdir()) == []


# --- CFQ, whose files are made from an archive ------------------------------------------------------------------------

PARTS = {"train": (0, 2, 4), "dev": (1,), "test": (5,)}


def cfq_benchmark(served: tuple[Path, str], name: str) -> Benchmark:
    """Six questions and their queries, packed as CFQ is; the rows of mcd1 are known, those of mcd2 are not."""
    folder, address = served
    query = "SELECT count(*) WHERE {{\nM{0} ns:film.actor.film M1\n}}"
    rows = [
        {"questionPatternModEntities": f"Did M{n} star in M1?", "sparqlPatternModEntities": query.format(n)}
        for n in range(6)
    ]
    split = {f"{part}Idxs": numbers for part, numbers in PARTS.items()}
    files = {"cfq/dataset.json": rows, "cfq/LICENSE": "free", "../elsewhere.json": {}}
    files |= {f"cfq/splits/mcd{number}.json": split for number in (1, 2, 3)}
    with tarfile.open(folder / name, "w:gz") as packed:
        for file, value in files.items():
            content = json.dumps(value).encode()
            entry = tarfile.TarInfo(file)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    known: dict[str, str | None] = {
        f"mcd1/{part}.tsv.gz": hashlib.sha256(cfq_text(part).encode()).hexdigest() for part in PARTS
    }
    known |= {f"mcd2/{part}.tsv.gz": None for part in PARTS}
    archive = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Benchmark("cfq", "CC BY 4.0", "https://example.org", f"{address}/{name}", known, archive)


def cfq_text(part: str) -> str:
    query = "SELECT count ( * ) WHERE {{ M{0} film.actor.film M1 }}"
    return "".join(f"Did M{n} star in M1 ?\t{query.format(n)}\n" for n in PARTS[part])


def test_cfq_is_cut_into_words(served: tuple[Path, str], tmp_path: Path) -> None:
    benchmark = cfq_benchmark(served, "cfq.tar.gz")
    steps = Steps()
    files = download(benchmark, tmp_path, steps)
    assert files == [tmp_path / "cfq" / name for name in benchmark.rows]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)  # nothing else is left
    assert list(steps.told) == ["fetching the archive", "unpacking", "reading mcd1", "reading mcd2"]
    assert all(steps.told.values())
    for split in ("mcd1", "mcd2"):
        for part in PARTS:
            packed = (tmp_path / f"cfq/{split}/{part}.tsv.gz").read_bytes()
            assert gzip.decompress(packed).decode() == cfq_text(part)
            assert packed[4:8] == bytes(4)  # no time: the same pairs are the same bytes
    assert [len(pairs) for pairs in pair_files(tmp_path / "cfq/mcd1").read(PARTS).values()] == [3, 1, 1]
    assert download(benchmark, tmp_path) == []
    files[0].unlink()
    assert download(benchmark, tmp_path) == [files[0]]


def test_archives_that_are_refused(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = cfq_benchmark(served, "other.tar.gz")
    with pytest.raises(UserError, match=rf"other\.tar\.gz: found SHA-256 {benchmark.archive}; expected 0{{64}}"):
        download(replace(benchmark, archive="0" * 64), tmp_path)
    with pytest.raises(UserError, match=r"other\.tar\.gz: found rows of the hash \w{16}; expected 1{16}; no file"):
        download(replace(benchmark, rows={**benchmark.rows, "mcd1/test.tsv.gz": "1" * 64}), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        download(benchmark, tmp_path, Steps(interrupted="reading mcd2"))
    monkeypatch.setattr(downloads, "MAX_ARCHIVE_BYTES", 10)
    with pytest.raises(UserError, match="found more than 10 bytes"):
        download(benchmark, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "cfq/mcd1").mkdir(parents=True)
    (tmp_path / "cfq/mcd1/train.tsv").write_text("mine\tmine\n")
    with pytest.raises(UserError, match=r"train\.tsv: found this beside train\.tsv\.gz, which is to be fetched"):
        download(benchmark, tmp_path)


# --- the command ------------------------------------------------------------------------------------------------------


def test_command(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("data", "download")
    assert (told.code, told.err) == (0, "")
    assert [line.split(" ")[0] for line in told.out.splitlines()] == ["clutrr", "cogs", "scan", "cfq"]
    small = lines_benchmark(served, "tasks_train_x.txt", "tasks_test_x.txt")
    monkeypatch.setattr(downloads, "benchmarks", lambda: {"lines": small})
    arguments = ["data", "download", "lines", "--out", str(tmp_path)]
    first, second = run(*arguments), run(*arguments)
    assert first.out.splitlines() == [
        f"lines (https://example.org, licence MIT), from {served[1]}",
        f"  written: {tmp_path}/lines/of/tasks_train_x.txt",
        f"  written: {tmp_path}/lines/of/tasks_test_x.txt",
    ]
    assert second.out.splitlines()[1:] == [f"  all files are in {tmp_path}/lines/of already"]
    assert refused("data", "download", "words") == "found the benchmark 'words'; expected lines"
