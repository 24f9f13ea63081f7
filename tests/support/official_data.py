"""The benchmarks' own files, which some tests use where they are there, and say that they need where they are not."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
PLACES = (PROJECT / "data", PROJECT.parent / "shared/data")  # where README puts them; beside the project


def benchmark(name: str) -> Path:
    """Where a benchmark's files are, such as "cfq/mcd1"; a path without files where they are in no place."""
    paths = [place / name for place in PLACES]
    return next((path for path in paths if path.exists()), paths[0])
