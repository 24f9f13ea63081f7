"""Family stories: a few of our own generator, and samples of CLUTRR's official files."""

from __future__ import annotations

import csv
import random
import shutil
from pathlib import Path

from ....errors import UserError
from ....io.files import replacing_together
from ..clutrr import MAX_CELL, clutrr_files, read_clutrr
from ..generate import generate
from ..rows import Story
from .drawing import Row, Splits


def family(seed: int = 1, rows: int = 300, test_rows: int = 510) -> Splits:
    """Stories of 2 and 3 relations to train on, of 2, 3 and 4 to test on, by our own generator of families.

    Test rows of 3 and 4 relations have sequences of relations that training has not. There are few sequences of 2
    relations, so tests repeat those of training with other names: they ask whether each composition was learned.
    """
    train, tests = generate((2, 3), (2, 3, 4), rows, seed, test_rows=test_rows // 3)
    return {"train": [row_of(story) for story in train], "test": [row_of(story) for k in tests for story in tests[k]]}


def row_of(story: Story) -> Row:
    """A story as a row of JSON."""
    names = story.names
    told = zip(story.edges, story.relations, strict=True)
    edges = [[names[a], relation, names[b]] for (a, b), relation in told]
    return {"edges": edges, "query": [names[node] for node in story.query], "target": story.target}


def sampled(stories: int, rows: int, seed: int) -> list[int]:
    """The places of `rows` of the stories, drawn at random, in their order."""
    return sorted(random.Random(f"{seed} clutrr {rows}").sample(range(stories), rows))


def sample_clutrr(source: str | Path, out: str | Path, rows: int, seed: int = 1) -> list[Path]:
    """Write `rows` training stories of a CLUTRR folder, drawn at random, beside copies of its test files.

    Rows keep their bytes and their order; validation files are copied too. Returns the files.
    """
    source, out = Path(source), Path(out)
    read_clutrr(source)  # checks every row
    files = clutrr_files(source)
    header: list[str] = []
    cells: list[list[str]] = []
    csv.field_size_limit(MAX_CELL)
    for path in files["train"]:
        with open(path, encoding="utf-8-sig", newline="") as file:
            found, *others = [row for row in csv.reader(file, strict=True) if row]
        if header and found != header:
            raise UserError(f"{path}: found other columns than in {files['train'][0].name}; expected the same")
        header, cells = found, cells + others
    if not 1 <= rows <= len(cells):
        raise UserError(
            f"{source}: found {len(cells)} training stories; expected at least as many as asked for, {rows}"
        )
    chosen = sampled(len(cells), rows, seed)
    others_there = {path.name for pattern in ("*.csv", "*.jsonl") for path in out.glob(pattern)}
    kept = [*files["test"], *files["valid"]]
    name = files["train"][0].name
    if unlike := others_there - {name, *(path.name for path in kept)}:
        raise UserError(f"{out}: has other data in it, {', '.join(sorted(unlike))}; expected a folder without")
    if source.resolve() == out.resolve():
        raise UserError(f"{out}: found the folder of the stories itself; expected another one to write to")
    with replacing_together(out) as aside:
        with open(aside(name), "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *(cells[place] for place in chosen)])
        for path in kept:
            shutil.copyfile(path, aside(path.name))
    return [out / name, *(out / path.name for path in kept)]
