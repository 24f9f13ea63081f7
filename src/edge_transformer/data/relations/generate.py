"""Generate kinship stories like CLUTRR's, and folders that record how they were generated.

A story begins as one step of a proof in a simulated family (see `families`): c is a's t, because b is a's r1 and c is
b's r2. Both premises are told. While the story is too short, one told relation is replaced by two that imply it,
through another member of the family. What is told stays a walk from a to c, and the steps taken are its proof, so every
story is derivable by construction.

No directed pair of persons is used twice in a story, be it told, inferred or asked. So no edge is told twice, neither
the query nor its reverse is told, and no proof is circular. Walks may revisit a person, as CLUTRR's do from k = 4 on.

The pattern of a story is the sequence of its relations. For k = 2, train and test share patterns. For longer stories a
hash of pattern and seed decides which patterns are held out from train, and test has only these. As in CLUTRR a pattern
can have two answers: the grandmother of one's husband's son is one's mother-in-law or one's mother.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...errors import UserError
from ...io.files import fingerprint, write_text
from .clutrr import write_clutrr
from .families import JOINED, RELATIONS, TARGETS, Family, FamilyShape, simulate_family
from .rows import SPLIT_PATTERNS, ProofStep, Story

__all__ = ["MAX_K", "RELATIONS", "TARGETS", "FamilyShape", "generate", "generate_valid"]

MAX_K = 40

# A family costs as much as some twenty stories of four relations, so it is used for many.
_TRIES_PER_FAMILY = 200
_TRIES = 20_000  # in a row without a story before giving up
_TRIES_PER_OPENING = 10

_MEN = """
    Aaron Adam Albert Andrew Anthony Arthur Benjamin Brian Carl Charles Christopher Daniel David Dennis Donald
    Douglas Edward Eric Eugene Frank Fred Gary George Gerald Gregory Harold Henry Howard Jack James Jason Jeffrey
    John Jonathan Joseph Joshua Justin Keith Kenneth Kevin Larry Lawrence Louis Mark Martin Matthew Michael Nicholas
    Oliver Patrick Paul Peter Philip Ralph Raymond Richard Robert Roger Ronald Russell Samuel Scott Stephen Steven
    Theodore Thomas Timothy Victor Walter William
"""
_WOMEN = """
    Alice Amanda Amy Andrea Angela Anna Barbara Beatrice Betty Beverly Brenda Carol Caroline Catherine Cheryl
    Christina Clara Cynthia Deborah Denise Diana Donna Dorothy Eleanor Elizabeth Emily Emma Evelyn Florence Frances
    Gloria Grace Hannah Heather Helen Irene Jacqueline Jane Janet Jennifer Jessica Joan Joyce Judith Julia Karen
    Kathleen Kimberly Laura Linda Lisa Louise Margaret Maria Martha Mary Melissa Michelle Nancy Nicole Olivia Pamela
    Patricia Rachel Rebecca Rose Ruth Sandra Sarah Sharon Sophia Stephanie Susan Theresa Victoria Virginia
"""
_FIRST_NAMES = {True: _MEN.split(), False: _WOMEN.split()}  # by whether male

Pattern = tuple[str, ...]
T = TypeVar("T")


def generate(
    train_k: Sequence[int],
    test_k: Sequence[int],
    rows: int,
    seed: int,
    *,
    test_rows: int = 100,
    holdout: float = 0.2,
    revisits: float = 0.6,
    levels: int = 3,
    min_children: int = 3,
    max_children: int = 5,
    p_marry: float = 1.0,
    by_marriage: bool = True,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Story], dict[int, list[Story]]]:
    """Training stories and, for each k asked for, test stories. The same arguments give the same stories everywhere.

    train_k, test_k: the numbers of told relations, from 2 to MAX_K.
    rows: training stories in all, spread evenly over train_k and shuffled. test_rows: test stories for each k.
    holdout: for k >= 3 in both train_k and test_k, about the fraction of patterns that only test has. For k = 2 in
        both, the patterns of test are also in train.
    revisits: the fraction of stories that may revisit a person; the others are chains.
    levels, min_children, max_children, p_marry, by_marriage: see `FamilyShape`.
    progress: called with the number of stories finished since the last call.
    """
    lengths, test_lengths = _checked_lengths(train_k, "train_k"), _checked_lengths(test_k, "test_k")
    for name, number in (("rows", rows), ("test_rows", test_rows)):
        _check_rows(name, number)
    if not 0 < holdout < 1:
        raise UserError(f"holdout is {holdout}; expected a share between 0 and 1")
    if not 0 <= revisits <= 1:
        raise UserError(f"revisits is {revisits}; expected a probability from 0 to 1")
    shape = FamilyShape(levels, min_children, max_children, p_marry, by_marriage)

    def draw(split: str, k: int, number: int, wanted: Callable[[Pattern], bool]) -> list[Story]:
        # Each k has its own random numbers: more rows of one k do not change the others.
        rng = random.Random(f"{seed} {split} {k}")
        return _draw_stories(rng, shape, k, number, revisits, wanted, progress)

    def held_out(pattern: Pattern) -> bool:
        return _is_held_out(pattern, seed, holdout)

    def kept(pattern: Pattern) -> bool:
        return not held_out(pattern)

    split_lengths = [k for k in lengths if k in test_lengths and k >= 3]
    train: list[Story] = []
    for position, k in enumerate(lengths):
        number = rows // len(lengths) + (position < rows % len(lengths))
        train += draw("train", k, number, kept if k in split_lengths else _anything)
    known_pairs = {story.relations for story in train if story.k == 2}

    tests: dict[int, list[Story]] = {}
    for k in test_lengths:
        wanted = held_out if k in split_lengths else known_pairs.__contains__ if k == 2 and known_pairs else _anything
        tests[k] = draw("test", k, test_rows, wanted)
    random.Random(f"{seed} shuffle").shuffle(train)
    return train, tests


def generate_valid(
    valid_k: Sequence[int],
    rows: int,
    seed: int,
    *,
    unlike: Iterable[Story] = (),
    revisits: float = 0.6,
    progress: Callable[[int], None] | None = None,
) -> dict[int, list[Story]]:
    """`rows` validation stories for each k, to choose recipes without looking at test stories.

    unlike: training and test stories. From k = 3 on, validation stories have none of their patterns; all splits share
        the few patterns of k = 2.
    """
    lengths = _checked_lengths(valid_k, "valid_k")
    _check_rows("valid_rows", rows)
    known = {story.relations for story in unlike if story.k >= 3}
    valid = {}
    for k in lengths:
        rng = random.Random(f"{seed} valid {k}")
        valid[k] = _draw_stories(rng, FamilyShape(), k, rows, revisits, lambda pattern: pattern not in known, progress)
    return valid


def _check_rows(name: str, number: int) -> None:
    if number < 1:
        raise UserError(f"{name} is {number}; expected at least 1")


def _checked_lengths(lengths: Sequence[int], name: str) -> list[int]:
    if not lengths:
        raise UserError(f"{name} is empty; expected numbers of relations from 2 to {MAX_K}")
    for k in lengths:
        if not 2 <= k <= MAX_K:
            raise UserError(f"{name} has k = {k}; a story has from 2 to {MAX_K} relations")
    return sorted(set(lengths))


def _anything(pattern: Pattern) -> bool:
    return True


def _is_held_out(pattern: Pattern, seed: int, holdout: float) -> bool:
    """Decide by a hash that is the same in every process, unlike Python's own."""
    digest = hashlib.blake2b(f"{seed} {'-'.join(pattern)}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") < holdout * 2**56


@dataclass(frozen=True, slots=True)
class _Plot:
    """A story before its persons are numbered and named."""

    walk: list[int]  # persons of the family; each step is told
    target: str
    steps: list[tuple[int, int, int]]  # (a, b, c): c's relation to a follows through b; the query's first

    def pattern(self, family: Family) -> Pattern:
        return tuple(family.relatives[a][b] for a, b in pairwise(self.walk))


def _draw_stories(
    rng: random.Random,
    shape: FamilyShape,
    k: int,
    number: int,
    revisits: float,
    wanted: Callable[[Pattern], bool],
    progress: Callable[[int], None] | None,
) -> list[Story]:
    """`number` stories of k relations with wanted patterns, from one family after another."""
    stories: list[Story] = []
    seen: Counter[Pattern] = Counter()
    tries_since_story = 0
    while len(stories) < number:
        family = simulate_family(rng, shape)
        before = len(stories)
        for _ in range(_TRIES_PER_FAMILY):
            tries_since_story += 1
            plot = _draw_plot(rng, family, k, revisits)
            if plot is None or not wanted(pattern := plot.pattern(family)):
                continue
            # CLUTRR has all patterns of a length equally often. Here a pattern that is f times too frequent is accepted
            # with probability 1 / f, which favours rare ones at little cost.
            if rng.random() * seen[pattern] * len(seen) > len(stories):
                continue
            seen[pattern] += 1
            stories.append(_tell(rng, family, plot, pattern))
            tries_since_story = 0
            if len(stories) == number:
                break
        if tries_since_story >= _TRIES:
            raise UserError(
                f"found no fitting story of k = {k} relations in {tries_since_story} tries; ask for a smaller k, for "
                "larger families or more revisits, or for another holdout if it is close to 0 or 1"
            )
        if progress is not None:
            progress(len(stories) - before)
    return stories


def _draw_plot(rng: random.Random, family: Family, k: int, revisits: float) -> _Plot | None:
    """A random plot of k told relations; None where the family offers no detour."""
    opening = _draw_opening(rng, family)
    if opening is None:
        return None
    a, b, c, target = opening
    walk, steps = [a, b, c], [(a, b, c)]
    may_revisit = rng.random() < revisits
    used = {(a, b), (b, c), (a, c), (c, a)}  # the query's reverse would give the answer away
    while len(walk) <= k:
        place = _draw_detour(rng, family, walk, used, may_revisit)
        if place is None:
            return None
        position, b = place
        a, c = walk[position], walk[position + 1]
        walk.insert(position + 1, b)
        steps.append((a, b, c))
        used.add((a, b))
        used.add((b, c))
    return _Plot(walk, target, steps)


def _draw_opening(rng: random.Random, family: Family) -> tuple[int, int, int, str] | None:
    """Persons a, b, c and what c is to a because of b. All pairs of relations are about equally likely."""
    first, second = JOINED[int(rng.random() * len(JOINED))]
    pivots = family.pivots(first, second)
    for _ in range(_TRIES_PER_OPENING if pivots else 0):
        b = _pick(rng, pivots)
        a, c = _pick(rng, family.owners[first][b]), _pick(rng, family.those_of[second][b])
        target = family.conclusion(a, b, c)
        if target is not None:
            return a, b, c, target
    return None


def _draw_detour(
    rng: random.Random, family: Family, walk: list[int], used: Collection[tuple[int, int]], may_revisit: bool
) -> tuple[int, int] | None:
    """A position in the walk, and a person to insert after it."""
    positions = list(range(len(walk) - 1))
    while positions:
        position = positions.pop(int(rng.random() * len(positions)))
        a, c = walk[position], walk[position + 1]
        avoided = () if may_revisit else walk
        groups = [
            [b for b in group if (a, b) not in used and (b, c) not in used and b not in avoided]
            for group in family.splits(a, c)
        ]
        groups = [group for group in groups if group]
        if groups:
            # First the relations, then the person: otherwise siblings would dominate.
            return position, _pick(rng, _pick(rng, groups))
    return None


def _pick(rng: random.Random, options: Sequence[T]) -> T:
    """A faster rng.choice."""
    return options[int(rng.random() * len(options))]


def _tell(rng: random.Random, family: Family, plot: _Plot, pattern: Pattern) -> Story:
    """Number the persons in order of appearance, name them, and write the proof."""
    persons = list(dict.fromkeys(plot.walk))
    node = {person: index for index, person in enumerate(persons)}
    walk = [node[person] for person in plot.walk]
    male = [family.male[person] for person in persons]
    return Story(
        edges=tuple(pairwise(walk)),
        relations=pattern,
        query=(walk[0], walk[-1]),
        target=plot.target,
        names=first_names(rng, male),
        genders=tuple("male" if is_male else "female" for is_male in male),
        proof=tuple(_proof_steps(family, plot, node)),
    )


def _proof_steps(family: Family, plot: _Plot, node: dict[int, int]) -> Iterator[ProofStep]:
    relatives = family.relatives
    concluded = plot.target  # only the query can be about in-laws
    for index, (a, b, c) in enumerate(plot.steps):
        if index > 0:
            concluded = relatives[a][c]
        premises = (node[a], relatives[a][b], node[b]), (node[b], relatives[b][c], node[c])
        yield ProofStep((node[a], concluded, node[c]), premises)


def first_names(rng: random.Random, male: Sequence[bool]) -> tuple[str, ...]:
    """A different first name for each person."""
    names: list[str] = []
    for is_male in male:
        name = _pick(rng, _FIRST_NAMES[is_male])
        while name in names:  # rare: stories and families are small
            name = _pick(rng, _FIRST_NAMES[is_male])
        names.append(name)
    return tuple(names)


DESCRIPTION_FILE = "generated.json"
Progress = Callable[[int], None]


@dataclass(frozen=True)
class GeneratedData:
    """A folder of generated family stories: an entry under `generate:` in experiment and sweep files."""

    out: str  # the folder, relative to the working directory
    train_k: tuple[int, ...] = (2, 3, 4)
    test_k: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9, 10)
    valid_k: tuple[int, ...] = ()
    rows: int = 15_000
    test_rows: int = 100  # of each length
    valid_rows: int = 100  # of each length
    seed: int = 1
    kind: Literal["clutrr"] = "clutrr"

    @property
    def test_stories(self) -> int:
        return self.test_rows * len(set(self.test_k))

    @property
    def valid_stories(self) -> int:
        return self.valid_rows * len(set(self.valid_k))

    @property
    def stories(self) -> int:
        """The number of all stories."""
        return self.rows + self.test_stories + self.valid_stories

    def write(self, progress: Progress | None = None) -> list[Path]:
        """Generate and write the stories, then their description; return the files of the stories."""
        return self._write(Path(self.out), progress)

    def ensure(self, progress: Progress | None = None) -> bool:
        """Make the folder unless it is there; return whether it was made. Refuses a folder with other content."""
        folder = Path(self.out)
        if folder.is_dir() and any(folder.iterdir()):
            self._check(folder)
            return False
        # Written aside and renamed, so that the folder is always complete.
        aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        try:
            self._write(aside, progress)
            os.replace(aside, folder)
        except OSError:
            if not folder.is_dir() or not any(folder.iterdir()):
                raise
            self._check(folder)  # another process was faster
            return False
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return True

    def _write(self, folder: Path, progress: Progress | None) -> list[Path]:
        train, tests = generate(
            self.train_k, self.test_k, self.rows, self.seed, test_rows=self.test_rows, progress=progress
        )
        valid = {}
        if self.valid_k:
            known = [*train, *(story for stories in tests.values() for story in stories)]
            valid = generate_valid(self.valid_k, self.valid_rows, self.seed, unlike=known, progress=progress)
        files = write_clutrr(folder, train, tests, valid)
        description = {**self._description(), "fingerprint": fingerprint(_stories(folder))}
        write_text(folder / DESCRIPTION_FILE, json.dumps(description, indent=2) + "\n")
        return files

    def _description(self) -> dict[str, Any]:
        """All settings but the folder, as JSON values."""
        return json.loads(json.dumps({name: value for name, value in asdict(self).items() if name != "out"}))

    def _check(self, folder: Path) -> None:
        try:
            found = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise ValueError
        except (OSError, ValueError):
            raise UserError(
                f"{folder}: holds no readable {DESCRIPTION_FILE}; expected a folder of generated stories, or none. "
                "Choose another `out`, or delete the folder"
            ) from None
        for name, value in self._description().items():
            if found.get(name) != value:
                raise UserError(
                    f"{folder}: holds other stories; their {name} is {found.get(name)!r}, asked for is {value!r}. "
                    "Choose another `out`, or delete the folder"
                )
        if found.get("fingerprint") != fingerprint(_stories(folder)):
            raise UserError(f"{folder}: its files have changed since they were generated; delete the folder")


def _stories(folder: Path) -> list[Path]:
    return sorted({path for pattern in SPLIT_PATTERNS.values() for path in folder.glob(f"*{pattern}.csv")})
