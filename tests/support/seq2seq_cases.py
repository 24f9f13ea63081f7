"""Random pairs for encoder-decoders of every kind, and steps through them, for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edge_transformer.nn.generation import EncoderDecoder

SOURCE_TOKENS, TARGET_TOKENS = 11, 7


def draw_vectors(model: nn.Module) -> None:
    """Give biases and norms numbers as training may leave them, not as they start."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5)


def random_pair(batch: int, source: int, target: int) -> tuple[Tensor, Tensor]:
    return torch.randint(SOURCE_TOKENS, (batch, source)), torch.randint(TARGET_TOKENS, (batch, target))


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def decode(model: EncoderDecoder, state: Any, target: Tensor) -> Tensor:
    """The logits of all tokens, one step after the other."""
    steps = [model.step(state, target[:, t - 1] if t else None) for t in range(target.shape[1])]
    return torch.stack(steps, dim=1)
