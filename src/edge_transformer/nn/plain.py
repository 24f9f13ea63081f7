"""When a module need not be called: fast paths read the weights of modules, or run their steps, instead.

That is right only where a call does nothing else. Hooks, parametrisations, pruning, adapters, quantisation and
subclasses change what a call does: such modules are called.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules import module as of_all
from torch.overrides import has_torch_function


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether all that a call does is what `kind` does with the module's parameters."""
    if type(module) is not kind or not may_be_skipped(module, kind):
        return False
    # A tensor of another kind may have a product of its own.
    return not has_torch_function(tuple(weight for weight in module._parameters.values() if weight is not None))


def may_be_skipped(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether whoever runs the steps of `kind.forward` does what a call of this module, or of a subclass, does."""
    return is_unchanged(module, kind) and not _have_all_modules_hooks()


def _have_all_modules_hooks() -> bool:
    return bool(
        of_all._global_forward_pre_hooks
        or of_all._global_forward_hooks
        or of_all._global_backward_pre_hooks
        or of_all._global_backward_hooks
    )


def is_unchanged(module: nn.Module, kind: type[nn.Module]) -> bool:
    """The same but for hooks on all modules."""
    return (
        type(module).forward is kind.forward
        and "forward" not in module.__dict__
        and not (module._forward_pre_hooks or module._forward_hooks)
        and not (module._backward_pre_hooks or module._backward_hooks)
    )


def require_steps(module: nn.Module, kind: type[nn.Module], steps: str) -> None:
    """Refuse hooks on a module, and another `forward`, where its steps are run and it is not called itself."""
    if is_unchanged(module, kind) or (not isinstance(module, kind) and type(module).forward is nn.Module.forward):
        return
    own = type(module).forward is not kind.forward or "forward" in module.__dict__
    found = "has a forward of its own" if own else "has a hook"
    raise ValueError(
        f"{type(module).__name__} {found}, which is never run here: the steps of {kind.__name__} are run one by one. "
        f"Change {steps} instead"
    )
