"""Functions as operators of PyTorch, so that torch.compile, torch.export, torch.func and gradient checkpointing work
with them.

`torch.library.custom_op` does the same, but imports PyTorch's compiler when one of its operators first runs, which
takes seconds, also in a program that compiles nothing. And neither that nor `torch.library.register_autograd` knows
`torch.func.grad`, or says a word where forward-mode differentiation gets a zero from an operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

_NAMESPACE = "edge_transformer"
_FAKES: dict[OpOverload, Callable[..., Any]] = {}


def operator(
    name: str, *, fake: Callable[..., Any], device: str = "default"
) -> Callable[[Callable[..., Any]], OpOverload]:
    """Make a function an operator, for one kind of device or for all.

    The function changes none of its arguments and returns new tensors only. `fake` makes results of the right kind
    without computing them, for tracing. What is defined is PyTorch's own object: a call passes through nothing else.
    """

    def define(function: Callable[..., Any]) -> OpOverload:
        full = f"{_NAMESPACE}::{name}"
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(full, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(full, device, function)
        torch.library.register_fake(full, fake)
        made: OpOverload = getattr(getattr(torch.ops, _NAMESPACE), name).default
        _FAKES[made] = fake
        return made

    return define


def empty_gradients(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for the gradients of q, k, v1, v2, left and right; empty for what there is not. Those of left and right are
    sums, and begin with zero.
    """
    dq, dk, dv1, dv2 = (q.new_empty(0 if tensor is None else tuple(q.shape)) for tensor in (q, k, v1, v2))
    return dq, dk, dv1, dv2, *zero_offsets(q, left, right)


def zero_offsets(q: Tensor, left: Tensor | None, right: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradients of left and right before anything is added to them; empty for what there is not."""
    none = q.new_empty(0, dtype=torch.float32)  # whatever the type of q, which an operator may have converted
    dleft, dright = (none.clone() if one is None else one.new_zeros(tuple(one.shape)) for one in (left, right))
    return dleft, dright


# --- derivatives ------------------------------------------------------------------------------------------------------

Plain = Callable[..., Any]  # called with those arguments of an operator, by their names, that it has itself


def connect(
    forward: OpOverload, backward: OpOverload, plain: Plain, plain_backward: Plain, shared: Sequence[str] = ()
) -> None:
    """Let `backward` compute the gradients of `forward`, and both work with all of torch.func.

    `backward` takes the gradient of the first result, then arguments of `forward` by their names, and by other names
    the last of its results. It gives the gradients of the first tensors of `forward`, of which some may be None.

    `plain` and `plain_backward` compute the same in operations of PyTorch: forward-mode differentiation goes through
    them, and second derivatives. `shared` are tensors that all rows of a batch have in common; see `vectorize`.
    """
    taken, named = _names(forward), _names(backward)[1:]
    gradients, results = len(backward._schema.returns), [name for name in named if name not in taken]

    def keep(ctx: Any, inputs: Sequence[Any], outputs: tuple[Tensor, ...]) -> None:
        found = dict(zip(taken, inputs, strict=True))
        found |= dict(zip(results, outputs[len(outputs) - len(results) :], strict=True))
        ctx.there = [value is not None for value in inputs[:gradients]]
        _save(ctx, [found[name] for name in named])
        ctx.set_materialize_grads(False)

    def differentiate(ctx: Any, dout: Tensor | None, *_: Tensor | None) -> list[Tensor | None]:
        if dout is None:
            return []
        made = _several(backward(dout, *_saved(ctx)))
        return [one if there else None for there, one in zip(ctx.there, made, strict=True)]

    derive(forward, plain, keep, differentiate)
    derive(backward, plain_backward)
    vectorize(forward, shared)
    vectorize(backward, shared, sums=bool(shared))


Keep = Callable[[Any, Sequence[Any], tuple[Tensor, ...]], None]  # of a context, arguments and results
Differentiate = Callable[..., Sequence[Tensor | None]]  # of a context and the gradients of the results


def derive(op: OpOverload, plain: Plain, keep: Keep | None = None, differentiate: Differentiate | None = None) -> None:
    """Say how to differentiate an operator: forwards through `plain`, which may give the first results alone; backwards
    by `differentiate`, which gives the gradients of the first arguments from what `keep` kept, or else through `plain`
    as well, at the time a gradient is asked for.
    """
    if keep is None or differentiate is None:
        keep, differentiate = _through(op, plain)
    read, returns = _read(op, plain), len(op._schema.returns)
    recorded = _recorded(op, keep, differentiate)

    def autograd(keyset: Any, *given: Any) -> Any:
        forwards = forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()
        if forwards and any(map(has_tangent, given)):
            made = _several(plain(**{name: given[at] for name, at in read.items()}))
            if len(made) < returns:  # what is kept for the backward operator, which goes through plain code as well
                made += tuple(torch.full_like(one, torch.nan) for one in _several(_FAKES[op](*given))[len(made) :])
            return made[0] if returns == 1 else made[:returns]
        if torch.is_grad_enabled() and any(map(_is_followed, given)):
            with ExitStack() as stack:
                if torch._C._are_functorch_transforms_active():
                    # The dispatcher calls this for one level of torch.func at a time.
                    stack.enter_context(torch._functorch.utils.enable_single_level_autograd_function())
                return recorded.apply(keyset, *given)
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *given)

    _LIBRARY.impl(op._opname, autograd, "Autograd", with_keyset=True)


_LIBRARY = torch.library.Library(_NAMESPACE, "FRAGMENT")


def _recorded(op: OpOverload, keep: Keep, differentiate: Differentiate) -> Any:
    """An operator as a node of the graph that the backward pass goes through."""

    class Recorded(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, keyset: Any, *given: Any) -> Any:
            with ExitStack() as stack:
                if torch._C._are_functorch_transforms_active():  # levels below this one may record as well
                    stack.enter_context(torch.enable_grad())
                    stack.enter_context(forward_ad._set_fwd_grad_enabled(True))
                stack.enter_context(torch._C._AutoDispatchBelowAutograd())
                made = op.redispatch(keyset & torch._C._after_autograd_keyset, *given)
            ctx.arguments = len(given)
            keep(ctx, given, _several(made))
            return made

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
            made = differentiate(ctx, *gradients)
            return None, *made, *(None,) * (ctx.arguments - len(made))

    Recorded.__name__ = Recorded.__qualname__ = f"{op._opname}_recorded"
    return Recorded


def _through(op: OpOverload, plain: Plain) -> tuple[Keep, Differentiate]:
    """Gradients by differentiating plain code, which runs only when they are asked for."""
    read = _read(op, plain)

    def keep(ctx: Any, inputs: Sequence[Any], outputs: tuple[Tensor, ...]) -> None:
        _save(ctx, [inputs[at] for at in read.values()])

    def differentiate(ctx: Any, *gradients: Tensor) -> list[Tensor | None]:
        named = dict(zip(read, _saved(ctx), strict=True))
        wanted = {name: named[name] for name, at in read.items() if ctx.needs_input_grad[1 + at]}

        def again(*tensors: Tensor) -> tuple[Tensor, ...]:
            return _several(plain(**named | dict(zip(wanted, tensors, strict=True))))[: len(gradients)]

        pull: Any = torch.func.vjp(again, *wanted.values())[1]
        made = dict(zip(wanted, pull(gradients), strict=True))
        return [made.get(name) for name in _names(op)]

    return keep, differentiate


def _read(op: OpOverload, plain: Plain) -> dict[str, int]:
    """The arguments of an operator that plain code has as well, and their places."""
    parameters = inspect.signature(plain).parameters
    return {name: at for at, name in enumerate(_names(op)) if name in parameters}


def _is_followed(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def has_tangent(value: Any) -> bool:
    """Whether a value is a tensor that forward-mode differentiation follows."""
    return isinstance(value, Tensor) and forward_ad.unpack_dual(value, level=0).tangent is not None


def _save(ctx: Any, values: Sequence[Any]) -> None:
    """Keep tensors where autograd looks after them, and all else beside them."""
    ctx.others = [None if isinstance(value, Tensor) else value for value in values]
    ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in values))


def _saved(ctx: Any) -> list[Any]:
    return [other if tensor is None else tensor for tensor, other in zip(ctx.saved_tensors, ctx.others, strict=True)]


def _several(made: Any) -> tuple[Tensor, ...]:
    return (made,) if isinstance(made, Tensor) else tuple(made)


def _names(op: OpOverload) -> list[str]:
    return [argument.name for argument in op._schema.arguments]


# --- vmap -------------------------------------------------------------------------------------------------------------


def vectorize(op: OpOverload, shared: Sequence[str] = (), sums: bool = False) -> None:
    """Let `torch.func.vmap` make the new dimension part of the batch, with which all tensors and results begin.

    Two arguments have names of their own: numbers `sizes` say what the batch consists of, and are repeated; `seed`
    decides the dropout. Samples with dropout are computed one after the other, so that the same numbers drop in all
    operators that get a sample's seed. So are those where one of the `shared` tensors differs, which belong to no row
    of the batch, and those of an operator that `sums` over the batch.
    """
    names = _names(op)

    def rule(info: Any, in_dims: Sequence[Any], *given: Any) -> tuple[Any, Any]:
        dims = {name: dim for name, dim in zip(names, in_dims, strict=True) if isinstance(dim, int)}
        named = dict(zip(names, given, strict=True))
        for name, dim in dims.items():
            named[name] = named[name].movedim(dim, 0)
        if not info.batch_size:
            of_one = (value.new_empty(value.shape[1:]) if name in dims else value for name, value in named.items())
            made = tuple(one.new_empty(0, *one.shape) for one in _several(_FAKES[op](*of_one)))
        elif sums or named.get("seed") is not None or not dims.keys().isdisjoint(shared):
            samples = [
                _several(op(*(value[at] if name in dims else value for name, value in named.items())))
                for at in range(info.batch_size)
            ]
            made = tuple(torch.stack(each) for each in zip(*samples, strict=True))
        else:
            for name, value in named.items():
                if name == "sizes":
                    named[name] = list(value) * info.batch_size
                elif isinstance(value, Tensor) and name not in shared:
                    value = value if name in dims else value.expand(info.batch_size, *value.shape)
                    named[name] = value.flatten(0, 1)
            folded = _several(op(*named.values()))
            made = tuple(one.reshape(info.batch_size, len(one) // info.batch_size, *one.shape[1:]) for one in folded)
        return (made, (0,) * len(made)) if len(op._schema.returns) > 1 else (made[0], 0)

    torch.library.register_vmap(op, rule)
