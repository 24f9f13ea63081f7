"""Atomic file writes, file locks and fingerprints."""

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
except ImportError:  # Windows has no such locks: users must keep two processes from writing to one file
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it into place when the block ends without an error.

    The data reaches the disk before the rename: a crash leaves the old file or the whole new one.
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
    """Yield a function from file name to temporary path; move all files into place when the block ends.

    An error or Ctrl-C inside the block changes no file, and removes the folders that were made for them.
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
    """Write a text file atomically."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def obstacle(path: str | Path) -> str | None:
    """Say what would keep `replacing` from writing to a path; None where nothing would. Makes no file or folder."""
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
    """Refuse an option's file that cannot be written, before any work is done.

    `first` is the first file to be written, where the option names several.
    """
    what = None if path is None else obstacle(first or path)
    if what:
        raise UserError(f"{option} {path}: found {what}; expected a place where a file can be written")


def check_folder(option: str, path: str | Path) -> None:
    """Refuse an option's folder that cannot be made or written to, before any work is done."""
    what = obstacle(Path(path) / "file")
    if what:
        raise UserError(f"{option} {path}: found {what}; expected a folder that can be written to")


def lock(path: str | Path) -> BaseFileLock | None:
    """Take a lock until it is released or the process ends; None where another process holds it."""
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
    """Wait for the lock of an open file and hold it during a block, where its file system has locks."""
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
    """A short hash of the names and bytes of files, independent of their folder."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(os.fsencode(path.name) + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _new_file(folder: Path, name: str) -> Path:
    """Make an empty hidden file, to be renamed to `name`."""
    handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".tmp")
    os.close(handle)
    return Path(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):  # names in memory may have halves of characters
        text = json.dumps(value, indent=1)
    write_text(path, text + "\n")
