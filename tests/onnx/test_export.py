"""ONNX files: what ONNX Runtime answers with them is what the models answer; what cannot be exported is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from command_line import refused, run
from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.schema import Schema
from edge_transformer.nn.layer import EdgeTransformerConfig
from edge_transformer.onnx import export as export_module
from edge_transformer.onnx.engine import ScanEngine
from edge_transformer.onnx.export import METADATA, ONNX_FORMAT, TOLERANCE
from edge_transformer.ops.engine import Options
from task_rows import CASES

for name in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(name, reason=f"ONNX files need {name}: pip install '.[export]'")
import onnxruntime  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = EdgeTransformerConfig(dim=8, heads=2, layers=2)


def model_of(task: str, **settings: Any) -> Any:
    case = CASES[task]
    return et.train(task, case.rows, progress=False, **{**case.settings, "dim": 8, "epochs": 1, **settings})


def opened(path: Path) -> tuple[onnxruntime.InferenceSession, dict[str, Any]]:
    """A session, and what the file says of itself."""
    session = onnxruntime.InferenceSession(path)
    about = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
    assert about["format"] == ONNX_FORMAT
    assert list(about["inputs"]) == [port.name for port in session.get_inputs()]
    assert list(about["outputs"]) == [port.name for port in session.get_outputs()]
    return session, about


def test_an_encoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"norm": "pre", "key": "ij", "value": "left", "tied": False}
    model = et.EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=2, **options)).eval()
    [path] = et.export(model, tmp_path / "encoder.onnx")
    session, about = opened(path)
    assert about["inputs"]["edges"]["shape"] == ["batch", "n", "n", 8]
    assert (about["task"], about["model"]["norm"]) == (None, "pre")
    edges, mask = torch.randn(2, 9, 9, 8), torch.arange(9) < torch.tensor([[9], [4]])
    [found] = session.run(None, {"edges": edges.numpy(), "node_mask": mask.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), model(edges, mask).detach(), rtol=TOLERANCE, atol=TOLERANCE)
    assert model.layer(0).attention.engine == "auto"  # the model is as it was


def test_relations_by_the_command(tmp_path: Path) -> None:
    model = model_of("relations")
    model.temperature = 0.25  # as a run with validation rows fits it
    model.save(tmp_path / "model")
    result = run("export", str(tmp_path / "model"), "--onnx", str(tmp_path / "model.onnx"))
    assert result.code == 0
    assert "model.onnx: 0." in result.out
    session, about = opened(tmp_path / "model.onnx")
    relations, answers = about["inputs"]["labels"]["values"], about["outputs"]["logits"]["values"]
    labels = torch.zeros(1, 3, 3, dtype=torch.long)
    labels[0, 0, 1], labels[0, 1, 2] = relations.index("son"), relations.index("sister")
    [logits] = session.run(None, {"labels": labels.numpy(), "query": [[0, 2]]})
    question = {"edges": [["a", "son", "b"], ["b", "sister", "c"]], "query": ["a", "c"]}
    [expected] = model.predict([question])
    found = torch.from_numpy(logits).softmax(-1)[0].tolist()
    assert dict(zip(answers, found, strict=True)) == pytest.approx(expected["probabilities"], abs=TOLERANCE)


def test_graphs(tmp_path: Path) -> None:
    model = model_of("graphs")
    [path] = et.export(model, tmp_path / "graphs.onnx")
    session, about = opened(path)
    words = ["Bob", "never", "ran"]
    known = about["inputs"]["tokens"]["values"]
    tokens = torch.tensor([[known.index(word) if word in known else 0 for word in words]])
    found = dict(zip(about["outputs"], session.run(None, {"tokens": tokens.numpy()}), strict=True))
    for output, expected in zip(found.values(), model(tokens), strict=True):
        torch.testing.assert_close(torch.from_numpy(output), expected.detach(), rtol=TOLERANCE, atol=TOLERANCE)
    [parse] = model.predict([words])
    roles = about["outputs"]["labels.role"]["values"]
    assert [roles[number] for number in found["labels.role"][0].argmax(-1)] == parse["labels"]["role"]


def test_trees(tmp_path: Path) -> None:
    model = model_of("trees", characters=4)
    [path] = et.export(model, tmp_path / "trees.onnx")
    session, about = opened(path)
    spelt, known = about["inputs"]["letters"], about["inputs"]["words"]["values"]
    sentence = ["Ann", "ran", "."]
    words = [[known.index(word) if word in known else 0 for word in sentence]]
    letters = []
    for word in sentence:
        inside = [spelt["values"].index(letter) if letter in spelt["values"] else 1 for letter in word]
        numbers = [spelt["values"].index("START"), *inside, spelt["values"].index("END")]
        letters.append(numbers + [0] * (spelt["shape"][2] - len(numbers)))
    scores, labels = session.run(None, {"words": words, "letters": [letters]})
    assert scores.shape == labels.shape == (1, 3, 4)
    from edge_transformer.tasks.trees.model import spanning_trees

    heads = spanning_trees(torch.from_numpy(scores))[0].tolist()
    [parse] = model.predict([sentence])
    assert heads == parse["heads"]
    names = about["outputs"]["labels"]["values"]
    assert [names[labels[0, word, head]] for word, head in enumerate(heads)] == parse["relations"]


def test_a_decoder_step_by_step(tmp_path: Path) -> None:
    model = model_of("seq2seq", ends=True)
    paths = et.export(model, tmp_path / "translator.onnx")
    assert [path.name for path in paths] == ["translator.start.onnx", "translator.step.onnx"]
    (start, about), (step, _) = map(opened, paths)
    assert about["files"] == {"start": "translator.start.onnx", "step": "translator.step.onnx"}
    sources = torch.tensor([[2, 3], [2, 0]])
    mask = torch.tensor([[True, True], [True, False]])
    targets = torch.tensor([[2, 3, 2], [3, 2, 1]])
    expected = model.network(sources, targets, mask).detach()
    logits, *state = start.run(None, {"source": sources.numpy(), "source_mask": mask.numpy()})
    for place in range(3):
        found = torch.from_numpy(logits)
        torch.testing.assert_close(found, expected[:, place], rtol=TOLERANCE, atol=TOLERANCE)
        given = dict(zip(("node_mask", "cache", "ends"), state, strict=True))
        logits, *state = step.run(
            None, {"tokens": targets[:, place].numpy(), "sources": torch.tensor(2).numpy(), **given}
        )


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(et.UserError, match="export: found a Linear; expected one of RelationModel, GraphParser, "):
        et.export(torch.nn.Linear(2, 2), tmp_path / "model.onnx")
    with pytest.raises(et.UserError, match="export: found a decoder of 1 layer; expected 2 or more"):
        et.export(et.EdgeSeq2Seq(EdgeTransformerConfig(dim=8, heads=2, layers=1), 5), tmp_path / "model.onnx")
    with pytest.raises(et.UserError, match=r"model.pt: found a name that does not end with .onnx"):
        et.export(et.EdgeTransformer(TINY), tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "row",
    [
        {"target": 0.5},
        {"target": ["son", "heir"]},
        {"nodes": {"a": "person"}},
        {"nodes": {"a": 1}},
        {"edges": [["a", "son", "b", 1]]},
        {"absent": [["b", "son", "a"]]},
    ],
)
def test_relations_of_rows_that_cannot_be_exported(row: dict[str, Any], tmp_path: Path) -> None:
    whole = {"edges": [["a", "son", "b"]], "query": ["a", "b"], "target": "son", **row}
    schema = Schema.of([graph_from_json(whole, "x")])
    model = et.RelationModel({"kind": "edge", "dim": 8, "heads": 2, "layers": 2}, schema)
    with pytest.raises(et.UserError, match="export: found a model of several labels or numbers as answers, labels or"):
        et.export(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("causal_from", Options(causal_from=1)),
        ("edge_mask", Options(edge_mask=torch.ones(1, 2, 2, dtype=torch.bool))),
        ("bias", Options(bias=torch.zeros(1, 1, 2, 2))),
        ("dropout", Options(dropout_p=0.1)),
    ],
)
def test_options_that_cannot_be_exported(name: str, options: Options) -> None:
    q = torch.zeros(1, 2, 2, 1, 3)
    with pytest.raises(ValueError, match=f"{name} cannot be exported to ONNX"):
        ScanEngine().attend(q, q, q, q, options)


def test_a_missing_package_and_a_bad_place_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.onnx").mkdir()
    message = refused("export", "clutrr-small", "--onnx", str(tmp_path / "folder.onnx"))
    assert "found a folder at" in message
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    message = refused("export", "clutrr-small", "--onnx", str(tmp_path / "model.onnx"))
    assert "pip install '.[export]' in a clone" in message


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "model.onnx"
    old.write_text("old", encoding="utf-8")

    def fail(*given: Any) -> None:
        raise et.UserError("export: states of model.onnx differs from what PyTorch computes; the file was not kept")

    monkeypatch.setattr(export_module, "_write", fail)
    with pytest.raises(et.UserError, match="differs"):
        et.export(et.EdgeTransformer(TINY), old)
    assert old.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
