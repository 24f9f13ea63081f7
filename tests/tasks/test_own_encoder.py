"""A model with an encoder outside of the package: trained, saved, and loaded in another process, if that is allowed."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edge_transformer as et
from edge_transformer.nn import encoder as registry
from edge_transformer.training.config import RunConfig

MODULE = """
from dataclasses import dataclass
from pathlib import Path

from edge_transformer import Encoded
from edge_transformer.nn.encoder import Encoder
from torch import nn

with open(Path(__file__).with_suffix(".log"), "a") as log:
    log.write("imported\\n")


class Plain(Encoder):
    @dataclass(frozen=True)
    class Config:
        dim: int
        layers: int = 1
        heads: int = 1
        dropout: float = 0.0
        min_layers: int | None = None
        slope: float = 0.5

    def __init__(self, config):
        super().__init__(config)
        self.linear = nn.Linear(config.dim, config.dim)

    def encode(self, edges, node_mask=None, edge_mask=None):
        edges = nn.functional.leaky_relu(self.linear(edges), self.config.slope)
        return Encoded(edges.diagonal(dim1=1, dim2=2).transpose(1, 2), edges)

    def read(self, edges, pairs, node_mask=None, edge_mask=None):
        states = self.encode(edges).edges.flatten(1, 2)
        number = pairs[..., 0] * edges.shape[1] + pairs[..., 1]
        return states.gather(1, number[..., None].expand(-1, -1, states.shape[-1]))
"""
KIND = "outside.plain:Plain"
ROW = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"], "target": "daughter"}
PRESET = f"task: relations\nmodel: {{kind: {KIND}, dim: 8}}\ntrain: {{epochs: 1, batch_size: 4, lr: 0.001}}\n"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_KINDS", copy.deepcopy(registry._KINDS))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package `outside`."""
    folder = tmp_path / "code" / "outside"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "plain.py").write_text(MODULE, encoding="utf-8")
    return folder.parent


def run(code: str, *paths: Path, args: tuple[str, ...] = ("-c",), text: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (*paths, Path(et.__file__).parents[1])))
    command = [sys.executable, *args, *([code] if code else [])]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, input=text, check=False)


@pytest.fixture
def saved(package: Path, tmp_path: Path) -> Path:
    """A model that another process has trained with the encoder."""
    (tmp_path / "mine.yaml").write_text(PRESET, encoding="utf-8")
    code = f"""
import edge_transformer as et
rows, preset = {{"train": [{ROW}] * 4, "test": [{ROW}]}}, {str(tmp_path / "mine.yaml")!r}
model = et.train("relations", rows, preset=preset, slope=0.25, threads=1, progress=False)
assert type(model.encoder).__name__ == "Plain" and model.encoder.config.slope == 0.25
model.save({str(tmp_path / "model")!r})
et.load({str(tmp_path / "model")!r})  # in this process the user has named it
print(model.predict([{ROW}])[0]["answer"])
"""
    done = run(code, package)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "daughter\n"
    return tmp_path / "model"


def imports(package: Path) -> int:
    log = package / "outside" / "plain.log"
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0


def test_trained_and_loaded_elsewhere(saved: Path, package: Path) -> None:
    assert imports(package) == 1
    assert json.loads((saved / "config.json").read_text(encoding="utf-8"))["model"]["kind"] == KIND
    load = "import edge_transformer as et; model = et.load({path!r}{more}); print(type(model.encoder).__name__)"
    refused = run(load.format(path=str(saved), more=""), package)
    assert refused.returncode == 1
    expected = f"config.json: model.kind: found '{KIND}', code outside of this library, which is imported only if you"
    assert expected in refused.stderr
    assert f'trust=("{KIND}",)' in refused.stderr
    assert imports(package) == 1
    allowed = run(load.format(path=str(saved), more=f", trust=({KIND!r},)"), package)
    assert (allowed.stdout, imports(package)) == ("Plain\n", 2), allowed.stderr
    typed = f"import edge_transformer as et; et.RelationModel.load({str(saved)!r}, trust={KIND!r})"
    assert run(typed, package).returncode == 0
    register = f"""
import edge_transformer as et
from outside.plain import Plain
et.register_encoder("other name", Plain.Config, Plain)
print(type(et.load({str(saved)!r}).encoder).__name__)
"""
    assert run(register, package).stdout == "Plain\n"
    missing = run(load.format(path=str(saved), more=f", trust=({KIND!r},)"))
    assert missing.returncode == 1
    assert (
        f"config.json: model.kind: found '{KIND}', but outside.plain cannot be imported (No module named"
        in missing.stderr
    )


def test_commands(saved: Path, package: Path) -> None:
    command = ("-m", "edge_transformer", "predict", str(saved))
    question = json.dumps({name: ROW[name] for name in ("edges", "query")})
    refused = run("", package, args=command, text=question)
    assert refused.returncode == 2
    assert f"--trust {KIND}" in refused.stderr
    allowed = run("", package, args=(*command, "--trust", KIND), text=question)
    assert allowed.returncode == 0, allowed.stderr
    assert json.loads(allowed.stdout)["answer"] == "daughter"


def test_a_file_that_names_other_code(saved: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description: dict[str, Any] = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    called: list[object] = []
    monkeypatch.setattr(os, "system", lambda *given: called.append(given))
    for kind in (
        "os:system",
        "outside.plain:Plain",
        "antigravity:geohash",
        "../outside:x",
        ".encoder:EdgeTransformer",
        3,
    ):
        description["model"]["kind"] = kind
        (saved / "config.json").write_text(json.dumps(description), encoding="utf-8")
        for trust in ((), ("outside.other:Plain",)):
            with pytest.raises(et.UserError, match=r"config.json: model.kind: found ") as error:
                et.load(saved, trust=trust)
            assert str(kind) in str(error.value)
    assert not called
    assert "antigravity" not in sys.modules
    with pytest.raises(et.UserError, match=r"^trust: found 'os'; expected a class as package.module:Class"):
        et.load(saved, trust="os")
    description["model"]["kind"] = "os:system"
    (saved / "config.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(et.UserError, match="expected a subclass of Encoder"):
        et.load(saved, trust="os:system")
    assert not called


def test_presets_name_it(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(package)
    preset = tmp_path / "mine.yaml"
    preset.write_text(PRESET, encoding="utf-8")
    run = RunConfig.from_preset("relations", str(preset), {"model.slope": 0.1}, 1)
    assert run.settings["model"]["kind"] == KIND
    assert run.settings["model"]["slope"] == 0.1
    with pytest.raises(
        et.UserError, match=r"^model.kind: found 'outside.none:Plain', but outside.none cannot be imported"
    ):
        RunConfig.from_preset("relations", str(preset), {"model.kind": "outside.none:Plain"}, 1)
