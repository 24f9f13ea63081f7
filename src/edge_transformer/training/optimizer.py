"""The optimizer, and how its learning rate rises and falls."""

from __future__ import annotations

import torch
from torch import nn

from .config import TrainConfig


def learning_rate(config: TrainConfig, step: int, total: int) -> float:
    """Linear warm-up, then linear decay to 0. `step` counts from 0.

    Warm-up takes at most a fifth of the steps: in a short run the rate would otherwise never decay.
    """
    warmup = min(config.warmup_steps, total // 5)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    return config.lr * (total - step) / max(1, total - warmup)


def make_optimizer(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a run."""
    cls = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return cls(model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)
