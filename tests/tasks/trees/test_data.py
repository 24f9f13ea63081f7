"""Dependency parsing: the loss is that of a plain padded model, training and parsing go together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import edge_transformer as et
import two_processes
from agreement import assert_same_loss_and_gradients, assert_same_weights
from command_line import refused, run
from edge_transformer.data.tensors import UNKNOWN
from edge_transformer.data.trees.conllu import DependencySentence, read_conllu, tree_problem, write_conllu
from edge_transformer.errors import DataError, UserError
from edge_transformer.tasks.trees import data as task
from edge_transformer.tasks.trees.data import TreeData, TreeSettings, root_label
from edge_transformer.tasks.trees.model import TreeParser
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer
from official_data import benchmark
from tree_cases import EDGE, make_data, make_tree, random_trees

pytestmark = pytest.mark.usefixtures("one_thread")
EWT = benchmark("ud/EWT")
CPU = torch.device("cpu")
TRANSFORMER = {"kind": "transformer", "dim": 16, "heads": 2, "layers": 2, "max_distance": 4, "arc_dim": 6}
BILSTM = {"kind": "bilstm", "dim": 16, "layers": 2, "label_dim": 5}
SCORES = {"LAS", "UAS", "EM", "CLAS", "EM content"}
VALID_SCORES = {f"valid {name}" for name in SCORES}


def write_folder(folder: Path, **splits: Sequence[DependencySentence]) -> Path:
    folder.mkdir(exist_ok=True)
    for split, trees in splits.items():
        write_conllu(folder / f"{split}.conllu", trees)
    return folder


@pytest.fixture(scope="module")
def trees() -> list[DependencySentence]:
    return random_trees(40, seed=3)


@pytest.fixture
def data(trees: list[DependencySentence]) -> TreeData:
    return make_data(trees, dev=tuple(trees[:10]))


@pytest.fixture
def model(data: TreeData) -> TreeParser:
    torch.manual_seed(1)
    return data.new_model(EDGE)


# --- loss -------------------------------------------------------------------------------------------------------------


def padded_loss(model: TreeParser, trees: Sequence[DependencySentence]) -> Tensor:
    """The loss of one padded batch, word by word and pair by pair."""
    longest = max(tree.size for tree in trees)
    forms = sorted({word for tree in trees for word in tree.words})
    words = torch.tensor([model.lexicon.word(form) for form in forms])
    letters = torch.nn.utils.rnn.pad_sequence([torch.tensor(model.lexicon.spell(form)) for form in forms]).T
    places = torch.zeros(len(trees), longest, dtype=torch.long)
    mask = torch.zeros(len(trees), longest + 1, dtype=torch.bool)
    for row, tree in enumerate(trees):
        mask[row, : tree.size + 1] = True
        places[row, : tree.size] = torch.tensor([forms.index(word) for word in tree.words])
    logits = model(words, letters, places, mask)
    names, losses = list(model.labels), []
    for row, tree in enumerate(trees):
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            label = names.index(relation)
            if model.options.scores == "pairs":
                for other in range(tree.size + 1):
                    losses.append(-logits[row, word, other].log_softmax(-1)[label + 1 if other == head else 0])
            else:
                others = [other for other in range(tree.size + 1) if other != word + 1]
                arcs = (-logits[row, word, others, 0]).log_softmax(-1)
                losses.append(-arcs[others.index(head)] - logits[row, word, head, 1:].log_softmax(-1)[label])
    return torch.stack(losses).sum() / sum(tree.size for tree in trees)


@pytest.mark.parametrize(
    "settings",
    [
        EDGE,
        {**EDGE, "scores": "heads", "characters": 5, "ends": True, "max_distance": 3},
        {**EDGE, "tied": False, "value": "left"},
        {**TRANSFORMER, "characters": 5},
        {**TRANSFORMER, "kind": "universal", "scores": "heads"},
        BILSTM,
        {**BILSTM, "scores": "heads"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_loss_and_gradient_are_those_of_one_padded_batch(
    trees: list[DependencySentence], settings: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "TRAIN_EDGES", 100)  # so that groups are cut too
    data = make_data(trees)
    torch.manual_seed(2)
    model = data.new_model(settings).double()
    if not model.encoder.has_edge_states:  # biaffine weights start at 0, where the networks below get no gradient
        for weight in model.head.parameters():
            torch.nn.init.normal_(weight, std=0.3)
    rows = torch.cat([torch.randperm(len(trees))[:25], torch.tensor([3, 3])])
    batches = list(data.batches(rows))
    assert len(batches) > len(data.train_sizes()[rows].unique())
    loss = torch.stack([data.loss(model, batch, CPU) for batch in batches]).sum() / data.weight(rows)
    assert_same_loss_and_gradients(model, loss, padded_loss(model, [trees[row] for row in rows.tolist()]))


def test_the_rarer_a_word_the_more_often_it_is_read_as_unknown() -> None:
    train = [make_tree(words, [2, 0], ["dep", "root"]) for words in (("A", "b"), ("a", "c"), ("d", "b"), ("e", "b"))]
    plain = next(iter(make_data(train, TreeSettings(lower_case=True)).batches(torch.arange(4))))
    data = make_data(train, TreeSettings(lower_case=True, unknown=0.5))
    torch.manual_seed(1)
    batches = [next(iter(data.batches(torch.arange(4)))) for _ in range(1000)]
    assert all(torch.equal(batch.letters[batch.places], plain.letters[plain.places]) for batch in batches)
    seen = torch.stack([batch.words[batch.places] for batch in batches])  # (1000, 4, 2)
    true = plain.words[plain.places]
    assert torch.equal(torch.where(seen == UNKNOWN, true, seen), true.expand_as(seen))
    hidden = (seen == UNKNOWN).float().mean(0)
    occurs = torch.tensor([[2, 3], [2, 1], [1, 3], [1, 3]])
    torch.testing.assert_close(hidden, 1 / (1 + occurs), atol=0.06, rtol=0)
    one, other = seen[:, 0, 1] == UNKNOWN, seen[:, 2, 1] == UNKNOWN  # the same word in two sentences
    assert bool((one & ~other).any())
    assert bool((one & other).any())


def test_words_that_are_too_rare_for_the_table_have_only_their_letters() -> None:
    train = [make_tree(words, [2, 0], ["dep", "root"]) for words in (("A", "b"), ("a", "c"), ("d", "b"))]
    words = next(iter(make_data(train, TreeSettings(lower_case=True)).batches(torch.arange(3)))).words
    assert len(words) == 5  # A and a are two words to the character model
    assert len(set(words.tolist())) == 4
    assert list(make_data(train, TreeSettings(min_count=2)).lexicon.words) == ["b"]


def test_long_sentences_are_left_out_of_training_only(trees: list[DependencySentence]) -> None:
    long = make_tree(["zebra"] * 9, [0, *[1] * 8], ["root", *["rare"] * 8])
    data = make_data([*trees, long], TreeSettings(max_tokens=8), dev=(long,))
    kept = sum(each.size <= 8 for each in trees)
    assert data.train_rows == data.identity()["train_rows"] == kept
    assert int(data.train_sizes().max()) <= 8
    assert "zebra" not in data.lexicon.words
    assert "rare" not in data.labels
    first, second = data.notes()
    assert first.startswith(f"train: {len(trees) + 1 - kept} sentences have more than 8 words and are left out; {kept}")
    assert second == "dev: 1 of 1 sentences have a relation that no training sentence has; it counts as wrong"
    assert data.evaluate(data.new_model(EDGE), CPU)["valid LAS"] <= 1 / 9
    with pytest.raises(UserError, match=r"data.max_tokens = 3: leaves none of 1 sentences"):
        make_data([long], TreeSettings(max_tokens=3))
    endless = make_tree(["a"] * 513, [0, *[1] * 512], ["root", *["dep"] * 512])
    assert make_data([*trees, endless]).train_rows == len(trees)
    with pytest.raises(DataError, match="a sentence of 513 words; expected at most 512"):
        make_data(trees, test=(endless,))


def test_the_label_of_the_root() -> None:
    trees = [make_tree(["a", "b"], [0, 1], ["root", "x"]), make_tree(["a"], [0], ["root"])]
    assert root_label(trees) == "root"
    assert root_label([*trees, make_tree(["a"], [0], ["top"])]) is None
    assert root_label([*trees, make_tree(["a", "b"], [2, 0], ["root", "root"])]) is None


# --- training and parsing ---------------------------------------------------------------------------------------------

TINY: dict[str, Any] = {"model.dim": 16, "model.heads": 2, "model.layers": 2, "model.characters": 8}
TINY |= {
    "train.batch_size": 40,
    "train.average": 0.0,
    "train.warmup_steps": 5,
    "train.epochs": 4,
    "train.evaluate_every": 1,
}


def make_trainer(folder: Path, out: Path, changes: Mapping[str, Any], preset: str = "trees/cpu") -> Trainer:
    tiny = {name: value for name, value in TINY.items() if name != "model.heads" or "bilstm" not in preset}
    run = RunConfig.from_preset("trees", preset, {**tiny, **changes}, seed=3)
    return Trainer(run, run.load_data(folder), out, Hardware("cpu", threads=1), "a command")


@pytest.mark.parametrize(
    ("preset", "epochs"), [("trees/cpu", 20), ("trees/cpu-transformer", 30), ("trees/cpu-bilstm", 30)]
)
def test_thirty_sentences_are_learned_by_heart_and_parsed(preset: str, epochs: int, tmp_path: Path) -> None:
    trees = random_trees(30, seed=5)
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees, test=trees[:7])
    changes = {"train.epochs": epochs, "train.lr": 0.005, "data.unknown": 0.0, "model.input_dropout": 0.0}
    changes |= {"model.dropout": 0.0, "train.evaluate_every": 100, "model.dim": 32}
    trainer = make_trainer(folder, tmp_path / "run", changes, preset)
    record = trainer.train()
    assert record is not None
    assert set(record.metrics) == {*VALID_SCORES, *SCORES, "loss"}
    assert record.metrics["valid LAS"] > 0.9
    model = et.load(tmp_path / "run")
    assert isinstance(model, TreeParser)
    parsed = model.parse([*trees, "the dog saw the cat .", ["Zebras", "ran"]])
    right = sum(one.heads == two.heads for one, two in zip(parsed, trees, strict=False))
    assert right > 20
    assert parsed[-1].words == ("Zebras", "ran")
    assert all(tree_problem(each.heads) is None for each in parsed)
    write_conllu(tmp_path / "out.conllu", parsed)
    assert list(read_conllu(tmp_path / "out.conllu")) == parsed


def test_two_processes_take_the_same_steps_as_one(trees: list[DependencySentence], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees[:5])
    nothing_drawn = {"model.dropout": 0.0, "model.input_dropout": 0.0, "data.unknown": 0.0, "train.epochs": 2}
    two_processes.assert_same_step("trees", folder, {**TINY, **nothing_drawn}, tmp_path)


def test_resumed_runs_end_with_the_same_weights(trees: list[DependencySentence], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees[:5])
    whole = make_trainer(folder, tmp_path / "whole", {"train.steps": 11})
    assert whole.batches_an_epoch == -(-sum(each.size for each in trees) // 40)
    assert whole.total_steps == 11
    assert whole.train() is not None
    assert [entry["step"] for entry in whole.history][-1] == 11
    cut = make_trainer(folder, tmp_path / "cut", {"train.steps": 11})
    for _ in range(7):
        epoch, place = divmod(cut.step, cut.batches_an_epoch)
        cut.take_step(cut._epoch(epoch)[place])
        cut.step += 1
    cut.loss_weight = 1.0
    cut.save_checkpoint()
    cut.release_folder()
    again = make_trainer(folder, tmp_path / "cut", {"train.steps": 11})
    assert again.step == 7
    assert again.train() is not None
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


def test_a_folder_is_scored_and_answers_come_in_order(trees: list[DependencySentence], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees[:5], test=trees[5:12])
    settings = TreeSettings()
    data = TreeData.load(folder, settings, seed=0)
    assert TreeData.fingerprint(folder, training=False) == data.identity()["fingerprint"]
    model = data.new_model(EDGE)
    scored = TreeData.load(folder, settings, seed=0, model=model)
    assert scored.train_rows == 0
    scores = scored.evaluate(model, CPU)
    gold = [trees[5:12], trees[:5]]
    for prefix, of in zip(("", "valid "), gold, strict=True):
        found = model.parse(of)
        words = sum(each.size for each in of)
        pairs = [
            (a == b, c == d)
            for one, two in zip(found, of, strict=True)
            for a, b, c, d in zip(one.heads, two.heads, one.relations, two.relations, strict=True)
        ]
        assert scores[f"{prefix}UAS"] == pytest.approx(sum(head for head, _ in pairs) / words)
        assert scores[f"{prefix}LAS"] == pytest.approx(sum(head and label for head, label in pairs) / words)
    assert set(data.evaluate_midway(model, CPU)) == VALID_SCORES
    assert data.midway_rows() == 5
    assert scored.evaluation_rows() == 12
    (folder / "train.conllu").unlink()
    assert TreeData.load(folder, settings, 0, model=model).evaluate(model, CPU) == scores
    with pytest.raises(UserError, match="expected one file for train"):
        TreeData.load(folder, settings, 0)
    with pytest.raises(UserError, match="found no training file"):
        TreeData.fingerprint(folder)


def test_unread_tests_and_missing_files(trees: list[DependencySentence], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees[:5], test=trees[5:12])
    data = TreeData.load(folder, TreeSettings(test=False), seed=0)
    assert set(data.evaluate(data.new_model(EDGE), CPU)) == VALID_SCORES
    (folder / "dev.conllu").unlink()
    without_dev = TreeData.load(folder, TreeSettings(), 0)
    assert (without_dev.evaluate_midway(data.new_model(EDGE), CPU), without_dev.midway_rows()) == ({}, 0)
    assert set(without_dev.evaluate(data.new_model(EDGE), CPU)) == SCORES
    with pytest.raises(UserError, match=r"to score besides test.conllu, which data.test=false leaves .* dev.conllu$"):
        TreeData.load(folder, TreeSettings(test=False), seed=0)
    (folder / "test.conllu").unlink()
    with pytest.raises(UserError, match=r"found no file to score; expected dev.conllu or test.conllu"):
        TreeData.load(folder, TreeSettings(), seed=0)
    with pytest.raises(UserError, match="no such folder"):
        TreeData.load(tmp_path / "nowhere", TreeSettings(), seed=0)


def test_a_corpus_and_files_that_split_it(trees: list[DependencySentence], tmp_path: Path) -> None:
    write_conllu(tmp_path / "corpus.conllu", trees)
    for name, first in (("mcd1", 0), ("mcd2", 20)):
        rows = [(first + row) % 40 for row in range(40)]
        parts = {"trainIdxs": rows[:30], "devIdxs": rows[30:35], "testIdxs": rows[35:]}
        (tmp_path / f"{name}.json").write_text(json.dumps(parts))
    data = TreeData.load(tmp_path, TreeSettings(split="mcd2"), seed=0)
    assert (data.train_rows, data.evaluation_rows(), data.identity()["split"]) == (30, 10, "mcd2")
    assert TreeData.fingerprint(tmp_path, split="mcd2") == data.identity()["fingerprint"]
    assert TreeData.fingerprint(tmp_path, split="mcd1") != data.identity()["fingerprint"]
    (tmp_path / "mcd3.json").write_text("{}")  # another split says nothing about this one
    assert TreeData.load(tmp_path, TreeSettings(split="mcd2"), seed=0).identity() == data.identity()
    (tmp_path / "mcd3.json").unlink()
    with pytest.raises(UserError, match=r"expected the choice of one: --set data\.split=mcd1 or --set data\.split="):
        TreeData.load(tmp_path, TreeSettings(), seed=0)


def test_a_run_on_one_split_of_a_corpus_is_scored_on_it_and_on_another(
    trees: list[DependencySentence], tmp_path: Path
) -> None:
    folder, out = tmp_path / "cfq", tmp_path / "run"
    folder.mkdir()
    write_conllu(folder / "corpus.conllu", trees)
    for name, first in (("mcd1", 0), ("mcd2", 20), ("mcd3", 10)):
        rows = [(first + row) % 40 for row in range(40)]
        parts = {"trainIdxs": rows[:30], "devIdxs": rows[30:35], "testIdxs": rows[35:]}
        (folder / f"{name}.json").write_text(json.dumps(parts))
    small = ["--set", "model.dim=16", "--set", "model.layers=1", "--set", "train.steps=2", "--threads", "1"]
    train = ["train", "trees", "--data", str(folder), "--out", str(out), "--set", "data.split=mcd1", *small]
    trained = run(*train)
    assert trained.code == 0, trained.err
    (folder / "mcd3.json").unlink()  # which the run has nothing to do with
    again = run("evaluate", str(out), "--threads", "1")
    assert (again.code, "changed" in again.out) == (0, False), again
    said = [re.findall(r"\b\d+\.\d\b", text) for text in (again.out, trained.out.rpartition("saved in")[0])]
    assert len(said[0]) == 10
    assert said[0] == said[1][-10:]  # the loss has other digits
    assert run(*train).code == 0
    elsewhere = run("evaluate", str(out), "--split", "mcd2", "--threads", "1")
    assert (elsewhere.code, "changed" in elsewhere.out) == (0, False), elsewhere
    assert re.findall(r"\b\d+\.\d\b", elsewhere.out) != said[0]
    assert "expected mcd4.json" in refused("evaluate", str(out), "--split", "mcd4")
    described = run("data", "info", str(folder)).out
    assert [line.split()[0] for line in described.splitlines() if line.startswith("cfq-")] == ["cfq-mcd1", "cfq-mcd2"]


def test_relations_in_capitals_count_as_content_and_others_do_not() -> None:
    capital = [make_tree(["a", "b"], [2, 0], ["NSUBJ", "ROOT"])]
    assert set(make_data(capital, dev=capital).evaluate(make_data(capital).new_model(EDGE), CPU)) == VALID_SCORES
    other = [make_tree(["a", "b"], [2, 0], ["SBJ", "ROOT-S"])]
    scores = make_data(other, dev=other).evaluate(make_data(other).new_model(EDGE), CPU)
    assert set(scores) == {"valid LAS", "valid UAS", "valid EM"}


# --- real data --------------------------------------------------------------------------------------------------------


def test_a_step_on_ewt(tmp_path: Path) -> None:
    if not EWT.is_dir():
        pytest.skip(f"needs Universal Dependencies English EWT in {EWT}")
    for split, count in (("train", 300), ("dev", 20), ("test", 20)):
        with open(EWT / f"en_ewt-ud-{split}.conllu", encoding="utf-8", newline="\n") as file:
            blocks = file.read(1_000_000).split("\n\n")[:count]
        (tmp_path / f"{split}.conllu").write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8", newline="\n")
    trainer = make_trainer(tmp_path, tmp_path / "run", {"train.steps": 2, "train.batch_size": 200})
    assert trainer.data.train_rows > 200
    record = trainer.train()
    assert record is not None
    assert trainer.step == 2
    assert 0 <= record.metrics["LAS"] <= record.metrics["UAS"] <= 1
    longest = trainer.model.parse([" ".join(f"word{number}" for number in range(159))])  # type: ignore[operator]
    assert tree_problem(longest[0].heads) is None
