"""Encoders of tokens: without edges they say the same as with them, and need no memory for pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer.data.tensors import Lexicon, Vocab
from edge_transformer.nn.encoder import TokenEncoder
from edge_transformer.tasks.base import build_encoder
from edge_transformer.tasks.graphs.model import GraphParser
from edge_transformer.tasks.trees.model import TreeParser

SETTINGS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "dim": 8, "heads": 2, "layers": 2},
    "universal": {"kind": "universal", "dim": 8, "heads": 2, "layers": 2},
    "bilstm": {"kind": "bilstm", "dim": 8, "layers": 2},
}


def gradients(output: Tensor, model: torch.nn.Module) -> list[Tensor]:
    model.zero_grad()
    output.sin().sum().backward()
    return [weight.grad.to_dense().clone() for weight in model.parameters() if weight.grad is not None]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", SETTINGS)
def test_tokens_are_encoded_as_the_self_edges_are(kind: str, masked: bool) -> None:
    torch.manual_seed(1)
    encoder = build_encoder(SETTINGS[kind], reads=TreeParser.reads).double()
    assert isinstance(encoder, TokenEncoder)
    tokens = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[5], [3], [1]]) if masked else None
    edges = torch.diag_embed(tokens.transpose(1, 2), dim1=1, dim2=2)
    found, expected = encoder.encode_tokens(tokens, mask), encoder.encode(edges, mask)
    assert found.edges.shape == edges.shape
    assert found.edges.untyped_storage().nbytes() == 8  # one number for all of them
    torch.testing.assert_close(found.nodes, expected.nodes)
    for got, wanted in zip(gradients(found.nodes, encoder), gradients(expected.nodes, encoder), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", SETTINGS)
def test_parsers_of_tokens_say_what_they_say_with_edges(kind: str) -> None:
    torch.manual_seed(1)
    lexicon = Lexicon(Vocab(["a", "b", "c"]), Vocab(["x", "y"]))
    settings = {**SETTINGS[kind], "characters": 4, "word_dim": 6}
    trees = TreeParser(settings, lexicon, Vocab(["dep", "root"])).double()
    for weight in trees.head.parameters():
        torch.nn.init.normal_(weight)
    words, letters, places = torch.tensor([0, 1, 2]), torch.randint(1, 5, (3, 4)), torch.randint(3, (2, 4))
    found = trees(words, letters, places)
    expected = trees.head(trees.encoder.encode(trees.input(words, letters, places)))[:, 1:]
    torch.testing.assert_close(found, expected)
    for got, wanted in zip(gradients(found, trees), gradients(expected, trees), strict=True):
        torch.testing.assert_close(got, wanted)

    graphs = GraphParser(SETTINGS[kind], Vocab(["a", "b"]), {"role": Vocab(["", "agent"])}).double()
    tokens = torch.randint(3, (2, 4))
    encoded = graphs.encoder.encode(graphs.input(tokens))
    parents, roles = graphs(tokens)
    torch.testing.assert_close(parents, graphs.parent(encoded))
    torch.testing.assert_close(roles, graphs.labels[0](encoded))
    of_groups = graphs([tokens, tokens[:1, :3]])
    torch.testing.assert_close(of_groups[0][0], parents)
    torch.testing.assert_close(of_groups[1][0][: tokens.numel()], roles.flatten(0, 1))
