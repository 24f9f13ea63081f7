"""Download the official files of benchmarks (`download.yaml`) to where experiments look for them.

Files are verified by a hash of their sorted rows, as some, such as SCAN's, circulate in several orders; archives by a
hash of their bytes. Either all files of a benchmark are put into place, or none.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

import yaml

from ..errors import UserError
from ..io.files import replacing_together
from ..io.streams import lines_of, open_text
from .pairs.cfq import read_cfq
from .pairs.rows import Pair
from .splits import SPLITS

Progress = Callable[[int], None]
Step = Callable[[str], AbstractContextManager[Progress]]  # begins a step and reports its progress
MAX_FILE_BYTES, MAX_ARCHIVE_BYTES = 2**26, 2**29
CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 60
DATASET = "dataset.json"  # in CFQ's archive


@dataclass(frozen=True)
class Benchmark:
    """Where the files of a benchmark are published, and their hashes."""

    folder: str  # under the data folder
    licence: str
    homepage: str
    source: str  # the URL of the folder of the files, or of an archive
    rows: Mapping[str, str | None]  # file -> hash of its rows; None where the archive's hash is enough
    archive: str | None = None  # SHA-256 of the archive that the files are made from


@cache
def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks that can be downloaded, by name."""
    values = yaml.safe_load((Path(__file__).parent / "download.yaml").read_text(encoding="utf-8"))
    return {name: Benchmark(**entry) for name, entry in values.items()}


def hash_of_rows(path: str | Path) -> str:
    """SHA-256 of the sorted rows of a text file, plain or gzipped, without empty lines and line ends."""
    digest = hashlib.sha256()
    with open_text(path) as file:
        for row in sorted(line.rstrip("\n") for line in lines_of(file, path)):
            if row:
                digest.update(f"{row}\n".encode())
    return digest.hexdigest()


@contextmanager
def _silent(_: str) -> Iterator[Progress]:
    yield lambda count: None


def download(benchmark: Benchmark, root: str | Path, step: Step = _silent) -> list[Path]:
    """Download the files of a benchmark that its folder under `root` lacks, and return them.

    Never replaces a file with other content.
    """
    folder = Path(root) / benchmark.folder
    missing = [name for name in benchmark.rows if not _is_there(folder / name, benchmark.rows[name])]
    if not missing:
        return []
    make = _fetch_files if benchmark.archive is None else _make_from_archive
    with replacing_together(folder) as aside_of:
        make(benchmark, {name: aside_of(name) for name in missing}, step)
    return [folder / name for name in missing]


def _is_there(path: Path, rows: str | None) -> bool:
    """Whether a file is in place; refuses one with other content."""
    unpacked = path.with_suffix("") if path.suffix == ".gz" else None
    if unpacked is not None and unpacked.exists():
        raise UserError(f"{unpacked}: found this beside {path.name}, which is to be fetched; expected one of the two")
    if not path.exists():
        return False
    if rows is not None and (found := hash_of_rows(path)) != rows:
        raise UserError(
            f"{path}: found other rows ({found[:16]}); expected those to be fetched ({rows[:16]}), or no file"
        )
    return True


def _fetch_files(benchmark: Benchmark, places: Mapping[str, Path], step: Step) -> None:
    for name, place in places.items():
        url = f"{benchmark.source}/{quote(name)}"
        with step(f"fetching {name}") as progress:
            _fetch(url, place, MAX_FILE_BYTES, progress)
        _check(place, benchmark.rows[name], url)


def _make_from_archive(benchmark: Benchmark, places: Mapping[str, Path], step: Step) -> None:
    """CFQ: pick the pairs of each split from the dataset, tokenised. Unpacks it for the time being beside the files."""
    with tempfile.TemporaryDirectory(dir=next(iter(places.values())).parent, prefix=".archive-") as name:
        unpacked = Path(name)
        archive = unpacked / "archive"
        with step("fetching the archive") as progress:
            _fetch(benchmark.source, archive, MAX_ARCHIVE_BYTES, progress)
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != benchmark.archive:
            raise UserError(f"{benchmark.source}: found SHA-256 {found}; expected {benchmark.archive}")
        splits = sorted({name.split("/")[0] for name in places})
        with step("unpacking") as progress:
            _unpack(archive, [DATASET, *(f"{split}.json" for split in splits)], unpacked, progress)
        for split in splits:
            with step(f"reading {split}") as progress:
                pairs = read_cfq(unpacked / DATASET, unpacked / f"{split}.json", progress=progress)
            for part in SPLITS:
                if (name := f"{split}/{part}.tsv.gz") in places:
                    written = unpacked / f"{part}.tsv.gz"
                    _write_pairs(written, pairs[part])
                    _check(written, benchmark.rows[name], benchmark.source)
                    os.replace(written, places[name])


def _unpack(archive: Path, names: Collection[str], folder: Path, progress: Progress) -> None:
    """Copy files out of a verified archive, whatever their folders in it."""
    with tarfile.open(archive, "r:gz") as packed:
        for entry in packed:
            name = entry.name.rsplit("/", 1)[-1]
            content = packed.extractfile(entry) if name in names else None
            if content is None:
                continue
            with content, open(folder / name, "wb") as file:
                while chunk := content.read(CHUNK_BYTES):
                    file.write(chunk)
                    progress(len(chunk))


def _write_pairs(path: Path, pairs: tuple[Pair, ...]) -> None:
    """Write pairs in two columns, gzipped; equal pairs give equal bytes."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for pair in pairs:
            file.write(f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n".encode())


def _check(path: Path, rows: str | None, source: str) -> None:
    """Refuse rows other than those that our results were computed on."""
    if rows is None:
        return
    try:
        found = hash_of_rows(path)
    except UserError as error:  # which names the temporary file
        raise UserError(f"{source}: found something else than rows of text; expected those of {rows[:16]}") from error
    if found != rows:
        raise UserError(f"{source}: found rows of the hash {found[:16]}; expected {rows[:16]}; no file is kept")


def _fetch(url: str, path: Path, limit: int, progress: Progress) -> None:
    """Download a file."""
    import pooch
    import requests  # used by pooch

    meter = _Meter(url, path, limit, progress)
    fetch = pooch.HTTPDownloader(progressbar=meter, chunk_size=CHUNK_BYTES, timeout=TIMEOUT_SECONDS)
    try:
        fetch(url, str(path), None)
    except UserError:
        raise
    except (OSError, ValueError) as error:  # no network, no such file, a broken answer
        reason = str(error).removesuffix(f" for url: {url}")
        if isinstance(error, requests.ConnectionError):  # its message is long
            reason = "no connection"
        by_hand = "docs/benchmarks.md says which files to put where by hand"
        raise UserError(f"{url}: could not be fetched ({reason}); {by_hand}") from error


class _Meter:
    """Progress bar for pooch that stops the download of a file that is too large."""

    total = 0  # set by pooch

    def __init__(self, url: str, path: Path, limit: int, progress: Progress) -> None:
        self.url, self.path, self.limit, self.progress = url, path, limit, progress
        self.seen = 0

    def update(self, _: int) -> None:
        """Measure the size on disk, as pooch counts compressed bytes."""
        size = self.path.stat().st_size
        if size > self.limit:
            raise UserError(f"{self.url}: found more than {self.limit:,} bytes; expected a smaller file")
        self.progress(size - self.seen)
        self.seen = size

    def reset(self) -> None:
        """Called before the last update."""

    def close(self) -> None:
        """Called at the end."""
