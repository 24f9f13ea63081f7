"""The names of PyTorch that are not public and that the library cannot do without: a version that lacks one is refused
in words, before anything else of it is asked for.
"""

from __future__ import annotations

from importlib import import_module

import torch

from ..errors import UserError

TESTED = ("2.6", "2.13")  # the oldest and the newest PyTorch of continuous integration
NAMES = (
    "torch._ops.OpOverload",
    "torch._C._AutoDispatchBelowAutograd",
    "torch._C._after_autograd_keyset",
    "torch._C._are_functorch_transforms_active",
    "torch._C._autograd._saved_tensors_hooks_is_enabled",
    "torch._C._functorch.get_unwrapped",
    "torch._C._functorch.is_functorch_wrapped_tensor",
    "torch._functorch.utils.enable_single_level_autograd_function",
    "torch.autograd.forward_ad._current_level",
    "torch.autograd.forward_ad._set_fwd_grad_enabled",
    "torch.autograd.function._SingleLevelFunction",
    "torch.nn.modules.module._global_backward_hooks",
    "torch.nn.modules.module._global_backward_pre_hooks",
    "torch.nn.modules.module._global_forward_hooks",
    "torch.nn.modules.module._global_forward_pre_hooks",
)


def require_names() -> None:
    """Refuse a PyTorch that lacks one of the names."""
    for full in NAMES:
        home, _, name = full.rpartition(".")
        try:
            getattr(import_module(home), name)
        except (ImportError, AttributeError):
            oldest, newest = TESTED
            raise UserError(
                f"PyTorch {torch.__version__} has no {full}, which this version of edge-transformer needs; expected "
                f"PyTorch {oldest} to {newest}, with which it is tested"
            ) from None
