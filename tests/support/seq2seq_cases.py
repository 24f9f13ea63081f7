"""Random pairs for encoder-decoders of every kind, and what must hold for all of them, for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edge_transformer.nn.baselines.seq2seq import TransformerSeq2Seq
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.encoder import recompute

SOURCE_TOKENS, TARGET_TOKENS = 11, 7
Model = EdgeSeq2Seq | TransformerSeq2Seq


def draw_vectors(model: nn.Module) -> None:
    """Give biases and norms numbers as training may leave them, not as they start."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5)


def random_pair(batch: int, source: int, target: int) -> tuple[Tensor, Tensor]:
    return torch.randint(SOURCE_TOKENS, (batch, source)), torch.randint(TARGET_TOKENS, (batch, target))


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def decode(model: Model, state: Any, target: Tensor) -> Tensor:
    """The logits of all tokens, one step after the other."""
    steps = [model.step(state, target[:, t - 1] if t else None) for t in range(target.shape[1])]
    return torch.stack(steps, dim=1)


def assert_causal(model: Model, source: Tensor, target: Tensor) -> None:
    """A token changes the logits of those after it only, and of all those."""
    logits = model(source, target)
    assert logits.shape == (*target.shape, TARGET_TOKENS)
    last = target.shape[1] - 1
    for t in range(last + 1):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 1) % TARGET_TOKENS
        other = model(source, changed)
        assert torch.equal(other[:, : t + 1], logits[:, : t + 1]), t
        if t < last:
            assert ((other[:, t + 1 :] - logits[:, t + 1 :]).abs().amax(-1) > 1e-9).all(), t


def assert_padding_changes_nothing(model: Model) -> None:
    source, target = random_pair(3, 5, 6)
    lengths = (3, 5, 1)
    together = model(source, target, mask_of(*lengths))
    for row, length in enumerate(lengths):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row], alone[0])


def assert_every_parameter_gets_a_gradient(model: Model, again: str) -> None:
    recompute(model, again)
    source, target = random_pair(3, 5, 9)
    nn.functional.cross_entropy(model(source, target, mask_of(5, 3, 4)).flatten(0, 1), target.flatten()).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []
