"""The site of the documents is built without a warning, has a page of everything, and asks no other host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from inspect import ismodule
from pathlib import Path

import pytest

import edge_transformer as et
from documents import ROOT
from edge_transformer import nn

for needed in ("mkdocs", "material", "mkdocstrings_handlers.python"):
    pytest.importorskip(needed, reason="the extra [docs] is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    given = {**os.environ, "SITE_DIR": str(folder), "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """The addresses that a browser loads by itself: not those of links."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name == "src" or (tag == "link" and name == "href")]


def test_every_file_has_a_page(site: Path) -> None:
    pages = {path.relative_to(site).parent.as_posix() for path in site.rglob("index.html")}
    docs = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    examples = {f"examples/{path.stem}" for path in (ROOT / "examples").glob("*.py")}
    results = {path.with_suffix("").as_posix() for path in (ROOT / "results").glob("*.md")}
    results = {Path(path).relative_to(ROOT).as_posix() for path in results}
    assert pages >= docs | examples | results | {"results", "changelog", "reference", "reference/nn"}
    loop = (site / "examples/training_loop/index.html").read_text(encoding="utf-8")
    assert "Your own model and training loop around" in loop


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference/index.html").read_text(encoding="utf-8")
    modules = (site / "reference/nn/index.html").read_text(encoding="utf-8")
    for name in et.__all__:
        assert re.search(rf'id="edge_transformer[\w.]*\.{name}"', text), name
    for name in [name for name in nn.__all__ if name not in et.__all__ and not ismodule(getattr(nn, name))]:
        assert re.search(rf'id="edge_transformer[\w.]*\.{name}"', modules), name
    for name in ("QueryEdgeHead", "LabelledGraphInput"):
        assert re.search(rf'id="edge_transformer[\w.]*\.{name}"', modules), name
    for name in ("ff_factor", "learning_rate"):  # fields of a configuration, and of what callbacks get
        assert f"<code>{name}</code>" in text


def test_no_other_host_is_asked(site: Path) -> None:
    for path in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(path.read_text(encoding="utf-8"))
        assert not [address for address in loaded.addresses if re.match(r"(https?:)?//", address)], path
