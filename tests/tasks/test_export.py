"""torch.export of every bundled model, for any number of graphs of any size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import edge_transformer as et

BATCH, N = Dim("batch", min=1), Dim("n", min=1)
SHAPES: dict[str, Any] = {"clutrr-small": ({0: BATCH, 1: N, 2: N}, {0: BATCH}), "cogs-small": ({0: BATCH, 1: N},)}


def example(name: str, batch: int, n: int) -> tuple[Tensor, ...]:
    if name == "cogs-small":
        return (torch.randint(9, (batch, n)),)
    return torch.randint(5, (batch, n, n)), torch.randint(n, (batch, 2))


@pytest.mark.parametrize("name", SHAPES)
def test_bundled_models(name: str) -> None:
    torch.manual_seed(0)
    model = et.load(name)
    exported: Any = torch.export.export(model, example(name, 3, 5), dynamic_shapes=SHAPES[name]).module()
    for sizes in ((3, 5), (1, 2), (2, 8)):
        given = example(name, *sizes)
        torch.testing.assert_close(exported(*given), model(*given), rtol=1e-5, atol=1e-5)
    if name == "clutrr-small":
        labels, query = example(name, 2, 4)
        with pytest.raises(RuntimeError, match="pairs must name nodes of the graph"):
            exported(labels, query + 4)
