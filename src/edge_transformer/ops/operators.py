"""Functions as operators of PyTorch, so that torch.compile, torch.export and gradient checkpointing work with them.

`torch.library.custom_op` does the same, but imports PyTorch's compiler when one of its operators first runs, which
takes seconds, also in a program that compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

_NAMESPACE = "edge_transformer"


class Operator:
    """A function that PyTorch knows as an operator. It changes none of its arguments and returns new tensors only."""

    def __init__(self, name: str, function: Callable[..., Any], device: str) -> None:
        self._name = f"{_NAMESPACE}::{name}"
        self.__doc__ = function.__doc__
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(self._name, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(self._name, device, function)
        self.overload: torch._ops.OpOverload = getattr(getattr(torch.ops, _NAMESPACE), name).default

    def __call__(self, *arguments: Any) -> Any:
        return self.overload(*arguments)

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` makes results of the right kind without computing them, for tracing."""
        torch.library.register_fake(self._name, function)
        return function

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., None]) -> None:
        """`backward` gives the gradients of the arguments from what `setup_context` kept of a run."""
        torch.library.register_autograd(self._name, backward, setup_context=setup_context)

    def refuse_gradients(self) -> None:
        """Going back through this operator is an error: without this, PyTorch would take its gradient for zero."""

        def refuse(ctx: Any, *gradients: Any) -> NoReturn:
            raise RuntimeError(f"{self._name} has no gradient of its own: second derivatives cannot be computed")

        torch.library.register_autograd(self._name, refuse)


def operator(name: str, device: str = "default") -> Callable[[Callable[..., Any]], Operator]:
    """Make a function an operator, for one kind of device or for all."""
    return lambda function: Operator(name, function, device)
