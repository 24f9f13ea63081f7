"""Writing files so that nothing half-written ever replaces something good."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from ..errors import UserError

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, two processes in one folder or file are the user's to avoid
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a path beside `path` to write to, and move it into place when the block ends without an error.

    The data reaches the disk before the rename, so a crash leaves either the old file or the whole new one.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = _new_file(target.parent, target.name)
    try:
        yield aside
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(aside, mode)
        with open(aside, "rb") as written:
            os.fsync(written.fileno())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def replacing_together(folder: str | Path) -> Iterator[Callable[[str], Path]]:
    """The same for several files of a folder: a function that gives for each name a path to write to.

    All are moved into place at the end, one right after the other, so that an error or Ctrl-C on the way changes none.
    Folders that were made for them are gone again then.
    """
    made: set[Path] = set()
    try:
        with ExitStack() as stack:

            def aside(name: str) -> Path:
                target = Path(folder) / name
                made.update(parent for parent in target.parents if not parent.exists())
                return stack.enter_context(replacing(target))

            yield aside
    except BaseException:
        for path in sorted(made, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):
                path.rmdir()
        raise


def write_text(path: str | Path, text: str) -> None:
    """Write a whole text file, atomically."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def obstacle(path: str | Path) -> str | None:
    """What would keep `replacing` from writing to a path, to be told before the work is done; None where nothing would.

    Nothing is left behind: folders that are missing are for `replacing` to make.
    """
    target = Path(path)
    folder = next(parent for parent in target.parents if os.path.lexists(parent))
    try:
        if target.is_dir():
            return f"a folder at {target}"
        if not folder.is_dir():
            return f"{folder}, which is no folder"
        _new_file(folder, target.name).unlink()
    except OSError as error:
        return f"that {folder} cannot be written to ({error.strerror})"
    return None


def check_writable(option: str, path: str | Path | None, first: str | Path | None = None) -> None:
    """Refuse a file that an option names and that could not be written, before the work is done for it.

    `first` is the first file that will be written, where the option names several at once.
    """
    what = None if path is None else obstacle(first or path)
    if what:
        raise UserError(f"{option} {path}: found {what}; expected a place where a file can be written")


def lock(path: str | Path) -> BaseFileLock | None:
    """Take a lock that lasts until it is released or the process ends; None where another holds it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    held = FileLock(path, timeout=0)
    try:
        held.acquire()
    except Timeout:
        return None
    return held


@contextmanager
def locked(handle: int, *, exclusive: bool) -> Iterator[None]:
    """Wait for the lock of an open file and hold it for the time of a block, where its file system has locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    try:
        yield
    finally:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)


def fingerprint(paths: Iterable[Path]) -> str:
    """A short hash of files: their names and their bytes, whatever folder they lie in."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(os.fsencode(path.name) + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _new_file(folder: Path, name: str) -> Path:
    """An empty file in a folder, hidden, that is to become the one of this name."""
    handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".tmp")
    os.close(handle)
    return Path(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON file, atomically."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
