"""COGS in its official files: tab-separated lines of sentence, logical form and category.

`gen.tsv` tests generalisation beyond `train.tsv`; a row's category names the kind of generalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import DataError, UserError, no_folder, no_text
from ...io.files import fingerprint
from ...io.streams import counted, open_text
from .logical_forms import MAX_FORM, graph_of_form
from .rows import MAX_TOKENS, TokenGraph

SPLITS = ("train", "dev", "test", "gen")
MAX_LINE = 2 * MAX_FORM  # characters
_COLUMNS = "a sentence, its logical form and its category, with tabs between them"

LEXICAL, STRUCTURAL = "lexical", "structural"
# Lexical: a known construction with a word never seen in it. Structural: a construction or depth never seen at all.
GENERALISATIONS = {
    "subj_to_obj_common": LEXICAL,
    "subj_to_obj_proper": LEXICAL,
    "obj_to_subj_common": LEXICAL,
    "obj_to_subj_proper": LEXICAL,
    "prim_to_subj_common": LEXICAL,
    "prim_to_subj_proper": LEXICAL,
    "prim_to_obj_common": LEXICAL,
    "prim_to_obj_proper": LEXICAL,
    "prim_to_inf_arg": LEXICAL,
    "obj_pp_to_subj_pp": STRUCTURAL,
    "cp_recursion": STRUCTURAL,
    "pp_recursion": STRUCTURAL,
    "active_to_passive": LEXICAL,
    "passive_to_active": LEXICAL,
    "obj_omitted_transitive_to_transitive": LEXICAL,
    "unacc_to_transitive": LEXICAL,
    "do_dative_to_pp_dative": LEXICAL,
    "pp_dative_to_do_dative": LEXICAL,
    "only_seen_as_transitive_subj_as_unacc_subj": LEXICAL,
    "only_seen_as_unacc_subj_as_obj_omitted_transitive_subj": LEXICAL,
    "only_seen_as_unacc_subj_as_unerg_subj": LEXICAL,
}


@dataclass(frozen=True, slots=True)
class CogsRow:
    """A sentence and its logical form."""

    tokens: tuple[str, ...]
    logical_form: str
    category: str  # "in_distribution", "primitive", a kind of exposure example or of generalisation
    source: str = field(default="row", compare=False)  # for errors about its logical form
    line: int | None = field(default=None, compare=False)

    def graph(self) -> TokenGraph:
        """The sentence as a graph, with its category as group."""
        return graph_of_form(self.tokens, self.logical_form, self.source, self.line, group=self.category)


@dataclass(frozen=True)
class CogsData:
    """Files of one COGS folder, by the names of their splits."""

    name: str
    fingerprint: str  # of the bytes of all files read
    splits: dict[str, tuple[CogsRow, ...]]


def cogs_files(folder: str | Path, training: bool = True) -> list[Path]:
    """The official files that a folder has; `training` requires the training file."""
    folder = Path(folder)
    files = [folder / f"{split}.tsv" for split in SPLITS]
    found = [path for path in files if path.is_file()]
    if not folder.is_dir() or not found or (training and files[0] not in found):
        missing = f"found no {files[0].name}" if training else "found no files"
        what = missing if folder.is_dir() else no_folder(folder)
        raise UserError(f"{folder}: {what}; expected a COGS folder with {', '.join(path.name for path in files)}")
    return found


def holds_cogs(folder: str | Path) -> bool:
    """Whether a folder has COGS's files; pairs of texts have the same names, but other rows."""
    try:
        first, *_ = cogs_files(folder, training=False)
        next(read_rows(first)).graph()
    except UserError:
        return False
    return True


def read_cogs(
    folder: str | Path, splits: Sequence[str] = SPLITS, progress: Callable[[int], None] | None = None
) -> CogsData:
    """Read `SPLIT.tsv` for each split; `progress` counts rows.

    The split "train_100" is the official training file with a hundred exposure examples instead of one.
    """
    folder = Path(folder)
    if not folder.is_dir():
        wanted = ", ".join(f"{split}.tsv" for split in splits)
        raise UserError(f"{folder}: {no_folder(folder)}; expected a COGS folder with {wanted}")
    files = {split: folder / f"{split}.tsv" for split in splits}
    for path in files.values():
        if not path.is_file():
            others = ", ".join(sorted(other.name for other in folder.glob("*.tsv"))) or "no .tsv file at all"
            raise UserError(f"{folder}: found {others}; expected {path.name}")
    rows = {split: tuple(counted(read_rows(path), progress)) for split, path in files.items()}
    return CogsData(folder.resolve().name, fingerprint(files.values()), rows)


def read_cogs_graphs(
    files: Iterable[Path], progress: Callable[[int], None] | None = None
) -> Iterator[tuple[str, TokenGraph]]:
    """Yield (split, graph) for each row of the files."""
    for path in files:
        for row in counted(read_rows(path), progress):
            yield path.stem, row.graph()


def read_rows(path: str | Path) -> Iterator[CogsRow]:
    """Read a file lazily; a broken line raises an error."""
    count = 0
    with open_text(path) as lines:
        for row in read_row_lines(lines, path):
            count += 1
            yield row
    if not count:
        raise DataError(path, 1, "no rows", f"at least one: {_COLUMNS}")


def read_row_lines(lines: Iterable[str], source: str | Path) -> Iterator[CogsRow]:
    """Read rows from lines; blank lines are skipped. Logical forms are parsed by `CogsRow.graph`."""
    number = 0
    name = str(source)
    try:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _row(line, name, number)
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error


def _row(line: str, source: str, number: int) -> CogsRow:
    if len(line) > MAX_LINE:
        raise DataError(source, number, f"a line of {len(line)} characters", f"at most {MAX_LINE}")
    cells = line.rstrip("\r\n").split("\t")
    if len(cells) != 3 or not all(cells):
        raise DataError(source, number, repr(line.rstrip("\r\n")), _COLUMNS)
    sentence, form, category = cells
    tokens = tuple(sentence.split(" "))
    if len(tokens) > MAX_TOKENS:
        raise DataError(source, number, f"a sentence of {len(tokens)} tokens", f"at most {MAX_TOKENS}")
    if "" in tokens:
        raise DataError(source, number, repr(sentence), "tokens with one space between them")
    return CogsRow(tokens, form, category, source, number)
