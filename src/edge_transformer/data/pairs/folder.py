"""Find the files of a folder of pairs of sequences. It may have

- two columns: `train.tsv`, `dev.tsv` and `test.tsv`, plain or gzipped, of your own texts or of tokenised CFQ;
- SCAN: `tasks_train_NAME.txt` and `tasks_test_NAME.txt`, for one or more splits;
- CFQ as published: `dataset.json`, and split files `NAME.json` in the folder or in `splits/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...errors import UserError, no_folder
from ...io.streams import counted
from ..splits import SPLITS
from .cfq import read_cfq
from .rows import Note, Pair, found_twice, plain_or_gzipped, read_pair_file
from .scan import read_scan_file, scan_files
from .sparql import parse

CFQ, SCAN, OTHER = "cfq", "scan", "pairs"  # what a folder holds
_EXPECTED = "train.tsv, tasks_train_NAME.txt, or dataset.json with splits/NAME.json"
_LOOKED_AT = 100  # targets that decide whether a folder has queries


@dataclass(frozen=True)
class PairFiles:
    """The files of one split into train, dev and test."""

    split: str  # its name
    by_split: dict[str, Path]  # a file for each part; in CFQ the same split file for all
    reader: str  # CFQ, SCAN or OTHER
    dataset: Path | None = None  # dataset.json, where there is a split file

    def read(
        self,
        parts: Iterable[str],
        progress: Callable[[int], None] | None = None,
        query: str | None = None,
        note: Note | None = None,
    ) -> dict[str, tuple[Pair, ...]]:
        """The rows of these parts; for the other arguments see `read_cfq`."""
        parts = list(parts)
        if self.dataset is not None:
            rows = read_cfq(self.dataset, self.by_split["train"], query, progress, note)
            return {part: rows[part] for part in parts}
        paths = {part: self.by_split[part] for part in parts}
        if query is not None:
            found = ", ".join(path.name for path in paths.values())
            raise UserError(f"data.query={query}: found {found}; expected dataset.json, whose fields have names")
        if self.reader == SCAN:
            return {part: tuple(counted(read_scan_file(path), progress)) for part, path in paths.items()}
        return {part: tuple(counted(read_pair_file(path, note), progress)) for part, path in paths.items()}

    def corpus(self, targets: Iterable[tuple[str, ...]]) -> str:
        """The kind of data: two columns are CFQ where most of the first targets are queries."""
        looked_at = list(islice(targets, _LOOKED_AT))
        queries = sum(parse(target) is not None for target in looked_at) if self.reader == OTHER else 0
        return CFQ if 2 * queries > len(looked_at) else self.reader


def pair_files(folder: str | Path, split: str | None = None) -> PairFiles:
    """The files of a split of a folder, named by `split`, such as "mcd1", where there are several."""
    folder = _checked(folder)
    form, splits = _splits(folder)
    if form == OTHER:  # such a folder has one split, of any name
        return PairFiles(split or folder.resolve().name, splits[""], form)
    if split is None and len(splits) != 1:
        how = "train --set data.split=NAME, evaluate --split NAME"
        raise UserError(f"{folder}: found the splits {_listed(splits)}; expected one of them to be named ({how})")
    chosen = next(iter(splits)) if split is None else _known(folder, split, splits)
    return PairFiles(chosen, splits[chosen], form, _dataset(folder) if form == CFQ else None)


def all_pair_files(folder: str | Path) -> list[PairFiles]:
    """The files of every split of a folder; none where it has no pairs."""
    folder = _checked(folder)
    if not _forms(folder):
        return []
    return [pair_files(folder, name or None) for name in _splits(folder)[1]]


def pair_paths(folder: str | Path, split: str | None = None) -> list[Path]:
    """The files of one split of a folder, or of all, for its fingerprint."""
    folder = _checked(folder)
    form, splits = _splits(folder)
    if split is not None and form != OTHER:
        splits = {split: splits[_known(folder, split, splits)]}
    paths = {path for files in splits.values() for path in files.values()}
    dataset = _dataset(folder) if form == CFQ else None
    return [*([dataset] if dataset else []), *sorted(paths)]


def has_training_rows(folder: str | Path) -> bool:
    """Whether a folder has rows to train on, in any of its splits."""
    return any("train" in files for files in _splits(_checked(folder))[1].values())


def _known(folder: Path, split: str, splits: Iterable[str]) -> str:
    """Refuse the name of a split that does not exist."""
    if split not in splits:
        raise UserError(f"{folder}: found the splits {_listed(splits)}; expected {split} to be one of them")
    return split


def _listed(splits: Iterable[str]) -> str:
    return ", ".join(splits) or "none"


def _checked(folder: str | Path) -> Path:
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with {_EXPECTED}")
    return folder


def _splits(folder: Path) -> tuple[str, dict[str, dict[str, Path]]]:
    """The form of a folder and the files of each of its splits."""
    forms = _forms(folder)
    if len(forms) != 1:
        found = " and ".join(forms.values()) or "no pairs"
        raise UserError(f"{folder}: found {found}; expected one of {_EXPECTED}")
    [form] = forms
    if form == OTHER:
        return form, {"": _columns(folder)}
    if form == SCAN:
        scan = scan_files(folder)
        return form, {name: {part: files[part] for part in SPLITS if part in files} for name, files in scan.items()}
    by_name: dict[str, Path] = {}
    for place in (folder / "splits", folder):
        for path in sorted([*place.glob("*.json"), *place.glob("*.json.gz")]):
            name = path.name.removesuffix(".gz").removesuffix(".json")
            if name != "dataset" and by_name.setdefault(name, path) != path:
                raise found_twice(path, by_name[name])
    return CFQ, {name: dict.fromkeys(SPLITS, path) for name, path in by_name.items()}


def _forms(folder: Path) -> dict[str, str]:
    """The forms whose files are there, with their names in errors."""
    there = {OTHER: _columns(folder), SCAN: scan_files(folder), CFQ: _dataset(folder)}
    names = {OTHER: "TSV files", SCAN: "SCAN", CFQ: "dataset.json"}
    return {form: names[form] for form, files in there.items() if files}


def _columns(folder: Path) -> dict[str, Path]:
    files = {split: plain_or_gzipped(folder, f"{split}.tsv") for split in SPLITS}
    return {split: path for split, path in files.items() if path}


def _dataset(folder: Path) -> Path | None:
    return plain_or_gzipped(folder, "dataset.json")
