"""The Transformer encoder-decoders: plain equations, and weights of one layer a side."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from edge_transformer.nn.baselines.seq2seq import (
    CausalAttention,
    Seq2SeqTransformerConfig,
    TransformerSeq2Seq,
    UniversalSeq2SeqTransformerConfig,
)
from edge_transformer.nn.baselines.transformer import RelativePositions
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS, draw_vectors, random_pair


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_model(universal: bool = False, layers: int = 3, **options: Any) -> TransformerSeq2Seq:
    kind = UniversalSeq2SeqTransformerConfig if universal else Seq2SeqTransformerConfig
    config = kind(dim=12, heads=3, layers=layers, max_distance=5, **options)
    model = TransformerSeq2Seq(config, SOURCE_TOKENS, TARGET_TOKENS)
    draw_vectors(model)
    return model.double().eval()


def test_causal_attention_is_the_plain_equation() -> None:
    config = Seq2SeqTransformerConfig(dim=6, heads=2, layers=1)
    attention, positions = CausalAttention(config).double(), RelativePositions(6, 2, 2).double()
    nodes = torch.randn(2, 5, 6, dtype=torch.float64)
    found = attention.attend(*attention.parts(nodes), positions(5))
    table = positions.distances.weight.view(5, 2, 2, 3)  # distance, key or value, head, feature
    q, k, v = attention.projections(nodes).view(2, 5, 3, 2, 3).unbind(2)
    for row in range(2):
        for i in range(5):
            heads = []
            for head in range(2):
                relation = [table[min(i - j, 2) + 2, :, head] for j in range(i + 1)]
                keys = torch.stack([k[row, j, head] + relation[j][0] for j in range(i + 1)])
                values = torch.stack([v[row, j, head] + relation[j][1] for j in range(i + 1)])
                heads.append((keys @ q[row, i, head] / 3**0.5).softmax(0) @ values)
            torch.testing.assert_close(found[row, i], attention.output(torch.cat(heads)))


def test_a_source_without_tokens_gives_numbers() -> None:
    model = make_model()
    source, target = random_pair(2, 3, 4)
    mask = torch.tensor([[True] * 3, [False] * 3])
    assert model(source, target, mask).isfinite().all()


def test_a_universal_transformer_has_one_layer_a_side() -> None:
    def count(model: nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(make_model(universal=True, layers=3)) == count(make_model(layers=1))
    source, target = random_pair(1, 3, 4)
    universal, plain = make_model(universal=True, layers=2), make_model(layers=2)
    weights = universal.state_dict()
    both = {name.replace("layers.0", "layers.1"): weight for name, weight in weights.items()}
    plain.load_state_dict(weights | both)
    torch.testing.assert_close(universal(source, target), plain(source, target))


def test_a_largest_distance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance must be at least 1"):
        Seq2SeqTransformerConfig(dim=4, heads=2, layers=1, max_distance=0)
