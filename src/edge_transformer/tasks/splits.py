"""Data of a task with named splits: scored by split, and by dev alone during training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .base import Progress, TaskData

DEV = "dev"


class SplitTaskData(TaskData):
    """Data with named splits in `_splits`. Only dev is scored during training."""

    _splits: Mapping[str, Sequence[Any]]

    @abstractmethod
    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        """The scores of one split, by name."""

    def evaluation_rows(self) -> int:
        return sum(map(len, self._splits.values()))

    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        scores: dict[str, float] = {}
        for split in self._splits:
            scores |= self._score(split, model, device, progress)
        return scores

    def midway_rows(self) -> int:
        return len(self._splits.get(DEV, ()))

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores of dev, if there is one: nobody should choose by the scores of test."""
        return self._score(DEV, model, device, progress) if DEV in self._splits else {}
