"""Streamed rows: the same rows as in memory, each once an epoch, in an order that seed and epoch determine."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.relations import folder, stream
from edge_transformer.data.relations.schema import Schema
from edge_transformer.errors import DataError
from edge_transformer.tasks.relations.data import RelationData, RelationSettings
from relation_cases import CPU, MODEL

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    chance = random.Random(1)
    for name, count in (("01-train", 70), ("02-train", 50), ("test", 5)):
        with open(tmp_path / f"{name}.jsonl", "w") as file:
            for _ in range(count):
                size = chance.randint(3, 5)
                edges = [[node, chance.choice(["son", "wife", "owns"]), node + 1] for node in range(size - 1)]
                file.write(json.dumps({"edges": edges, "query": [0, size - 1], "target": edges[0][1]}) + "\n")
    monkeypatch.setattr(stream, "BLOCK_ROWS", 16)
    monkeypatch.setattr(stream, "WINDOW_BLOCKS", 2)
    return tmp_path


def load(path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, valid_share: float = 0.0) -> RelationData:
    monkeypatch.setattr(folder, "STREAM_ROWS", limit)
    return RelationData.load(path, RelationSettings(valid_share=valid_share), 1)


def test_streamed_rows_are_those_in_memory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streamed, whole = load(data, monkeypatch, 100), load(data, monkeypatch, 1000)
    assert streamed._streamed is not None
    assert whole._streamed is None
    assert streamed.train_rows == whole.train_rows == 120
    assert streamed.schema.to_json() == whole.schema.to_json()
    assert streamed.identity() == whole.identity()
    torch.manual_seed(1)
    model = whole.new_model(MODEL)
    for epoch in range(2):
        batches = streamed.shuffled(25, 3, epoch)
        assert sorted(torch.cat(batches).tolist()) == list(range(120))
        for rows in batches:
            mine = sum(float(streamed.loss(model, batch, CPU)) for batch in streamed.batches(rows))
            theirs = sum(float(whole.loss(model, batch, CPU)) for batch in whole.batches(rows))
            assert mine == pytest.approx(theirs, rel=1e-5)
            assert len(streamed._windows) <= 2
    first, again, other = (torch.cat(streamed.shuffled(25, 3, epoch)) for epoch in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)


def test_held_out_graphs_stay_together(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streamed = load(data, monkeypatch, 100, valid_share=0.3)
    assert streamed._streamed is not None
    valid = streamed._splits["valid"]
    assert 0 < len(valid) < 100
    assert len(valid) + streamed.train_rows == 120
    trained = {story.graph for block in range(8) for story in streamed._streamed.stories(block)}
    assert not trained & {story.graph for story in valid}


def test_a_run_on_streamed_rows_resumes_with_the_same_weights(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "STREAM_ROWS", 100)
    settings = {"dim": 16, "heads": 2, "layers": 2, "min_layers": None, "epochs": 2, "progress": False}

    def stop(step: object) -> None:
        if getattr(step, "step", 0) == 9:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        et.train("relations", data, out=tmp_path / "stopped", callback=stop, **settings)
    resumed = et.train("relations", data, out=tmp_path / "stopped", **settings)
    whole = et.train("relations", data, **settings)
    for mine, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert mine.equal(theirs)


def test_a_broken_row_is_named_by_its_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (data / "02-train.jsonl").read_text().splitlines()
    lines[40] = '{"edges": 3}'
    (data / "02-train.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r'02-train\.jsonl:41: found 3; expected "edges"'):
        load(data, monkeypatch, 100)


def test_settings_that_need_all_rows_are_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "STREAM_ROWS", 100)
    with pytest.raises(et.UserError, match=r"data\.augmented: found 120 training rows, which are streamed"):
        RelationData.load(data, RelationSettings(augmented=1.0), 1)


def test_a_schema_of_many_rows_needs_no_list() -> None:
    assert len(Schema.of(iter(())).relations) == 0
