"""What an Edge Transformer can tell apart: as much as the folklore 2-WL test (3-WL), more than 1-WL, and not more.

Graphs have no features: an edge, a self-edge and an absent edge start as three random vectors. Weights are random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import permutations

import pytest
import torch
from torch import Tensor

import edge_transformer as et

pytestmark = pytest.mark.usefixtures("one_thread")
SAME, APART = 1e-9, 1e-6  # differences of readouts: rounding errors are below, differences of graphs above
DEPTHS = (1, 2, 4)
depths = pytest.mark.parametrize("layers", DEPTHS)


# --- graphs, by their definitions -------------------------------------------------------------------------------------


def circulant(n: int, *skips: int) -> Tensor:
    """The adjacency matrix of the graph where node i has edges to i ± each skip, modulo n."""
    difference = (torch.arange(n)[:, None] - torch.arange(n)) % n
    return torch.stack([(difference == skip) | (difference == n - skip) for skip in skips]).any(0)


def union(*graphs: Tensor) -> Tensor:
    """Graphs side by side, without edges between them."""
    return torch.block_diag(*graphs).bool()


def csl(n: int, skip: int) -> Tensor:
    """A cycle with skip links (Murphy et al., 2019)."""
    return circulant(n, 1, skip)


def on_grid(*steps: tuple[int, int]) -> Tensor:
    """Nodes are the places of a 4x4 grid that closes at its ends; edges lead one of these steps on, or back."""
    places = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    difference = (places[:, None] - places) % 4  # (16, 16, 2)
    both = [*steps, *((-row, -column) for row, column in steps)]
    return torch.stack([(difference == torch.tensor(step) % 4).all(-1) for step in both]).any(0)


TWO_TRIANGLES, HEXAGON = union(circulant(3, 1), circulant(3, 1)), circulant(6, 1)
ROOK = on_grid((0, 1), (0, 2), (1, 0), (2, 0))  # fields of a board that a rook's move connects
SHRIKHANDE = on_grid((0, 1), (1, 0), (1, 1))
ONE_WL_PAIRS = {
    "two triangles, hexagon": (TWO_TRIANGLES, HEXAGON),
    "square and pentagon, nonagon": (union(circulant(4, 1), circulant(5, 1)), circulant(9, 1)),
    "CSL(11, 2), CSL(11, 3)": (csl(11, 2), csl(11, 3)),
    "CSL(13, 2), CSL(13, 5)": (csl(13, 2), csl(13, 5)),
    "CSL(41, 2), CSL(41, 9)": (csl(41, 2), csl(41, 9)),
    "prism, K(3, 3)": (circulant(6, 2, 3), circulant(6, 1, 3)),
    "rook's 4x4, circulant": (ROOK, circulant(16, 1, 2, 3)),
}


@cache
def graphs_of(n: int) -> Tensor:
    """One of every kind of graph with n nodes, up to isomorphism: the one whose edges, as a number, are smallest."""
    ends = torch.combinations(torch.arange(n))  # (edges, 2)
    bits = 1 << torch.arange(len(ends))
    chosen = (torch.arange(1 << len(ends))[:, None] & bits) != 0  # all sets of edges
    number = torch.zeros(n, n, dtype=torch.long)
    number[ends[:, 0], ends[:, 1]] = number[ends[:, 1], ends[:, 0]] = torch.arange(len(ends))
    smallest = torch.arange(len(chosen))
    for order in permutations(range(n)):
        moved = torch.tensor(order)[ends]
        code = (chosen.float() @ bits[number[moved[:, 0], moved[:, 1]]].float()).long()
        smallest = torch.minimum(smallest, code)
    chosen = chosen[smallest.unique()]
    adjacency = torch.zeros(len(chosen), n, n, dtype=torch.bool)
    adjacency[:, ends[:, 0], ends[:, 1]] = adjacency[:, ends[:, 1], ends[:, 0]] = chosen
    return adjacency


# --- the tests of Weisfeiler and Leman --------------------------------------------------------------------------------


def one_wl(graphs: Sequence[Tensor]) -> list[Hashable]:
    """What 1-WL sees of each graph: how often each colour is there when nodes are coloured by their neighbours."""
    colours = [[0] * len(graph) for graph in graphs]
    for _ in range(max(map(len, graphs))):
        seen = [
            [(own[i], tuple(sorted(own[j] for j in graph[i].nonzero().flatten().tolist()))) for i in range(len(graph))]
            for graph, own in zip(graphs, colours, strict=True)
        ]
        colours = _numbered(seen)
    return [frozenset(Counter(own).items()) for own in colours]


def folklore_two_wl(graphs: Sequence[Tensor]) -> list[Hashable]:
    """The same for pairs, coloured by the colours of (i, l) and (l, j) for all l: as strong as 3-WL."""
    colours = [(graph.long() + 2 * torch.eye(len(graph), dtype=torch.long)).flatten().tolist() for graph in graphs]
    count = 0
    while len({colour for own in colours for colour in own}) > count:  # until no colour is split
        count = len({colour for own in colours for colour in own})
        seen: list[list[Hashable]] = []
        for graph, own in zip(graphs, colours, strict=True):
            n = len(graph)
            triangles = [
                [sorted((own[i * n + k], own[k * n + j]) for k in range(n)) for j in range(n)] for i in range(n)
            ]
            seen.append([(own[i * n + j], tuple(triangles[i][j])) for i in range(n) for j in range(n)])
        colours = _numbered(seen)
    return [frozenset(Counter(own).items()) for own in colours]


def _numbered(seen: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """A number for every thing seen, the same in all graphs."""
    numbers: dict[Hashable, int] = {}
    return [[numbers.setdefault(each, len(numbers)) for each in own] for own in seen]


def are_equal(seen: Sequence[Hashable]) -> bool:
    return len(set(seen)) == 1


# --- the Edge Transformer ---------------------------------------------------------------------------------------------


def make_encoder(
    seed: int, layers: int, norm: str = "released", tied: bool = False
) -> tuple[et.EdgeTransformer, Tensor]:
    """An encoder with random weights, and the first states of absent edges, edges, self-edges and a marked one."""
    torch.manual_seed(seed)
    config = et.EdgeTransformerConfig(dim=16, heads=2, layers=layers, norm=norm, tied=tied)
    encoder = et.EdgeTransformer(config).double().eval()
    return encoder, torch.randn(4, 16, dtype=torch.float64)


@torch.no_grad()
def states(made: tuple[et.EdgeTransformer, Tensor], graphs: Tensor, mark: int | None = None) -> Tensor:
    """`[batch, n, n]` adjacency -> `[batch, n, n, dim]` final states; a marked node has another self-edge."""
    encoder, start = made
    kinds = graphs.long() + 2 * torch.eye(graphs.shape[1], dtype=torch.long)
    if mark is not None:
        kinds[:, mark, mark] = 3
    return encoder(start[kinds])


def readout(made: tuple[et.EdgeTransformer, Tensor], graphs: Tensor, mark: int | None = None) -> Tensor:
    """The same for every order of the nodes: means over self-edges, and over all edges, of the states and squares."""
    edges = states(made, graphs, mark)
    nodes = edges.diagonal(dim1=1, dim2=2).transpose(1, 2)
    parts = [part for each in (nodes, edges.flatten(1, 2)) for part in (each.mean(1), each.square().mean(1))]
    return torch.cat(parts, dim=-1)


def difference(made: tuple[et.EdgeTransformer, Tensor], one: Tensor, other: Tensor, mark: int | None = None) -> float:
    first, second = readout(made, torch.stack([one, other]), mark)
    return float((first - second).abs().max())


def shuffled(graph: Tensor, seed: int) -> Tensor:
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(seed))
    return graph[order][:, order]


def test_the_graphs_are_what_they_are_called() -> None:
    for graph in (ROOK, SHRIKHANDE):  # strongly regular, (16, 6, 2, 2)
        identity, walks = torch.eye(16, dtype=torch.long), graph.long() @ graph.long()
        assert torch.equal(graph, graph.T)
        assert torch.equal(walks, 6 * identity + 2 * (1 - identity))
    # They differ in how the neighbours of a node are connected: two triangles, and a hexagon.
    for graph, wanted in ((ROOK, TWO_TRIANGLES), (SHRIKHANDE, HEXAGON)):
        neighbours = graph[0].nonzero().flatten()
        found = graph[neighbours][:, neighbours]
        assert are_equal(folklore_two_wl([found, wanted]))
    assert [len(graphs_of(n)) for n in range(1, 7)] == [1, 2, 4, 11, 34, 156]  # OEIS A000088


@pytest.mark.parametrize("pair", ONE_WL_PAIRS.values(), ids=ONE_WL_PAIRS)
def test_what_one_wl_cannot_tell_apart_is_told_apart(pair: tuple[Tensor, Tensor]) -> None:
    assert are_equal(one_wl(pair))
    assert not are_equal(folklore_two_wl(pair))
    for layers in DEPTHS:
        for seed in (1, 2, 3):
            assert difference(make_encoder(seed, layers), *pair) > APART, (layers, seed)


@depths
@pytest.mark.parametrize("norm", ["released", "paper", "pre"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_three_wl_cannot_tell_apart_is_not(norm: str, layers: int, seed: int) -> None:
    assert are_equal(folklore_two_wl([ROOK, SHRIKHANDE]))
    assert difference(make_encoder(seed, layers, norm), ROOK, SHRIKHANDE) < SAME
    assert difference(make_encoder(seed, layers, norm, tied=True), ROOK, shuffled(SHRIKHANDE, seed)) < SAME


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_mark_on_one_node_is_enough_to_tell_them_apart(seed: int) -> None:
    made = make_encoder(seed, layers=4)
    assert difference(made, ROOK, SHRIKHANDE, mark=0) > APART
    for graph in (ROOK, SHRIKHANDE):  # whichever node it is: all nodes of these graphs are alike
        moved = readout(made, graph[None], mark=0) - readout(made, graph[None], mark=6)
        assert float(moved.abs().max()) < SAME


def test_all_graphs_with_six_nodes_are_told_apart() -> None:
    graphs = graphs_of(6)
    assert (len(set(one_wl(list(graphs)))), len(set(folklore_two_wl(list(graphs))))) == (152, 156)
    found = readout(make_encoder(1, layers=4), graphs)
    between = torch.cdist(found, found, p=torch.inf).fill_diagonal_(torch.inf)
    assert float(between.min()) > APART


@depths
@pytest.mark.parametrize("graph", [HEXAGON, csl(13, 5), ROOK, graphs_of(6)[77]], ids=["C6", "CSL", "rook", "other"])
def test_copies_of_a_graph_are_equal(graph: Tensor, layers: int) -> None:
    made = make_encoder(2, layers)
    for seed in range(3):
        assert difference(made, graph, shuffled(graph, seed)) < SAME


def test_states_move_with_the_nodes() -> None:
    made, order = make_encoder(3, 3), torch.randperm(16, generator=torch.Generator().manual_seed(1))
    [plain] = states(made, SHRIKHANDE[None])
    [moved] = states(made, SHRIKHANDE[order][:, order][None])
    torch.testing.assert_close(moved, plain[order][:, order], atol=SAME, rtol=0)
