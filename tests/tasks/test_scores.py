"""Scores agree with scikit-learn, stay in their ranges, and refuse what cannot be scored."""

from __future__ import annotations

import copy
import json
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor

from edge_transformer.errors import UserError
from edge_transformer.tasks.scores import UNKNOWN, Scores, label_scores, number_scores, several_scores, wilson

pytestmark = pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")  # by scikit-learn
seeds = st.integers(0, 2**32 - 1)


def names_of(labels: int) -> list[str]:
    return [f"label {number}" for number in range(labels)]


def random_labels(seed: int, rows: int, labels: int, lowest: int = -1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, labels, generator=random), torch.randint(lowest, labels, (rows,), generator=random)


def logits_for(answers: list[int], labels: int) -> Tensor:
    return 5 * torch.nn.functional.one_hot(torch.tensor(answers), labels).float()


def is_plain(value: Any) -> bool:
    """Whether JSON gives a value back as it is: no numpy types, no tuples, nothing infinite."""
    return bool(json.loads(json.dumps(value, allow_nan=False)) == value)


def test_scores_are_a_dict_with_details() -> None:
    scores = Scores({"b": 0.5, "a": 1.0}, {"kind": "one"})
    assert scores == {"a": 1.0, "b": 0.5}
    assert list(scores) == ["b", "a"]
    assert json.dumps(scores) == '{"b": 0.5, "a": 1.0}'
    assert Scores().details == {}
    assert Scores().details is not Scores().details
    assert copy.deepcopy(scores).details == {"kind": "one"}


def test_scores_are_a_table_in_notebooks() -> None:
    page = Scores({"<b>": 0.5}, {"kind": "one"})._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "50.0 %" in page
    assert ">12.35<" in Scores({"MAE": 12.3456}, {"kind": "number"})._repr_html_()
    assert "<table>" in Scores()._repr_html_()


def test_tables_in_notebooks_show_interval_and_baseline() -> None:
    logits, targets = torch.eye(2)[[0, 1, 0, 0]], torch.tensor([0, 1, 0, 1])
    scores = label_scores(logits, targets, ["x", "y"], ["k=2", "k=2", "k=3", "k=3"], majority=0)
    rows = [
        "accuracy",
        "75.0 %",
        "95 % interval",
        "30.1 to 95.4 %",
        "always the most frequent training answer",
        "50.0 %",
    ]
    for found in (scores, Scores(scores, {"test": scores.details, "valid": {"kind": "one"}})):
        page = ElementTree.fromstring(found._repr_html_())
        assert [cell.text for row in page.iter("tr") for cell in row] == [*rows, "k=2", "100.0 %", "k=3", "50.0 %"]
    numbers = number_scores(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), mean_of_training=2.0)._repr_html_()
    assert "MAE of always answering 2, the training mean" in numbers
    several = several_scores(torch.tensor([[1.0]]), torch.tensor([[1]]), ["x"], majority=torch.tensor([1]))
    names = [row[0].text for row in ElementTree.fromstring(several._repr_html_()).iter("tr")]
    judged = names.index("exact match")  # of which they are; the main score is F1
    assert names[judged + 1 : judged + 3] == ["95 % interval", "always the most frequent training answers"]


@settings(deadline=None)
@given(seeds, st.integers(1, 60), st.integers(1, 6))
def test_labels_agree_with_scikit_learn(seed: int, rows: int, labels: int) -> None:
    logits, targets = random_labels(seed, rows, labels)
    names = names_of(labels)
    scores = label_scores(logits, targets, names)
    gold, answers = targets.numpy(), logits.argmax(-1).numpy()
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(gold, answers))
    details = scores.details
    assert is_plain(details)
    occurring = sorted(set(gold) | set(answers), key=lambda label: label % (labels + 1))  # -1 last
    shown = [names[label] if label >= 0 else UNKNOWN for label in occurring]
    assert list(details["classes"]) == details["confusion"]["labels"] == shown
    assert details["confusion"]["counts"] == metrics.confusion_matrix(gold, answers, labels=occurring).tolist()
    expected = metrics.precision_recall_fscore_support(gold, answers, labels=occurring, zero_division=0)
    for key, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [each[key] for each in details["classes"].values()] == pytest.approx(column.tolist())
    assert [each["predicted"] for each in details["classes"].values()] == [
        (answers == each).sum() for each in occurring
    ]
    assert details["macro_f1"] == pytest.approx(metrics.f1_score(gold, answers, average="macro", zero_division=0))
    low, high = details["interval"]
    assert 0 <= low <= scores["accuracy"] <= high <= 1
    assert 0 <= details["calibration"]["ece"] <= 1


def test_groups_come_in_order_with_intervals() -> None:
    logits = logits_for([0, 1, 1, 0, 1], 2)
    scores = label_scores(logits, torch.tensor([0, 1, 0, 1, 1]), ["no", "yes"], ["k=9", "k=9", "k=10", "k=10", ""])
    assert list(scores.items()) == [("accuracy", 0.6), ("k=9", 1.0), ("k=10", 0.0)]
    assert scores.details["groups"]["k=9"] == {"rows": 2, "accuracy": 1.0, "interval": wilson(2, 2)}
    assert label_scores(logits, torch.tensor([0] * 5), ["no", "yes"], [""] * 5).details["groups"] == {}
    assert label_scores(logits, torch.tensor([0] * 5), ["no", "yes"]).details["groups"] == {}


def test_an_unknown_target_is_wrong_and_a_class_of_its_own() -> None:
    scores = label_scores(logits_for([0, 0, 1], 3), torch.tensor([0, -1, -1]), ["a", UNKNOWN, "c"], majority=0)
    assert scores["accuracy"] == scores.details["majority"] == pytest.approx(1 / 3)
    unknown = f"({UNKNOWN})"  # a label has the usual name
    assert scores.details["confusion"] == {
        "labels": ["a", UNKNOWN, unknown],
        "counts": [[1, 0, 0], [0, 0, 0], [1, 1, 0]],
    }
    assert scores.details["classes"][unknown] == {"precision": 0, "recall": 0, "f1": 0, "support": 2, "predicted": 0}
    assert label_scores(logits_for([0], 1), torch.tensor([-1]), ["a"]) == {"accuracy": 0.0}


def test_one_row_of_one_class() -> None:
    scores = label_scores(torch.zeros(1, 1), torch.tensor([0]), ["a"], ["n=5"], 0)
    assert scores == {"accuracy": 1.0, "n=5": 1.0}
    assert scores.details["macro_f1"] == scores.details["majority"] == 1
    assert scores.details["calibration"]["ece"] == 0


def test_the_majority_may_be_missing() -> None:
    assert label_scores(torch.zeros(1, 2), torch.tensor([1]), ["a", "b"]).details["majority"] is None
    assert label_scores(torch.zeros(1, 2), torch.tensor([1]), ["a", "b"], majority=1).details["majority"] == 1


def test_labels_that_are_no_choice_and_low_precision() -> None:
    logits = torch.tensor(
        [[-math.inf, 0.0, 1.0], [-math.inf, 2.0, -math.inf]], dtype=torch.bfloat16, requires_grad=True
    )
    assert label_scores(logits, torch.tensor([2, 0]), names_of(3)) == {"accuracy": 0.5}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused_with_their_row(value: float) -> None:
    logits = torch.zeros(9, 20)
    logits[7, 13] = value
    with pytest.raises(ValueError, match=rf"row 7 \(from 0\) has {value}"):
        label_scores(logits, torch.zeros(9, dtype=torch.long), names_of(20))
    with pytest.raises(ValueError, match=rf"row 7 \(from 0\) has {value}"):
        several_scores(logits, torch.zeros(9, 20, dtype=torch.bool), names_of(20))
    with pytest.raises(ValueError, match=rf"values: row 7 \(from 0\) has {value}"):
        number_scores(logits[:, 13], torch.zeros(9))
    with pytest.raises(ValueError, match=rf"targets: row 7 \(from 0\) has {value}"):
        number_scores(torch.zeros(9), logits[:, 13])
    with pytest.raises(ValueError, match=r"row 0 \(from 0\) has -inf"):
        label_scores(torch.full((1, 2), -math.inf), torch.tensor([0]), names_of(2))


def test_what_does_not_fit_is_refused() -> None:
    logits, targets, names = torch.zeros(2, 3), torch.tensor([0, 1]), names_of(3)
    with pytest.raises(ValueError, match=r"targets: row 1 \(from 0\) has 3; expected numbers from -1 to 2"):
        label_scores(logits, torch.tensor([0, 3]), names)
    with pytest.raises(ValueError, match="expected integers"):
        label_scores(logits, targets.float(), names)
    with pytest.raises(ValueError, match="expected integers of the shape"):
        label_scores(logits, targets[:1], names)
    with pytest.raises(ValueError, match="names: found 3, 2 of them different"):
        label_scores(logits, targets, ["a", "a", "b"])
    with pytest.raises(ValueError, match="groups: found 1; expected one for each of 2 rows"):
        label_scores(logits, targets, names, ["k=2"])
    with pytest.raises(ValueError, match="majority: found 3"):
        label_scores(logits, targets, names, majority=3)
    with pytest.raises(UserError, match="a group of test rows with the name 'accuracy'"):
        label_scores(logits, targets, names, ["accuracy", "k=2"])
    with pytest.raises(ValueError, match="no rows"):
        label_scores(logits[:0], targets[:0], names)
    with pytest.raises(ValueError, match="one label at least"):
        label_scores(logits[:, :0], targets, [])
    with pytest.raises(ValueError, match="0 and 1 only"):
        several_scores(logits, logits + 2, names)
    with pytest.raises(ValueError, match="threshold"):
        several_scores(logits, logits, names, threshold=1.0)
    with pytest.raises(ValueError, match="majority: found the shape"):
        several_scores(logits, logits, names, majority=torch.zeros(2))
    with pytest.raises(ValueError, match="unknown: row 1"):
        several_scores(logits, logits, names, unknown=torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="no rows"):
        number_scores(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match="found 2 and 1 rows"):
        number_scores(torch.zeros(2), torch.zeros(1))
    with pytest.raises(ValueError, match=r"values: found the shape \[2, 3\]"):
        number_scores(logits, torch.zeros(2))


@settings(deadline=None)
@given(seeds, st.integers(1, 40), st.integers(1, 6), st.floats(0.1, 0.9))
def test_several_labels_agree_with_scikit_learn(seed: int, rows: int, labels: int, threshold: float) -> None:
    random = torch.Generator().manual_seed(seed)
    logits, targets = torch.randn(rows, labels, generator=random), torch.rand(rows, labels, generator=random) < 0.3
    scores = several_scores(logits, targets, names_of(labels), majority=targets[0], threshold=threshold)
    gold, answers = targets.numpy(), (logits.double().sigmoid() >= threshold).numpy()
    details = scores.details
    assert is_plain(details)
    assert scores["exact match"] == pytest.approx(metrics.accuracy_score(gold, answers))
    assert details["majority"] == pytest.approx(metrics.accuracy_score(gold, gold[:1].repeat(rows, 0)))
    if not (gold | answers).any():
        assert list(scores) == ["exact match"]
        assert scores["exact match"] == 1
        return
    assert list(scores) == ["exact match", "micro F1", "macro F1"]
    for average in ("micro", "macro"):  # labels that never occur do not count
        expected = metrics.f1_score(gold, answers, average=average, zero_division=np.nan, labels=np.arange(labels))
        if labels > 1:  # with one label, scikit-learn averages over "yes" and "no"
            assert scores[f"{average} F1"] == pytest.approx(expected)
    for label, name in enumerate(names_of(labels)):
        if name not in details["classes"]:
            assert not (gold | answers)[:, label].any()
            continue
        found, column = details["classes"][name], (gold[:, label], answers[:, label])
        assert found["precision"] == pytest.approx(metrics.precision_score(*column, zero_division=0))
        assert found["recall"] == pytest.approx(metrics.recall_score(*column, zero_division=0))
        assert found["f1"] == pytest.approx(metrics.f1_score(*column, zero_division=0))
        assert (found["support"], found["predicted"]) == (column[0].sum(), column[1].sum())


def test_several_labels_by_group_and_with_unknown_ones() -> None:
    logits = torch.tensor([[9.0, -9.0], [9.0, 9.0], [-9.0, -9.0]])
    targets = torch.tensor([[1, 0], [1, 1], [0, 0]])
    perfect = several_scores(logits, targets, ["a", "b"], ["x", "y", "y"])
    assert perfect == dict.fromkeys(("exact match", "micro F1", "macro F1", "x", "y"), 1.0)
    unknown = torch.tensor([0, 0, 2])
    scores = several_scores(logits, targets, ["a", "b"], ["x", "y", "y"], unknown=unknown, majority=torch.zeros(2))
    assert scores["y"] == 0.5
    assert scores["exact match"] == pytest.approx(2 / 3)
    assert scores["micro F1"] == pytest.approx(2 * 3 / (3 + 3 + 2))
    assert scores["macro F1"] == pytest.approx(2 / 3)
    assert scores.details["majority"] == 0
    assert scores.details["classes"][UNKNOWN]["support"] == 2


def test_decisions_are_calibrated_whatever_the_threshold() -> None:
    random = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(4000, 5, generator=random)
    targets = torch.rand(4000, 5, generator=random) < logits.sigmoid()
    for threshold in (0.2, 0.5, 0.8):
        assert several_scores(logits, targets, names_of(5), threshold=threshold).details["calibration"]["ece"] < 0.02
        assert several_scores(logits * 3, targets, names_of(5)).details["calibration"]["ece"] > 0.1


numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@settings(deadline=None)
@given(numbers, seeds)
def test_numbers_agree_with_scikit_learn(targets: list[float], seed: int) -> None:
    gold = torch.tensor(targets, dtype=torch.float64)
    values = gold + torch.randn(len(gold), generator=torch.Generator().manual_seed(seed)).double()
    scores = number_scores(values, gold, ["all"] * len(gold), mean_of_training=1.5)
    assert is_plain(scores.details)
    mae = metrics.mean_absolute_error(gold, values)
    assert scores["MAE"] == pytest.approx(mae)
    assert scores["all MAE"] == pytest.approx(mae)
    assert scores["RMSE"] == pytest.approx(metrics.mean_squared_error(gold, values) ** 0.5)
    assert scores["RMSE"] >= scores["MAE"] * (1 - 1e-9)
    always = np.full(len(gold), 1.5)
    assert scores.details["baseline"]["mae"] == pytest.approx(metrics.mean_absolute_error(gold, always))
    assert scores.details["baseline"]["rmse"] == pytest.approx(metrics.mean_squared_error(gold, always) ** 0.5)
    if np.ptp(gold.numpy()) > 1e-3:
        assert scores["R2"] == pytest.approx(metrics.r2_score(gold, values), rel=1e-6, abs=1e-6)


def test_r2_is_left_out_where_targets_are_equal() -> None:
    constant = torch.full((3,), 0.1)
    assert number_scores(torch.tensor([0.1, 0.2, 0.3]), constant).keys() == {"MAE", "RMSE"}
    assert number_scores(constant, constant) == {"MAE": 0.0, "RMSE": 0.0}
    one = number_scores(torch.tensor([3]), torch.tensor([1]), ["n=5"])
    assert one == {"MAE": 2.0, "RMSE": 2.0, "n=5 MAE": 2.0}
    assert one.details["r2"] is one.details["baseline"] is None
    assert one.details["mean_error"] == 2


def test_huge_numbers_do_not_overflow() -> None:
    scores = number_scores(*torch.tensor([[1e300, 0.0], [0.0, 1e-200]], dtype=torch.float64))
    assert scores["RMSE"] == pytest.approx(1e300 / 2**0.5)
    assert "R2" not in scores
    logits = torch.tensor([[1e308, -1e308], [0.0, 0.0]], dtype=torch.float64)
    assert label_scores(logits, torch.tensor([0, 0]), ["a", "b"])["accuracy"] == 1
    assert several_scores(logits, torch.tensor([[1, 0], [1, 1]]), ["a", "b"])["exact match"] == 1


@settings(deadline=None)
@given(st.integers(1, 10**6).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))))
def test_wilson_intervals(counts: tuple[int, int]) -> None:
    right, rows = counts
    low, high = wilson(right, rows)
    assert 0 <= low <= right / rows <= high <= 1
    for end in (low, high):  # where the share is 1.96 standard errors away, but at 0 and 1
        if 0 < end < 1:
            assert abs(right / rows - end) == pytest.approx(1.959964 * (end * (1 - end) / rows) ** 0.5, rel=1e-5)
    assert wilson(8, 10) == pytest.approx([0.4901625, 0.9433178])
