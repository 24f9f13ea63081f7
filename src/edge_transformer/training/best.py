"""Which weights a run keeps, and when it stops: by the scores of the validation rows."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

LEAST_SHARE, LEAST_LOSS = 0.02, 0.002  # a loss is better if it is smaller by this share of it and by this much


class BestWeights:
    """The weights with the best validation score so far.

    Scores within one standard error of the best count as equal to it, and then the later weights are kept: with few
    validation rows the highest score is often luck.
    """

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.chosen: dict[str, float] = {}  # "score", "error" and "loss" of the best, "step" of the kept weights

    def offer(
        self, score: float, error: float, loss: float, step: int, scored: int, weights: Callable[[], list[Tensor]]
    ) -> None:
        """Look at the weights of a step, the `scored`-th that were scored."""
        chosen, best = self.chosen, self.chosen.get("score", -math.inf)
        lowest = chosen.get("loss", math.inf)
        if score >= best - chosen.get("error", 0.0):
            self.weights, chosen["step"] = weights(), step
        if score > best or loss < (1 - LEAST_SHARE) * lowest - LEAST_LOSS:
            chosen["better"] = scored
        if score > best:
            chosen |= {"score": score, "error": error}
        chosen["loss"] = min(loss, lowest)

    def waited(self, scored: int) -> int:
        """How many scores ago score or loss were better than ever."""
        return scored - int(self.chosen.get("better", 0))
