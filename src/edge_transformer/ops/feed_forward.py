"""The network applied to every edge on its own: Linear, ReLU, dropout, Linear.

On the CPU it goes through the rows in parts whose hidden layer stays in the processor's cache: what one product writes,
ReLU with dropout and the next product find there. The whole hidden layer is written once, for the backward pass, and
not at all where nothing will be trained, or where the backward pass shall compute it again to save memory.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .dropout import DROPOUT_BLOCK, relu_dropout_, relu_dropout_backward_, scale_dropout
from .engine import draw_seed
from .native import has_kernels_for
from .operators import connect, operator

_HIDDEN_NUMBERS = 1 << 19  # of a part, for each thread: 2 MB


def feed_forward(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, p: float = 0.0, keep_hidden: bool = True
) -> Tensor:
    """dropout(relu(x weight1^T + bias1)) weight2^T + bias2: `[..., dim] -> [..., len(bias2)]`.

    The hidden layer is most of what training keeps of it. Without `keep_hidden` the backward pass computes it again.
    """
    weights = (weight1, bias1, weight2, bias2)
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, *weights))
    if has_kernels_for(x) and x.dtype == weight1.dtype and not torch.is_autocast_enabled("cpu"):
        keep = trained and keep_hidden
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        out = _feed_forward(rows, *weights, p, draw_seed(p), keep)[0]
        return out.view(*x.shape[:-1], len(bias2))
    if trained and not keep_hidden:
        return checkpoint(_plain, x, *weights, p, use_reentrant=False)
    return _plain(x, *weights, p)


def _plain(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, p: float) -> Tensor:
    hidden = F.linear(x, weight1, bias1).relu_()
    return F.linear(F.dropout(hidden, p) if p else hidden, weight2, bias2)


def _rows_of_a_part(hidden: int) -> int:
    """How many rows are computed together; whole blocks of dropout, so that the parts change no random number."""
    whole_blocks = DROPOUT_BLOCK // math.gcd(DROPOUT_BLOCK, hidden)
    wanted = _HIDDEN_NUMBERS * torch.get_num_threads() // hidden
    return max(1, wanted // whole_blocks) * whole_blocks


def _room(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """For the output and, if it is to be kept, the hidden layer; `keep` is the last argument."""
    rows = x.shape[0]
    return x.new_empty(rows, weight2.shape[0]), x.new_empty(rows if rest[-1] else 0, weight1.shape[0])


@operator("feed_forward", device="cpu", fake=_room)
def _feed_forward(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, p: float, seed: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor]:
    """The output and, if it is to be kept, the hidden layer; else nothing as the latter."""
    rows, width = x.shape[0], weight1.shape[0]
    part = _rows_of_a_part(width)
    out, kept = _room(x, weight1, bias1, weight2, keep)
    room = kept if keep else x.new_empty(min(part, rows), width)
    for start in range(0, rows, part):
        here = slice(start, min(start + part, rows))
        hidden = room[here] if keep else room[: here.stop - start]
        _compute_hidden(x, weight1, bias1, p, seed, here, hidden)
        torch.addmm(bias2, hidden, weight2.t(), out=out[here])
    return out, kept


def _compute_hidden(
    x: Tensor, weight1: Tensor, bias1: Tensor, p: float, seed: Tensor | None, rows: slice, hidden: Tensor
) -> None:
    """Write the hidden layer of some rows; the first of them begins a block of dropout."""
    torch.addmm(bias1, x[rows], weight1.t(), out=hidden)
    if seed is None:
        hidden.relu_()
    else:
        relu_dropout_(hidden, p, int(seed) + rows.start * len(bias1) // DROPOUT_BLOCK)


def _empty_gradients(
    dout: Tensor, x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    shapes = (x.shape, weight1.shape, bias1.shape, weight2.shape, dout.shape[1:])
    dx, dweight1, dbias1, dweight2, dbias2 = (x.new_empty(shape) for shape in shapes)
    return dx, dweight1, dbias1, dweight2, dbias2


@operator("feed_forward_backward", device="cpu", fake=_empty_gradients)
def _feed_forward_backward(
    dout: Tensor,
    x: Tensor,
    weight1: Tensor,
    bias1: Tensor,
    weight2: Tensor,
    kept: Tensor,
    p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, weight1, bias1, weight2 and bias2. A hidden layer that was not kept is computed again."""
    rows, width = x.shape[0], weight1.shape[0]
    part = _rows_of_a_part(width)
    kept = kept.contiguous()
    again = None if len(kept) == rows else x.new_empty(min(part, rows), width)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dweight1, dweight2 = (weight.new_zeros(weight.shape) for weight in (weight1, weight2))
    dbias1 = weight1.new_zeros(width)
    room = x.new_empty(min(part, rows), width)
    for start in range(0, rows, part):
        here = slice(start, min(start + part, rows))
        dhidden = room[: here.stop - start]
        if again is None:
            hidden = kept[here]
        else:
            hidden = again[: here.stop - start]
            _compute_hidden(x, weight1, bias1, p, seed, here, hidden)
        dweight2.addmm_(dout[here].t(), hidden)
        torch.mm(dout[here], weight2, out=dhidden)
        relu_dropout_backward_(dhidden, hidden, p)
        dbias1 += dhidden.sum(0)
        dweight1.addmm_(dhidden.t(), x[here])
        torch.mm(dhidden, weight1, out=dx[here])
    return dx, dweight1, dbias1, dweight2, dout.sum(0)


# --- differentiated twice, or forwards ----------------------------------------------------------------------------


def _kept(x: Tensor, weight1: Tensor, p: float, seed: Tensor | None) -> Tensor | float:
    """The factors of dropout, of the same random numbers."""
    return 1.0 if seed is None else scale_dropout(x.new_ones(len(x), weight1.shape[0]), p, seed)


def _plain_operator(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, p: float, seed: Tensor | None
) -> Tensor:
    hidden = F.linear(x, weight1, bias1).relu() * _kept(x, weight1, p, seed)
    return F.linear(hidden, weight2, bias2)


def _plain_backward(
    dout: Tensor, x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, p: float, seed: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    kept, hidden = _kept(x, weight1, p, seed), F.linear(x, weight1, bias1)
    dhidden = dout @ weight2 * kept * (hidden > 0)
    return dhidden @ weight1, dhidden.t() @ x, dhidden.sum(0), dout.t() @ (hidden.relu() * kept), dout.sum(0)


_WEIGHTS = ("weight1", "bias1", "weight2", "bias2")
connect(_feed_forward, _feed_forward_backward, _plain_operator, _plain_backward, shared=_WEIGHTS)
