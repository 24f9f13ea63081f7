"""Folders of dependency trees: a CoNLL-U file for each split, or a corpus and a split file.

- Universal Dependencies: `en_ewt-ud-train.conllu`, `...-dev.conllu`, `...-test.conllu`, or just `train.conllu` etc.
- CFQ with the trees of Goodwin et al. (2022): `parsed-CFQ-corpus.conllu` and CFQ's split files, such as `mcd1.json` or
  `mcd1.json.gz`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError, no_folder
from ...io.files import fingerprint
from ...io.streams import counted
from ..jsonl import IN_MEMORY, numbered, rows_fingerprint
from ..splits import SPLITS, read_split_file
from .conllu import MAX_WORDS, DependencySentence, read_conllu, tree_from_json

DESCRIPTION_FILE = "derived.json"  # describes derived trees; no split file
MOST_MISSING = 0.05  # of a split's rows may have no tree; more means a wrong corpus
_ROW_COMMENT = re.compile(r"#\s*(question_?idx?|cfq_?idx?|row|sent_id)\s*=\s*(.*?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class TreebankData:
    """Sentences of one folder, by the names of their splits."""

    name: str
    fingerprint: str  # of all files of trees and splits, read or not
    splits: dict[str, tuple[DependencySentence, ...]]
    split: str | None = None  # the name of the split file, such as mcd1
    missing: dict[str, int] = field(default_factory=dict)  # rows of each split without a tree
    derived: str | None = None  # the grammar of ours that made the trees, if any


@dataclass(frozen=True)
class TreebankFiles:
    """The files of a treebank: one for each split, or a corpus and its split file."""

    by_split: dict[str, Path]
    corpus: Path | None = None
    split_file: Path | None = None


def trees_of_rows(splits: Mapping[str, Sequence[Any]]) -> TreebankData:
    """Rows in memory, as lists by split: `DependencySentence`, or {"tokens", "heads", "relations"}."""
    trees = {
        split: tuple(
            row if isinstance(row, DependencySentence) else tree_from_json(row, source)
            for source, row in numbered(split, rows)
        )
        for split, rows in splits.items()
    }
    return TreebankData(IN_MEMORY, rows_fingerprint(splits), trees)


def treebank_files(folder: str | Path, splits: Sequence[str] = SPLITS, split: str | None = None) -> TreebankFiles:
    """Find the files for these splits. `split` names the split file, such as "mcd1", where a corpus has several."""
    folder = Path(folder)
    if _is_treebank(folder):
        return TreebankFiles({_split_of(folder): folder})
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with .conllu files")
    trees = sorted(folder.glob("*.conllu"))
    split_files = _split_files(folder)
    named = {name: [path for path in trees if _is_split(path, name)] for name in SPLITS}
    if split is None and any(named.values()):
        for name in splits:
            if len(named.get(name, ())) != 1:
                found = _names(named.get(name, ())) or _names(trees)
                raise UserError(f"{folder}: found {found}; expected one file for {name}, such as {name}.conllu")
        return TreebankFiles({name: named[name][0] for name in splits})
    if len(trees) != 1:
        expected = "train.conllu, dev.conllu and test.conllu, or one corpus and a split file such as mcd1.json"
        raise UserError(f"{folder}: found {_names(trees) or 'no .conllu file'}; expected {expected}")
    if (split is not None and split not in split_files) or not split_files:
        expected = f"{split or 'mcd1'}.json or {split or 'mcd1'}.json.gz beside {trees[0].name}"
        expected = expected if split else f"train.conllu, dev.conllu and test.conllu, or {expected}"
        raise UserError(f"{folder}: found {_names(split_files.values()) or 'no split file'}; expected {expected}")
    if split is None and len(split_files) > 1:
        names = " or ".join(f"--set data.split={name}" for name in split_files)
        raise UserError(f"{folder}: found {_names(split_files.values())}; expected the choice of one: {names}")
    return TreebankFiles({}, trees[0], split_files[split or next(iter(split_files))])


def treebank_splits(folder: str | Path) -> list[str]:
    """The splits of a folder: those with a file, or all where it has split files.

    A single file instead of a folder is the test split, unless its name says dev.
    """
    folder = Path(folder)
    if _is_treebank(folder):
        return [_split_of(folder)]
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with .conllu files")
    trees = list(folder.glob("*.conllu"))
    named = [name for name in SPLITS if any(_is_split(path, name) for path in trees)]
    return named or list(SPLITS)


def treebank_paths(folder: str | Path, split: str | None = None) -> list[Path]:
    """All files of trees of a folder, and all its split files or the one that `split` names."""
    folder = Path(folder)
    if _is_treebank(folder):
        return [folder]
    trees = sorted(folder.glob("*.conllu"))
    named = [path for path in trees if any(_is_split(path, name) for name in SPLITS)]
    split_files = _split_files(folder)
    splitting = [split_files[split]] if split in split_files else [*split_files.values()]
    paths = named if named and split is None else [*trees, *splitting]
    if not paths:
        raise UserError(f"{folder}: found no .conllu file; expected a treebank, such as train.conllu")
    return paths


def read_treebank(
    folder: str | Path,
    splits: Sequence[str] = SPLITS,
    split: str | None = None,
    progress: Callable[[int], None] | None = None,
    max_words: int = MAX_WORDS,
) -> TreebankData:
    """Read these splits of a folder; `progress` counts sentences."""
    files = treebank_files(folder, splits, split)
    name, hashed = Path(folder).resolve().name, fingerprint(treebank_paths(folder, split))
    if files.corpus is None or files.split_file is None:
        read = {
            part: tuple(counted(read_conllu(path, True, max_words), progress)) for part, path in files.by_split.items()
        }
        return TreebankData(name, hashed, read, derived=derived_kind(folder))
    rows = read_split_file(files.split_file)
    corpus = list(counted(read_conllu(files.corpus, True, max_words), progress))
    numbers = said_rows([sentence.comments for sentence in corpus])
    most_missing = MOST_MISSING if numbers else 0.0  # without row numbers there are no gaps
    numbers = numbers or {row: row for row in range(len(corpus))}
    parts: dict[str, tuple[DependencySentence, ...]] = {}
    missing: dict[str, int] = {}
    for part in splits:
        there = [row for row in rows[part] if row in numbers]
        if len(there) < (1 - most_missing) * len(rows[part]):
            row = next(row for row in rows[part] if row not in numbers)
            have = f"{len(corpus)} sentences, of which none is row {row} of {part}Idxs in {files.split_file.name}"
            raise DataError(files.corpus, None, have, "the corpus that this split is made for")
        parts[part] = tuple(corpus[numbers[row]] for row in there)
        missing |= {part: len(rows[part]) - len(there)} if len(there) < len(rows[part]) else {}
    stem = _stem(files.split_file)
    return TreebankData(f"{name}-{stem}", hashed, parts, stem, missing, derived_kind(folder))


def said_rows(comments: Sequence[Sequence[str]]) -> dict[int, int] | None:
    """The place of each row of the dataset in its corpus, where every sentence names its row in a comment.

    Such comments are `# row = 7`, `# question_id = 7`, or a number as `sent_id`. None where there are none, or where
    they only count sentences from 1: sentences are then the rows in order.
    """
    said: dict[str, list[int]] = {}
    for of_sentence in comments:
        for comment in of_sentence:
            match = _ROW_COMMENT.fullmatch(comment)
            if match and match[2].isdecimal() and len(match[2]) < 10:
                said.setdefault(match[1].lower(), []).append(int(match[2]))
    for name, numbers in sorted(said.items(), key=lambda item: item[0] == "sent_id"):  # sent_id last
        only_counted = name != "row" and numbers == list(range(1, len(comments) + 1))
        if len(numbers) == len(comments) == len(set(numbers)) and not only_counted:
            return {row: place for place, row in enumerate(numbers)}
    return None


def description_of_split(sources: Iterable[Path], split: Mapping[str, int]) -> str | None:
    """The description of a new split of derived trees, with that of its sources below "from"."""
    found = {_description(source if source.is_dir() else source.parent) for source in sources}
    if len(found) != 1 or not (text := found.pop()):
        return None
    source = json.loads(text)
    return json.dumps({"kind": source.get("kind"), "split anew": dict(split), "from": source}, indent=2) + "\n"


def derived_kind(folder: str | Path) -> str | None:
    """The kind of trees in a folder's description, such as cfq-dependencies, if any."""
    description = json.loads(_description(Path(folder)) or "{}")
    kind = description.get("kind")
    if not isinstance(kind, str):
        return None
    return f"{kind}-split-anew" if "split anew" in description else kind


def _description(folder: Path) -> str | None:
    """The text of the description of derived trees, if it can be read."""
    try:
        text = (folder / DESCRIPTION_FILE).read_text(encoding="utf-8")
        return text if isinstance(json.loads(text), dict) else None
    except (OSError, ValueError):
        return None


def treebank_split_names(folder: str | Path) -> list[str | None]:
    """The names of a folder's split files; [None] where it has a file for each split."""
    folder = Path(folder)
    by_file = any(_is_split(path, name) for path in folder.glob("*.conllu") for name in SPLITS)
    return [None] if by_file or not _split_files(folder) else [*_split_files(folder)]


def _split_files(folder: Path) -> dict[str, Path]:
    """The split files of a folder by name, such as mcd1."""
    found = sorted(path for pattern in ("*.json", "*.json.gz") for path in folder.glob(pattern))
    return {_stem(path): path for path in found if path.name != DESCRIPTION_FILE}


def _stem(split_file: Path) -> str:
    return split_file.name.removesuffix(".gz").removesuffix(".json")


def _is_treebank(path: Path) -> bool:
    return path.suffix == ".conllu" and path.is_file()


def _split_of(file: Path) -> str:
    """The split of a single file."""
    return "dev" if _is_split(file, "dev") else "test"


def _is_split(path: Path, split: str) -> bool:
    """Whether a file's name ends with the split's: train.conllu, en_ewt-ud-train.conllu."""
    return re.search(rf"(^|[^a-z]){split}$", path.stem.lower()) is not None


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)
