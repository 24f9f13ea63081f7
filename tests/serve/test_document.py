"""Saved files: one script from the modules of the page, with its hash in the policy, and data that cannot break out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import refused, run
from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.errors import UserError
from edge_transformer.serve.document import FOLDER, MOST_ITEMS, _question, page, script_of, write

MODULES = sorted(path.name for path in FOLDER.glob("*.js"))


def test_the_script_and_the_style_are_those_of_the_policy() -> None:
    text = page({"kind": "sentences", "items": ["</script><script>alert(1)</script><!--"]})
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    scripts = re.findall(r"<script type=\"([\w/]+)\"[^>]*>(.*?)</script>", text, flags=re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    assert [kind for kind, _ in scripts] == ["application/json", "module"]
    for part, name in ((scripts[1][1], "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert json.loads(scripts[0][1])["items"] == ["</script><script>alert(1)</script><!--"]
    assert "default-src 'none'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"nodes": ["c", "a"]},
        {"nodes": {"a": {"labels": ["x", "y"], "features": [1, 2]}, "b": "x", "c": None}},
        {"edges": [["a", ["r", "s"], "b", 0.5], ["b", "r", "a"]], "absent": [["a", "t", "b"]]},
    ],
)
def test_a_saved_question_tells_all_that_its_row_told(more: dict[str, Any]) -> None:
    story = graph_from_json({"edges": [["a", "r", "b"]], "query": ["b", "a"], **more}, "x")
    assert graph_from_json(_question(story), "x") == story


@pytest.mark.parametrize("first", ["saved.js", "main.js"])
def test_names_at_the_top_of_modules_differ(first: str) -> None:
    script = script_of(first)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, flags=re.MULTILINE)
    names += [
        each.strip()
        for group in re.findall(r"^(?:const|let) \[([^\]]+)\]", script, flags=re.M)
        for each in group.split(",")
    ]
    assert len(names) > 30
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    assert not re.search(r"^(import|export) ", script.replace("import * as address", ""), flags=re.MULTILINE)


def test_every_module_is_loaded_early_and_has_no_other_host() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    for name in MODULES:
        text = (FOLDER / name).read_text(encoding="utf-8")
        for other in re.findall(r'from "\./([\w.]+)"', text):
            assert other in MODULES, name
        assert "innerHTML" not in text, name
        if name not in ("saved.js", "docs.js"):
            assert f'"page/{name}"' in index, name
    for path in FOLDER.iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", path.read_text(encoding="utf-8")), path
        assert not re.search(r"\sstyle=|\son\w+=\"", path.read_text(encoding="utf-8") if path.suffix == ".html" else "")


def test_names_and_numbers_of_saved_files(tmp_path: Path) -> None:
    assert "ends in .html" in refused("parse", "A cat ran .", "--html", f"{tmp_path}/a.svg")
    with pytest.raises(UserError, match=f"expected 1 to {MOST_ITEMS}"):
        write(tmp_path / "a.html", "sentences", [{}] * (MOST_ITEMS + 1), {})
    result = run("parse", "A cat ran .", "--html", f"{tmp_path}/a.html")
    assert (result.code, result.err) == (0, f"written: {tmp_path}/a.html\n")
    assert '"logical_form":"cat ( x _ 1 ) AND run . agent' in (tmp_path / "a.html").read_text(encoding="utf-8")
    many = "A cat ran .\n" * (MOST_ITEMS + 1)
    assert f"found {MOST_ITEMS + 1} lines" in refused("parse", "--html", f"{tmp_path}/b.html", stdin=many)
    assert not (tmp_path / "b.html").exists()
