"""Enhanced dependencies: empty nodes are collapsed as in the shared tasks, DEPS is written back, ELAS and EULAS."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.edges import Edge, SentenceGraph
from edge_transformer.data.graphs.enhanced import enhanced_graph, enhanced_scores, with_enhanced
from edge_transformer.data.trees.conllu import DependencySentence, read_conllu, read_conllu_lines
from edge_transformer.errors import DataError
from official_data import benchmark

TREEBANK = benchmark("ud/EWT")


def sentence(*deps: str, ids: str = "") -> DependencySentence:
    """Words with these DEPS; `ids` names the lines where some are empty nodes."""
    names = ids.split() or [str(number) for number in range(1, len(deps) + 1)]
    rows = []
    for name, cell in zip(names, deps, strict=True):
        tree = "_\t_" if "." in name else "0\troot" if name == "1" else "1\tdep"
        rows.append(f"{name}\tw{name}\t_\t_\t_\t_\t{tree}\t{cell}\tSpaceAfter=No")
    [found] = read_conllu_lines("\n".join(["# sent_id = a", *rows]).splitlines(), "test.conllu")
    return found


def test_words_with_several_heads() -> None:
    graph = enhanced_graph(sentence("0:root", "1:nsubj|3:nsubj:pass", "1:conj:and"))
    assert graph == SentenceGraph(
        ("w1", "w2", "w3"), ((0, 0, "root"), (0, 1, "nsubj"), (2, 1, "nsubj:pass"), (0, 2, "conj:and"))
    )


@pytest.mark.parametrize(
    ("ids", "deps", "collapsed"),
    [
        ("1 2 2.1 3", ["0:root", "1:obj", "1:conj", "2.1:nsubj"], [(0, 2, "conj>nsubj")]),
        ("1 1.1 1.2 2", ["0:root", "1:conj", "1.1:obj", "1.2:det"], [(0, 1, "conj>obj>det")]),
        ("1 1.1 2", ["0:root", "1:conj|2:acl:relcl", "1.1:obj"], [(0, 1, "conj>obj"), (1, 1, "acl:relcl>obj")]),
        ("1 1.1 2", ["0:root", "0:root", "1.1:obj"], [(1, 1, "root>obj")]),
        ("1 1.1 2", ["0:root", "1:conj", "1:obj"], []),  # nothing is below the empty node
        # The empty nodes lead to each other; only paths without a circle end at a word.
        ("1 1.1 1.2 2", ["0:root", "1:a|1.2:b", "1.1:c", "1.2:d"], [(0, 1, "a>c>d")]),
        ("1 1.1 2", ["0:root", "1.1:a", "1:obj|1.1:b"], []),
    ],
)
def test_paths_through_empty_nodes_are_one_edge(ids: str, deps: list[str], collapsed: list[Edge]) -> None:
    graph = enhanced_graph(sentence(*deps, ids=ids))
    assert [edge for edge in graph.edges if ">" in edge[2]] == collapsed


def test_graphs_are_written_into_deps() -> None:
    before = sentence("0:root", "1:obj", "1:conj", "2.1:nsubj", ids="1 2 2.1 3")
    graph = SentenceGraph(before.words, ((0, 0, "root"), (2, 1, "obj"), (0, 1, "nsubj"), (2, 2, "conj>nsubj")))
    after = with_enhanced(before, graph)
    deps = [line.split("\t")[8] for line in after.lines[1:]]
    assert deps == ["0:root", "1:nsubj|3:obj", "3:conj>nsubj"]  # and no line of the empty node
    assert after.lines[0] == "# sent_id = a"
    assert after.lines[1] == "1\tw1\t_\t_\t_\t_\t0\troot\t0:root\tSpaceAfter=No"
    [again] = read_conllu_lines(after.text.splitlines(), "again.conllu")
    assert enhanced_graph(again) == graph
    with pytest.raises(DataError, match="a graph of 1 tokens; expected one of 3"):
        with_enhanced(before, SentenceGraph(("a",), ()))


def test_words_without_an_edge_have_none() -> None:
    after = with_enhanced(sentence("0:root", "1:obj"), SentenceGraph(("w1", "w2"), ((0, 0, "root"),)))
    assert after.lines[2].split("\t")[8] == "_"


@pytest.mark.parametrize(
    ("deps", "found"),
    [
        (["0:root", "_"], "DEPS _ of word 2"),
        (["0:root", "3:obj"], "DEPS '3:obj' of word 2"),
        (["0:root", "1.1:obj"], "DEPS '1.1:obj' of word 2"),
        (["0:root", "1"], "DEPS '1' of word 2"),
        (["0:root", "1:obj|"], "DEPS '1:obj|' of word 2"),
        (["0:dep", "1:obj"], "0:dep of word 1"),
        (["0:root", "1:root"], "1:root of word 2"),
    ],
)
def test_broken_columns_are_named(deps: list[str], found: str) -> None:
    with pytest.raises(DataError) as error:
        enhanced_graph(sentence(*deps))
    assert (str(error.value.path), error.value.line) == ("test.conllu", 1)
    assert found in error.value.found


def test_too_many_paths_are_refused() -> None:
    """Each layer of empty nodes doubles the paths."""
    ids, deps = ["1"], ["0:root"]
    above = ["1"]
    for layer in range(20):
        own = [f"1.{2 * layer + 1}", f"1.{2 * layer + 2}"]
        ids += own
        deps += ["|".join(f"{head}:dep" for head in above)] * 2
        above = own
    with pytest.raises(DataError, match="10000 paths through empty nodes"):
        enhanced_graph(sentence(*deps, "|".join(f"{head}:dep" for head in above), ids=" ".join([*ids, "2"])))


def graph(*edges: Edge) -> SentenceGraph:
    return SentenceGraph(("a", "b", "c"), edges)


ROOT: Edge = (0, 0, "root")


@pytest.mark.parametrize(
    ("gold", "found", "elas", "eulas"),
    [
        ([ROOT], [ROOT], 1.0, 1.0),
        ([ROOT, (0, 1, "obl:in")], [ROOT, (0, 1, "obl:on")], 0.5, 1.0),
        ([ROOT, (0, 1, "conj:and>nsubj")], [ROOT, (0, 1, "conj:or>nsubj:pass")], 0.5, 1.0),
        ([ROOT, (0, 1, "obj")], [ROOT, (2, 1, "obj")], 0.5, 0.5),
        ([ROOT, (0, 1, "obj"), (2, 1, "obj")], [ROOT, (0, 1, "obj")], 0.8, 0.8),
        ([ROOT, (0, 1, "obj")], [], 0.0, 0.0),
        # The official scorer compares each gold edge with each edge found.
        ([(0, 1, "obl:in"), (0, 1, "obl:on")], [(0, 1, "obl:in"), (0, 1, "obl:at")], 0.5, 2.0),
    ],
)
def test_elas_and_eulas(gold: list[Edge], found: list[Edge], elas: float, eulas: float) -> None:
    scores = enhanced_scores([graph(*gold)], [graph(*found)])
    assert scores == pytest.approx({"ELAS": elas, "EULAS": eulas})


def test_scores_are_of_all_sentences_together() -> None:
    scores = enhanced_scores(
        [graph(ROOT), graph(ROOT, (0, 1, "obj"))], [graph(ROOT), graph((0, 1, "obj"), (0, 2, "x"))]
    )
    assert scores == pytest.approx({"ELAS": 2 * 2 / 6, "EULAS": 2 * 2 / 6})
    assert enhanced_scores([], []) == {"ELAS": 0.0, "EULAS": 0.0}


@st.composite
def enhanced(draw: st.DrawFn) -> SentenceGraph:
    size = draw(st.integers(2, 6))
    token = st.integers(0, size - 1)
    labels = st.sampled_from(["nsubj", "obl:in", "conj>nsubj", "acl:relcl>obj"])
    edges: list[Edge] = []
    for dependent in range(size):
        heads = draw(st.lists(st.tuples(token, labels), max_size=3))
        edges += [(head, dependent, label) for head, label in heads]
        if not heads or draw(st.booleans()):
            edges.append((dependent, dependent, draw(st.sampled_from(["root", "root>obj"]))))
    return SentenceGraph(tuple(f"w{number}" for number in range(1, size + 1)), tuple(edges))


@settings(max_examples=200, deadline=None)
@given(found=enhanced())
def test_graphs_come_back_from_deps(found: SentenceGraph) -> None:
    written = with_enhanced(sentence(*["1:dep"] * found.size), found)
    [again] = read_conllu_lines(written.text.splitlines(), "again.conllu")
    assert enhanced_graph(again) == found


@pytest.mark.skipif(not TREEBANK.is_dir(), reason=f"needs the English Web Treebank in {TREEBANK}")
@pytest.mark.parametrize(("part", "sentences", "edges"), [("dev", 2_001, 26_386), ("test", 2_077, 26_235)])
def test_the_web_treebank_comes_back(part: str, sentences: int, edges: int) -> None:
    treebank = list(read_conllu(TREEBANK / f"en_ewt-ud-{part}.conllu"))
    graphs = [enhanced_graph(each) for each in treebank]
    assert (len(graphs), sum(len(each.edges) for each in graphs)) == (sentences, edges)
    for each, its_graph in zip(treebank, graphs, strict=True):
        written = with_enhanced(each, its_graph)
        if not any("." in line.split("\t")[0] for line in each.lines if line[0] != "#"):
            assert written.text == each.text
        [again] = read_conllu_lines(written.text.splitlines(), "again.conllu")
        assert enhanced_graph(again) == its_graph
