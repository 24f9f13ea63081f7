"""Sequence to sequence as a task: which rows, the loss, training and resuming, scores, and a model that translates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

import two_processes
from agreement import assert_same_weights
from edge_transformer import load
from edge_transformer.cli.app import app
from edge_transformer.data.pairs.table import BY_EDGES, BY_NODES
from edge_transformer.errors import DataError, UserError
from edge_transformer.tasks.seq2seq import model as translator
from edge_transformer.tasks.seq2seq.data import Seq2SeqData, Seq2SeqSettings
from edge_transformer.tasks.seq2seq.model import END, UNKNOWN, Translator, word_numbers
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer
from official_data import benchmark
from pair_cases import ROWS, TINY, make_trainer, write

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
KINDS = ("edge", "transformer", "universal")
SMALL: dict[str, Any] = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pairs, all of them to train on."""
    return write(tmp_path_factory.mktemp("pairs"), train=ROWS, dev=ROWS[:6], test=ROWS[4:])


# --- which rows -------------------------------------------------------------------------------------------------------


def test_lengths_and_samples(folder: Path) -> None:
    settings = Seq2SeqSettings(max_target=3, train_rows=8, held_out=3, test_max_target=2, test_rows=5, midway_rows=2)
    data = Seq2SeqData.load(folder, settings, seed=1)
    assert data.train_rows == 8
    assert int(data._table.target_sizes.max()) <= 4  # with the end
    assert {split: len(pairs) for split, pairs in data._splits.items()} == {"held-out": 3, "dev": 4, "test": 5}
    assert all(len(pair.target) <= 2 for split in ("dev", "test") for pair in data._splits[split])
    assert not set(data._train) & set(data._splits["held-out"])
    assert data.midway_rows() == 4  # the test rows are looked at once
    again, other = (Seq2SeqData.load(folder, settings, seed=seed) for seed in (1, 2))
    assert (again._train, again._splits) == (data._train, data._splits)
    assert other._train != data._train
    assert other._splits["test"] == data._splits["test"]
    assert "train: 4 of 20 pairs have targets of more than 3 words and are left out" in data.notes()
    assert "train: 8 pairs are trained on, 3 others held out" in data.notes()
    assert any(note.startswith("test: 5 of 16 pairs are scored") for note in data.notes())


def test_copies_of_pairs_that_are_held_out_are_not_trained_on(tmp_path: Path) -> None:
    write(tmp_path, train=[*ROWS, *ROWS, *ROWS], dev=[*ROWS[:3], ("new", "NEW")])
    data = Seq2SeqData.load(tmp_path, Seq2SeqSettings(held_out=4, lower_case=True), 1)
    held = {data._texts(pair) for pair in data._splits["held-out"]}
    assert not held & {data._texts(pair) for pair in data._train}
    copies = 3 * len(held) - 4
    assert data.train_rows == 60 - 4 - copies
    assert f"train: {copies} more copies of pairs that are held out are left out" in data.notes()
    known = sum(data._texts(pair) in {data._texts(other) for other in data._train} for pair in data._splits["dev"])
    assert known > 0
    assert f"dev: {known} of 4 pairs are training pairs too" in data.notes()
    with pytest.raises(UserError, match=r"found 60 of 60 training pairs .*, \d+ of them copies of pairs to hold out"):
        Seq2SeqData.load(tmp_path, Seq2SeqSettings(held_out=4, train_rows=55), 1)


def test_identity(folder: Path) -> None:
    data = Seq2SeqData.load(folder, Seq2SeqSettings(split="mine"), 1)
    assert data.identity() == {
        "name": folder.name,
        "fingerprint": Seq2SeqData.fingerprint(folder),
        "corpus": "pairs",
        "split": "mine",
        "train_rows": 20,
    }
    scored = [
        Seq2SeqData.load(folder, Seq2SeqSettings(test_max_target=longest, test_rows=rows), 1).identity()["scored"]
        for longest, rows in ((2, None), (None, 3), (2, 3))
    ]
    assert scored == [
        "targets of at most 2 words",
        "a sample of 3 rows",
        "targets of at most 2 words, a sample of 3 rows",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_target": 3, "held_out": 10, "train_rows": 9}, r"found 16 of 20 training pairs .*expected 9 to train on"),
        ({"held_out": 20}, "expected 1 to train on and 20 to hold out"),
        ({"test_max_target": 0}, "test_max_target must be at least 1"),
        ({"held_out": -1}, "held_out must not be negative"),
    ],
)
def test_wishes_that_cannot_be_met(settings: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        Seq2SeqData.load(folder, Seq2SeqSettings(**settings), 1)


def test_folders_without_some_files(tmp_path: Path) -> None:
    write(tmp_path / "a", train=ROWS)
    with pytest.raises(UserError, match=r"found nothing to score; expected dev or test rows, or data\.held_out"):
        Seq2SeqData.load(tmp_path / "a", Seq2SeqSettings(), 1)
    data = Seq2SeqData.load(tmp_path / "a", Seq2SeqSettings(held_out=2), 1)
    assert list(data._splits) == ["held-out"]
    write(tmp_path / "b", test=ROWS)
    with pytest.raises(UserError, match="expected a training file as well"):
        Seq2SeqData.load(tmp_path / "b", Seq2SeqSettings(), 1)
    with pytest.raises(UserError, match="found no training file"):
        Seq2SeqData.fingerprint(tmp_path / "b")
    scored = Seq2SeqData.load(tmp_path / "b", Seq2SeqSettings(), 1, data.new_model(SMALL))
    assert list(scored._splits) == ["test"]
    write(tmp_path / "c", train=ROWS, test=[("jump", "JUMP " * 600)])
    with pytest.raises(DataError, match=r"test\.tsv:1: found a target of 600 words; .*data\.test_max_target"):
        Seq2SeqData.load(tmp_path / "c", Seq2SeqSettings(), 1)
    write(tmp_path / "c", test=[*ROWS, ("jump " * 600, "JUMP")])
    with pytest.raises(DataError, match=r"test\.tsv:21: found a source of 600 words; expected at most 512"):
        Seq2SeqData.load(tmp_path / "c", Seq2SeqSettings(test_max_target=9), 1)


def test_long_training_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    """A pair is never computed in parts: the longest decides how much memory training takes."""
    long = [("jump " * 600, "JUMP"), ("jump", "JUMP " * 600), ("jump " * 300, "JUMP " * 213)]
    data = Seq2SeqData.load(write(tmp_path, train=[*ROWS, *long], test=ROWS), Seq2SeqSettings(), 1)
    assert data.train_rows == len(ROWS)
    assert data.notes()[:3] == [
        "train: 1 of 23 pairs have targets of more than 512 words and are left out",
        "train: 1 of 23 pairs have sources of more than 512 words and are left out",
        "train: 1 of 23 pairs have more than 512 words on both sides and are left out",
    ]
    fits = Seq2SeqData.load(write(tmp_path, train=[("jump " * 300, "JUMP " * 212)]), Seq2SeqSettings(), 1)
    assert fits.train_rows == 1


def test_pairs_that_need_too_much_memory_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = ("jump " * 9, "JUMP " * 9)
    data = write(tmp_path, train=ROWS, dev=[*ROWS[:2], long], test=ROWS[:1])
    model = Seq2SeqData.load(data, Seq2SeqSettings(), 1).new_model(SMALL)
    monkeypatch.setattr(translator, "MAX_DECODE_NUMBERS", model._cached_numbers(17))
    message = (
        r"dev\.tsv:3: found a source of 9 words with a target of 9: .* expected a smaller model, or data\.test_max"
    )
    with pytest.raises(DataError, match=message):
        Seq2SeqData.load(data, Seq2SeqSettings(), 1).new_model(SMALL)
    with pytest.raises(DataError, match=message):
        Seq2SeqData.load(data, Seq2SeqSettings(), 1, model=model)
    Seq2SeqData.load(data, Seq2SeqSettings(test_max_target=8), 1).new_model(SMALL)


def test_parts_without_rows_are_passed_over(tmp_path: Path) -> None:
    rows = [{"questionPatternModEntities": f"Did M{n}", "sparql": "SELECT count(*) WHERE { M0 a M1 }"} for n in (0, 1)]
    (tmp_path / "dataset.json").write_text(json.dumps(rows))
    (tmp_path / "mine.json").write_text(json.dumps({"trainIdxs": [0], "devIdxs": [], "testIdxs": [1]}))
    data = Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1)
    assert list(data._splits) == ["test"]
    assert "dev: there are no rows" in data.notes()
    assert any("name entities (m_...)" in note for note in data.notes())
    assert not any("m_..." in note for note in Seq2SeqData.load(tmp_path, Seq2SeqSettings(query="sparql"), 1).notes())
    (tmp_path / "mine.json").write_text(json.dumps({"trainIdxs": [0], "devIdxs": [], "testIdxs": []}))
    with pytest.raises(UserError, match="found nothing to score; expected rows of dev or test"):
        Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1)
    (tmp_path / "mine.json").write_text(json.dumps({"trainIdxs": [], "devIdxs": [1], "testIdxs": []}))
    with pytest.raises(UserError, match=r"mine\.json: found no training rows; expected some"):
        Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1)


def test_vocabularies(tmp_path: Path) -> None:
    write(tmp_path, train=[("Go a", "GO B"), ("b", "B")], test=[("go z", "GO z")])
    one = Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1)
    assert (list(one.source), one.target) == (["B", "GO", "Go", "a", "b"], None)
    two = Seq2SeqData.load(tmp_path, Seq2SeqSettings(one_vocabulary=False), 1)
    assert (list(two.source), list(two.target or [])) == (["Go", "a", "b"], ["B", "GO"])
    lower = Seq2SeqData.load(tmp_path, Seq2SeqSettings(lower_case=True), 1)
    assert list(lower.source) == ["a", "b", "go"]
    assert lower.notes() == [
        "test: 1 of 1 sources have a word that no training pair has; it is read as unknown",
        "test: 1 of 1 targets have a word that no training pair has; they count as wrong",
    ]
    model = lower.new_model(SMALL)
    scored = Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1, model)  # the model knows how it reads
    assert scored.evaluate(model, CPU) == {"EM": 0.0}
    assert scored._numbers(scored._splits["test"][0])[0] == [4, 1]


def test_sources_with_an_end(tmp_path: Path) -> None:
    write(tmp_path, train=[("a b", "x"), ("c", "x y")], test=[("b z", "y")])
    data = Seq2SeqData.load(tmp_path, Seq2SeqSettings(source_end=True), 1)
    model = data.new_model(SMALL)
    [batch] = data.batches(torch.tensor([0]))
    assert batch.source.tolist() == [[*(word_numbers(data.source, ["a", "b"])), END]]
    assert model.source_numbers(["b", "z"]) == [*word_numbers(data.source, ["b"]), UNKNOWN, END]
    again = Translator.from_description(model.description())
    assert again.source_end
    scored = Seq2SeqData.load(tmp_path, Seq2SeqSettings(), 1, again)  # the model knows how it reads
    assert scored._numbers(scored._splits["test"][0])[0] == model.source_numbers(["b", "z"])


# --- loss -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_parts", [True, False])
def test_loss_and_gradient_are_those_of_the_pairs_one_by_one(kind: str, in_parts: bool, folder: Path) -> None:
    data = Seq2SeqData.load(folder, Seq2SeqSettings(one_vocabulary=False), 1)
    torch.manual_seed(0)
    model = data.new_model({**SMALL, "kind": kind}).double()
    assert data._cost == (BY_EDGES if kind == "edge" else BY_NODES)
    if in_parts:
        data._cost = data._cost._replace(most=60 if kind == "edge" else 8)
    rows = torch.tensor([0, 3, 7, 9, 12, 14])
    batches = list(data.batches(rows))
    assert len(batches) > 2 if in_parts else any(batch.source_mask is not None for batch in batches)
    loss = sum(data.loss(model, batch, CPU) for batch in batches)
    assert isinstance(loss, torch.Tensor)
    (loss / data.weight(rows)).backward()
    together = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    tokens, alone = 0, torch.zeros((), dtype=torch.float64)
    for row in rows.tolist():
        source, target = data._table.sources[row].long()[None], data._table.targets[row].long()[None]
        alone = alone + F.cross_entropy(model(source, target)[0], target[0], reduction="sum")
        tokens += target.shape[1]
    (alone / tokens).backward()
    assert torch.allclose(loss, alone, rtol=0, atol=1e-9)
    one_by_one = [weight.grad for weight in model.parameters() if weight.grad is not None]
    for ours, theirs in zip(together, one_by_one, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)


def test_rare_words_are_hidden_in_training(tmp_path: Path) -> None:
    write(tmp_path, train=[("a b", "x"), ("a c", "y"), ("a b", "z")], test=[("a", "x")])
    data = Seq2SeqData.load(tmp_path, Seq2SeqSettings(unknown=0.999), 1)
    torch.manual_seed(0)
    seen = {number for batch in data.batches(torch.arange(3)) for number in batch.source.flatten().tolist()}
    assert seen == {1, *(data.source.number(word) + 2 for word in "ab")}  # type: ignore[operator]


# --- runs -------------------------------------------------------------------------------------------------------------


def test_two_processes_take_the_same_steps_as_one(folder: Path, tmp_path: Path) -> None:
    two_processes.assert_same_step("seq2seq", folder, {**TINY, "train.epochs": 2}, tmp_path)


def test_the_loss_of_an_epoch_is_a_mean_over_words(folder: Path, tmp_path: Path) -> None:
    """Batches of short pairs have fewer words: each counts with as many as it has."""
    trainer = make_trainer(folder, tmp_path / "run", **{"train.epochs": 1, "train.lr": 1e-9, "train.batch_size": 3})
    rows = torch.arange(trainer.data.train_rows)
    with torch.no_grad():
        batches = list(trainer.data.batches(rows))
        total = sum(float(trainer.data.loss(trainer.model.eval(), batch, CPU)) for batch in batches)
    trainer.model.train()
    record = trainer.train()
    assert record is not None
    assert record.metrics["loss"] == pytest.approx(total / trainer.data.weight(rows), rel=1e-4)


def test_a_resumed_run_ends_as_one_that_never_stopped(folder: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"train.epochs": 4, "model.dropout": 0.1, "data.unknown": 0.1, "model.dim": 16}
    record = make_trainer(folder, tmp_path / "whole", **changes).train()
    assert record is not None
    cut = make_trainer(folder, tmp_path / "cut", **changes)
    for step in range(5):
        epoch, place = divmod(step, cut.batches_an_epoch)
        rows = cut._epoch(epoch)[place]
        weight = cut.data.weight(rows)
        cut.loss_sum += weight * cut.take_step(rows)
        cut.loss_weight += weight
        cut.step += 1
    cut.save_checkpoint()
    cut.release_folder()
    resumed = make_trainer(folder, tmp_path / "cut", **changes)
    assert resumed.step == 5
    again = resumed.train()
    assert again is not None
    assert again.metrics == record.metrics
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    record = make_trainer(folder, out, **{"train.epochs": 40}).train()
    assert record is not None
    assert record.metrics["EM"] == record.metrics["valid EM"] == 1.0
    return out


def test_a_tiny_model_learns_twenty_pairs_by_heart(trained: Path, folder: Path) -> None:
    model = load(trained)
    assert isinstance(model, Translator)
    sources, targets = zip(*ROWS, strict=True)
    assert [each.text for each in model.translate(sources)] == list(targets)
    assert [each.text for each in model.translate(sources, beams=3)] == list(targets)
    [answer] = model.predict([{"source": ["run", "twice"]}])
    assert (answer["source"], answer["target"]) == ("run twice", "RUN RUN")
    assert -1 < answer["log_probability"] <= 0
    assert Seq2SeqData.load(folder, Seq2SeqSettings(), 1, model).evaluate(model, CPU) == {"valid EM": 1.0, "EM": 1.0}


def test_commands_of_a_trained_model(trained: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", str(trained)])
    assert result.exit_code == 0, result.output
    assert "100.0" in result.output
    result = CliRunner().invoke(app, ["evaluate", str(trained), "--predictions", str(tmp_path)])
    assert isinstance(result.exception, UserError)
    assert "found a folder at" in str(result.exception)
    assert "100.0" not in result.output  # nothing is scored before that
    said = tmp_path / "said.jsonl"
    result = CliRunner().invoke(app, ["evaluate", str(trained), "--predictions", str(said)])
    assert f"written: {said}" in result.output.replace("\n", "")
    answers = [json.loads(line) for line in said.read_text().splitlines()]
    assert [answer["split"] for answer in answers] == ["dev"] * 6 + ["test"] * 16
    source, target = ROWS[0]
    assert answers[0] == {
        "split": "dev",
        "source": source,
        "gold": target,
        "said": target,
        "finished": True,
        "exact": True,
    }
    lines = 'run twice\n\n{"source": "look"}\n["walk"]\n'
    result = CliRunner().invoke(app, ["predict", str(trained)], input=lines)
    assert [json.loads(line)["target"] for line in result.stdout.splitlines()] == ["RUN RUN", "LOOK", "WALK"]
    result = CliRunner().invoke(app, ["translate", str(trained)], input=lines)
    assert result.stdout.splitlines() == ["RUN RUN", "", "LOOK", "WALK"]
    result = CliRunner().invoke(app, ["translate", str(trained), "run", "--nbest", "2", "--json"])
    [value] = map(json.loads, result.stdout.splitlines())
    assert value["candidates"][0]["target"] == value["target"] == "RUN"
    assert len(value["candidates"]) == 2
    assert value["candidates"][0]["score"] > value["candidates"][1]["score"]
    (tmp_path / "in.txt").write_text("jump\nlook twice\n")
    result = CliRunner().invoke(
        app, ["translate", str(trained), "--input", str(tmp_path / "in.txt"), "--nbest", "2", "--beam", "3"]
    )
    answers = result.stdout.split("\n\n")
    assert [answer.splitlines()[0].split("\t")[1] for answer in answers[:2]] == ["JUMP", "LOOK LOOK"]
    assert len(answers[0].splitlines()) == 2


# --- official files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "preset", "rows"), [("scan", "scan/cpu", None), ("cfq/mcd1", "cfq/cpu", 20_000)])
def test_a_step_on_official_files(name: str, preset: str, rows: int | None, tmp_path: Path) -> None:
    if not benchmark(name).is_dir():
        pytest.skip(f"needs the official pairs in {benchmark(name)}")
    run = RunConfig.from_preset("seq2seq", preset, {"model.dim": 16, "train.batch_size": 8}, seed=1)
    trainer = Trainer(run, run.load_data(benchmark(name)), tmp_path / "run", Hardware("cpu", threads=1))
    assert rows in (None, trainer.data.train_rows)
    assert 0 < trainer.take_step(trainer._epoch(0)[0]) < 10
    assert trainer.data.identity()["split"] == "mcd1"


@pytest.mark.parametrize(
    ("name", "kind", "layers"),
    [("paper", "edge", 6), ("paper-transformer", "transformer", 6), ("paper-universal", "universal", 4)],
)
def test_settings_of_the_paper(name: str, kind: str, layers: int) -> None:
    """Of the plain Transformer the paper has none: it is like the Edge Transformer."""
    run = RunConfig.from_preset("seq2seq", f"cfq/{name}", {}, seed=1)
    model, train, data = (run.settings[section] for section in ("model", "train", "data"))
    assert (model["kind"], model["dim"], model["heads"], model["layers"]) == (kind, 256, 8, layers)
    assert (model["dropout"], model["max_distance"]) == (0.1, 32)
    assert kind != "edge" or model["tied"]
    assert (train["epochs"], train["batch_size"], train["lr"], train["warmup_steps"]) == (100, 64, 0.0006, 1000)
    assert (train["optimizer"], data["max_target"], data["lower_case"]) == ("adamw", 49, True)
    assert (train["clip"], train["weight_decay"], train["batches"]) == (100.0, 0.0, "random")
    assert (data["one_vocabulary"], data["source_end"], data["test_max_target"]) == (True, True, None)


@pytest.mark.parametrize("name", ["cpu", "cpu-transformer", "cpu-universal"])
def test_all_small_models_learn_the_same_pairs_of_cfq(name: str) -> None:
    run = RunConfig.from_preset("seq2seq", f"cfq/{name}", {}, seed=1)
    data = run.settings["data"]
    assert (data["max_target"], data["train_rows"], data["held_out"], data["test_max_target"]) == (29, 20000, 1000, 29)
    assert data["lower_case"]
    assert run.settings["train"]["batch_size"] == (8 if name == "cpu" else 16)
    assert run.settings["model"]["ends"] == (name == "cpu")
