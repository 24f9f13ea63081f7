"""Reports on scores say all that matters, in few lines, whatever labels are called."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from rich.console import Console

from edge_transformer.draw.scores import MOST_CLASSES, MOST_CONFUSIONS, MOST_GROUPS, report_text
from edge_transformer.tasks.links.scores import ranking_scores
from edge_transformer.tasks.scores import Scores, label_scores, number_scores, several_scores


def shown(details: dict[str, Any], title: str = "a title", width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(report_text(details, title))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def labels(answers: list[int], targets: list[int], names: list[str], groups: list[str] | None = None) -> Scores:
    logits = 3 * torch.nn.functional.one_hot(torch.tensor(answers), len(names)).float()
    return label_scores(logits, torch.tensor(targets), names, groups, majority=0)


def test_a_report_on_labels() -> None:
    scores = labels([0, 1, 1, 1], [0, 1, 0, 0], ["son", "aunt"], ["k=2", "k=2", "k=3", "k=3"])
    text = shown(scores.details, "model on [data]")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "model on [data]"
    assert lines[1] == "accuracy 50.0 % of 4 rows, 95 % interval 15.0 to 85.0 %"
    assert lines[2] == "always answering the most frequent training label: 75.0 %"
    assert "k=2 2 100.0 34.2 to 100.0" in lines
    assert "k=3 2 0.0 0.0 to 65.8" in lines
    assert lines.index("aunt 50.0 33.3 100.0 1 3") == lines.index("son 50.0 100.0 33.3 3 1") + 1  # more rows first
    assert "son -> aunt, 2" in lines
    assert lines[3] == "macro F1 50.0 %"
    assert lines[4] == "expected calibration error 45.3 %, mean confidence 95.3 %"


def test_long_lists_are_cut_and_say_so() -> None:
    size = 40
    targets = list(range(size))
    answers = [*range(size // 2), *((label + 1) % size for label in range(size // 2, size))]
    text = shown(labels(answers, targets, [f"<{label}>" for label in targets], [f"n={row}" for row in targets]).details)
    assert f"and {size - MOST_GROUPS} more groups" in text
    assert f"and {size - MOST_CLASSES} more classes, with F1 no lower" in text
    assert text.count(" -> ") == MOST_CONFUSIONS + 1  # with the heading
    assert f"and {size // 2 - MOST_CONFUSIONS} more confusions" in text
    assert "<39>" in text.partition("confusions")[0]  # the worst classes come first
    assert text.index("<39>") < text.index("<5>")
    assert "<15>" not in text


def test_no_mistakes_need_no_table() -> None:
    text = shown(labels([0, 1, 2], [0, 1, 2], ["a", "b", "c"]).details)
    assert "every class has F1 100.0 %; classes: 3" in text
    assert "->" not in text
    assert "group" not in text
    assert len(text.splitlines()) == 6  # title, accuracy, majority, F1, calibration, classes


def test_names_are_no_markup_and_move_no_cursor() -> None:
    names = ["[red]x[/red]", "a\nb", "\x1b[31mc", "שלום"]
    text = shown(labels([1, 2, 3, 0], [0, 1, 2, 3], names, ["[bold]", "a\rb", "", "[/x]"]).details, "[/] \x1b")
    assert "[red]x[/red]" in text
    assert "a\\x0ab -> \\x1b[31mc, 1" in text
    assert "\x1b" not in text
    assert "[bold]" in text
    assert "[/x]" in text


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminals_cut_no_name(width: int) -> None:
    scores = labels([0, 1, 1], [0, 1, 0], ["grandmother-in-law", "b"], ["k=2"] * 3)
    text = shown(scores.details, width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert shown(scores.details, width=20)  # no error


def test_a_report_on_several_labels() -> None:
    logits = torch.tensor([[9.0, -9.0], [9.0, 9.0]])
    scores = several_scores(logits, torch.tensor([[1, 0], [1, 0]]), ["a", "b"], ["x", "y"], majority=torch.ones(2))
    text = shown(scores.details)
    assert "exact match 50.0 % of 2 rows, 95 % interval 9.5 to 90.5 %" in text
    assert "always answering the most frequent training set of labels: 0.0 %" in text
    assert "micro F1 80.0 %, macro F1 50.0 %" in text
    assert "exact match %" in text
    assert "(75.0 % of label decisions right)" in text
    nothing = several_scores(-logits.abs(), torch.zeros(2, 2), ["a", "b"])
    assert "F1" not in shown(nothing.details)


def test_a_report_on_numbers() -> None:
    values, targets = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0])
    text = shown(number_scores(values, targets, ["n=5", "n=5", "n=6"], 2.0).details)
    assert "MAE 0.3333, RMSE 0.5774, R2 0.500, mean error +0.3333; 3 rows" in text
    assert "always answering the training mean, 2: MAE 0.6667, RMSE 0.8165" in text
    assert "n=6" in text
    assert "R2" not in shown(number_scores(values[:1], targets[:1]).details)
    assert "calibration" not in text


def test_a_report_on_ranked_answers() -> None:
    ranks = torch.tensor([1.0, 2.0, 1.0, 4.0])
    scores = ranking_scores(ranks, ["[b]aunt", "[b]aunt", "son", "son"], ["tail", "head", "tail", "tail"])
    lines = [" ".join(line.split()) for line in shown(scores.details, "test").splitlines()]
    assert lines[0] == "test"
    assert lines[1] == "MRR 68.8 % of 4 queries among all candidates, 95 % interval 32.0 to 100.0 %"
    assert lines[2] == "Hits@1 50.0 %, Hits@3 75.0 %, Hits@10 100.0 %, mean rank 2.00"
    assert "tail 3 75.0 66.7 66.7 100.0 2.00" in lines
    assert "head 1 50.0 0.0 100.0 100.0 2.00" in lines
    assert lines.index("son 2 62.5 50.0 50.0 100.0 62.5") < lines.index("[b]aunt 2 75.0 50.0 100.0 100.0 100.0 50.0")
    one = shown(ranking_scores(ranks[:1], ["a"], ["tail"], sampled=50).details)
    assert "MRR 100.0 % of 1 query among 50 sampled negatives\n" in one
    assert "interval" not in one


def test_the_worst_relations_come_first() -> None:
    names = [f"r{number}" for number in range(1, MOST_GROUPS + 6)]
    scores = ranking_scores(torch.arange(len(names)) + 1.0, names, ["head"] * len(names))
    text = shown(scores.details)
    assert "and 5 more relations, with MRR no lower" in text
    assert text.index(names[-1]) < text.index(names[-2])
    assert "r5 " not in text
    assert all(len(line) <= 80 for line in shown(scores.details, width=80).splitlines())
