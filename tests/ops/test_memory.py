"""The compiled step of decoding against the one in plain PyTorch."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from attention_cases import needs_kernels
from edge_transformer.ops import memory
from edge_transformer.ops.memory import NativeMemory, PlainMemory, Step
from edge_transformer.ops.native import NATIVE

pytestmark = needs_kernels
OPTIONS = list(product(("lj", "ij"), ("product", "left")))
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
each_option = pytest.mark.parametrize(("key", "value"), OPTIONS)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


class Pair:
    """Both kinds of memory, which must agree after every step."""

    def __init__(
        self, batch: int, sources: int, heads: int, features: int, key: str, value: str, dtype: torch.dtype, room: int
    ) -> None:
        self.dtype, self.shape = dtype, (batch, 4 if value == "product" else 3, heads, features)
        parts = torch.randn(batch, sources, sources, *self.shape[1:], dtype=dtype)
        self.compiled = NATIVE.memory(parts, key, sources + room)
        self.plain = PlainMemory(parts, key, sources + room)
        self.nodes = sources

    def step(self, mask: Tensor | None = None) -> None:
        self.nodes += 1
        parts = torch.randn(2 * self.nodes - 1, *self.shape, dtype=self.dtype)
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(len(mask), self.nodes - mask.shape[1])], dim=1)
        found, expected = self.compiled.extend(parts, mask), self.plain.extend(parts, mask)
        torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[self.dtype])

    def reorder(self, *rows: int) -> None:
        for each in (self.compiled, self.plain):
            each.reorder(torch.tensor(rows), self.nodes)
        self.shape = (len(rows), *self.shape[1:])

    def grow(self, room: int) -> None:
        for each in (self.compiled, self.plain):
            each.grow(self.nodes + room, self.nodes)


@each_option
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("features", [1, 3, 8, 12, 16, 31, 32, 33, 50, 90])
def test_any_number_of_features(features: int, dtype: torch.dtype, key: str, value: str) -> None:
    pair = Pair(2, 5, 3, features, key, value, dtype, room=6)
    for _ in range(6):
        pair.step()


@each_option
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("sources", [1, 2, 7, 8, 9, 30])
def test_any_number_of_nodes(sources: int, dtype: torch.dtype, key: str, value: str) -> None:
    """The room ends where the last node does, so that what lies behind it would be read if anything were."""
    pair = Pair(1, sources, 2, 5, key, value, dtype, room=18)
    for _ in range(18):
        pair.step()


@each_option
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_masks_reordering_and_growth(dtype: torch.dtype, key: str, value: str) -> None:
    pair = Pair(3, 9, 2, 6, key, value, dtype, room=3)
    mask = torch.arange(9) < torch.tensor([9, 1, 4])[:, None]
    for rows, room in (((0, 2, 1), 0), ((1, 1, 2), 4), ((0, 1, 2, 2, 1), 0), ((4, 0), 30), ((0, 1), 0)):
        pair.step(mask)
        pair.reorder(*rows)
        mask = mask[list(rows)]
        if room:
            pair.grow(room)
        pair.step(mask)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_what_was_never_written_is_not_seen(dtype: torch.dtype) -> None:
    pair = Pair(2, 3, 2, 5, "lj", "product", dtype, room=12)
    assert isinstance(pair.compiled, NativeMemory)
    used = pair.compiled._used(3).clone()
    pair.compiled._tensor.fill_(torch.nan)
    pair.compiled._used(3).copy_(used)
    for _ in range(12):
        pair.step()


@each_option
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_without_vectors_of_this_cpu(dtype: torch.dtype, key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def portable(**fields: object) -> Step:
        return Step(**{**fields, "isa": 0})

    monkeypatch.setattr(memory, "Step", portable)
    pair = Pair(2, 6, 2, 11, key, value, dtype, room=4)
    for _ in range(4):
        pair.step()


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SMALLEST_SHARE", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        pair = Pair(3, 6, 2, 8, "lj", "product", torch.float32, room=4)
        for _ in range(4):
            pair.step()
    finally:
        torch.set_num_threads(before)


def test_no_node_without_room() -> None:
    pair = Pair(1, 4, 2, 3, "lj", "product", torch.float32, room=1)
    pair.step()
    with pytest.raises(ValueError, match="there is room for 5 nodes, not for 6"):
        pair.step()


def test_no_rows() -> None:
    pair = Pair(2, 4, 2, 3, "lj", "product", torch.float32, room=3)
    pair.compiled.reorder(torch.tensor([], dtype=torch.long), 4)
    assert pair.compiled.extend(torch.empty(9, 0, 4, 2, 3), None).shape == (9, 0, 2, 3)
