"""The plan of the house: which room may import from which, and how large rooms and modules may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import edge_transformer

PACKAGE = Path(edge_transformer.__file__).parent
# A room imports only from rooms before it, and from itself. Imports inside functions count too.
ROOMS = (
    *(
        "errors",
        "io",
        "draw",
        "ops",
        "nn",
        "data",
        "tasks",
        "onnx",
        "training",
        "report",
        "explain",
        "splits",
        "bench",
        "serve",
    ),
    *("api", "cli", "__main__", "__init__"),
)
ROOT = {"__init__.py", "__main__.py", "api.py", "errors.py", "py.typed"}
MOST_MODULES, MOST_LINES = 20, 500
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """The rooms that a module imports from, with the lines where it does."""
    folder = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder[: len(folder) - node.level + 1]
            parts = (*base, *(node.module or "").split(".")) if node.module else base
            names = [parts[0]] if parts else [alias.name for alias in node.names]
            yield from ((node.lineno, name) for name in names if (PACKAGE / name).exists() or f"{name}.py" in ROOT)
        elif isinstance(node, ast.Import) and any(alias.name == PACKAGE.name for alias in node.names):
            yield node.lineno, "api"  # `import edge_transformer as et`: the public names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_before_it(path: Path) -> None:
    own = ROOMS.index(room_of(path))
    for line, room in imported_rooms(path):
        assert ROOMS.index(room) <= own, f"{path}:{line} imports from {room}"


def test_the_root_has_nothing_else() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == ROOT
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"} == set(ROOMS) - {
        name.removesuffix(".py") for name in ROOT
    }


def test_no_room_is_crowded_and_no_module_long() -> None:
    for folder in {path.parent for path in MODULES}:
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES, folder
    for path in MODULES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path


def test_tests_are_in_the_same_rooms() -> None:
    tests = Path(__file__).parent
    others = {"contracts", "docs", "examples", "release", "support"}
    assert {path.name for path in tests.iterdir() if path.is_dir()} - {"__pycache__"} <= {*ROOMS, *others}
