"""The models that come with the package: there, small, on record, and as good as their records say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.pairs.rows import read_pair_file
from edge_transformer.data.relations.generate import generate_valid
from edge_transformer.data.relations.problems import write_problem
from edge_transformer.data.relations.problems.relatives import relatives
from edge_transformer.errors import UserError
from edge_transformer.io.records import Record, read_record, read_records
from edge_transformer.tasks.base import (
    BUNDLED,
    CARD_FILE,
    CONFIG_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    TaskModel,
    bundled_models,
    get_task,
    model_card,
)
from edge_transformer.tasks.graphs.model import GraphParser
from official_data import benchmark

REPOSITORY = Path(__file__).parents[2]
OFFICIAL = {"clutrr-small": "clutrr/data_db9b8f04", "cogs-small": "cogs", "cfq-small": "cfq/mcd1"}
MOST_BYTES = 3_000_000
QUESTION = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}


@pytest.mark.parametrize("name", bundled_models())
def test_each_is_small_and_on_record(name: str) -> None:
    folder = BUNDLED / name
    assert {path.name for path in folder.iterdir()} == {CONFIG_FILE, WEIGHTS_FILE, RECORD_FILE, CARD_FILE}
    assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES
    record = read_record(folder / RECORD_FILE)
    assert et.load(name).record == record
    assert any(record.key == each.key and record.metrics == each.metrics for each in recorded())


@pytest.mark.parametrize("name", bundled_models())
def test_each_has_a_card_that_agrees_with_its_records(name: str) -> None:
    model, card = et.load(name), model_card(name)
    assert card.startswith(f"# {name}\n")
    for title in ("Data and licence", "Training", "Scores", "Limits"):
        assert f"\n## {title}\n" in card
    assert "**Do not use it for**" in card
    assert f"\n    {model.record.command}\n" in card
    assert f"{sum(each.numel() for each in model.parameters()):,} parameters" in card
    told = re.findall(r"^\| ([^|]+) \| ([\d.| ]+) \|$", card, flags=re.MULTILINE)
    assert len(told) >= 5
    records = [model.record, *scored_on_official_rows(model.record)]
    for metric, numbers in told:
        assert numbers.split(" | ") == [
            f"{100 * each.metrics[metric]:.1f}" for each in records if metric in each.metrics
        ]


@pytest.mark.parametrize("name", bundled_models())
def test_each_scores_on_its_rows_what_is_on_record(name: str, tmp_path: Path) -> None:
    model = et.load(name)
    [record] = scored_on_official_rows(model.record) or [model.record]
    folder = tmp_path if model.task == "links" else benchmark(OFFICIAL[name])
    if model.task == "links":
        write_problem("relatives", folder)
    if not folder.is_dir():
        pytest.skip(f"needs the official data in {folder}")
    scores = queries_right(folder, model) if name == "cfq-small" else scores_on(folder, model)
    assert scores.keys() & record.metrics.keys()
    for metric in scores.keys() & record.metrics.keys():
        assert scores[metric] == pytest.approx(record.metrics[metric], abs=0.002), metric


def test_the_model_of_relatives_answers_for_a_family_that_it_never_saw() -> None:
    family = [
        ["Ann", "mother", "Eve"],
        ["Bob", "mother", "Eve"],
        ["Eve", "mother", "Ida"],
        ["Ann", "daughter", "Lil"],
        ["Bob", "sister", "Ann"],
    ]
    model = et.LinkModel.load("relatives-small").with_facts(family, replacing=True)
    expected = {
        ("Ann", "grandmother"): "Ida",
        ("Lil", "grandmother"): "Eve",
        ("Lil", "uncle"): "Bob",
        ("Bob", "niece"): "Lil",
    }
    answers = model.predict([{"head": head, "relation": relation} for head, relation in expected])
    assert [answer["answer"] for answer in answers] == list(expected.values())
    splits = relatives(seed=20261118, families=3)
    test = {"train": splits["train"], "test": splits["dev"] + splits["test"]}
    assert et.evaluate(model, test, progress=False)["MRR"] > 0.97


def test_the_family_model_is_trained_on_stories_of_ours_and_right_on_long_official_ones() -> None:
    record = et.load("clutrr-small").record
    assert record.data["fingerprint"] not in {each.data["fingerprint"] for each in recorded() if is_official(each)}
    assert record.data["train_k"] == "2,3,4"
    assert record.settings["data"]["augmented"] == 0
    [official] = scored_on_official_rows(record)
    assert official.metrics["k=10"] >= 0.9


def test_the_family_model_is_right_on_new_families() -> None:
    model = et.load("clutrr-small")
    for k, stories in generate_valid([2, 4, 7, 10], 100, seed=20261118).items():
        rows = [
            {
                "edges": [[a, r, b] for (a, b), r in zip(story.edges, story.relations, strict=True)],
                "query": list(story.query),
            }
            for story in stories
        ]
        right = [answer["answer"] == story.target for answer, story in zip(model.predict(rows), stories, strict=True)]
        assert sum(right) >= (97 if k < 7 else 85), k


def recorded() -> list[Record]:
    return read_records(REPOSITORY / "results/records")


def is_official(record: Record) -> bool:
    return record.data["name"] == "data_db9b8f04"


def scored_on_official_rows(record: Record) -> list[Record]:
    """The records of a model's scores on official rows, where it was trained on others."""
    return [
        each
        for each in recorded()
        if each.data.get("tested") == "data_db9b8f04"
        and (each.data["fingerprint"], each.settings, each.seed)
        == (record.data["fingerprint"], record.settings, record.seed)
    ]


def scores_on(folder: Path, model: TaskModel) -> dict[str, float]:
    data = get_task(model.task).data
    return data.load(folder, data.Settings(), 0, model=model).evaluate(model, torch.device("cpu"))


def queries_right(folder: Path, model: TaskModel) -> dict[str, float]:
    """The score of CFQ's test rows from the official questions and queries themselves, without derived graphs."""
    assert isinstance(model, GraphParser)
    pairs = list(read_pair_file(folder / "test.tsv.gz"))
    parses = model.parse([pair.source for pair in pairs])
    right = [parse.text == " ".join(pair.target) for parse, pair in zip(parses, pairs, strict=True)]
    return {"test": sum(right) / len(right)}


def test_a_card_of_no_model_is_refused() -> None:
    with pytest.raises(UserError, match=f"huge: no bundled model; expected one of {', '.join(bundled_models())}"):
        model_card("huge")


def test_a_family_question_is_answered_and_explained() -> None:
    model = et.load("clutrr-small")
    assert model.predict([QUESTION])[0]["answer"] == "daughter"
    told = et.explain(model, QUESTION).text()
    assert "Ann -daughter-> Eve" in told
    assert "Bob -sister-> Eve  (told)" in told


def test_a_sentence_is_parsed() -> None:
    model = et.load("cogs-small")
    assert isinstance(model, GraphParser)
    parse = model.parse("The boy ran .")
    assert parse.logical_form == "* boy ( x _ 1 ) ; run . agent ( x _ 2 , x _ 1 )"
    assert parse.unknown == ()


def test_a_question_of_cfq_gets_its_query() -> None:
    model = et.load("cfq-small")
    assert isinstance(model, GraphParser)
    query = "SELECT DISTINCT ?x0 WHERE { ?x0 a people.person . ?x0 film.director.film M1 . ?x0 film.editor.film M1 }"
    assert model.parse("Who directed and edited M1?").text == query


def test_a_folder_goes_before_a_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "clutrr-small"
    folder.mkdir()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        (folder / name).write_bytes((BUNDLED / "clutrr-small" / name).read_bytes())
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**config, "answers": [f"my {each}" for each in config["answers"]]}))
    assert et.load("clutrr-small").predict([QUESTION])[0]["answer"] == "my daughter"


def test_an_unknown_name_is_told_which_there_are() -> None:
    with pytest.raises(UserError, match=rf"huge: no such folder; .* or one of {', '.join(bundled_models())}"):
        et.load("huge")
