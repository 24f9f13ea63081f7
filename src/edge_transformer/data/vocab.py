"""A vocabulary: names and their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Vocab:
    """An immutable list of distinct names, numbered from 0 in the order given."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) != len(self._names):
            raise ValueError("a vocabulary holds each name once")

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocab:
        """The distinct names in alphabetical order, so that the order of rows does not matter."""
        return cls(sorted(set(names)))

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int | None:
        """The number of a name; None where it is not known."""
        return self._numbers.get(name)

    def name(self, number: int) -> str:
        """The name with this number."""
        return self._names[number]
