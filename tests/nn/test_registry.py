"""The registry of encoders: its names, its errors, encoders from outside, and what is imported when."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

from edge_transformer.errors import UserError
from edge_transformer.nn import encoder as registry
from edge_transformer.nn.encoder import EdgeTransformer, encoder_names, find_encoder, register_encoder
from edge_transformer.nn.layer import EdgeTransformerConfig


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_KINDS", copy.deepcopy(registry._KINDS))


class Outside(EdgeTransformer):
    """An encoder that the package does not know."""


def test_names() -> None:
    assert encoder_names("graphs") == ("edge", "rat", "rrat", "gat", "transformer", "universal")
    assert encoder_names("tokens") == ("edge", "rat", "rrat", "transformer", "universal", "bilstm")
    assert encoder_names("pairs") == ("edge", "transformer", "universal")
    assert find_encoder("edge", "graphs") == (EdgeTransformerConfig, EdgeTransformer)


def test_an_encoder_from_outside() -> None:
    register_encoder("outside", EdgeTransformerConfig, Outside)
    register_encoder("outside", EdgeTransformerConfig, Outside, "graphs")  # the same once more
    assert find_encoder("outside", "graphs") == find_encoder("outside", "tokens") == (EdgeTransformerConfig, Outside)
    assert "outside" not in encoder_names("pairs")


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^model.kind: found 'gat'; expected one of edge, rat, rrat, transformer, "):
        find_encoder("gat", "tokens")
    with pytest.raises(ValueError, match="there is an encoder 'rat' of graphs already; choose another name"):
        register_encoder("rat", EdgeTransformerConfig, Outside)
    with pytest.raises(ValueError, match=r"reads='trees' is not known; choose some of \['graphs', 'tokens', 'pairs'\]"):
        register_encoder("outside", EdgeTransformerConfig, Outside, "trees")


def test_an_edge_model_imports_no_baseline() -> None:
    program = """
import sys
import edge_transformer as et
from edge_transformer.nn.encoder import READS, find_encoder
et.load("clutrr-small")
for reads in READS:
    find_encoder("edge", reads)
sys.exit(any("baselines" in name for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
