"""Encoders named by the place of their class: what is imported, when, and what is refused."""

from __future__ import annotations

import copy
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_transformer.errors import UserError
from edge_transformer.nn import encoder as registry
from edge_transformer.nn.encoder import find_encoder, register_encoder
from edge_transformer.nn.layer import EdgeTransformerConfig
from edge_transformer.nn.trust import is_place, trusting

START = """
from edge_transformer.nn.encoder import EdgeTransformer
from edge_transformer.nn.layer import EdgeTransformerConfig
"""
GOOD = f"{START}\nclass Mine(EdgeTransformer):\n    Config = EdgeTransformerConfig\n"

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module that can be imported during the test."""
    monkeypatch.setattr(registry, "_KINDS", copy.deepcopy(registry._KINDS))
    monkeypatch.syspath_prepend(tmp_path)

    def write_module(name: str, code: str) -> None:
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")

    return write_module


def test_places() -> None:
    assert all(map(is_place, ("a:B", "a.b.c:D", "os:system", "_a1:_B")))
    names = ("edge", "a.b", ":B", "a:", ".a:B", "a..b:C", "a:B.c", "a:B:c", "a b:C", "a:B\n", "a/b:C", 3, None)
    assert not any(map(is_place, names))


def test_a_class_is_imported_where_it_is_trusted_and_known_from_then_on(write: Write) -> None:
    write("outside_good", GOOD)
    name = "outside_good:Mine"
    with pytest.raises(
        UserError, match=r"^model.kind: found 'outside_good:Mine', code outside of this library, which is"
    ):
        find_encoder(name, "graphs")
    with trusting("outside_other:Mine"), pytest.raises(UserError, match="--trust outside_good:Mine in a command"):
        find_encoder(name, "graphs")
    assert "outside_good" not in sys.modules
    with trusting([name]):
        found = find_encoder(name, "graphs")
    assert (found.config, found.encoder) == (EdgeTransformerConfig, sys.modules["outside_good"].Mine)
    assert find_encoder(name, "graphs") == find_encoder(name, "tokens") == found
    with pytest.raises(
        UserError, match="found 'outside_good:Mine', which reads graphs and tokens; expected an encoder of"
    ):
        find_encoder(name, "pairs")


def test_a_registered_class_is_trusted(write: Write) -> None:
    write("outside_known", GOOD)
    mine = __import__("outside_known").Mine
    register_encoder("mine", EdgeTransformerConfig, mine)
    assert find_encoder("outside_known:Mine", "graphs").encoder is find_encoder("mine", "graphs").encoder is mine
    with pytest.raises(UserError, match="found 'outside_known:Other', code outside"):
        find_encoder("outside_known:Other", "graphs")
    register_encoder("outside_known:Named", EdgeTransformerConfig, mine, "graphs")
    assert find_encoder("outside_known:Named", "graphs").encoder is mine


def test_trust_ends_with_its_block(write: Write) -> None:
    write("outside_later", GOOD)
    with trusting("outside_later:Mine"):
        pass
    with pytest.raises(UserError, match="code outside of this library"):
        find_encoder("outside_later:Mine", "graphs")
    malformed: tuple[Any, ...] = ("mine", "a.b", ["os:system", "x y"], [3])
    for broken in malformed:
        with (
            pytest.raises(UserError, match=r"^trust: found .*; expected a class as package.module:Class"),
            trusting(broken),
        ):
            pass


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            None,
            r"outside_bad cannot be imported \(No module named 'outside_bad'\); expected a module that Python finds",
        ),
        ("import no_such_thing", r"cannot be imported \(No module named 'no_such_thing'\)"),
        ("x = (", r"cannot be imported \(SyntaxError: "),
        ("raise RuntimeError('broken')", r"cannot be imported \(RuntimeError: broken\)"),
        ("import os; os.nothing", r"cannot be imported \(AttributeError: module 'os' has no attribute 'nothing'\)"),
        ("x = 1", "found 'outside_bad:Mine', but outside_bad has no Mine$"),
        ("class Mines: pass", r"found 'outside_bad:Mine', but outside_bad has no Mine; did you mean Mines\?"),
        ("Mine = print", "which is <built-in function print>; expected a subclass of Encoder"),
        ("class Mine: pass", "which is <class 'outside_bad.Mine'>; expected a subclass of Encoder"),
        ("from torch.nn import Linear as Mine", "expected a subclass of Encoder"),
        (f"{START}\nclass Mine(EdgeTransformer): pass", "with no Config; expected a frozen dataclass with dim"),
        (f"{START}\nclass Mine(EdgeTransformer): Config = 3", "with no Config; expected"),
        (
            f"{START}\nfrom dataclasses import make_dataclass\n"
            "class Mine(EdgeTransformer): Config = make_dataclass('C', ['dim', 'layers'])",
            "with a Config without dropout; expected a frozen dataclass with dim, layers, dropout and min_layers",
        ),
        (f"{GOOD}    reads = 'trees'", "with reads = 'trees'; expected some of graphs, tokens, pairs"),
        (f"{GOOD}    reads = 3", "with reads = 3; expected some of"),
        (f"{GOOD}    reads = 'tokens'", "which reads tokens; expected an encoder of graphs"),
    ],
)
def test_what_is_no_encoder(write: Write, code: str | None, message: str) -> None:
    if code is not None:
        write("outside_bad", code)
    with pytest.raises(UserError, match=message), trusting("outside_bad:Mine"):
        find_encoder("outside_bad:Mine", "graphs")


def test_functions_of_python_are_no_encoders() -> None:
    with pytest.raises(UserError, match="code outside of this library"):
        find_encoder("os:system", "graphs")
    with pytest.raises(UserError, match="expected a subclass of Encoder"), trusting("os:system"):
        find_encoder("os:system", "graphs")
