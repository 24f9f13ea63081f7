"""That two ways agree, for tests of tasks: losses with their gradients, and the weights of two runs."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn


def gradients_of(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter by its name; there must be one."""
    model.zero_grad(set_to_none=True)
    loss.backward()
    gradients = {}
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        gradients[name] = weight.grad.to_dense()  # tables of words have sparse ones
    return gradients


def assert_same_loss_and_gradients(model: nn.Module, loss: Tensor, expected: Tensor) -> None:
    found, right = gradients_of(model, loss), gradients_of(model, expected)
    torch.testing.assert_close(loss, expected)
    for name, gradient in right.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-6, atol=1e-9, msg=name)


def assert_same_weights(run: Path, other: Path) -> None:
    """The models in the folders of two runs are the same to the bit."""
    one, two = load_file(run / "model.safetensors"), load_file(other / "model.safetensors")
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []
