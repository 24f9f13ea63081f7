"""Derive a treebank in CoNLL-U from CFQ's questions, and count what it has.

Questions that the grammar does not cover are listed with line and reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from ...errors import DataError, UserError
from ...io.files import fingerprint, replacing_together
from ...io.streams import lines_of, open_text
from ..json_array import read_json_array
from .cfq import CfqParser, CfqTree, NotCovered
from .folder import DESCRIPTION_FILE

NOT_COVERED_FILE = "not-covered.txt"
MAX_LINE = 100_000  # characters; a question of CFQ and its query have hundreds
QUESTION_FIELD = "questionPatternModEntities"
_FOLDER_SUFFIXES = (".tsv", ".json")  # read from a folder, plain or gzipped
_LINES = "lines with a question, or with a question and more behind a tab"
_ROWS = f"JSON with a list of CFQ's rows, each with {QUESTION_FIELD!r}"

Question = tuple[int, str]  # number of its line, or of its row in JSON, and text


@dataclass
class Account:
    """Counts of a treebank."""

    questions: int = 0
    covered: int = 0
    words: int = 0
    longest: int = 0  # words
    projective: int = 0
    depths: Counter[int] = field(default_factory=Counter)  # depth in arcs -> number of trees
    relations: Counter[str] = field(default_factory=Counter)

    def add(self, tree: CfqTree) -> None:
        """Count a tree."""
        arcs = tree.arcs()
        self.covered += 1
        self.words += len(arcs)
        self.longest = max(self.longest, len(arcs))
        self.projective += tree.shape.projective
        self.depths[tree.depth()] += 1
        self.relations.update(relation for _, relation in arcs)

    def merge(self, other: Account) -> None:
        """Add the counts of another account."""
        self.questions += other.questions
        self.covered += other.covered
        self.words += other.words
        self.longest = max(self.longest, other.longest)
        self.projective += other.projective
        self.depths.update(other.depths)
        self.relations.update(other.relations)

    @property
    def mean_depth(self) -> float:
        """The mean depth of a tree."""
        return sum(depth * count for depth, count in self.depths.items()) / max(self.covered, 1)

    def to_json(self) -> dict[str, Any]:
        """All counts, the most frequent relation first."""
        ordered = {"depths": dict(sorted(self.depths.items())), "relations": dict(self.relations.most_common())}
        return asdict(self) | ordered


def conllu_sentence(tree: CfqTree, name: str, row: int | None = None) -> str:
    """A tree as CoNLL-U, with the blank line after it; `row` is its row in a dataset with split files."""
    columns = tree.columns()
    lines = [f"# sent_id = {name}", *([] if row is None else [f"# row = {row}"]), f"# text = {' '.join(tree.words)}"]
    for number, ((form, lemma, tag, kind), (head, relation)) in enumerate(
        zip(columns, tree.arcs(), strict=True), start=1
    ):
        lines.append(f"{number}\t{form}\t{lemma}\t{tag}\t{kind}\t_\t{head}\t{relation}\t_\t_")
    return "\n".join(lines) + "\n\n"


def question_files(sources: Iterable[str | Path]) -> dict[str, Path]:
    """The files of questions among files and in folders, by the names of their treebanks."""
    files: dict[str, Path] = {}
    for source in map(Path, sources):
        if source.is_dir():
            found = sorted(path for path in source.iterdir() if _plain_suffix(path) in _FOLDER_SUFFIXES)
            if not found:
                raise UserError(f"{source}: found no .tsv, .tsv.gz, .json or .json.gz; expected files of questions")
        else:
            found = [source]
        for path in found:
            name = path.name.removesuffix(".gz")
            name = name.removesuffix(Path(name).suffix) or name
            if name in files:
                raise UserError(f"{path}: {files[name]} has the same name; both would become {name}.conllu")
            files[name] = path
    return files


def _plain_suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def read_questions(path: str | Path) -> Iterator[Question]:
    """Read questions lazily: lines of text, tab-separated lines, or official rows in JSON."""
    path = Path(path)
    count = 0
    with open_text(path) as file:
        for question in _rows(file, path) if _plain_suffix(path) == ".json" else _lines(file, path):
            count += 1
            yield question
    if not count:
        expected = _ROWS if _plain_suffix(path) == ".json" else _LINES
        raise DataError(path, 1, "no questions", f"at least one: {expected}")


def _lines(file: IO[str], path: Path) -> Iterator[Question]:
    for number, line in enumerate(lines_of(file, path, MAX_LINE), start=1):
        question = line.partition("\t")[0].strip()
        if question:
            yield number, question
        elif line.strip():
            raise DataError(path, number, repr(line.rstrip("\r\n")), _LINES)


def _rows(file: IO[str], path: Path) -> Iterator[Question]:
    for number, (line, row) in enumerate(read_json_array(file, path), start=1):
        question = row.get(QUESTION_FIELD) if isinstance(row, dict) else None
        if not isinstance(question, str) or not question.strip() or len(question) > MAX_LINE:
            raise DataError(path, line, f"row {number} with {QUESTION_FIELD} = {repr(question)[:100]}", _ROWS)
        yield number, question


def count_questions(sources: Iterable[str | Path]) -> int:
    """How many questions `derive` would read."""
    return sum(1 for path in question_files(sources).values() for _ in read_questions(path))


def derive(
    sources: Iterable[str | Path], folder: str | Path, progress: Callable[[int], None] | None = None
) -> dict[str, Account]:
    """Write a treebank for each file of questions, and return their counts by name.

    `not-covered.txt` lists what the grammar does not cover, `derived.json` has the counts. All files are moved into
    place together.
    """
    folder, files, parser = Path(folder), question_files(sources), CfqParser()
    accounts: dict[str, Account] = {}
    missed: list[str] = []
    others = [path.name for path in sorted(folder.glob("*.conllu")) if path.stem not in files]
    if others:
        raise UserError(f"{folder}: found {', '.join(others)}; expected no trees but those of {', '.join(files)}")
    with replacing_together(folder) as place:
        for name, path in files.items():
            with open(place(f"{name}.conllu"), "w", encoding="utf-8", newline="\n") as file:
                accounts[name] = _write(file, name, path, parser, missed, progress)
        place(NOT_COVERED_FILE).write_text("".join(missed), encoding="utf-8", newline="\n")
        description = {
            "kind": "cfq-dependencies",
            "questions": {name: path.name for name, path in files.items()},
            "fingerprint": fingerprint(files.values()),
            "treebanks": {name: account.to_json() for name, account in accounts.items()},
        }
        place(DESCRIPTION_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return accounts


def _write(
    file: IO[str], name: str, path: Path, parser: CfqParser, missed: list[str], progress: Callable[[int], None] | None
) -> Account:
    account = Account()
    reason = ""
    for number, question in read_questions(path):
        account.questions += 1
        try:
            tree = parser.parse(question)
        except NotCovered as error:
            reason = reason or f"{number}: {error}"
            missed.append(f"{path.name}:{number}\t{' '.join(question.split())}\t{error}\n")
        else:
            account.add(tree)
            row = number - 1 if _plain_suffix(path) == ".json" else None
            file.write(conllu_sentence(tree, f"{name}-{number}", row))
        if progress:
            progress(1)
    if not account.covered:
        raise UserError(
            f"{path}: the grammar covers none of its {account.questions:,} questions; "
            f"expected CFQ's questions with M0, M1, ... for the entities. The first is {path.name}:{reason}"
        )
    return account
