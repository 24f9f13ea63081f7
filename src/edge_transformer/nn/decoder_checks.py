"""What all encoder-decoders refuse: tensors that are no pairs of sequences, and steps that do not follow each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def check_pair(source: Tensor, target: Tensor, source_mask: Tensor | None) -> None:
    """Refuse what is no batch of pairs of sequences."""
    check_source(source, source_mask)
    if target.dim() != 2 or len(target) != len(source) or not target.shape[1]:
        raise ValueError(
            f"target must be [batch={len(source)}, T] with T at least 1, but its shape is {list(target.shape)}"
        )


def check_source(source: Tensor, source_mask: Tensor | None) -> None:
    """Refuse what is no batch of sequences."""
    if source.dim() != 2 or not source.shape[1]:
        raise ValueError(f"source must be [batch, S] with S at least 1, but its shape is {list(source.shape)}")
    if source_mask is not None and (source_mask.dtype != torch.bool or source_mask.shape != source.shape):
        raise ValueError(
            f"source_mask must be bool {list(source.shape)}, but is {source_mask.dtype} {list(source_mask.shape)}"
        )


def check_decoding(model: nn.Module, source: Tensor, source_mask: Tensor | None) -> None:
    """Refuse to decode with dropout, and from what is no batch of sequences."""
    if model.training:
        raise ValueError("decoding drops nothing: call model.eval() first")
    check_source(source, source_mask)


def check_step(steps: int, rows: int, tokens: Tensor | None) -> None:
    """Refuse a first step with tokens, a later one without, and tokens for other rows than there are."""
    if (tokens is None) != (steps == 0):
        raise ValueError("give the tokens of the step before, and None at the first step only")
    if tokens is not None and tokens.shape != (rows,):
        raise ValueError(f"tokens must be [batch={rows}], but their shape is {list(tokens.shape)}")


def check_rows(index: Tensor, rows: int) -> None:
    """Refuse to go on with other rows than there are."""
    if index.dim() != 1:
        raise ValueError(f"index must be [rows], but its shape is {list(index.shape)}")
    if len(index) and not 0 <= int(index.min()) <= int(index.max()) < rows:
        raise ValueError(f"index must name rows from 0 to {rows - 1}")
