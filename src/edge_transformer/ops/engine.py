"""What an engine is: one way to compute triangular attention. `attention.ENGINES` lists them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .memory import Memory, PlainMemory

Bias = Tensor | tuple[Tensor | None, Tensor | None] | None


@dataclass(frozen=True)
class Options:
    """What triangular attention is asked for besides its tensors; see `attention.triangular_attention`."""

    node_mask: Tensor | None = None  # bool [batch, n]
    causal_from: int | None = None
    key: str = "lj"
    dropout_p: float = 0.0
    edge_mask: Tensor | None = None  # bool [batch, n, n]
    bias: Bias = None  # [batch or 1, heads or 1, n, n], or a pair of those

    def offsets(self, q: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What edges (i, l) and edges (l, j) add to the scores of q, `[batch, n, n, heads, head_dim]`.

        `[batch, heads, n, n]` each, in the number type of the sums; -inf for an edge that takes part in no triangle;
        None where nothing is added.
        """
        left, right = self.bias if isinstance(self.bias, tuple) else (self.bias, self.bias)
        return self._offset(left, q), self._offset(right, q)

    def _offset(self, bias: Tensor | None, q: Tensor) -> Tensor | None:
        if bias is None and self.edge_mask is None:
            return None
        batch, n, _, heads, _ = q.shape
        offset = torch.zeros((), dtype=sums_in(q.dtype), device=q.device) if bias is None else bias.to(sums_in(q.dtype))
        if self.edge_mask is not None:
            offset = offset.masked_fill(~self.edge_mask[:, None], -torch.inf)
        return offset.expand(batch, heads, n, n)

    def arguments(self, device: torch.device | str = "cpu") -> tuple[Tensor | None, int, bool, float, Tensor | None]:
        """As operators take them: the mask, the first target node or -1, whether the key is that of edge (i, j), the
        dropout, and a seed for it that is drawn on this device.
        """
        first = -1 if self.causal_from is None else self.causal_from
        return self.node_mask, first, self.key == "ij", self.dropout_p, draw_seed(self.dropout_p, device)


def sums_in(dtype: torch.dtype) -> torch.dtype:
    """The number type that sums over numbers of this type are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def draw_seed(dropout_p: float, device: torch.device | str = "cpu") -> Tensor | None:
    """A seed from PyTorch's generator, so that torch.manual_seed decides the dropout; None where there is none."""
    return torch.randint(2**62, (1,), device=device) if dropout_p > 0 else None


def drop_below(dropout_p: float) -> int:
    """The 32-bit limit under which a random number means dropping."""
    return min(round(dropout_p * 2**32), 2**32 - 1)


class Engine(ABC):
    """One way to compute triangular attention. A new one needs a name and `attend`; all else has a default."""

    name: ClassVar[str]
    about: ClassVar[str] = "an engine from outside"  # what it is, in a few words
    computes: ClassVar[str] = "every kind of tensor"  # that `takes` says yes to
    remedy: ClassVar[str | None] = None  # how to get it, where its absence costs so much time that a user should know
    chosen_on: ClassVar[tuple[str, ...]] = ()  # types of devices on which "auto" may choose it; empty for all
    cubic_memory: ClassVar[bool] = False  # whether it makes n^3 vectors, not n^2
    takes_offsets: ClassVar[bool] = False  # whether it looks at `Options.offsets`, that is at edge_mask and bias
    gives_weights: ClassVar[bool] = False  # whether it has `weights`

    def describe(self) -> str:
        """What it is, where it is available."""
        return self.about

    def unavailable(self) -> str | None:
        """Why it cannot be used on this machine; None where it can."""
        return None

    def takes(self, tensor: Tensor) -> bool:
        """Whether it computes this kind of tensor, on a machine where it is available."""
        return True

    def usable_for(self, tensor: Tensor) -> bool:
        """Whether it is available and computes this kind of tensor."""
        return self.takes(tensor) and self.unavailable() is None

    def preferred_for(self, tensor: Tensor) -> bool:
        """Whether "auto" may choose it for this kind of tensor."""
        return (not self.chosen_on or tensor.device.type in self.chosen_on) and self.usable_for(tensor)

    def only_for_tests(self, tensor: Tensor) -> bool:
        """Whether it computes this kind of tensor so slowly that its time says nothing."""
        return False

    def why_not(self, tensor: Tensor) -> str | None:
        """Why it cannot be used for this tensor; None where it can."""
        if self.usable_for(tensor):
            return None
        return self.unavailable() or f"it computes {self.computes}, not {tensor.dtype} on {tensor.device}"

    def lacks(self, options: Options, need_weights: bool) -> str | None:
        """Which of the options that not every engine has it does not have; None where it has all that are wanted."""
        if not self.takes_offsets:
            for name in ("edge_mask", "bias"):
                if getattr(options, name) is not None:
                    return name
        return "need_weights" if need_weights and not self.gives_weights else None

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        """`[batch, n, n, heads, head_dim]` each, and so is the result. `v2 = None` is the value ablation."""

    def weights(self, q: Tensor, k: Tensor, options: Options) -> Tensor:
        """The attention weights before dropout, `[batch, heads, i, l, j]`."""
        raise NotImplementedError(f"the engine {self.name} gives no weights")

    def attend_packed(self, parts: Tensor, options: Options) -> Tensor:
        """The same for all of them in one tensor, `[batch, n, n, 3 or 4, heads, head_dim]`; 3 without v2."""
        q, k, v1, *v2 = parts.unbind(3)
        return self.attend(q, k, v1, v2[0] if v2 else None, options)

    def attend_groups(self, parts: Tensor, sizes: Sequence[tuple[int, int]], options: Options) -> Tensor:
        """The same for graphs of several sizes, whose edges lie behind each other:
        `[edges, 3 or 4, heads, head_dim] -> [edges, heads, head_dim]`; `sizes` are numbers of graphs and their nodes.
        """
        groups = zip(parts.split([batch * n * n for batch, n in sizes]), sizes, strict=True)
        mixed = [self.attend_packed(part.unflatten(0, (batch, n, n)), options) for part, (batch, n) in groups]
        return torch.cat([part.flatten(0, 2) for part in mixed])

    def memory(self, parts: Tensor, key: str, capacity: int) -> Memory:
        """What a decoder's layer remembers, at first of the edges among source nodes: `[batch, S, S, 3 or 4, heads,
        head_dim]`. There is room for `capacity` nodes.
        """
        return PlainMemory(parts, key, capacity)
