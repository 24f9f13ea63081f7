"""Read examples to be split, and write the same lines to the files of a split.

- `.conllu`: dependency trees.
- `.tsv`: pairs of tokenised texts, such as question and query. Further columns are kept.
- `.txt`: SCAN's lines, `IN: jump twice OUT: I_JUMP I_JUMP`.
- `.jsonl`: anything, with its parts named: {"atoms": ["jump", "twice"], "compounds": ["jump twice"]}. Either may be an
  object of names and weights instead of a list; other keys are kept.

Any of them may be gzipped (`.tsv.gz`). Folders have a file for each of train, dev and test.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..data.splits import SPLITS
from ..data.trees.conllu import read_conllu_lines
from ..data.trees.folder import MOST_MISSING, said_rows
from ..errors import DataError, UserError, no_text
from ..io.streams import json_of_line, lines_of
from .compounds import PartsBuilder, text_atoms, text_compounds, tree_atoms, tree_compounds
from .divergence import Ints, Parts

KINDS = (".conllu", ".tsv", ".txt", ".jsonl")
_ENDINGS = tuple(kind + packed for kind in KINDS for packed in ("", ".gz"))
MAX_TOKENS = 5_000  # in one side of a pair
_SCAN = re.compile(r"IN: (.*) OUT: (.*)")


@dataclass(frozen=True)
class SplitInput:
    """Examples of one kind: their text with line ends, and their atoms and compounds."""

    kind: str  # the ending of the files
    texts: list[str]
    parts: Parts
    by_file: dict[str, Ints]  # places by split, where file names say one; else by file name
    builder: PartsBuilder
    said_rows: dict[int, int] | None = None  # row -> place, where trees name their row of a dataset

    def parts_of(self, rows: Ints) -> Parts:
        """Atoms and compounds of these examples, with weights counted among them."""
        return self.builder.build(rows)

    def row_numbers(self, places: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """The row numbers, as in a split file, of examples at these places."""
        numbers = {place: row for row, place in (self.said_rows or {}).items()}
        return {name: [numbers.get(place, place) for place in part] for name, part in places.items()}

    def places(self, rows: Mapping[str, Sequence[int]], source: Path) -> dict[str, Ints]:
        """The places of the rows of a split file. A few may be missing from trees that name their row."""
        known = self.said_rows or {row: row for row in range(len(self.parts))}
        most = MOST_MISSING if self.said_rows else 0.0
        for name, part in rows.items():
            missing = [row for row in part if row not in known]
            if len(missing) > most * len(part):
                have = "rows that the trees name" if self.said_rows else f"rows of the data, 0 to {len(self.parts) - 1}"
                raise UserError(f"{source}: found row {missing[0]} in {name}; expected {have}")
        return {name: np.array([known[row] for row in part if row in known], int) for name, part in rows.items()}

    def repeated(self, train: Ints, others: Iterable[int]) -> int:
        """How many of the other examples are in train word for word, apart from comments."""
        known = {_without_comments(self.texts[row]) for row in train}
        return sum(_without_comments(self.texts[row]) in known for row in others)

    def write(self, place: Callable[[str], Path], rows: dict[str, Ints]) -> None:
        """Write each split's examples to a file in their own format; `place` gives the path for a name."""
        for split, numbers in rows.items():
            with open(place(f"{split}{self.kind}"), "w", encoding="utf-8", newline="\n") as file:
                file.writelines(self.texts[number] for number in numbers)


def read_split_input(
    sources: Iterable[str | Path], progress: Callable[[int], None] | None = None, keep_texts: bool = True
) -> SplitInput:
    """Read files of one kind, or the train, dev and test files of folders; `progress` counts examples."""
    files = [file for source in sources for file in _files(Path(source))]
    if not files:
        raise UserError(f"found no files to split; expected one of {', '.join(KINDS)}")
    kinds = {kind_of(path) for path in files}
    if len(kinds) > 1:
        raise UserError(f"found files of different kinds, {', '.join(sorted(kinds))}; expected one kind")
    [kind] = kinds
    builder, texts, by_file, count = PartsBuilder(), [], dict[str, list[int]](), 0
    comments: list[tuple[str, ...]] = []
    for path in files:
        rows = by_file.setdefault(_split_of(path) or path.name, [])
        for text in _examples(path, kind, builder, comments):
            if keep_texts:
                texts.append(text)
            rows.append(count)
            count += 1
            if progress:
                progress(1)
        if not rows:
            raise DataError(path, 1, "no examples", "at least one")
    places = {name: np.array(rows) for name, rows in by_file.items()}
    return SplitInput(kind, texts, builder.build(), places, builder, said_rows(comments) if comments else None)


def split_files(folder: Path) -> list[Path]:
    """The files of a folder that are named after a split."""
    return [path for path in sorted(folder.iterdir()) if path.name.endswith(_ENDINGS) and _split_of(path)]


def kind_of(path: Path) -> str:
    """The kind of a file by its name."""
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind not in KINDS:
        raise UserError(f"{path}: found the ending {kind or 'of no file type'}; expected one of {', '.join(KINDS)}")
    return kind


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        if not source.exists():
            raise UserError(f"{source}: no such file or folder")
        return [source]
    files = []
    present = split_files(source)
    for split in SPLITS:
        named = [path for path in present if _split_of(path) == split]
        if len(named) > 1:
            raise UserError(f"{source}: found {', '.join(path.name for path in named)}; expected one file for {split}")
        files += named
    if not files:
        raise UserError(f"{source}: found no file for train, dev or test; expected train.conllu or test.tsv, say")
    return files


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _split_of(path: Path) -> str | None:
    """The split that a file name contains: train.tsv, en_ewt-ud-dev.conllu, tasks_test_mcd1.txt."""
    words = re.split(r"[^a-z]+", path.name.partition(".")[0].lower())
    found = [split for split in SPLITS if split in words]
    return found[0] if len(found) == 1 else None


def _examples(path: Path, kind: str, builder: PartsBuilder, comments: list[tuple[str, ...]]) -> Iterator[str]:
    """Add the examples of a file to the builder and the comments of trees to `comments`; yield the texts."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            lines = TextIOWrapper(cast(Any, file), encoding="utf-8-sig", newline="\n")
            if kind == ".conllu":
                for sentence in read_conllu_lines(lines_of(lines, path), path):
                    builder.add(tree_atoms(sentence), tree_compounds(sentence))
                    comments.append(sentence.comments)
                    yield sentence.text
                return
            for number, line in enumerate(lines_of(lines, path), start=1):
                line = line.rstrip("\r\n")
                if line.strip():
                    _add_line(line, kind, builder, path, number)
                    yield line + "\n"
    except UnicodeDecodeError as error:
        raise no_text(path, number, error) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(path, None, f"a broken archive ({error})", "a gzipped file") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _add_line(line: str, kind: str, builder: PartsBuilder, path: Path, number: int) -> None:
    if kind == ".jsonl":
        value = json_of_line(line, path, number)
        if not isinstance(value, dict):
            raise DataError(path, number, line, 'an object with "atoms" and "compounds"')
        builder.add_weighted(*(_weights(value.get(key), key, path, number) for key in ("atoms", "compounds")))
        return
    if kind == ".tsv":
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataError(path, number, repr(line), "two texts with a tab between them")
        pair = cells[:2]
    else:
        match = _SCAN.fullmatch(line)
        if not match:
            raise DataError(path, number, repr(line), "IN: words OUT: words")
        pair = [match[1], match[2]]
    sides = [text.split() for text in pair]
    for side in sides:
        if len(side) > MAX_TOKENS:
            raise DataError(path, number, f"a text of {len(side)} tokens", f"at most {MAX_TOKENS}")
    builder.add(text_atoms(sides), text_compounds(sides))


def _weights(value: Any, key: str, path: Path, number: int) -> dict[str, float]:
    if isinstance(value, list) and all(type(name) is str for name in value):
        return {name: float(count) for name, count in Counter(value).items()}
    if isinstance(value, dict) and all(type(weight) in (int, float) and 0 < weight < 1e9 for weight in value.values()):
        return {name: float(weight) for name, weight in value.items()}
    found = f'"{key}": {json.dumps(value)}'
    raise DataError(path, number, found, "a list of names, or an object of names and weights above 0")
