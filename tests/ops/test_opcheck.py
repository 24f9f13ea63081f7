"""PyTorch finds no fault with any operator: schemas, fake tensors, autograd registrations, traces of changing shapes.

The tests of each file of operators look at more options and layouts; this one says that none is left out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_cases import check_operator, needs_kernels
from edge_transformer.ops import attention, feed_forward  # noqa: F401 (they define the operators)

SEED = torch.tensor([3])
NOT_HERE = {"triton_forward", "triton_backward"}  # need a GPU, or minutes; in test_triton.py


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


EDGES = numbers(2, 2, 2, 1, 2)
PARTS, FLAT = numbers(2, 2, 2, 3, 1, 2), numbers(8, 3, 1, 2)
SOFT_MAX = numbers(2, 1, 2, 2, 2).abs()
WEIGHTS = (numbers(5, 3), numbers(5), numbers(3, 5), numbers(3))
OFFSET = numbers(2, 1, 2, 2)
OPTIONS = (None, -1, False, 0.5, SEED)
CASES: dict[str, tuple[Any, ...]] = {
    "blocked_forward": (EDGES, EDGES, EDGES, None, OFFSET, None, *OPTIONS),
    "blocked_backward": (EDGES, EDGES, EDGES, EDGES, None, OFFSET, None, *OPTIONS),
    "separate_forward": (EDGES, EDGES, EDGES, None, OFFSET, None, *OPTIONS),
    "separate_backward": (EDGES, EDGES, EDGES, EDGES, None, OFFSET, None, EDGES, SOFT_MAX, *OPTIONS),
    "packed_forward": (PARTS, OFFSET, None, *OPTIONS),
    "packed_backward": (EDGES, PARTS, OFFSET, None, EDGES, SOFT_MAX, *OPTIONS),
    "groups_forward": (FLAT, [2, 2], *OPTIONS[2:]),
    "groups_backward": (FLAT[:, 0], FLAT, FLAT[:, 0], SOFT_MAX.flatten(), [2, 2], *OPTIONS[2:]),
    "feed_forward": (numbers(4, 3), *WEIGHTS, 0.5, SEED, True),
    "feed_forward_backward": (numbers(4, 3), numbers(4, 3), *WEIGHTS[:3], numbers(4, 5), 0.5, SEED),
    "add_dropout": (numbers(4, 3), numbers(4, 3), 0.5, SEED),
    "scale_dropout": (numbers(4, 3), 0.5, SEED),
}


def test_every_operator_has_a_case() -> None:
    ours = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("edge_transformer::")}
    names = {name.removeprefix("edge_transformer::") for name in ours}
    assert {name for name in names if not name.startswith("test_")} == CASES.keys() | NOT_HERE


@needs_kernels
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    given = [one.clone() if isinstance(one, Tensor) else one for one in CASES[name]]
    if not name.endswith("_backward"):
        given = [one.requires_grad_() if isinstance(one, Tensor) and one.is_floating_point() else one for one in given]
    check_operator(getattr(torch.ops.edge_transformer, name).default, *given)
