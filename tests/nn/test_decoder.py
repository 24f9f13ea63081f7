"""The encoder-decoder: its graph, its causality, padding, and the edge cache against the whole pass."""

from __future__ import annotations

import doctest
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_transformer import EdgeTransformerConfig
from edge_transformer.nn import decoder as decoder_module
from edge_transformer.nn.cache import FIRST_TARGETS
from edge_transformer.nn.decoder import DecoderInput, EdgeSeq2Seq
from edge_transformer.nn.layer import NORMS
from edge_transformer.ops.memory import LANES
from edge_transformer.ops.native import NATIVE
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS, decode, draw_vectors, mask_of, random_pair

OPTIONS: list[dict[str, Any]] = [
    {"key": key, "value": value, "tied": tied, "norm": norm, "attention_bias": bias}
    for key, value, tied, norm, bias in product(("lj", "ij"), ("product", "left"), (True, False), NORMS, (True, False))
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
OPTIONS += [{**options, "ends": True} for options in (OPTIONS[0], OPTIONS[-1])]
FEW = [OPTIONS[0], OPTIONS[-1], {"key": "ij", "tied": False, "norm": "pre"}, {"value": "left", "norm": "paper"}]
some_options = pytest.mark.parametrize("options", FEW, ids=str)
plain_and_compiled = pytest.mark.parametrize("engine", ["einsum", "auto"])  # the latter where there are kernels


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_model(
    layers: int = 3,
    target_tokens: int | None = TARGET_TOKENS,
    engine: str = "auto",
    ends: bool = False,
    **options: Any,
) -> EdgeSeq2Seq:
    config = EdgeTransformerConfig(dim=12, heads=3, layers=layers, **options)
    model = EdgeSeq2Seq(config, SOURCE_TOKENS, target_tokens, max_distance=5, ends=ends, engine=engine)
    draw_vectors(model)
    return model.eval()


# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_first_state_of_the_edges() -> None:
    build = DecoderInput(dim=4, max_distance=2)
    source, embedded = torch.randn(2, 3, 3, 4), torch.randn(2, 5, 4)
    edges = build(source, embedded)
    assert edges.shape == (2, 8, 8, 4)
    table = build.relations.weight
    assert torch.equal(edges[:, :3, :3], source)
    for i, j in product(range(8), range(8)):
        if i < 3 and j < 3:
            continue
        if i < 3 or j < 3:
            expected = table[5 if i < 3 else 6].expand(2, -1)
        else:
            expected = table[max(-2, min(2, i - j)) + 2] + (embedded[:, i - 3] if i == j else torch.zeros(2, 4))
        assert torch.equal(edges[:, i, j], expected), (i, j)


def test_edges_that_know_both_ends_from_the_start() -> None:
    build, without = DecoderInput(dim=4, max_distance=2, ends=True), DecoderInput(dim=4, max_distance=2)
    without.load_state_dict({name: value for name, value in build.state_dict().items() if "_ends" not in name})
    source, embedded = torch.randn(2, 3, 3, 4), torch.randn(2, 5, 4)
    added = build(source, embedded) - without(source, embedded)
    assert build.source_ends is not None
    assert build.target_ends is not None
    of_nodes = [build.source_ends(source[:, i, i]) for i in range(3)]
    of_nodes += [build.target_ends(embedded[:, t]) for t in range(5)]
    for i, j in product(range(8), range(8)):
        known = of_nodes[i][:, :4] + of_nodes[j][:, 4:]
        torch.testing.assert_close(added[:, i, j], torch.zeros(2, 4) if i < 3 and j < 3 else known)


@pytest.mark.parametrize("ends", [False, True])
def test_the_edges_of_a_new_node(ends: bool) -> None:
    build = DecoderInput(dim=4, max_distance=2, ends=ends)
    source_edges, embedded = torch.randn(2, 3, 3, 4), torch.randn(2, 5, 4)
    edges, of_nodes = build(source_edges, embedded), build.first_ends(source_edges)
    for t in range(5):
        last = 3 + t
        new, of_nodes = build.new_edges(last + 1, 3, embedded[:, t], of_nodes)
        column, row = edges[:, :last, last].transpose(0, 1), edges[:, last, : last + 1].transpose(0, 1)
        torch.testing.assert_close(new, torch.cat([column, row]))


@some_options
def test_logits_are_read_from_the_self_edges_of_the_target(options: dict[str, Any]) -> None:
    model = make_model(**options)
    source, target = random_pair(2, 4, 6)
    assert model.target_tokens is not None
    embedded = model.target_tokens(target[:, :-1])
    embedded = torch.cat([model.decoder_input.beginning.expand(2, 1, -1), embedded], 1)
    edges = model.decoder_input(model.encoder(model.source_input(source)), embedded)
    final = model.decoder(edges, causal_from=4)
    own = torch.stack([final[:, node, node] for node in range(4, 10)], 1)
    torch.testing.assert_close(model(source, target), model.output(own))


def test_one_vocabulary_has_one_table() -> None:
    one, two = make_model(target_tokens=None), make_model(target_tokens=SOURCE_TOKENS)
    assert {name for name, _ in two.named_parameters()} - {name for name, _ in one.named_parameters()} == {
        "target_tokens.weight"
    }
    one.load_state_dict({name: weight for name, weight in two.state_dict().items() if not name.startswith("target_")})
    nn.init.zeros_(one.source_input.tokens.weight)
    two.load_state_dict({**two.state_dict(), "source_input.tokens.weight": one.source_input.tokens.weight})
    two.load_state_dict({**two.state_dict(), "target_tokens.weight": one.source_input.tokens.weight})
    source, target = random_pair(1, 3, 4)
    assert torch.equal(one(source, target), two(source, target))
    assert one.output.bias is None


# --- what depends on what ---------------------------------------------------------------------------------------------


def test_no_later_token_gets_a_gradient() -> None:
    model = make_model().double()
    source, _ = random_pair(1, 4, 6)
    embedded = torch.randn(1, 6, 12, dtype=torch.float64, requires_grad=True)
    edges = model.decoder_input(model.encoder(model.source_input(source)), embedded)
    states = model.decoder.read_targets(edges, 4)
    for t in range(6):
        (gradient,) = torch.autograd.grad((states[0, t] * torch.randn(12)).sum(), embedded, retain_graph=True)
        assert (gradient[0, t + 1 :] == 0).all()
        assert (gradient[0, : t + 1].abs().sum(-1) > 0).all()


def test_every_source_token_matters() -> None:
    model = make_model().double()
    source, target = random_pair(1, 4, 3)
    logits = model(source, target)
    for place in range(4):
        changed = source.clone()
        changed[:, place] = (changed[:, place] + 1) % SOURCE_TOKENS
        assert ((model(changed, target) - logits).abs().amax(-1) > 1e-9).all()


def test_a_random_number_of_layers_in_training() -> None:
    model = make_model(layers=3, min_layers=1, norm="pre").train()
    source, target = random_pair(1, 3, 4)
    # Encoder and decoder draw on their own. A decoder of one layer sees no edge among source nodes, so that there the
    # depth of the encoder makes no difference.
    assert len({tuple(model(source, target).flatten().tolist()) for _ in range(60)}) == 7


# --- the cache --------------------------------------------------------------------------------------------------------


@every_option
@plain_and_compiled
@pytest.mark.parametrize("lengths", [(4, 4), (5, 2, 1)], ids=["equal", "padded"])
def test_the_cache_gives_the_logits_of_the_whole_pass(
    options: dict[str, Any], engine: str, lengths: tuple[int, ...]
) -> None:
    model = make_model(engine=engine, **options)
    source, target = random_pair(len(lengths), max(lengths), FIRST_TARGETS + 6)
    mask = mask_of(*lengths) if len(set(lengths)) > 1 else None
    found = decode(model, model.start(source, mask), target)
    torch.testing.assert_close(found, model(source, target, mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_cache_of_shallow_models(layers: int) -> None:
    model = make_model(layers=layers).double()
    source, target = random_pair(2, 1, 5)
    torch.testing.assert_close(decode(model, model.start(source), target), model(source, target))


def room(nodes: int, engine: str) -> int:
    """Numbers that a grid has room for, for each feature: the kernel wants whole vectors."""
    compiled = engine == "auto" and NATIVE.unavailable() is None
    return nodes * (-(-nodes // LANES) * LANES if compiled else nodes)


@plain_and_compiled
@pytest.mark.parametrize("limit", [None, 1, 10, 40, 50])
def test_the_cache_grows(limit: int | None, engine: str) -> None:
    """Also where more steps are made than was said."""
    model = make_model(layers=2, engine=engine).double()
    source, target = random_pair(1, 3, 45)
    state = model.start(source, limit=limit)
    assert state.numbers == 4 * 12 * room(3 + min(limit or FIRST_TARGETS, FIRST_TARGETS), engine)
    sizes = []
    found = []
    for t in range(45):
        found.append(model.step(state, target[:, t - 1] if t else None))
        sizes.append(state.numbers)
    torch.testing.assert_close(torch.stack(found, 1), model(source, target))
    assert len(set(sizes)) <= 7  # seldom
    if limit is not None and limit >= 45:
        assert sizes[-1] == 4 * 12 * room(3 + limit, engine)
    assert (state.steps, state.nodes) == (45, 48)


@plain_and_compiled
def test_rows_that_stay_are_not_copied(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(engine=engine)
    source, target = random_pair(3, 2, 3)
    state = model.start(source)
    decode(model, state, target)
    moved: list[int] = []
    plain = Tensor.index_select

    def counted(self: Tensor, dim: int, index: Tensor) -> Tensor:
        moved.append(len(index))
        return plain(self, dim, index)

    monkeypatch.setattr(Tensor, "index_select", counted)
    model.reorder(state, torch.tensor([0, 1, 2]))
    assert moved == []
    model.reorder(state, torch.tensor([0, 0, 2]))
    assert set(moved) == {1}


@pytest.mark.parametrize("options", [{}, {"key": "ij"}, {"value": "left"}, {"key": "ij", "value": "left"}], ids=str)
def test_no_more_is_remembered_than_needed(options: dict[str, Any]) -> None:
    state = make_model(layers=4, **options).start(torch.zeros(2, 3, dtype=torch.long), limit=5)
    parts = 4 - ("key" in options) - ("value" in options)
    assert state.numbers == 3 * parts * 2 * 12 * 8**2  # nothing for the last layer


def test_a_step_computes_new_edges_only() -> None:
    """Count what the feed-forward network sees: 2n - 1 edges a layer, and one in the last."""
    model = make_model(layers=3)
    source, target = random_pair(2, 4, 5)
    state = model.start(source)
    seen: list[int] = []
    layer: Any = model.decoder.layers[0]
    layer.feed_forward.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0][..., 0].numel() // 2))
    for t in range(5):
        seen.clear()
        model.step(state, target[:, t - 1] if t else None)
        assert seen == [2 * (5 + t) - 1, 2 * (5 + t) - 1, 1]


def test_a_largest_distance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance must be at least 1"):
        DecoderInput(4, 0)


def test_the_example_in_the_documentation() -> None:
    results = doctest.testmod(decoder_module)
    assert results.attempted >= 5
    assert results.failed == 0
