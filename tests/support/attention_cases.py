"""What the tests of the attention engines share: inputs, options, layouts, vector codes, outputs with gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer.ops import native
from edge_transformer.ops.attention import ENGINES, KEYS, VALUES
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Engine, Options
from edge_transformer.ops.native import NATIVE, library

Attend = Callable[..., Tensor]  # called like `Engine.attend`
Parts = tuple[Tensor, Tensor, Tensor, Any]  # q, k, v1 and v2, which is None for the value ablation
needs_kernels = pytest.mark.skipif(NATIVE.unavailable() is not None, reason=str(NATIVE.unavailable()))
NAMES = ("output", "gradient of q", "gradient of k", "gradient of v1", "gradient of v2")
VECTOR_CODES = ("portable", "AVX2", "AVX-512")
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def device_of(engine: Engine) -> str | None:
    """A device of this machine whose tensors an engine computes."""
    return next((name for name in DEVICES if engine.usable_for(torch.empty(0, device=name))), None)


EVERY_ENGINE = [
    pytest.param(name, marks=pytest.mark.skipif(device_of(engine) is None, reason=str(engine.unavailable())))
    for name, engine in ENGINES.items()
]


@dataclass(frozen=True)
class Case:
    """One combination of what triangular attention can be asked for."""

    masked: bool = False
    causal: bool = False
    key: str = "lj"
    value: str = "product"

    def __str__(self) -> str:
        words = ["masked"] * self.masked + ["causal"] * self.causal
        return "-".join([*words, f"key_{self.key}", self.value])

    def options(self, batch: int, n: int, seed: int = 0, dropout_p: float = 0.0) -> Options:
        """These for graphs of this size."""
        mask = random_mask(batch, n, seed) if self.masked else None
        return Options(mask, n // 2 if self.causal else None, self.key, dropout_p)


ALL_CASES = [Case(*choice) for choice in product((False, True), (False, True), KEYS, VALUES)]
every_case = pytest.mark.parametrize("case", ALL_CASES, ids=str)


def random_mask(batch: int, n: int, seed: int = 0) -> Tensor:
    """Real nodes in random places, not only in front; in the last of several graphs every node is padding."""
    mask = torch.rand(batch, n, generator=torch.Generator().manual_seed(seed)) < 0.7
    mask[:, 0] = True
    if batch > 1:
        mask[-1] = False
    return mask


def random_parts(
    batch: int, n: int, heads: int, head_dim: int, *, value: str = "product", dtype: torch.dtype = torch.float64
) -> Parts:
    """Parts that want gradients."""
    generator = torch.Generator().manual_seed(1000 * n + head_dim)
    shape = (batch, n, n, heads, head_dim)
    parts = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(4)]
    return parts[0], parts[1], parts[2], parts[3] if value == "product" else None


def present(parts: Sequence[Tensor | None]) -> list[Tensor]:
    """The parts that are there, as autograd wants them."""
    return [part for part in parts if part is not None]


def outcome(attend: Attend, parts: Parts, options: Options, *, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Output and the gradients of the parts at this precision, for a fixed gradient of the output."""
    leaves = [None if part is None else part.detach().to(dtype).requires_grad_() for part in parts]
    out = attend(*leaves, options)
    return [out.detach(), *torch.autograd.grad(out, present(leaves), upstream(out).to(dtype))]


def upstream(out: Tensor) -> Tensor:
    """The gradient that comes to an output of this shape: numbers that every number type has."""
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).bfloat16().double()


def exact_outcome(parts: Parts, options: Options) -> list[Tensor]:
    """What every engine should come close to: the plain equations in float64."""
    return outcome(EINSUM.attend, parts, options)


def worst(found: Tensor, exact: Tensor) -> float:
    """The largest error of any number."""
    return (found.double() - exact.double()).abs().max().item() if exact.numel() else 0.0


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {  # a contiguous tensor -> one of the same shape and other strides
    "transposed": lambda x: x.transpose(1, 2),
    "heads first": lambda x: x.permute(0, 3, 1, 2, 4).contiguous().permute(0, 2, 3, 1, 4),
    "features first": lambda x: x.movedim(-1, 0).contiguous().movedim(0, -1),
    "one graph for all": lambda x: x[:1].expand(x.shape),
    "one row for all": lambda x: x[:, :1].expand(x.shape),
    "one head for all": lambda x: x[:, :, :, :1].expand(x.shape),
    "one number for all features": lambda x: x[..., :1].expand(x.shape),
    "every other node": lambda x: x.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, ::2, 1::2],
    "every other feature": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "part of the features": lambda x: torch.cat([x, x.detach(), x.detach()], -1)[..., : x.shape[-1]],
    "starts in the middle": lambda x: torch.cat([x.detach()[:1], x])[1:],
}


def usable_vector_codes() -> list[int]:
    """The kinds of vectors that this CPU runs, as the library counts them; none where there is no library."""
    return [] if NATIVE.unavailable() else list(range(library().edge_transformer_best_isa() + 1))


@contextmanager
def vector_code(code: int) -> Iterator[None]:
    """Make the library run this kind of vector, not the best that this CPU has."""

    class Forced(native.Problem):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields | {"isa": code})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "Problem", Forced)
        yield


NO_OFFSETS = (None, None)  # of the scores, as operators take them


def check_operator(op: Any, *arguments: Any) -> None:
    """PyTorch finds no fault with an operator: neither its schema nor its gradients nor its traces."""
    results = torch.library.opcheck(op, arguments)
    assert set(results) >= {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"}
    assert set(results.values()) == {"SUCCESS"}
