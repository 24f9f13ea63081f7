"""The examples run, and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from edge_transformer.tasks import base

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SAID = {  # of what each prints
    "graph_classification_pyg": "with an Edge Transformer: accuracy 1.00",
    "missing_links": "the fifth above B#: G",
    "new_task": "[{'answer': 'cycle'}]",
    "parse_relative_clauses": "2 new sentences a row: exact match 1.00",
    "parse_sentences": "like . ccomp ( x _ 2 , x _ 6 )",
    "train_relations": "As seen from Ann, Eve is turned to the left",
    "training_loop": "12 nodes: accuracy ",
    "translate_pairs": "jump left twice -> LEFT JUMP LEFT JUMP",
}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    if path.stem.endswith("_pyg"):
        pytest.importorskip("torch_geometric", reason="needs the extra graph")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(base, "_TASKS", dict(base._TASKS))  # what an example registers is gone after it
    runpy.run_path(str(path), run_name="__main__")
    assert SAID[path.stem] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []  # nothing is left behind
