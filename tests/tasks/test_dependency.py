"""Dependency parsing: the loss is that of a plain padded model, answers are trees, training and parsing go together."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import assert_same_loss_and_gradients, assert_same_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import edge_transformer as et
import two_processes
from command_line import refused, run
from edge_transformer.data.treebank_folders import TreebankData
from edge_transformer.data.treebanks import DependencySentence, read_conllu, tree_problem, write_conllu
from edge_transformer.data.words import UNKNOWN
from edge_transformer.errors import DataError, UserError
from edge_transformer.lines import ArrivingLines
from edge_transformer.run import Hardware, RunConfig
from edge_transformer.tasks import dependency as task
from edge_transformer.tasks.dependency import TreebankSettings, TreebankTask, root_label
from edge_transformer.tasks.tree_parser import TreeParser, spanning_trees
from edge_transformer.train import Trainer
from official_data import benchmark

pytestmark = pytest.mark.usefixtures("one_thread")
EWT = benchmark("ud/EWT")
CPU = torch.device("cpu")
EDGE = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}
TRANSFORMER = {"kind": "transformer", "dim": 16, "heads": 2, "layers": 2, "max_distance": 4, "arc_dim": 6}
BILSTM = {"kind": "bilstm", "dim": 16, "layers": 2, "label_dim": 5}
SCORES = {"LAS", "UAS", "EM", "CLAS", "EM content"}
VALID_SCORES = {f"valid {name}" for name in SCORES}
WORDS = ("the", "The", "dog", "cat", "saw", "ran", "that", ".")


def tree(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> DependencySentence:
    return DependencySentence.of_words(words).with_tree(heads, relations)


def random_trees(count: int, seed: int, longest: int = 9) -> list[DependencySentence]:
    """Sentences of random words whose trees follow from the words, so that they can be learned."""
    generator = torch.Generator().manual_seed(seed)
    trees = []
    for _ in range(count):
        size = int(torch.randint(1, longest + 1, (), generator=generator))
        words = [WORDS[number] for number in torch.randint(len(WORDS), (size,), generator=generator).tolist()]
        verb = next((place for place, word in enumerate(words, start=1) if word in ("saw", "ran")), 1)
        heads, relations = [], []
        for place, word in enumerate(words, start=1):
            before_a_noun = word in ("the", "The") and place < size and place + 1 != verb
            heads.append(0 if place == verb else place + 1 if before_a_noun else verb)
            relations.append("root" if place == verb else "det" if before_a_noun else "punct" if word == "." else "dep")
        good = tree_problem(heads) is None
        trees.append(tree(words, heads, relations) if good else tree(words[:1], [0], ["root"]))
    return trees


def make_data(
    train: Sequence[DependencySentence], settings: TreebankSettings | None = None, **splits: Any
) -> TreebankTask:
    data = TreebankData("tiny", "0a", {"train": tuple(train), **splits})
    return TreebankTask(data, settings or TreebankSettings())


def write_folder(folder: Path, **splits: Sequence[DependencySentence]) -> Path:
    folder.mkdir(exist_ok=True)
    for split, trees in splits.items():
        write_conllu(folder / f"{split}.conllu", trees)
    return folder


@pytest.fixture(scope="module")
def trees() -> list[DependencySentence]:
    return random_trees(40, seed=3)


@pytest.fixture
def data(trees: list[DependencySentence]) -> TreebankTask:
    return make_data(trees, dev=tuple(trees[:10]))


@pytest.fixture
def model(data: TreebankTask) -> TreeParser:
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
    train = [tree(words, [2, 0], ["dep", "root"]) for words in (("A", "b"), ("a", "c"), ("d", "b"), ("e", "b"))]
    plain = next(iter(make_data(train, TreebankSettings(lower_case=True)).batches(torch.arange(4))))
    data = make_data(train, TreebankSettings(lower_case=True, unknown=0.5))
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
    train = [tree(words, [2, 0], ["dep", "root"]) for words in (("A", "b"), ("a", "c"), ("d", "b"))]
    words = next(iter(make_data(train, TreebankSettings(lower_case=True)).batches(torch.arange(3)))).words
    assert len(words) == 5  # A and a are two words to the character model
    assert len(set(words.tolist())) == 4
    assert list(make_data(train, TreebankSettings(min_count=2)).lexicon.words) == ["b"]


def test_long_sentences_are_left_out_of_training_only(trees: list[DependencySentence]) -> None:
    long = tree(["zebra"] * 9, [0, *[1] * 8], ["root", *["rare"] * 8])
    data = make_data([*trees, long], TreebankSettings(max_tokens=8), dev=(long,))
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
        make_data([long], TreebankSettings(max_tokens=3))
    endless = tree(["a"] * 513, [0, *[1] * 512], ["root", *["dep"] * 512])
    assert make_data([*trees, endless]).train_rows == len(trees)
    with pytest.raises(DataError, match="a sentence of 513 words; expected at most 512"):
        make_data(trees, test=(endless,))


def test_the_label_of_the_root() -> None:
    trees = [tree(["a", "b"], [0, 1], ["root", "x"]), tree(["a"], [0], ["root"])]
    assert root_label(trees) == "root"
    assert root_label([*trees, tree(["a"], [0], ["top"])]) is None
    assert root_label([*trees, tree(["a", "b"], [2, 0], ["root", "root"])]) is None


# --- decoding ---------------------------------------------------------------------------------------------------------


def all_trees(size: int) -> list[tuple[int, ...]]:
    return [heads for heads in product(range(size + 1), repeat=size) if tree_problem(heads) is None]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_decoding_gives_the_best_of_all_trees(size: int, batch: int, seed: int, rounded: bool) -> None:
    scores = torch.randn(batch, size, size + 1, generator=torch.Generator().manual_seed(seed))
    if rounded:  # many trees are equally good
        scores = scores.round()
    scores[:, torch.arange(size), torch.arange(1, size + 1)] = -1e9
    found = spanning_trees(scores)
    for table, heads in zip(scores, found.tolist(), strict=True):
        assert tree_problem(heads) is None

        def total(heads: Sequence[int], table: Tensor = table) -> float:
            return sum(float(table[word, head]) for word, head in enumerate(heads))

        assert total(heads) == pytest.approx(max(map(total, all_trees(size))), abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10_000), st.sampled_from(["pairs", "heads"]))
def test_whatever_the_logits_answers_are_trees(size: int, seed: int, scores: str) -> None:
    data = make_data([tree(["a", "b"], [0, 1], ["root", "x"]), tree(["a", "b"], [0, 1], ["root", "y"])])
    model = data.new_model({**EDGE, "scores": scores})
    generator = torch.Generator().manual_seed(seed)
    logits = 10 * torch.randn(2, size, size + 1, 4, generator=generator)
    arcs, labels = model.best_arcs(logits)
    heads = spanning_trees(arcs)
    names = list(model.labels)
    for row, of_row in enumerate(heads.tolist()):
        assert tree_problem(of_row) is None
        for word, head in enumerate(of_row):
            assert (names[int(labels[row, word, head])] == "root") == (head == 0)


def test_the_score_of_a_tree_is_its_probability(model: TreeParser) -> None:
    """With `pairs`, all pairs answer for themselves, null or a label: the best tree is the likeliest set of answers."""
    size, labels = 3, len(model.labels)
    logits = torch.randn(1, size, size + 1, 1 + labels)
    model.root_label = None
    arcs, best = model.best_arcs(logits)
    chances = logits.log_softmax(-1)
    totals = {}
    for heads in all_trees(size):
        likely = chances[0, :, :, 0].sum()
        for word, head in enumerate(heads):
            likely = likely - chances[0, word, head, 0] + chances[0, word, head, 1:].max()
        totals[heads] = float(likely)
    [found] = spanning_trees(arcs).tolist()
    assert tuple(found) == max(totals, key=lambda heads: totals[heads])
    assert int(best[0, 0, found[0]]) == int(logits[0, 0, found[0], 1:].argmax())


def test_no_numbers_no_trees() -> None:
    with pytest.raises(ValueError, match="nan or inf"):
        spanning_trees(torch.full((1, 2, 3), float("nan")))


# --- training and parsing ---------------------------------------------------------------------------------------------

TINY: dict[str, Any] = {"model.dim": 16, "model.heads": 2, "model.layers": 2, "model.characters": 8}
TINY |= {
    "train.batch_size": 40,
    "train.average": 0.0,
    "train.warmup_steps": 5,
    "train.epochs": 4,
    "train.evaluate_every": 1,
}


def make_trainer(folder: Path, out: Path, changes: Mapping[str, Any], preset: str = "dependency/cpu") -> Trainer:
    run = RunConfig.from_preset("dependency", preset, {**TINY, **changes}, seed=3)
    return Trainer(run, run.load_data(folder), out, Hardware("cpu", threads=1), "a command")


@pytest.mark.parametrize(
    ("preset", "epochs"), [("dependency/cpu", 20), ("dependency/cpu-transformer", 30), ("dependency/cpu-bilstm", 30)]
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
    two_processes.assert_same_step("dependency", folder, {**TINY, **nothing_drawn}, tmp_path)


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
    settings = TreebankSettings()
    data = TreebankTask.load(folder, settings, seed=0)
    assert TreebankTask.fingerprint(folder, training=False) == data.identity()["fingerprint"]
    model = data.new_model(EDGE)
    scored = TreebankTask.load(folder, settings, seed=0, model=model)
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
    assert TreebankTask.load(folder, settings, 0, model=model).evaluate(model, CPU) == scores
    with pytest.raises(UserError, match="expected one file for train"):
        TreebankTask.load(folder, settings, 0)
    with pytest.raises(UserError, match="found no training file"):
        TreebankTask.fingerprint(folder)


def test_unread_tests_and_missing_files(trees: list[DependencySentence], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bank", train=trees, dev=trees[:5], test=trees[5:12])
    data = TreebankTask.load(folder, TreebankSettings(test=False), seed=0)
    assert set(data.evaluate(data.new_model(EDGE), CPU)) == VALID_SCORES
    (folder / "dev.conllu").unlink()
    without_dev = TreebankTask.load(folder, TreebankSettings(), 0)
    assert (without_dev.evaluate_midway(data.new_model(EDGE), CPU), without_dev.midway_rows()) == ({}, 0)
    assert set(without_dev.evaluate(data.new_model(EDGE), CPU)) == SCORES
    with pytest.raises(UserError, match=r"to score besides test.conllu, which data.test=false leaves .* dev.conllu$"):
        TreebankTask.load(folder, TreebankSettings(test=False), seed=0)
    (folder / "test.conllu").unlink()
    with pytest.raises(UserError, match=r"found no file to score; expected dev.conllu or test.conllu"):
        TreebankTask.load(folder, TreebankSettings(), seed=0)
    with pytest.raises(UserError, match="no such folder"):
        TreebankTask.load(tmp_path / "nowhere", TreebankSettings(), seed=0)


def test_a_corpus_and_files_that_split_it(trees: list[DependencySentence], tmp_path: Path) -> None:
    write_conllu(tmp_path / "corpus.conllu", trees)
    for name, first in (("mcd1", 0), ("mcd2", 20)):
        rows = [(first + row) % 40 for row in range(40)]
        parts = {"trainIdxs": rows[:30], "devIdxs": rows[30:35], "testIdxs": rows[35:]}
        (tmp_path / f"{name}.json").write_text(json.dumps(parts))
    data = TreebankTask.load(tmp_path, TreebankSettings(split="mcd2"), seed=0)
    assert (data.train_rows, data.evaluation_rows(), data.identity()["split"]) == (30, 10, "mcd2")
    assert TreebankTask.fingerprint(tmp_path, split="mcd2") == data.identity()["fingerprint"]
    assert TreebankTask.fingerprint(tmp_path, split="mcd1") != data.identity()["fingerprint"]
    (tmp_path / "mcd3.json").write_text("{}")  # another split says nothing about this one
    assert TreebankTask.load(tmp_path, TreebankSettings(split="mcd2"), seed=0).identity() == data.identity()
    (tmp_path / "mcd3.json").unlink()
    with pytest.raises(
        UserError, match=r"told which splits corpus\.conllu: --set data\.split=mcd1 or --set data\.split="
    ):
        TreebankTask.load(tmp_path, TreebankSettings(), seed=0)


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
    train = ["train", "dependency", "--data", str(folder), "--out", str(out), "--set", "data.split=mcd1", *small]
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
    assert (elsewhere.code, elsewhere.out == again.out) == (0, False), elsewhere
    assert "expected mcd4.json" in refused("evaluate", str(out), "--split", "mcd4")
    described = run("data", "info", str(folder)).out
    assert [line.split()[0] for line in described.splitlines() if line.startswith("cfq-")] == ["cfq-mcd1", "cfq-mcd2"]


def test_predictions_of_lines(model: TreeParser) -> None:
    lines = ["the dog\n", "\n", '{"tokens": ["a b", "c"]}\n', '["x"]\n']
    answers = list(model.predict_lines(lines, "here"))
    assert [answer["tokens"] for answer in answers] == [["the", "dog"], ["a b", "c"], ["x"]]
    assert all(tree_problem(answer["heads"]) is None for answer in answers)
    assert answers == model.predict(["the dog", {"tokens": ["a b", "c"]}, ["x"]])
    found = model.predict_lines(["the dog", '{"'], "here")
    assert next(found)["tokens"] == ["the", "dog"]
    with pytest.raises(DataError, match=r"here:2: found '\{\"'"):
        next(found)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "sentence 1: found ''; expected a sentence of at least one word"),
        ([], "expected a sentence of at least one word"),
        ([1], "expected a sentence of at least one word"),
        (["a\tb"], "without tabs"),
        (["a"] * 513, "a sentence of 513 words; expected at most 512"),
        ({"words": []}, 'expected an object with "tokens"'),
    ],
)
def test_sentences_that_are_none(model: TreeParser, sentence: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.parse([sentence])


def test_one_sentence_as_a_text(model: TreeParser) -> None:
    assert model.parse("the dog ran") == model.parse(["the dog ran"])[0]


def test_what_came_with_a_sentence_comes_back_with_its_tree(model: TreeParser) -> None:
    lines = ['{"id": "s 1", "tokens": ["the", "dog"], "heads": [7], "from": {"page": 3}}\n', "the cat\n"]
    lines += ['{"tokens": ["ran"], "id": 4}\n', '{"tokens": ["ran"], "id": ["no", "name"]}\n']
    first, second, third, fourth = model.predict_lines(lines, "here")
    assert (first["id"], first["from"], len(first["heads"])) == ("s 1", {"page": 3}, 2)
    assert set(second) == {"tokens", "heads", "relations"}
    assert (third["id"], fourth["id"]) == (4, ["no", "name"])
    named, unnamed = model.parse([{"tokens": ["ran"], "id": "s 1"}, {"tokens": ["ran"], "id": "two\nlines"}])
    assert (named.lines[0], unnamed.lines[0]) == ("# sent_id = s 1", "# text = ran")
    assert (named.sent_id, unnamed.sent_id) == ("s 1", None)
    in_conllu = ["# sent_id = weblog-7\n", "1\tran" + "\t_" * 8 + "\n", "\n"]
    assert [answer["id"] for answer in model.predict_lines(in_conllu, "here")] == ["weblog-7"]


def test_lines_that_are_no_text_end_the_answers_and_lose_none(model: TreeParser) -> None:
    answers = model.predict_lines(ArrivingLines(io.BytesIO(b"the dog\n\xff\xfe\ncat\n")), "here")
    assert next(answers)["tokens"] == ["the", "dog"]
    with pytest.raises(DataError, match="here:2: found"):
        next(answers)


def test_relations_in_capitals_count_as_content_and_others_do_not() -> None:
    capital = [tree(["a", "b"], [2, 0], ["NSUBJ", "ROOT"])]
    assert set(make_data(capital, dev=capital).evaluate(make_data(capital).new_model(EDGE), CPU)) == VALID_SCORES
    other = [tree(["a", "b"], [2, 0], ["SBJ", "ROOT-S"])]
    scores = make_data(other, dev=other).evaluate(make_data(other).new_model(EDGE), CPU)
    assert set(scores) == {"valid LAS", "valid UAS", "valid EM"}


def test_a_model_comes_back(model: TreeParser, trees: list[DependencySentence]) -> None:
    description = json.loads(json.dumps(model.description()))
    again = TreeParser.from_description(description)
    again.load_state_dict(model.state_dict())
    assert again.parse(trees) == model.parse(trees)
    assert model.training
    one_by_one = [found for each in trees for found in model.parse([each])]
    assert one_by_one == model.parse(trees)


def test_parsing_keeps_what_is_not_the_tree(model: TreeParser, tmp_path: Path) -> None:
    lines = ["# sent_id = 1", "1-2\tcan't\t_\t_\t_\t_\t_\t_\t_\tX=y", "1\tca\tcan\tAUX\tMD\t_\t9\tzzz\t_\t_"]
    lines += ["2\tn't\tnot\tPART\tRB\t_\t_\t_\t_\tSpaceAfter=No", "2.1\tgo\t_\t_\t_\t_\t_\t_\t_\t_"]
    (tmp_path / "in.conllu").write_text("\n".join(lines) + "\n\n")
    [parsed] = model.parse(list(read_conllu(tmp_path / "in.conllu", trees=False)))
    cells = [line.split("\t") for line in parsed.lines]
    assert parsed.lines[:2] == tuple(lines[:2])
    assert cells[2][:6] == lines[2].split("\t")[:6]
    assert (int(cells[2][6]), cells[2][7]) == (parsed.heads[0], parsed.relations[0])
    assert cells[3][9] == "SpaceAfter=No"
    assert parsed.lines[4] == lines[4]


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
