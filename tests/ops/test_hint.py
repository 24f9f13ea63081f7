"""The hint for who could have the compiled kernels and has not: once, with the reason and the remedy."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from edge_transformer.ops import attention, native
from edge_transformer.ops.attention import resolve_engine, triangular_attention


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    monkeypatch.setattr(attention, "_hinted", False)


def test_the_hint_names_reason_and_remedy() -> None:
    with pytest.warns(UserWarning, match="no compiled kernels: told so. Install a C compiler and install the package"):
        assert resolve_engine("auto", torch.zeros(1)).name == "blocked"


def test_the_hint_comes_once_and_from_the_attention_too() -> None:
    parts = torch.randn(4, 1, 3, 3, 2, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            triangular_attention(*parts)
    assert ["edge-transformer info" in str(warning.message) for warning in caught] == [True]


@pytest.mark.parametrize(
    ("engine", "like"),
    [
        ("blocked", torch.zeros(1)),  # as asked for
        ("auto", torch.zeros(1, device="meta")),  # the kernels would not compute these
    ],
    ids=["asked for", "meta"],
)
def test_no_hint_where_the_kernels_would_not_help(engine: str, like: Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_engine(engine, like)
    assert not attention._hinted


def test_no_hint_within_a_trace() -> None:
    """A trace cannot warn, and must not break."""

    def double(x: Tensor) -> Tensor:
        return x * (2 if resolve_engine("auto", x).name == "blocked" else 3)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        compiled = torch.compile(double, backend="eager", fullgraph=True)
        assert compiled(torch.ones(1)).item() == 2
    assert not attention._hinted
