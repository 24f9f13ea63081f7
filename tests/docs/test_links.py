"""Links between pages and to files, names of presets and files in the text, and the shape of the README."""

from __future__ import annotations

import re

import pytest

from documents import NAMES, ROOT, text_of
from edge_transformer.training.presets import preset_names

# Not those of folders that git ignores, such as .venv and build.
PLACES = ("*.md", ".github/**/*.md", "docs/**/*.md", "examples/**/*.md", "research/*.md", "results/*.md", "src/**/*.md")
ALL = sorted({path.relative_to(ROOT).as_posix() for place in PLACES for path in ROOT.glob(place)})


def anchors(name: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text_of(name), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", ALL)
def test_links(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(name)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.relative_to(ROOT).as_posix()), link


@pytest.mark.parametrize("name", NAMES)
def test_the_named_files_and_presets_exist(name: str) -> None:
    text = text_of(name)
    for path in re.findall(r"`((?:experiments|benchmarks|docs|examples|tests)/[\w./-]+\.\w+)`", text):
        assert (ROOT / path).exists() or "NAME" in path, path
    folders = {preset.split("/")[0] for preset in preset_names()}
    for preset in re.findall(rf"`((?:{'|'.join(folders)})/[a-z-]+)`", text):
        assert preset in preset_names(), preset


def test_every_page_is_in_the_index() -> None:
    index = text_of("docs/index.md")
    for name in NAMES:
        if name.startswith("docs/") and name != "docs/index.md":
            assert f"]({name.removeprefix('docs/')})" in index, name
            assert f"({name})" in text_of("README.md"), name


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= 130
    snippet = re.findall(r"```python\n(.*?)```", text_of("README.md"), flags=re.DOTALL)[1]
    assert len(snippet.splitlines()) <= 12  # from rows to a trained, scored, saved model


def test_every_entry_of_the_log_has_a_date_and_a_verdict() -> None:
    entries = text_of("research/log.md").split("\n## ")[1:]
    dates = [entry[:10] for entry in entries]
    assert dates == sorted(dates, reverse=True)
    for entry in entries:
        assert re.match(r"\d{4}-\d\d-\d\d \S", entry), entry[:60]
        assert "\nVerdict: " in entry, entry[:60]
