"""A notebook without Jupyter: what IPython would show, kept in a list."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from edge_transformer.io import notebook, progress


@dataclass
class Cell:
    """The outputs of a cell: for each display, all pages it has shown, one after the other."""

    outputs: list[list[str]] = field(default_factory=list)


def open_notebook(patch: pytest.MonkeyPatch) -> Cell:
    """Make the library believe that it runs in a notebook."""
    cell = Cell()

    class HTML:
        def __init__(self, data: str) -> None:
            self.data = data

    class Handle:
        def __init__(self, pages: list[str]) -> None:
            self.pages = pages

        def update(self, page: HTML) -> None:
            self.pages.append(page.data)

    def display(page: HTML, display_id: bool = False) -> Handle:
        assert display_id
        cell.outputs.append([page.data])
        return Handle(cell.outputs[-1])

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    fakes: dict[str, Any] = {"HTML": HTML, "display": display}
    for name, value in fakes.items():
        setattr(module, name, value)
    package.display = module  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "IPython", package)
    patch.setitem(sys.modules, "IPython.display", module)
    patch.setattr(progress.console, "is_jupyter", True)
    patch.setattr(notebook.Screen, "INTERVAL", 0.0)
    return cell
