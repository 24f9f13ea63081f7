"""Settings of links fitted to the graph: told, open to changes, and good enough for a graph that is learned easily."""

from __future__ import annotations

from typing import Any

import pytest

import edge_transformer as et
from edge_transformer.tasks.base import DataFacts
from edge_transformer.training.config import RunConfig
from edge_transformer.training.fit import fitted_settings, reasons

pytestmark = pytest.mark.usefixtures("one_thread")


def facts(**changes: Any) -> DataFacts:
    values = {"rows": 5216, "valid_rows": 652, "mean_size": 135.0, "longest": 1, "labels": 46, "classes": 135}
    return DataFacts(**{**values, **changes})


def run_of(data: DataFacts, **given: Any) -> RunConfig:
    return RunConfig.of("links", "fitted", fitted_settings("links", data, given), given, 1)


def test_few_facts_get_as_many_steps_as_many_facts() -> None:
    for rows in (12, 128, 1000, 9000):
        train = run_of(facts(rows=rows)).train
        assert 1000 <= train.epochs * rows / train.batch_size <= 1400
        assert train.batch_size * 10 <= max(rows, 10 * train.batch_size)


def test_graphs_with_more_facts_than_pairs_get_many_networks_and_embeddings() -> None:
    nations, umls = (run_of(each).settings["model"] for each in (facts(rows=1592, mean_size=14.0), facts()))
    assert (nations["members"], nations["entities"], nations["layers"]) == (8, True, 1)
    assert (umls["members"], umls["entities"], umls["layers"]) == (1, False, 3)


def test_large_graphs_are_trained_on_neighbourhoods() -> None:
    assert run_of(facts()).settings["model"]["nodes"] == 0
    large = facts(mean_size=2746.0)
    assert 0 < run_of(large).settings["model"]["nodes"] < 500
    # Ranks among all nodes of a large graph would take thousands of passes a question.
    assert [run_of(each).settings["data"]["negatives"] for each in (facts(mean_size=800.0), large)] == [0, 50]
    assert run_of(large, **{"model.whole": 5000}).settings["data"]["negatives"] == 0
    assert reasons(run_of(large), large)[2].endswith("ranked among 50 sampled ones (--set data.negatives=0: all)")


def test_choices_are_told_with_how_to_change_them() -> None:
    data, model, training = reasons(run_of(facts()), facts())
    assert data == "data: 5,216 facts of 135 nodes and 46 relations; 652 validation facts"
    assert "the whole graph at once, dim 32, 3 layers for fewer facts than pairs of nodes, no names" in model
    assert "up to 1,066 steps of 64 facts, at most 10 minutes (--minutes)" in training
    assert "the best weights on validation facts" in training
    few = facts(rows=1592, mean_size=14.0, valid_rows=0)
    told = reasons(run_of(few, **{"model.layers": 2}), few)
    assert told[0].endswith("no validation facts")
    assert "2 layers, embeddings of its nodes, the mean of 8 networks" in told[1]
    assert told[2].endswith("it keeps the last weights")
    large = reasons(run_of(facts(mean_size=2746.0)), facts(mean_size=2746.0))
    assert "neighbourhoods of 160 nodes for more than 500 nodes" in large[1]


def test_a_ring_of_days_is_learned_at_the_first_try(capsys: pytest.CaptureFixture[str]) -> None:
    steps = {"next": 1, "before": -1, "later": 2}
    days = [[f"day {n}", name, f"day {(n + step) % 12}"] for n in range(12) for name, step in steps.items()]
    model = et.train("links", {"train": days[:30], "test": days[30:]}, minutes=0.5, threads=1)
    assert model.record is not None
    assert model.record.preset == "fitted"
    assert model.record.metrics["MRR"] > 0.7
    shown = capsys.readouterr()
    assert "data: " in shown.out + shown.err
