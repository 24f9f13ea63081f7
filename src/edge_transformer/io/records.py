"""Finished runs as lines of JSON: one `Record` a line, in results/records/*.jsonl.

Reports are made of these lines, so they are checked when written and when read. Several runs may append to one file at
the same time.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import DataError, UserError, no_text
from . import html
from .files import locked

Key = tuple[str, str, str, int]

MAX_LINE_BYTES = 1 << 16  # a record has some hundred bytes: a longer line is another kind of file
OVERALL = ("accuracy", "exact match", "MAE", "AUC-PR", "MRR")  # scores of all test rows together
UNBOUNDED_METRICS = {"loss", "perplexity", "seconds", "steps", "epochs", "parameters", "bytes", "mae", "rmse", "r2"}


@dataclass(frozen=True)
class Record:
    """One finished run: what was trained on what, what came out, and how to do it again."""

    task: str  # "relations"
    data: dict[str, Any]  # "name", "fingerprint", and what defines the training set: "train_k", "rows", "split", ...
    model: str  # "edge", "rat", ...
    preset: str  # "clutrr/cpu"
    overrides: dict[str, Any]  # the --set options
    seed: int
    metrics: dict[str, float]  # fractions from 0 to 1, "k=2" to "k=10"; and some that are not, such as "loss"
    minutes: float
    threads: int
    versions: dict[str, str]  # "torch": "2.13.0"
    command: str
    finished: str  # ISO 8601
    settings: dict[str, Any] = field(default_factory=dict)  # all of them, defaults included
    cpu_minutes: float | None = None  # of all threads; None where not counted
    commit: str | None = None  # of the code that trained; None where not known

    def __post_init__(self) -> None:
        problem = _find_problem(vars(self))
        if problem is not None:
            found, expected = problem
            raise UserError(f"cannot make a record of this run: found {found}; expected {expected}")
        for name in ("data", "overrides", "versions", "settings"):  # copies, so that callers cannot change a record
            object.__setattr__(self, name, deepcopy(getattr(self, name)))
        object.__setattr__(self, "metrics", {name: float(value) for name, value in self.metrics.items()})
        object.__setattr__(self, "minutes", float(self.minutes))
        object.__setattr__(self, "cpu_minutes", None if self.cpu_minutes is None else float(self.cpu_minutes))

    @property
    def key(self) -> Key:
        """Hashable identity of the run; a repeated run has the same key."""
        data = {name: value for name, value in self.data.items() if name != "name"}
        settings = self.settings or {"preset": self.preset, "overrides": self.overrides, "data": data}
        others = (self.data.get(name, "") for name in ("valid_fingerprint", "tested_fingerprint"))
        fingerprint = joint_fingerprint(self.data["fingerprint"], *others)
        return run_key(self.task, fingerprint, settings, self.seed)

    @property
    def finished_at(self) -> datetime:
        """`finished` as a time, in UTC where it names no zone."""
        time = datetime.fromisoformat(self.finished)
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    @property
    def data_name(self) -> str:
        """The name of the data, with the benchmark where that is another."""
        name, corpus = self.data["name"], self.data.get("corpus")
        return f"{name}, in the form of {corpus}" if corpus and corpus != name else str(name)

    def main_scores(self) -> dict[str, float]:
        """The score of all test rows together, or those of whole splits, without their parts and the loss."""
        for name in OVERALL:
            if name in self.metrics:
                return {name: self.metrics[name]}
        whole = [name for name in self.metrics if is_fraction(name) and not is_validation(name) and "/" not in name]
        return {name: self.metrics[name] for name in whole if not any(name.startswith(f"{other} ") for other in whole)}

    def validation_scores(self) -> dict[str, float]:
        """The scores to choose recipes by."""
        return {name: value for name, value in self.metrics.items() if is_validation(name)}

    def _repr_html_(self) -> str:
        """The scores as a table, for notebooks."""
        run = f"{self.task}, {self.model}, trained on {self.data_name}, seed {self.seed}, {self.minutes:.1f} minutes"
        return html.table(shown_scores(self.metrics), run)

    def to_json(self) -> str:
        """The record as one line, without line end."""
        return canonical_json(asdict(self), sort_keys=False)


def run_key(task: str, fingerprint: str, settings: Mapping[str, Any], seed: int) -> Key:
    """`Record.key` of a run that is still to be done, so that finished runs can be skipped.

    All settings count, but neither the preset's name nor the folder's: a changed preset makes a different run, a moved
    folder does not.
    """
    return task, fingerprint, canonical_json(settings), seed


def joint_fingerprint(*fingerprints: str) -> str:
    """Fingerprint for `run_key` where validation or test rows come from folders of their own."""
    return " ".join(filter(None, fingerprints))


def scored_elsewhere(
    record: Record,
    rows: str,
    fingerprint: str,
    metrics: Mapping[str, float],
    command: str,
    scored: str | None = None,
) -> Record:
    """The record of a trained model's scores on other test rows, or with another way of predicting.

    `rows` names the test rows for people, `fingerprint` identifies them; `scored` says which ones, where not all.
    """
    about = {name: value for name, value in record.data.items() if name != "scored"}
    return replace(
        record,
        data={
            **about,
            "tested": rows,
            "tested_fingerprint": fingerprint,
            **({} if scored is None else {"scored": scored}),
        },
        metrics=dict(metrics),
        command=command,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def code_commit(root: Path = Path(__file__).parents[3]) -> str | None:
    """The git commit of the checkout that holds this package, or that the installed package was built from.

    None where that is not known. Ignores local changes.
    """

    def text(path: Path) -> str:
        return path.read_text(encoding="utf-8").strip()

    try:
        git = root / ".git"
        if git.is_file():  # a worktree: its git folder is elsewhere, and branches are in the main one
            git = root / text(git).removeprefix("gitdir: ")
        head = text(git / "HEAD" if git.exists() else Path(__file__).with_name("commit.txt"))  # setup.py writes that
        if head.startswith("ref: "):
            branch = head.removeprefix("ref: ")
            common = git / text(git / "commondir") if (git / "commondir").exists() else git
            if (common / branch).exists():
                head = text(common / branch)
            else:
                packed = re.search(rf"^(\w+) {re.escape(branch)}$", text(common / "packed-refs"), flags=re.MULTILINE)
                head = packed[1] if packed else ""
    except (OSError, UnicodeDecodeError):
        return None
    return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else None


def canonical_json(value: Any, sort_keys: bool = True) -> str:
    """Equal texts for equal values; unlike Python's ==, it tells 1, 1.0 and True apart."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys)


def is_fraction(metric: str) -> bool:
    """True for metrics between 0 and 1, which reports show in percent; False for "loss", "valid_loss", "steps", ..."""
    return metric.replace("/", "_").replace(".", "_").replace(" ", "_").split("_")[-1].lower() not in UNBOUNDED_METRICS


def shown_scores(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Names and texts of scores, fractions in percent."""
    return [(name, f"{100 * value:.1f} %" if is_fraction(name) else f"{value:.4g}") for name, value in scores.items()]


def is_validation(metric: str) -> bool:
    """True for "valid" and "valid k=6": scores to choose recipes by, not to compare with the paper's."""
    return (metric == "valid" or metric.startswith("valid ")) and is_fraction(metric)


# Writing


def append_record(path: str | Path, record: Record) -> None:
    """Append a record to a file and flush it to disk; skip a record that the file already has.

    A repeated run is another record. After a crash the last line is repaired first: a whole record gets its line end,
    half a record is removed.
    """
    line = (record.to_json() + "\n").encode()
    if len(line) > MAX_LINE_BYTES:
        raise UserError(f"the record of this run has {len(line)} bytes; at most {MAX_LINE_BYTES} fit a line of {path}")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with locked(handle, exclusive=True):
            if not _has_record(handle, path, record):
                _append(handle, _mend_end(handle, path) + line)
    finally:
        os.close(handle)


def _has_record(handle: int, path: Path, record: Record) -> bool:
    """Whether a line of the file holds this record; broken lines are skipped."""
    with open(handle, "rb", closefd=False) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            with suppress(DataError):
                if canonical_json(asdict(_parse_line(path, number, line))) == canonical_json(asdict(record)):
                    return True
    return False


def _append(handle: int, data: bytes) -> None:
    """Write all bytes at once; undo a partial write, as on a full disk."""
    size = os.fstat(handle).st_size
    try:
        written = os.write(handle, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written")
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


def _mend_end(handle: int, path: Path) -> bytes:
    """Remove an unfinished last line, or return the line end that a finished one lacks."""
    size = os.fstat(handle).st_size
    start = max(0, size - MAX_LINE_BYTES)
    os.lseek(handle, start, os.SEEK_SET)
    tail = os.read(handle, size - start)
    rest = tail[tail.rfind(b"\n") + 1 :]
    if not rest:
        return b""
    if len(rest) == MAX_LINE_BYTES or _is_json(rest):  # a line too long to judge is not ours to remove
        return b"\n"
    warnings.warn(f"{path}: removed an unfinished last line, {rest[:80]!r}", stacklevel=3)
    os.ftruncate(handle, size - len(rest))
    return b""


# Reading


def read_records(where: str | Path | Iterable[str | Path]) -> list[Record]:
    """Read files of records, or every *.jsonl of a folder, in the order of names and lines.

    A line that is not a record raises DataError. Only an unfinished last line, left by a run that was stopped while
    writing, is skipped with a warning.
    """
    paths = [where] if isinstance(where, str | Path) else list(where)
    return [record for path in paths for file in _files(Path(path)) for record in _read_file(file)]


def read_record(path: str | Path) -> Record:
    """The single record in a run's folder."""
    try:
        return _parse_line(Path(path), 1, Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def latest_runs(records: Iterable[Record]) -> list[Record]:
    """The latest record of each run, whatever the order of the records."""
    in_time = sorted(records, key=lambda record: (record.finished_at, record.to_json()))
    latest = {record.key: record for record in in_time}
    return [latest[key] for key in sorted(latest)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.glob("*.jsonl") if file.is_file())
    if not path.exists():
        raise UserError(f"{path}: no such file or folder of results")
    return [path]


def _read_file(path: Path) -> list[Record]:
    records = []
    with open(path, "rb") as file, locked(file.fileno(), exclusive=False):
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise DataError(path, number, "a longer line", f"a record of at most {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n") and not _is_json(line):
                warnings.warn(f"{path}:{number}: left out an unfinished last line", stacklevel=4)
            elif line.strip():
                records.append(_parse_line(path, number, line))
    return records


def _parse_line(path: Path, number: int, line: bytes) -> Record:
    try:
        value = _parse_json(line)
    except UnicodeDecodeError as error:
        raise no_text(path, number - 1, error) from None
    except (ValueError, RecursionError) as error:
        raise DataError(path, number, f"{line.decode(errors='replace').strip()} ({error})", "a JSON object") from None
    problem = _find_problem(value)
    if problem is not None:
        raise DataError(path, number, *problem)
    return Record(**value)


def _parse_json(line: bytes) -> Any:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a name given twice")
        return result

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(line.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=no_constant)


def _is_json(line: bytes) -> bool:
    try:
        _parse_json(line)
    except (ValueError, RecursionError):
        return False
    return True


# Checking: one table of rules for writing and for reading

Problem = tuple[str, str]  # what was found, what was expected


def _is_text(value: Any) -> bool:
    # a lone surrogate is legal in JSON and in str, but not in UTF-8
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_name(value: Any) -> bool:
    return _is_text(value) and bool(value.strip())


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_amount(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_plain(value: Any, depth: int = 5) -> bool:
    """Whether JSON and YAML can hold a value, nested a few levels deep at most."""
    if isinstance(value, dict):
        return all(map(_is_text, value)) and _is_plain(list(value.values()), depth)
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_number(value)


def _is_time(value: Any) -> bool:
    with suppress(ValueError):
        return _is_text(value) and datetime.fromisoformat(value) is not None
    return False


def _object(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and _is_plain(value) and all(map(accepts, value.values()))


def _or_null(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


_is_options = _object(_is_plain)

_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "task": (_is_name, "a name"),
    "data": (
        lambda value: _is_options(value) and _is_name(value.get("name")) and _is_name(value.get("fingerprint")),
        'an object of plain values with the texts "name" and "fingerprint"',
    ),
    "model": (_is_name, "a name"),
    "preset": (_is_name, "a name"),
    "overrides": (_is_options, "an object of plain values"),
    "seed": (_is_integer, "an integer"),
    "metrics": (_object(_is_number), "an object of finite numbers"),
    "minutes": (_is_amount, "a number of minutes"),
    "threads": (lambda value: _is_integer(value) and value > 0, "a positive integer"),
    "versions": (_object(_is_text), "an object of texts"),
    "command": (_is_text, "a text"),
    "finished": (_is_time, "a time in ISO 8601"),
    "settings": (_is_options, "an object of plain values"),
    "cpu_minutes": (_or_null(_is_amount), "a number of minutes or null"),
    "commit": (_or_null(_is_name), "a name or null"),
}
_OPTIONAL = ("settings", "cpu_minutes", "commit")  # older records have none


def _find_problem(value: Any) -> Problem | None:
    """The first thing wrong with the fields of a record, or None."""
    if not isinstance(value, dict):
        return repr(value), "a JSON object"
    known = "the fields " + ", ".join(_RULES)
    for name, (accepts, expected) in _RULES.items():
        if name not in value and name not in _OPTIONAL:
            return f"no field {name!r}", known
        if name in value and not accepts(value[name]):
            return f"{value[name]!r}", f"{expected} as {name!r}"
    for name in sorted(value.keys() - _RULES.keys()):
        return f"an unknown field {name!r}", known
    for name, number in value["metrics"].items():
        if is_fraction(name) and not 0 <= number <= 1:
            return f"{number!r} as metric {name!r}", "a fraction between 0 and 1"
    return None
