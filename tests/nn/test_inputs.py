"""From data to the first state of the edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from edge_transformer.nn.inputs import NULL_LABEL, LabelledGraphInput, TokenSequenceInput

# --- labelled graphs --------------------------------------------------------------------------------------------------


def test_every_edge_starts_as_the_embedding_of_its_label() -> None:
    module = LabelledGraphInput(labels=3, dim=4)
    labels = torch.tensor([[[0, 1], [3, 0]], [[2, 2], [0, 1]]])
    states = module(labels)
    assert states.shape == (2, 2, 2, 4)
    for graph in range(2):
        for i in range(2):
            for j in range(2):
                assert torch.equal(states[graph, i, j], module.embedding.weight[labels[graph, i, j]])


def test_the_null_label_comes_beside_the_real_ones() -> None:
    module = LabelledGraphInput(labels=3, dim=4)
    assert NULL_LABEL == 0
    assert module.embedding.weight.shape == (4, 4)
    with pytest.raises(IndexError):
        module(torch.tensor([[[4]]]))


def test_inverse_edges_and_self_edges_have_labels_of_their_own() -> None:
    module = LabelledGraphInput(labels=3, dim=4, inverse_edges=True)
    # 0 -1-> 1, 1 -2-> 2 and 2 -3-> 1: between 1 and 2 the graph has both directions.
    labels = torch.tensor([[[0, 1, 0], [0, 0, 2], [0, 3, 0]]])
    expected = torch.tensor([[[7, 1, 0], [1 + 3, 7, 2], [0, 3, 7]]])
    assert torch.equal(module(labels), module.embedding.weight[expected])
    assert module.embedding.weight.shape == (8, 4)


def test_the_null_label_is_learned_too() -> None:
    module = LabelledGraphInput(labels=2, dim=4)
    module(torch.tensor([[[NULL_LABEL, 1], [NULL_LABEL, NULL_LABEL]]])).sum().backward()
    gradient = module.embedding.weight.grad
    assert gradient is not None
    assert gradient[:, 0].tolist() == [3.0, 1.0, 0.0]  # three absent edges share it


def test_labels_start_within_the_xavier_bound() -> None:
    weight = LabelledGraphInput(labels=59, dim=40).embedding.weight
    bound = math.sqrt(6 / 100)
    assert 0.95 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (1, 2, 3, 3), (1, 3, 3, 2, 1)])
def test_labels_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    pattern = r"labels must be \[batch, n, n\] or \[batch, n, n, m\], but their shape is \["
    with pytest.raises(ValueError, match=pattern) as error:
        LabelledGraphInput(labels=3, dim=4)(torch.zeros(shape, dtype=torch.int64))
    assert str(list(shape)) in str(error.value)


# --- labelled graphs with several labels a pair, and features ---------------------------------------------------------


def by_loop(
    module: LabelledGraphInput, labels: Tensor, nodes: Tensor | None = None, edges: Tensor | None = None
) -> Tensor:
    """What the module should give for (B, n, n, m) labels and features, pair by pair."""
    batch, n = labels.shape[:2]
    states = torch.zeros(batch, n, n, module.embedding.weight.shape[1], dtype=module.embedding.weight.dtype)
    for graph in range(batch):
        for i in range(n):
            for j in range(n):
                told = [label for label in labels[graph, i, j].tolist() if label != NULL_LABEL]
                if module.inverse_edges and not told:
                    told = [label + module.labels for label in labels[graph, j, i].tolist() if label != NULL_LABEL]
                    if i == j:
                        told = [2 * module.labels + 1]
                for label in told or [NULL_LABEL]:
                    states[graph, i, j] += module.embedding.weight[label]
                if edges is not None and module.edge_features is not None:
                    states[graph, i, j] += module.edge_features.weight @ edges[graph, i, j]
                if nodes is not None and module.node_features is not None and i == j:
                    states[graph, i, j] += module.node_features.weight @ nodes[graph, i] + module.node_features.bias
    return states


def random_labels(batch: int, n: int, m: int, labels: int) -> Tensor:
    """Up to m different labels a pair, in ascending order, 0 after them; about half of the pairs have none."""
    found = torch.zeros(batch, n, n, m, dtype=torch.int64)
    for pair in found.reshape(-1, m):
        count = max(0, int(torch.randint(-m, m + 1, ())))
        pair[:count] = (torch.randperm(labels)[:count] + 1).sort().values
    return found


@pytest.mark.parametrize("inverse_edges", [False, True])
@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (2, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_an_edge_is_the_sum_of_its_labels_and_features(most: int, nodes: int, edges: int, inverse_edges: bool) -> None:
    torch.manual_seed(most)
    module = LabelledGraphInput(5, 6, inverse_edges=inverse_edges, node_features=nodes, edge_features=edges).double()
    for n in (1, 2, 5):
        labels = random_labels(3, n, most, 5)
        of_nodes = torch.randn(3, n, nodes).double() if nodes else None
        of_edges = torch.randn(3, n, n, edges).double() if edges else None
        expected = by_loop(module, labels, of_nodes, of_edges)
        torch.testing.assert_close(module(labels, of_nodes, of_edges), expected)
        if most == 1:
            torch.testing.assert_close(module(labels[..., 0], of_nodes, of_edges), expected)
        # The order of the labels and where their padding stands say nothing.
        mixed = labels[..., torch.randperm(most)]
        torch.testing.assert_close(module(mixed, of_nodes, of_edges), expected)


def steps_apart(labels: Tensor, relations: int) -> list[list[float]]:
    """Edges between the nodes of one graph `[n, n, m]`, by breadth-first search."""
    n = len(labels)
    near = [
        [j for j in range(n) if any(0 < k <= relations for k in (*labels[i, j].tolist(), *labels[j, i].tolist()))]
        for i in range(n)
    ]
    found = [[math.inf] * n for _ in range(n)]
    for start in range(n):
        found[start][start] = 0
        queue = [start]
        for node in queue:
            for other in near[node]:
                if found[start][other] == math.inf:
                    found[start][other] = found[start][node] + 1
                    queue.append(other)
    return found


@pytest.mark.parametrize("inverse_edges", [False, True])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("farthest", [1, 2, 3, 9])
def test_pairs_know_how_many_edges_apart_they_are(farthest: int, most: int, inverse_edges: bool) -> None:
    """Along edges alone: labels of nodes and of edges told to be absent lead nowhere."""
    torch.manual_seed(farthest)
    module = LabelledGraphInput(5, 6, inverse_edges=inverse_edges, distances=farthest, relations=3).double()
    assert module.distances is not None
    plain = LabelledGraphInput(5, 6, inverse_edges=inverse_edges).double()
    plain.embedding.weight = module.embedding.weight
    for n in (1, 2, 7):
        labels = random_labels(4, n, most, 5) * (torch.rand(4, n, n, 1) < 0.25)
        numbers = torch.tensor([[[min(x, farthest) for x in row] for row in steps_apart(one, 3)] for one in labels])
        expected = plain(labels) + module.distances.weight[numbers.long()]
        torch.testing.assert_close(module(labels), expected)
        if most == 1:
            torch.testing.assert_close(module(labels[..., 0]), expected)


def test_distances_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="distances must not be negative, but is -1"):
        LabelledGraphInput(3, 4, distances=-1)


@pytest.mark.parametrize("inverse_edges", [False, True])
def test_one_label_a_pair_is_the_embedding_itself(inverse_edges: bool) -> None:
    """Bit for bit what models of plain graphs were trained with, and no other parameters."""
    torch.manual_seed(3)
    module = LabelledGraphInput(4, 5, inverse_edges=inverse_edges)
    assert [name for name, _ in module.named_parameters()] == ["embedding.weight"]
    torch.manual_seed(3)
    weight = torch.nn.init.xavier_uniform_(torch.nn.Embedding(10 if inverse_edges else 5, 5).weight)
    assert torch.equal(module.embedding.weight, weight)
    labels = random_labels(2, 4, 1, 4)[..., 0]
    numbers = labels.clone()
    if inverse_edges:
        for graph in range(2):
            for i in range(4):
                for j in range(4):
                    if not labels[graph, i, j]:
                        back = int(labels[graph, j, i])
                        numbers[graph, i, j] = 9 if i == j else back + 4 if back else 0
    assert torch.equal(module(labels), weight[numbers])
    assert torch.equal(module(labels[..., None]), weight[numbers])
    padded = torch.cat([labels[..., None], torch.zeros(2, 4, 4, 2, dtype=torch.int64)], dim=-1)
    assert torch.equal(module(padded), weight[numbers])


def test_inverse_edges_with_several_labels() -> None:
    module = LabelledGraphInput(labels=3, dim=4, inverse_edges=True)
    # 0 -1,2-> 1; between 1 and 2 the graph has both directions; 2 has a label of its own.
    labels = torch.zeros(1, 3, 3, 2, dtype=torch.int64)
    labels[0, 0, 1] = torch.tensor([1, 2])
    labels[0, 1, 2] = torch.tensor([1, 3])
    labels[0, 2, 1, 0] = 2
    labels[0, 2, 2, 0] = 3
    weight = module.embedding.weight
    rows = [
        [weight[7], weight[1] + weight[2], weight[0]],
        [weight[1 + 3] + weight[2 + 3], weight[7], weight[1] + weight[3]],
        [weight[0], weight[2], weight[3]],
    ]
    torch.testing.assert_close(module(labels)[0], torch.stack([torch.stack(row) for row in rows]))


def test_features_stand_where_they_belong() -> None:
    torch.manual_seed(1)
    module = LabelledGraphInput(2, 4, node_features=2, edge_features=1)
    assert module.node_features is not None
    assert module.edge_features is not None
    labels, nodes, edges = torch.ones(1, 3, 3, dtype=torch.int64), torch.zeros(1, 3, 2), torch.zeros(1, 3, 3, 1)
    before = module(labels, nodes, edges)
    nodes[0, 1], edges[0, 2, 0] = torch.tensor([1.0, -2.0]), 3.0
    change = module(labels, nodes, edges) - before
    changed = [pair.tolist() for pair in change[0].abs().sum(-1).nonzero()]
    assert changed == [[1, 1], [2, 0]]
    torch.testing.assert_close(change[0, 1, 1], module.node_features.weight @ nodes[0, 1])
    torch.testing.assert_close(change[0, 2, 0], 3 * module.edge_features.weight[:, 0])
    # Without edge features a pair is its label alone; a node has a bias.
    assert torch.equal(before[0, 0, 1], module.embedding.weight[1])
    torch.testing.assert_close(before[0, 0, 0], module.embedding.weight[1] + module.node_features.bias)


def test_all_labels_of_a_pair_are_learned_and_padding_is_not() -> None:
    module = LabelledGraphInput(labels=3, dim=4)
    module(torch.tensor([[[[1, 2, 0], [0, 0, 0]], [[3, 0, 0], [1, 2, 3]]]])).sum().backward()
    gradient = module.embedding.weight.grad
    assert gradient is not None
    assert gradient[:, 0].tolist() == [1.0, 2.0, 2.0, 2.0]  # the null label is that of one pair


@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_features_are_given_if_and_only_if_they_are_known(nodes: int, edges: int) -> None:
    module = LabelledGraphInput(2, 4, node_features=nodes, edge_features=edges)
    labels, of_nodes, of_edges = torch.ones(1, 2, 2, dtype=torch.int64), torch.ones(1, 2, 2), torch.ones(1, 2, 2, 3)
    for with_nodes in (False, True):
        for with_edges in (False, True):
            features = of_nodes if with_nodes else None, of_edges if with_edges else None
            if (with_nodes, with_edges) == (nodes > 0, edges > 0):
                assert module(labels, *features).shape == (1, 2, 2, 4)
            else:
                with pytest.raises(ValueError, match="features must be given if and only if"):
                    module(labels, *features)


# --- sequences of tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_distance", [1, 2, 16])
def test_equation_nine(max_distance: int) -> None:
    """x_ij = a(i - j), plus e(t_i) where i = j; distances beyond the largest count as the largest."""
    module = TokenSequenceInput(tokens=7, dim=5, max_distance=max_distance)
    tokens = torch.tensor([[1, 6, 0, 6], [2, 2, 5, 3]])
    states = module(tokens)
    assert states.shape == (2, 4, 4, 5)
    for sentence in range(2):
        for i in range(4):
            for j in range(4):
                clipped = max(-max_distance, min(max_distance, i - j))
                assert module.distances is not None
                expected = module.distances.weight[clipped + max_distance]
                if i == j:
                    expected = expected + module.tokens.weight[tokens[sentence, i]]
                torch.testing.assert_close(states[sentence, i, j], expected)


def test_distances_are_clipped_on_both_sides() -> None:
    module = TokenSequenceInput(tokens=3, dim=4, max_distance=2)
    assert module.distances is not None
    assert module.distances.weight.shape == (5, 4)
    states = module(torch.zeros(1, 6, dtype=torch.int64))[0]
    assert torch.equal(states[5, 0], states[2, 0])
    assert torch.equal(states[0, 5], states[0, 2])
    different = {tuple(states[i, j].tolist()) for i, j in ((0, 2), (0, 1), (0, 0), (1, 0), (2, 0))}
    assert len(different) == 5


def test_distances_start_within_the_xavier_bound_and_tokens_as_pytorch_does() -> None:
    torch.manual_seed(0)
    module = TokenSequenceInput(tokens=500, dim=40, max_distance=16)
    bound = math.sqrt(6 / (33 + 40))
    assert module.distances is not None
    assert 0.95 * bound < module.distances.weight.abs().max() <= bound
    assert module.tokens.weight.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3)])
def test_tokens_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"tokens must be \[batch, n\], but their shape is \[") as error:
        TokenSequenceInput(tokens=3, dim=4)(torch.zeros(shape, dtype=torch.int64))
    assert str(list(shape)) in str(error.value)


def test_a_largest_distance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance must be at least 1, but is 0"):
        TokenSequenceInput(tokens=3, dim=4, max_distance=0)


def test_without_distances_only_the_tokens_are_there() -> None:
    torch.manual_seed(1)
    layer = TokenSequenceInput(5, 4, max_distance=None)
    tokens = torch.tensor([[3, 0, 3]])
    edges = layer(tokens)
    for i in range(3):
        for j in range(3):
            expected = layer.tokens.weight[tokens[0, i]] if i == j else torch.zeros(4)
            assert torch.equal(edges[0, i, j], expected)
    assert [name for name, _ in layer.named_parameters()] == ["tokens.weight"]


@pytest.mark.parametrize("max_distance", [None, 1, 3, 16])
def test_groups_are_as_each_alone(max_distance: int | None) -> None:
    torch.manual_seed(2)
    module = TokenSequenceInput(tokens=9, dim=5, max_distance=max_distance).double()
    groups = [torch.randint(9, size) for size in ((3, 4), (1, 1), (2, 7), (1, 2), (4, 4))]
    each = [module(tokens) for tokens in groups]
    together = module.forward_groups(groups)
    assert [states.shape for states in together] == [states.shape for states in each]
    for one, other in zip(each, together, strict=True):
        torch.testing.assert_close(one, other)
    weights = [torch.randn_like(states) for states in each]
    gradients = []
    for found in (each, together):
        total = torch.stack([(states * weight).sum() for states, weight in zip(found, weights, strict=True)]).sum()
        gradients.append(torch.autograd.grad(total, list(module.parameters())))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    assert module.forward_groups(groups[:1])[0].shape == (3, 4, 4, 5)
