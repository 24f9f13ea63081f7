"""Graph parsing: the loss is that of a plain padded model, scores are counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agreement import assert_same_loss_and_gradients
from edge_transformer.data.graphs.folder import GraphFolder
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.errors import UserError
from edge_transformer.tasks.graphs import data as task
from edge_transformer.tasks.graphs import model as graph_parser
from edge_transformer.tasks.graphs.data import GraphData, GraphSettings
from edge_transformer.tasks.graphs.model import GraphParser
from graph_cases import EDGE, TRANSFORMER, make_data, make_graph, random_graphs

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def graphs() -> list[TokenGraph]:
    return random_graphs(40, seed=3)


@pytest.fixture
def data(graphs: list[TokenGraph]) -> GraphData:
    return make_data(graphs, dev=graphs[:10])


@pytest.fixture
def model(data: GraphData) -> GraphParser:
    torch.manual_seed(1)
    return data.new_model(EDGE)


# --- loss -------------------------------------------------------------------------------------------------------------


def padded_loss(model: GraphParser, graphs: Sequence[TokenGraph]) -> Tensor:
    """The sum over heads of the mean over all tokens, computed in one padded batch with a mask."""
    longest = max(graph.size for graph in graphs)
    tokens = torch.zeros(len(graphs), longest, dtype=torch.long)
    mask = torch.zeros(len(graphs), longest, dtype=torch.bool)
    targets = torch.full((1 + len(model.columns), len(graphs), longest), -100)
    for row, graph in enumerate(graphs):
        mask[row, : graph.size] = True
        tokens[row, : graph.size] = torch.tensor([list(model.tokens).index(token) + 1 for token in graph.tokens])
        targets[0, row, : graph.size] = torch.tensor(graph.parents)
        for column, (name, known) in enumerate(model.columns.items(), start=1):
            numbers = [list(known).index(label) for label in graph.labels[name]]
            targets[column, row, : graph.size] = torch.tensor(numbers)
    # A padding token's own row has no candidates but real tokens, and is not counted.
    losses = [
        F.cross_entropy(logits[mask], target[mask]) for logits, target in zip(model(tokens, mask), targets, strict=True)
    ]
    return torch.stack(losses).sum()


@pytest.mark.parametrize(
    "settings",
    [
        EDGE,
        {**EDGE, "tied": False, "value": "left"},
        {**EDGE, "key": "ij"},
        TRANSFORMER,
        {**TRANSFORMER, "kind": "universal"},
        {"kind": "rat", "dim": 16, "heads": 2, "layers": 2},
        {"kind": "rrat", "dim": 16, "heads": 2, "layers": 2},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_loss_and_gradient_are_those_of_one_padded_batch(
    graphs: list[TokenGraph], settings: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "TRAIN_EDGES", 100)  # so that groups are cut too
    data = make_data(graphs)
    torch.manual_seed(2)
    model = data.new_model(settings).double()
    rows = torch.cat([torch.randperm(len(graphs))[:25], torch.tensor([3, 3])])
    batches = list(data.batches(rows))
    assert 1 < len(batches) < len(rows)
    groups = [group for batch in batches for group in batch]
    assert len(groups) > max(len(batches), len(data.train_sizes()[rows].unique()))
    assert all(sum(group.edges for group in batch) <= 100 for batch in batches)
    total = torch.stack([data.loss(model, batch, CPU) for batch in batches]).sum()
    expected = padded_loss(model, [graphs[row] for row in rows.tolist()])
    assert_same_loss_and_gradients(model, total / data.weight(rows), expected)


def test_every_token_has_the_same_weight(graphs: list[TokenGraph], data: GraphData) -> None:
    assert data.weight(torch.tensor([0, 5, 5])) == graphs[0].size + 2 * graphs[5].size
    assert data.train_sizes().tolist() == [graph.size for graph in graphs]
    seen = sum(group.tokens.numel() for batch in data.batches(torch.arange(data.train_rows)) for group in batch)
    assert seen == data.weight(torch.arange(data.train_rows))


def test_rare_words_are_read_as_unknown_now_and_then() -> None:
    train = [make_graph("Ann ran", [1, 1]), make_graph("Bob ran", [1, 1]), make_graph("Ann Ann saw", [2, 2, 2])]
    never = make_data(train)
    assert all(
        (group.tokens != graph_parser.UNKNOWN).all() for batch in never.batches(torch.arange(3)) for group in batch
    )
    sometimes = make_data(train, GraphSettings(unknown=0.5))
    torch.manual_seed(1)
    hidden = dict.fromkeys(("Ann", "Bob", "ran", "saw"), 0)
    names = list(sometimes.tokens)
    for _ in range(200):
        [groups], [plain] = sometimes.batches(torch.arange(3)), never.batches(torch.arange(3))
        for group, same in zip(groups, plain, strict=True):
            for number in same.tokens[group.tokens == graph_parser.UNKNOWN].tolist():
                hidden[names[number - 1]] += 1
    assert hidden["Ann"] == hidden["ran"] == 0  # two sentences have them
    assert 60 < hidden["Bob"] < 140
    assert 60 < hidden["saw"] < 140


# --- score ------------------------------------------------------------------------------------------------------------


class Oracle(nn.Module):
    """Answers with given targets, by sentence."""

    def __init__(self, data: GraphData, answers: Sequence[TokenGraph]) -> None:
        super().__init__()
        self.data, self.answers = data, {answer.tokens: answer for answer in answers}

    def forward(self, tokens: Tensor) -> list[Tensor]:
        words = ["?", *self.data.tokens]
        found = [self.answers[tuple(words[number] for number in row)] for row in tokens.tolist()]
        parents = F.one_hot(torch.tensor([graph.parents for graph in found]), tokens.shape[1])
        columns = []
        for name, known in self.data.columns.items():
            numbers = [[list(known).index(label) for label in graph.labels[name]] for graph in found]
            columns.append(F.one_hot(torch.tensor(numbers), len(known)))
        return [parents.float(), *(column.float() for column in columns)]


def test_a_row_is_right_where_everything_is() -> None:
    right = [
        make_graph("Ann ran .", [1, 1, 2], role="arg - -", kind="N V -"),
        make_graph("Bob ran .", [1, 1, 2], role="arg - -", kind="N V -"),
        make_graph("Ann saw Bob", [1, 1, 1], role="arg - arg", kind="N V N"),
        make_graph("dog", [0], role="-", kind="N"),
    ]
    wrong_parent = make_graph("Bob ran .", [0, 1, 2], role="arg - -", kind="N V -")
    wrong_label = make_graph("Ann saw Bob", [1, 1, 1], role="arg - arg", kind="N V V")
    data = make_data(right, dev=right, test=right[1:])
    told: list[int] = []
    assert data.evaluate(Oracle(data, right), CPU, told.append) == {"dev": 1.0, "test": 1.0}
    assert sum(told) == data.evaluation_rows() == 7
    mixed = Oracle(data, [right[0], wrong_parent, wrong_label, right[3]])
    assert data.evaluate(mixed, CPU) == {"dev": 0.5, "test": pytest.approx(1 / 3)}
    told.clear()
    assert data.evaluate_midway(mixed, CPU, told.append) == {"dev": 0.5}  # the test rows are left alone
    assert sum(told) == data.midway_rows() == 4
    without_dev = make_data(right, test=right[1:])
    assert (without_dev.evaluate_midway(mixed, CPU), without_dev.midway_rows()) == ({}, 0)


def test_groups_are_scored_apart() -> None:
    words = ("Ann", "Bob", "dog", "saw")
    right = [make_graph(word, [0], group="names" if word in ("Ann", "Bob") else "", kind="N") for word in words]
    wrong = [make_graph("Ann", [0], kind="V"), *right[1:]]
    train = [*right, make_graph("ran", [0], kind="V")]
    data = make_data(train, test=right)
    assert data.evaluate(Oracle(data, wrong), CPU) == {"test": 0.75, "test/names": 0.5, "test/no group": 1.0}


def test_labels_that_nobody_could_know_count_as_wrong() -> None:
    train = [make_graph("Ann ran", [1, 1], kind="N V")]
    test = [
        make_graph("Ann ran", [1, 1], kind="N V"),
        make_graph("Ann ran", [1, 1], kind="N AUX"),
        make_graph("Ann fell", [1, 1], kind="N V"),
    ]
    data = make_data(train, test=test)
    assert data.notes() == [
        "test: 1 of 3 rows have a word that no training row has; it is read as unknown",
        "test: 1 of 3 rows have a label that no training row has; they count as wrong",
    ]
    answers = [make_graph("Ann ran", [1, 1], kind="N V"), make_graph("Ann ?", [1, 1], kind="N V")]
    assert data.evaluate(Oracle(data, answers), CPU) == {"test": pytest.approx(2 / 3)}
    assert make_data(train, test=train).notes() == []


def test_scores_of_a_real_model_are_those_of_its_answers(
    graphs: list[TokenGraph], data: GraphData, model: GraphParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(30):
        optimizer.zero_grad()
        for batch in data.batches(torch.arange(40)):
            data.loss(model, batch, CPU).backward()
        optimizer.step()
    model.eval()
    parses = model.parse([graph.tokens for graph in graphs[:10]])
    right = [parse.graph == graph for parse, graph in zip(parses, graphs, strict=False)]
    assert sum(right) > 0
    assert data.evaluate(model, CPU)["dev"] == sum(right) / 10
    monkeypatch.setattr(graph_parser, "PREDICT_EDGES", 30)
    assert data.evaluate(model, CPU)["dev"] == sum(right) / 10
    # A trained model brings its own vocabularies.
    again = GraphData(GraphFolder("tiny", "0a", {"dev": graphs[:10]}), GraphSettings(), seed=1, model=model)
    assert again.evaluate(model, CPU) == data.evaluate(model, CPU)


@pytest.mark.parametrize("settings", [{**EDGE, "dim": 32}, {**TRANSFORMER, "dim": 32}], ids=["edge", "transformer"])
def test_a_tiny_model_learns_thirty_sentences_by_heart(settings: Mapping[str, Any]) -> None:
    graphs = random_graphs(30, seed=5, longest=7)
    data = make_data(graphs, dev=graphs)
    torch.manual_seed(1)
    model = data.new_model(settings)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        for batch in data.batches(torch.arange(30)):
            (data.loss(model, batch, CPU) / data.weight(torch.arange(30))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    assert data.evaluate(model, CPU) == {"dev": 1.0}


def test_sentences_whose_phrases_changed_places_are_trained_on_and_named(graphs: list[TokenGraph]) -> None:
    plain = make_data(graphs, dev=graphs[:10])
    settings = GraphSettings(augmented=0.5, augmented_tokens=12, augmented_kind="kind", augmented_place="role")
    more = make_data(graphs, settings, dev=graphs[:10])
    added = more.train_rows - plain.train_rows
    assert 0 < added <= len(graphs) / 2
    assert more.identity()["augmented_rows"] == added
    assert more.train_sizes().max() <= 12
    assert list(more.tokens) == list(plain.tokens)
    assert more.evaluation_rows() == plain.evaluation_rows()
    with pytest.raises(ValueError, match=r"augmented must be from 0 to 100, but is -1"):
        GraphSettings(augmented=-1)
    with pytest.raises(ValueError, match=r"augmented needs augmented_kind"):
        GraphSettings(augmented=1)
    with pytest.raises(ValueError, match=r"augmented_tokens must be from 1 to 512, but is 513"):
        GraphSettings(augmented_tokens=513)
    with pytest.raises(UserError, match=r"kind: found colour; expected one of the columns of the rows: role, kind"):
        make_data(graphs, GraphSettings(augmented=1, augmented_kind="colour"))
    with pytest.raises(UserError, match=r"augmented_place: found colour"):
        make_data(graphs, GraphSettings(augmented=1, augmented_kind="kind", augmented_place="colour"))
    empty = [replace(each, labels={**each.labels, "kind": ("",) * each.size}) for each in graphs]
    with pytest.raises(UserError, match=r"found no phrases of up to 24 tokens that can swap places by their labels in"):
        make_data(empty, GraphSettings(augmented=1, augmented_kind="kind"))
    few = make_data(graphs, GraphSettings(augmented=100, augmented_tokens=2, augmented_kind="kind"))
    assert few.notes()[0].startswith("data.augmented asks for 4000 new sentences; ")


def test_any_word_can_be_hidden(graphs: list[TokenGraph]) -> None:
    data = make_data(graphs, GraphSettings(hidden=0.3))
    torch.manual_seed(1)
    rows = torch.arange(data.train_rows)
    tokens = torch.cat([group.tokens.flatten() for batch in data.batches(rows) for group in batch])
    assert 0.2 < float((tokens == graph_parser.UNKNOWN).double().mean()) < 0.4
    plain = make_data(graphs)
    assert all((group.tokens != graph_parser.UNKNOWN).all() for batch in plain.batches(rows) for group in batch)


def test_what_a_hidden_word_is_called_is_not_asked(graphs: list[TokenGraph]) -> None:
    data = make_data(graphs, GraphSettings(hidden=0.3, name_column="kind"))
    column = 1 + list(data.columns).index("kind")
    torch.manual_seed(1)
    groups = [group for batch in data.batches(torch.arange(data.train_rows)) for group in batch]
    hidden = torch.cat([group.tokens.flatten() == graph_parser.UNKNOWN for group in groups])
    targets = torch.cat([group.targets.flatten(0, 1) for group in groups])  # (tokens, 1 + columns)
    assert hidden.any()
    assert torch.equal(targets[:, column] == task.UNSEEN, hidden)
    assert (targets[:, [place for place in range(targets.shape[1]) if place != column]] != task.UNSEEN).all()
    model = data.new_model(EDGE)
    model.eval()
    loss = float(data.loss(model, groups, CPU).detach())
    asked = [replace(group, targets=group.targets.clamp(min=0)) for group in groups]
    assert 0 < loss < float(data.loss(model, asked, CPU).detach())
    with pytest.raises(
        UserError, match=r"data\.name_column: found colour; expected one of the columns of the rows: role"
    ):
        make_data(graphs, GraphSettings(name_column="colour"))
