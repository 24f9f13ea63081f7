"""Which weights are kept, and how long nothing was better."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edge_transformer.training.best import BestWeights


def weights(value: float) -> Callable[[], list[Tensor]]:
    return lambda: [torch.tensor([value])]


def test_the_best_score_is_kept_and_the_later_of_equal_ones() -> None:
    best = BestWeights()
    for scored, score in enumerate((0.5, 0.8, 0.6, 0.8, 0.7)):
        best.offer(score, 0.0, 1.0, step=10 * scored, scored=scored, weights=weights(scored))
    assert best.weights == [torch.tensor([3.0])]
    assert (best.chosen["score"], best.chosen["step"]) == (0.8, 30)


def test_scores_within_one_error_count_as_equal() -> None:
    best = BestWeights()
    for scored, score in enumerate((0.80, 0.76, 0.70)):
        best.offer(score, 0.05, 1.0, step=scored, scored=scored, weights=weights(scored))
    assert best.weights == [torch.tensor([1.0])]
    assert best.chosen["score"] == 0.80


def test_waiting_ends_with_a_better_score_or_a_clearly_smaller_loss() -> None:
    best = BestWeights()
    waited = []
    history = [(0.5, 1.0), (0.5, 0.999), (0.5, 0.5), (0.5, 0.495), (0.6, 0.7), (0.6, 0.7)]
    for scored, (score, loss) in enumerate(history, 1):
        best.offer(score, 0.0, loss, step=scored, scored=scored, weights=weights(scored))
        waited.append(best.waited(scored))
    assert waited == [0, 1, 0, 1, 0, 1]
    assert best.chosen["loss"] == 0.495
