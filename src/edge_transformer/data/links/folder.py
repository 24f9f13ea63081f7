"""Folders of knowledge graphs: a file of facts for each split, or Countries.

- `train`, `dev` or `valid`, and `test*`, each .tsv, .txt, .csv, .jsonl or .nt, plain or gzipped (see `triples`), and
  optionally `entities.jsonl`, what is known of nodes besides their links.
- Countries: `countries_S1.tsv` to `countries_S3.tsv`, and the names in `dev.txt`, `test.txt` and `regions.txt`. It asks
  for the region of each of these countries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ...errors import DataError, UserError, no_folder
from ...io.files import fingerprint
from ...io.streams import json_of_line, lines_of, open_text
from ..pairs.rows import found_twice, plain_or_gzipped
from .rows import Entities, Fact, LinkRows, read_fact, split_order
from .triples import ENDINGS, ending_of, header_order, read_entities, read_facts

LOCATED_IN = "locatedIn"
ENTITIES, REGIONS, ANSWERS = "entities", "regions", "answers"  # files that are no split
_COUNTRIES = re.compile(r"countries_(S\d+)\.tsv(\.gz)?")
_COMPLETE = "S1"  # the version of Countries from which the region of every country follows
_EXPECTED = f"train, dev or valid, and test* with one of the endings {', '.join(ENDINGS)}"


def link_files(
    folder: str | Path, training: bool = True, testing: bool | None = True, split: str | None = None
) -> dict[str, Path]:
    """The files of a folder by split: "train", "valid", "test" and others by their stem; also "entities".

    Training needs train; testing needs a test file or, without `training`, a validation file. Without `testing` there
    are no test files in the answer; None leaves them in, but needs none. `split` names the version of Countries, which
    also has "regions", and the file with the "answers".
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with {_EXPECTED}")
    version = _version_file(folder, split)
    files = _split_files(folder) if version is None else _countries_files(folder, version)
    if testing is False:
        files = {name: path for name, path in files.items() if not name.startswith("test")}
    if training and "train" not in files:
        raise UserError(f"{folder}: found no train file; expected {_EXPECTED}")
    tests = [name for name in files if name.startswith("test")]
    if testing and not tests and (training or "valid" not in files):
        raise UserError(f"{folder}: found no test file; expected {_EXPECTED}")
    told = plain_or_gzipped(folder, f"{ENTITIES}.jsonl")
    return {**files, ENTITIES: told} if told else files


def link_versions(folder: str | Path) -> list[str | None]:
    """The versions of Countries in a folder, as `split` names them; [None] for other folders."""
    return [*_countries(Path(folder))] or [None]


def link_fingerprint(
    folder: str | Path, training: bool = True, testing: bool | None = True, split: str | None = None
) -> str:
    """The hash of a folder's files, without reading facts."""
    return fingerprint(link_files(folder, training, testing, split).values())


def read_links(
    folder: str | Path,
    progress: Callable[[int], None] | None = None,
    training: bool = True,
    testing: bool | None = True,
    split: str | None = None,
) -> LinkRows:
    """Read a folder; for the arguments see `link_files`. `progress` counts facts.

    What train has is read wherever it is there: it is what the model knows of the graph.
    """
    files = link_files(folder, training, testing, split)
    name, hashed = Path(folder).resolve().name, fingerprint(files.values())
    entities = Entities()
    if ENTITIES in files:
        read_entities(files[ENTITIES], entities)
    if REGIONS in files:
        splits, regions = _read_countries(files, entities, progress)
        return LinkRows(f"{name}-{split}", hashed, splits, entities.known, regions)
    splits = {part: read_facts(path, entities, progress) for part, path in files.items() if part != ENTITIES}
    return LinkRows(name, hashed, splits, entities.known)


def holds_links(folder: str | Path) -> bool:
    """Whether a folder has facts: other kinds of data have the same file names, but other rows."""
    folder = Path(folder)
    if _countries(folder):
        return True
    try:
        files = _split_files(folder)
        return bool(files) and _is_of_links(next(iter(files.values())))
    except UserError:
        return False


def _is_of_links(path: Path) -> bool:
    """Whether the first line of a file is one of facts."""
    ending = ending_of(path)
    if ending == ".nt":
        return True
    with open_text(path) as file:
        number, line = next(((at, line) for at, line in enumerate(lines_of(file, path), 1) if line.strip()), (1, ""))
    if ending == ".jsonl":
        read_fact(json_of_line(line, path, number), path, number)
        return True
    if ending == ".csv":
        return (
            header_order([cell.strip(' "\n') for cell in line.split(",") if cell.strip().lower() != "id"]) is not None
        )
    return len(line.split("\t")) == 3 or (ending == ".txt" and len(line.split()) == 3)


def _split_files(folder: Path) -> dict[str, Path]:
    """The files of facts by split, in order."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        ending = ending_of(path)
        stem = path.name.removesuffix(".gz").removesuffix(ending)
        name = "valid" if stem == "dev" else stem
        if not ending or not path.is_file() or not (name in ("train", "valid") or name.startswith("test")):
            continue
        if files.setdefault(name, path) != path:
            raise found_twice(files[name], path)
    return {name: files[name] for name in sorted(files, key=split_order)}


# --- Countries --------------------------------------------------------------------------------------------------------


def _countries(folder: Path) -> dict[str, Path]:
    """The versions of Countries in a folder; none where it has other data."""
    names = {match[1] for path in folder.iterdir() if (match := _COUNTRIES.fullmatch(path.name))}
    found = {name: plain_or_gzipped(folder, f"countries_{name}.tsv") for name in sorted(names)}
    return {name: path for name, path in found.items() if path}


def _version_file(folder: Path, split: str | None) -> Path | None:
    """The file of the version of Countries that `split` names; None where a folder has other data."""
    countries = _countries(folder)
    if split is not None and split not in countries:
        known = f"the versions {', '.join(countries)} of Countries" if countries else "no versions of one graph"
        raise UserError(f"{folder}: found {known}; expected data.split={split} to be one of them")
    if countries and split is None:
        how = "train --set data.split=NAME, evaluate --split NAME"
        raise UserError(f"{folder}: found Countries, {', '.join(countries)}; expected one of them to be named ({how})")
    return None if split is None else countries[split]


def _countries_files(folder: Path, train: Path) -> dict[str, Path]:
    """The files of a version of Countries, all of which are needed."""
    files = {"train": train}
    for name, file in (
        ("valid", "dev.txt"),
        ("test", "test.txt"),
        (REGIONS, "regions.txt"),
        (ANSWERS, f"countries_{_COMPLETE}.tsv"),
    ):
        path = plain_or_gzipped(folder, file)
        if path is None:
            wanted = ", ".join(("dev.txt", "test.txt", "regions.txt", f"countries_{_COMPLETE}.tsv"))
            raise UserError(f"{folder}: found {train.name} but no {file}; expected {wanted} beside it")
        files[name] = path
    return files


def _read_countries(
    files: Mapping[str, Path], entities: Entities, progress: Callable[[int], None] | None
) -> tuple[dict[str, list[Fact]], tuple[str, ...]]:
    """The facts of one version, the questions about regions with their answers, and the regions."""
    regions = tuple(_names(files[REGIONS]))
    train = read_facts(files["train"], entities, progress)
    told = train if files[ANSWERS] == files["train"] else read_facts(files[ANSWERS], entities)
    places: dict[str, set[str]] = defaultdict(set)
    for fact in told:
        if fact.relation == LOCATED_IN:
            places[fact.head].add(fact.tail)
    splits = {"train": train}
    for part in ("valid", "test"):
        if part in files:
            splits[part] = [
                Fact(country, LOCATED_IN, _region(country, places, regions, files[part], number))
                for country, number in _names(files[part]).items()
            ]
    return splits, regions


def _region(country: str, places: Mapping[str, Iterable[str]], regions: Iterable[str], path: Path, number: int) -> str:
    """The region of a country: a place in which its subregion is."""
    near = set(places.get(country, ()))
    found = sorted((near | {place for each in near for place in places.get(each, ())}) & set(regions))
    if len(found) != 1:
        expected = f"a country in one of {', '.join(regions)}, by the facts of countries_{_COMPLETE}.tsv"
        raise DataError(path, number, f"{country}, in {', '.join(found) or 'none of them'}", expected)
    return found[0]


def _names(path: Path) -> dict[str, int]:
    """The names in a file, one a line, each with the number of its line."""
    with open_text(path) as file:
        names: dict[str, int] = {}
        for number, line in enumerate(lines_of(file, path), start=1):
            name = line.strip()
            if "\t" in name or name in names:
                raise DataError(path, number, repr(name), "a name, each once")
            if name:
                names[name] = number
    if not names:
        raise DataError(path, 1, "no names", "at least one")
    return names
