"""The Transformer encoder-decoders: plain equations, causality, padding, and the cache against the whole pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from edge_transformer.nn.baselines.config import NORMS
from edge_transformer.nn.baselines.seq2seq import (
    FIRST_TARGETS,
    CausalAttention,
    Seq2SeqTransformerConfig,
    TransformerSeq2Seq,
    UniversalSeq2SeqTransformerConfig,
)
from edge_transformer.nn.baselines.transformer import RelativePositions
from edge_transformer.nn.encoder import RECOMPUTE
from seq2seq_cases import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    assert_causal,
    assert_every_parameter_gets_a_gradient,
    assert_padding_changes_nothing,
    decode,
    draw_vectors,
    mask_of,
    random_pair,
)

CASES = [
    {"universal": universal, "norm": norm, "attention_bias": bias}
    for universal in (False, True)
    for norm in NORMS
    for bias in (True, False)
]
cases = pytest.mark.parametrize("options", CASES, ids=lambda options: "-".join(map(str, options.values())))


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


@cases
def test_no_later_token_changes_an_earlier_logit(options: dict[str, Any]) -> None:
    assert_causal(make_model(**options), *random_pair(2, 4, 8))


@cases
@pytest.mark.parametrize("lengths", [(4, 4), (5, 2, 1)], ids=["equal", "padded"])
def test_the_cache_gives_the_logits_of_the_whole_pass(options: dict[str, Any], lengths: tuple[int, ...]) -> None:
    model = make_model(**options)
    source, target = random_pair(len(lengths), max(lengths), FIRST_TARGETS + 10)
    mask = mask_of(*lengths) if len(set(lengths)) > 1 else None
    for limit in (None, 3, FIRST_TARGETS + 10):
        found = decode(model, model.start(source, mask, limit), target)
        torch.testing.assert_close(found, model(source, target, mask))


@cases
def test_padding_changes_nothing(options: dict[str, Any]) -> None:
    assert_padding_changes_nothing(make_model(**options))


def test_a_source_without_tokens_gives_numbers() -> None:
    model = make_model()
    source, target = random_pair(2, 3, 4)
    mask = torch.tensor([[True] * 3, [False] * 3])
    assert model(source, target, mask).isfinite().all()


@pytest.mark.parametrize("universal", [False, True])
def test_reordering(universal: bool) -> None:
    model = make_model(universal)
    source, target = random_pair(3, 5, 10)
    mask = mask_of(5, 2, 4)
    state = model.start(source, mask)
    decode(model, state, target[:, :4])
    order = torch.arange(3)
    steps = {4: [1, 0, 2], 5: [2, 2, 0], 7: [0, 1, 1, 2, 0], 8: [3]}
    for t in range(4, 10):
        if t in steps:
            index = torch.tensor(steps[t])
            model.reorder(state, index)
            order, target = order[index], target[index]
        expected = model(source[order], target[:, : t + 1], mask[order])[:, -1]
        torch.testing.assert_close(model.step(state, target[:, t - 1]), expected)
    with pytest.raises(ValueError, match="rows from 0 to 0"):
        model.reorder(state, torch.tensor([1]))


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


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("again", RECOMPUTE)
def test_every_parameter_gets_a_gradient(norm: str, again: str) -> None:
    model = make_model(norm=norm, dropout=0.1).train()
    assert_every_parameter_gets_a_gradient(model, again)


def test_wrong_arguments_are_refused() -> None:
    model = make_model()
    source, target = random_pair(2, 4, 3)
    with pytest.raises(ValueError, match=r"target must be \[batch=2, T\]"):
        model(source, target[:1])
    with pytest.raises(ValueError, match="max_distance must be at least 1"):
        Seq2SeqTransformerConfig(dim=4, heads=2, layers=1, max_distance=0)
    with pytest.raises(ValueError, match=r"call model.eval\(\) first"):
        model.train().start(source)
    state = model.eval().start(source)
    with pytest.raises(ValueError, match="None at the first step only"):
        model.step(state, target[:, 0])
