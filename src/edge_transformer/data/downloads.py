"""The benchmarks' own files, fetched from where they are published (`downloads.yaml`) and put where experiments look.

A file is known by its rows, in whatever order they come: SCAN's, for one, are about in several. An archive is known by
its bytes. Nothing is put into place that does not have the rows that the results here were computed on.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

import yaml

from ..errors import UserError
from ..files import replacing
from .cfq import read_cfq
from .pairs import Pair, open_text

Progress = Callable[[int], None]
MAX_FILE_BYTES, MAX_ARCHIVE_BYTES = 2**26, 2**29
CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 60
DATASET, SPLITS = "dataset.json", ("mcd1", "mcd2", "mcd3", "random_split")  # what is taken of CFQ's archive


@dataclass(frozen=True)
class Benchmark:
    """Where the files of a benchmark are, and what is known about them."""

    folder: str  # under that of all data
    licence: str
    homepage: str
    source: str  # the address of the files without their names, or of an archive
    rows: Mapping[str, str]  # file -> hash of its rows
    archive: str | None = None  # SHA-256 of the archive that the files are made from


@cache
def benchmarks() -> dict[str, Benchmark]:
    """All that can be fetched, by name."""
    values = yaml.safe_load((Path(__file__).parent / "downloads.yaml").read_text(encoding="utf-8"))
    return {name: Benchmark(**entry) for name, entry in values.items()}


def hash_of_rows(path: str | Path) -> str:
    """SHA-256 of the sorted rows of a text file, plain or gzipped; empty lines and the ends of lines do not count."""
    digest = hashlib.sha256()
    with open_text(path) as file:
        for row in sorted(line.rstrip("\n") for line in file):
            if row:
                digest.update(f"{row}\n".encode())
    return digest.hexdigest()


def download(benchmark: Benchmark, root: str | Path, progress: Progress = lambda count: None) -> list[Path]:
    """Fetch the files of a benchmark that its folder under `root` lacks; gives those that were fetched.

    `progress` is told each byte. A file of another content is never replaced.
    """
    folder = Path(root) / benchmark.folder
    missing = []
    for name, rows in benchmark.rows.items():
        path = folder / name
        if not path.exists():
            missing.append(path)
        elif hash_of_rows(path) != rows:
            raise UserError(f"{path}: found other rows than those of {benchmark.source}; expected none, or the same")
    if missing and benchmark.archive is not None:
        return _make_from_archive(benchmark, folder, progress)
    for path in missing:
        with replacing(path) as aside:
            url = f"{benchmark.source}/{quote(path.name)}"
            _fetch(url, aside, MAX_FILE_BYTES, progress)
            _check(aside, benchmark.rows[path.name], url)
    return missing


def _make_from_archive(benchmark: Benchmark, folder: Path, progress: Progress) -> list[Path]:
    """CFQ: its dataset and split files go beside the folder of the split whose pairs are written, cut into words."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as name:
        aside = Path(name)
        archive = aside / "archive"
        _fetch(benchmark.source, archive, MAX_ARCHIVE_BYTES, progress)
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != benchmark.archive:
            raise UserError(f"{benchmark.source}: found SHA-256 {found}; expected {benchmark.archive}")
        members = {DATASET: folder.parent / DATASET}
        members |= {f"splits/{split}.json": folder.parent / "splits" / f"{split}.json" for split in SPLITS}
        _unpack(archive, members, aside, progress)
        archive.unlink()
        pairs = read_cfq(aside / DATASET, aside / f"splits/{folder.name}.json")
        places = {aside / member: target for member, target in members.items()}
        for file_name, rows in benchmark.rows.items():
            _write_pairs(aside / file_name, pairs[file_name.split(".")[0]])
            _check(aside / file_name, rows, benchmark.source)
            places[aside / file_name] = folder / file_name
        places = {path: target for path, target in places.items() if not target.exists()}
        for path, target in places.items():
            with replacing(target) as beside:
                os.replace(path, beside)
    return list(places.values())


def _unpack(archive: Path, members: Iterable[str], folder: Path, progress: Progress) -> None:
    """Copy files out of an archive, whatever folder they are in there; nothing else in it is touched."""
    with tarfile.open(archive, "r:gz") as packed:
        for entry in packed:
            member = next((name for name in members if f"/{entry.name}".endswith(f"/{name}")), None)
            content = packed.extractfile(entry) if member else None
            if member is None or content is None:
                continue
            (folder / member).parent.mkdir(exist_ok=True)
            with content, open(folder / member, "wb") as file:
                while chunk := content.read(CHUNK_BYTES):
                    file.write(chunk)
                    progress(len(chunk))


def _write_pairs(path: Path, pairs: tuple[Pair, ...]) -> None:
    """Pairs in two columns, gzipped; the same pairs give the same bytes."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for pair in pairs:
            file.write(f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n".encode())


def _check(path: Path, rows: str, source: str) -> None:
    if hash_of_rows(path) != rows:
        raise UserError(f"{source}: found other rows than those that results here were computed on; nothing is kept")


def _fetch(url: str, path: Path, limit: int, progress: Progress) -> None:
    """Write what an address answers with to a file."""
    import pooch
    from requests import RequestException

    meter = _Meter(url, path, limit, progress)
    fetch = pooch.HTTPDownloader(progressbar=meter, chunk_size=CHUNK_BYTES, timeout=TIMEOUT_SECONDS)
    try:
        fetch(url, str(path), None)
    except RequestException as error:
        raise UserError(f"{url}: could not be fetched ({error}); the same command tries again") from error


class _Meter:
    """What `pooch` tells of its progress, which ends where a file is larger than it may be."""

    def __init__(self, url: str, path: Path, limit: int, progress: Progress) -> None:
        self.url, self.path, self.limit, self.progress = url, path, limit, progress
        self.total = self.seen = 0

    def update(self, _: int) -> None:
        """The size on the disk counts: pooch tells that of what came packed over the net."""
        size = self.path.stat().st_size
        if size > self.limit:
            raise UserError(f"{self.url}: found more than {self.limit:,} bytes; expected a smaller file")
        self.progress(size - self.seen)
        self.seen = size

    def reset(self) -> None:
        """Is called before the last update."""

    def close(self) -> None:
        """Is called at the end."""
