"""Tables of records: their numbers against numbers worked out by hand, the paper's numbers, titles and orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_transformer.io.records import Record, latest_runs, read_records, scored_elsewhere
from edge_transformer.report.figures import figures_of
from edge_transformer.report.tables import ABOVE, BELOW, Row, Score, model_title, paper, paper_rows, result_tables
from edge_transformer.training.presets import preset_names
from record_cases import COGS, DERIVED, OFFICIAL, STORIES, run, runs

ROOT = Path(__file__).parents[2]


def only_row(records: Sequence[Record]) -> Row:
    (table,) = result_tables(records)
    (row,) = table.rows
    return row


def test_mean_and_standard_error_by_hand() -> None:
    # k=6: 90, 92, 97: mean 93, deviations -3, -1, 4: variance 26/2 = 13, error sqrt(13/3)
    row = only_row([run(seed, {"k=6": value, "loss": 9.0}) for seed, value in enumerate((0.90, 0.92, 0.97), 1)])
    assert row.scores.keys() == {"k=6"}
    assert row.scores["k=6"] == Score(pytest.approx(0.93), pytest.approx((13 / 3) ** 0.5 / 100), 3)  # type: ignore[arg-type]
    assert row.runs == 3
    assert row.mean(lambda record: record.minutes) == pytest.approx(20)
    assert row.mean(lambda record: record.metrics.get("loss")) == pytest.approx(9)
    assert row.mean(lambda record: record.cpu_minutes) is None
    assert only_row([run(1, {"k=2": 0.5})]).scores["k=2"] == Score(0.5, None, 1)


@pytest.mark.parametrize(
    ("values", "mark", "error"),
    [
        # the paper has 92.1 ± 1.5 of 10 runs at k=10: a spread of 4.743
        # one seed: sqrt(4.743² + 1.5²) = 4.975
        ([0.8216], "", 4.975),
        ([0.8214], BELOW, 4.975),
        # three that agree: our error is the paper's spread / sqrt(3) = 2.739: sqrt(2.739² + 1.5²) = 3.122
        ([0.8586] * 3, "", 3.122),
        ([0.8585] * 3, BELOW, 3.122),
        ([0.9835] * 3, ABOVE, 3.122),
        # three that do not: ours is 10 / sqrt(3) = 5.774, which is larger: sqrt(5.774² + 1.5²) = 5.965
        ([0.7018, 0.8018, 0.9018], "", 5.965),
        ([0.7016, 0.8016, 0.9016], BELOW, 5.965),
        # five that agree stand alone
        ([0.8911] * 5, "", 1.5),
        ([0.8909] * 5, BELOW, 1.5),
        ([0.9511] * 5, ABOVE, 1.5),
    ],
)
def test_differences_to_the_paper_by_hand(values: list[float], mark: str, error: float) -> None:
    found = only_row(runs(values)).scores["k=10"].minus_paper(paper_rows("clutrr", "k234")["edge"].scores["k=10"])
    assert found.mark == mark
    assert found.mean == pytest.approx(sum(values) / len(values) - 0.921)
    assert found.error == pytest.approx(error / 100, abs=1e-5)


def test_differences_without_an_error() -> None:
    ours = Score(0.1, 0.01, 3)
    assert ours.minus_paper(Score(0.5, None, None)) == Score(-0.4, None, 3)
    assert ours.minus_paper(Score(0.5, 0.1, None)).error is None  # few seeds need the number of runs
    assert Score(0.1, 0.03, 5).minus_paper(Score(0.5, 0.04, None)).error == pytest.approx(0.05)
    assert (ours - Score(0.5, None, 1)).mark == ""
    assert (Score(0.1, 0.0, 3) - Score(0.5, 0.0, 3)).mark == "", "where all seeds agree they tell no error"


@pytest.mark.parametrize(
    ("fields", "title", "paper_k10"),
    [
        ({"preset": "clutrr/paper"}, "Edge Transformer", 92.1),
        ({"preset": "clutrr/cpu-untied"}, "Edge Transformer, untied weights", 90.2),
        ({"preset": "clutrr/cpu-value-ablation"}, "Edge Transformer, value ablation", 75.2),
        ({"preset": "clutrr/cpu-attention-ablation"}, "Edge Transformer, attention ablation", 78.7),
        ({"overrides": {"model.tied": False}}, "Edge Transformer, untied weights", 90.2),
        ({"overrides": {"value": "left"}}, "Edge Transformer, value ablation", 75.2),
        ({"preset": "clutrr/cpu-untied", "overrides": {"tied": True}}, "Edge Transformer", 92.1),
        ({"preset": "my.yaml", "settings": {"model": {"key": "ij"}}}, "Edge Transformer, attention ablation", 78.7),
        ({"overrides": {"tied": False, "key": "ij"}}, "Edge Transformer, untied weights, attention ablation", None),
        ({"preset": "clutrr/rat", "model": "rat"}, "RAT", None),
        ({"preset": "clutrr/new", "model": "new"}, "new", None),
    ],
)
def test_the_papers_numbers_for_each_variant(fields: dict[str, Any], title: str, paper_k10: float | None) -> None:
    (table,) = result_tables(runs([0.9], **fields))
    (row,) = table.rows
    assert row.model == title
    found = {model_title(variant): round(100 * each.scores["k=10"].mean, 6) for variant, each in table.paper.items()}
    whole = {"Edge Transformer": 92.1} if row.is_edge else {}  # what the paper is about is there with any variant of it
    assert found == whole | ({} if paper_k10 is None else {title: paper_k10})


def test_every_number_of_the_paper_is_a_percentage() -> None:
    for page, benchmark in paper()["benchmarks"].items():
        for setting in benchmark["settings"]:
            for row in paper_rows(page, setting).values():
                assert row.runs in (None, 5, 10, 30)
                for score in row.scores.values():
                    assert 0.09 < score.mean < 1
                    assert score.error is None or 0 < score.error < 0.15


def test_footnotes_and_caveats_are_whole_sentences() -> None:
    """A comma in a list of YAML cuts a text in two."""
    texts = [note for entry in paper()["tables"] for note in entry.get("notes", ())]
    for benchmark in paper()["benchmarks"].values():
        texts += [benchmark["intro"], *benchmark["caveats"]]
        texts += [setting["note"] for setting in benchmark["settings"].values() if "note" in setting]
    for text in texts:
        assert text.endswith("."), text
        assert text[0].isupper() or text[0] == "`", text


def test_the_tables_of_the_paper_name_what_there_is() -> None:
    """Settings, variants, presets and figures that RESULTS.md asks for."""
    settings = {f"{page}/{name}" for page, each in paper()["benchmarks"].items() for name in each["settings"]}
    names = set(preset_names())
    for entry in paper()["tables"]:
        assert entry["columns"].keys() <= settings
        assert set(entry["recipes"]) <= names
        assert len(entry.get("labels", [""])) == len(entry["columns"])
        width = sum(map(len, entry["columns"].values()))
        assert all(len(numbers) == width for numbers in entry.get("quoted", {}).values())
    for entry in paper()["beyond"]:
        assert entry["setting"] in settings
        assert entry["preset"] in names
    assert {*paper()["based_on"], *paper()["based_on"].values()} <= names


def test_data_belong_to_benchmarks() -> None:
    def place(task: str, **data: Any) -> tuple[str, str]:
        (table,) = result_tables([run(1, {"x": 0.5}, task=task, data={"name": "n", "fingerprint": "1", **data})])
        return table.page, table.setting

    clutrr = {"corpus": "clutrr", "fingerprint": OFFICIAL}
    assert place("relations", **clutrr, train_k="2, 3,4") == ("clutrr", "k234")
    assert place("relations", **clutrr, train_k="2,3") == ("clutrr", "k23-official")
    assert place("relations", **clutrr, train_k="2,3", tested="clutrr-k23") == ("clutrr", "k23-transfer")
    assert place("relations", corpus="clutrr", train_k="2,3", name="clutrr-k23") == ("clutrr", "k23")
    assert place("relations", corpus="clutrr", train_k="2,3,4") == ("clutrr", "other"), "generated stories"
    assert place("relations", train_k="2,3,4") == ("relations", ""), "relations that are not of families"
    assert place("graphs", corpus="cogs") == ("cogs", "gen")
    assert place("graphs", corpus="cogs", tested="mine") == ("graphs", ""), "the paper was not tested there"
    assert place("graphs", name="cogs-held-out") == ("cogs", "held-out")
    assert place("trees", treebank="cfq-dependencies", split="mcd1") == ("cfq-dep", "mcd1")
    assert place("trees", treebank="cfq-dependencies", fingerprint="e81d7c37bc92332c") == ("cfq-dep", "mcd3")
    assert place("trees", split="mcd3") == ("cfq-dep", "mcd3-goodwin")
    assert place("trees", treebank="x", name="cfq-dependencies-middle") == ("cfq-dep", "middle")
    assert place("trees", name="EWT") == ("ewt", "test")
    assert place("trees", name="GUM") == ("trees", "")
    short = {"corpus": "cfq", "split": "mcd1", "scored": "targets of at most 29 words"}
    assert place("seq2seq", **short) == ("cfq", "mcd1-short")
    assert place("seq2seq", corpus="cfq", split="mcd1") == ("cfq", "mcd1")
    assert place("seq2seq", corpus="cfq", split="mcd1", scored="9 rows") == ("cfq", "other")
    assert place("seq2seq", corpus="scan", split="mcd1", scored="any") == ("scan", "mcd1")
    assert place("links") == ("links", "other")
    assert place("links", name="umls") == ("links", "umls")
    assert place("links", name="countries", split="S3") == ("links", "countries-s3")
    assert place("mine") == ("mine", "")


def test_scores_on_other_test_files_have_a_table_of_their_own() -> None:
    own = runs([0.9, 0.8], data={"name": "mine", "fingerprint": "2", "train_k": "2,3"})
    large = [scored_elsewhere(record, "large", "77", {"k=9": 0.6, "k=10": 0.5}, "evaluate") for record in own]
    assert len(latest_runs([*own, *large])) == 4
    tables = result_tables([*reversed(large), *own])
    assert [table.title for table in tables] == ["mine", "mine, tested on large"]
    assert [table.name for table in tables] == ["relations-mine", "relations-mine-tested-on-large"]
    (row,) = tables[1].rows
    assert (row.scores["k=10"].mean, row.runs, tables[1].trained) == (0.5, 2, (2, 3))


def test_order_of_tables_rows_and_columns() -> None:
    metrics = {f"k={k}": 0.9 for k in (10, 9, 2, 3)}
    tables = result_tables(
        [
            run(1, metrics, task="links"),
            run(1, metrics, model="rat", preset="clutrr/cpu-rat"),
            run(1, metrics, data={**STORIES, "train_k": "2,3"}),
            run(1, metrics, preset="clutrr/cpu-value-ablation"),
            run(1, metrics, preset="clutrr/cpu-untied"),
            run(1, metrics, overrides={"dim": 64}),
            run(1, metrics, preset="clutrr/paper"),
            run(1, metrics),
            run(1, {"gen": 0.5, "dev": 0.5, "dev logical form": 0.5, "gen/x": 0.1}, **COGS),
        ],
    )
    assert [table.name for table in tables] == ["clutrr-k234", "clutrr-k23-official", "cogs-gen", "links-official"]
    assert tables[0].metrics == ("k=2", "k=3", "k=6", "k=7", "k=8", "k=9", "k=10")  # k=6 to k=8 are only in the paper
    assert tables[0].trained == (2, 3, 4)
    assert [(row.preset, dict(row.options)) for row in tables[0].rows] == [
        ("clutrr/cpu", {}),
        ("clutrr/cpu", {"dim": 64}),
        ("clutrr/paper", {}),
        ("clutrr/cpu-untied", {}),
        ("clutrr/cpu-value-ablation", {}),
        ("clutrr/cpu-rat", {}),
    ]
    assert tables[2].metrics == ("dev", "gen", "dev logical form"), "parts have no columns"
    assert tables[3].page == "links"


def test_only_parts() -> None:
    (table,) = result_tables([run(1, {"test/short": 0.75}, task="mine")])
    assert table.metrics == ("test/short",)


def test_a_repeated_run_counts_once() -> None:
    again = run(1, {"k=10": 0.5}, finished="2025-03-02T12:00:00+00:00")
    row = only_row(latest_runs([again, *runs([0.9, 0.7])]))
    assert (row.runs, row.scores["k=10"].mean) == (2, pytest.approx(0.6))


def test_numbers_of_the_data_may_differ_within_a_table() -> None:
    fewer = [{**STORIES, "distinct": False, "train_rows": rows} for rows in (10, 9)]
    (table,) = result_tables(
        [
            run(1, {"k=2": 1.0}),
            *(run(seed, {"k=2": 1.0}, data=fewer[seed], preset="clutrr/paper") for seed in (0, 1)),
        ]
    )
    assert [row.runs for row in table.rows] == [1, 2]
    assert table.data == {"corpus": "clutrr", "fingerprint": OFFICIAL, "train_k": "2,3,4"}


def test_runs_before_and_after_a_change_of_the_preset_are_two_rows() -> None:
    old, new = ({"train": {"lr": lr, "epochs": 50}, "precision": "32-true"} for lr in (0.1, 0.2))
    records = [*runs([0.9, 0.8], settings=old, preset="my.yaml"), *runs([0.7], settings=new, preset="my.yaml")]
    (table,) = result_tables(records)
    assert [(dict(row.options), row.runs) for row in table.rows] == [({"train.lr": 0.1}, 2), ({"train.lr": 0.2}, 1)]
    assert table.presets["my.yaml"].runs == 2


def test_of_each_preset_the_row_with_the_fewest_options() -> None:
    options: tuple[dict[str, Any], ...] = ({"x": 1}, {}, {"x": 1, "y": 2})
    (table,) = result_tables([run(1, {"k=2": 0.5}, overrides=each) for each in options])
    assert len(table.rows) == 3
    assert table.presets == {"clutrr/cpu": table.rows[0]}


def test_tables_of_like_data_get_different_titles_and_files() -> None:
    def titles(*kinds: dict[str, Any]) -> list[tuple[str, str]]:
        records = [run(1, {"k=2": 1.0}, data={"corpus": "clutrr", "train_k": "2,3", **data}) for data in kinds]
        return [(table.title, table.name) for table in result_tables(records)]

    one, two = ({"name": name, "fingerprint": fingerprint} for name, fingerprint in ("a1", "b2"))
    assert titles(two) == [("b", "clutrr-b")]
    assert titles(two, one) == [("a", "clutrr-a"), ("b", "clutrr-b")]
    assert titles(one, {**two, "name": "a"}) == [
        ("a (fingerprint=1)", "clutrr-a-fingerprint-1"),
        ("a (fingerprint=2)", "clutrr-a-fingerprint-2"),
    ]
    assert [name for _, name in titles({**one, "name": "a+"}, {**two, "name": "a-"})] == ["clutrr-a", "clutrr-a-2"]
    cogs = [run(1, {"gen": 1.0}, task="graphs", data={**each, "corpus": "cogs"}) for each in (one, two)]
    assert [table.title for table in result_tables(cogs)] == ["COGS, generalisation (a)", "COGS, generalisation (b)"]


def test_trials_are_no_results() -> None:
    valid = run(1, {"valid k=10": 0.75}, overrides={"data.test": False})
    held_out = run(2, {"held-out EM": 0.8}, overrides={"x": 1}, settings={"data": {"test": False}})
    (table,) = result_tables([*runs([0.5]), valid, held_out])
    assert [row.scores.keys() for row in table.rows] == [{"k=10"}]
    assert [row.scores.keys() for row in table.trials] == [{"valid k=10"}, {"held-out EM"}]
    (alone,) = result_tables([valid])
    assert len(alone.rows) == 1, "where there is nothing else"


def test_other_trees_are_not_the_papers() -> None:
    (table,) = result_tables([run(1, {"EM": 0.9, "LAS": 0.99}, preset="cfq-dep/cpu", **DERIVED)])
    assert table.about["other_data"] == "other trees"
    assert table.metrics == ("EM", "LAS")


def test_the_committed_records_give_their_own_means() -> None:
    """Means and errors of all rows, computed once more in another way."""
    records = latest_runs(read_records(ROOT / "results/records"))
    tables = result_tables(records)
    assert sum(len(table.records) for table in tables) == len(records)
    assert {table.page for table in tables} == {path.stem for path in (ROOT / "results/records").glob("*.jsonl")}
    for table in tables:
        for row in (*table.rows, *table.trials):
            assert len({yaml.safe_dump(record.settings) for record in row.records}) == 1
            for metric, score in row.scores.items():
                values = [record.metrics[metric] for record in row.records if metric in record.metrics]
                mean = sum(values) / len(values)
                assert score.mean == pytest.approx(mean, abs=1e-12)
                squares = sum((value - mean) ** 2 for value in values)
                if len(values) > 1:
                    assert score.error == pytest.approx((squares / (len(values) - 1) / len(values)) ** 0.5, abs=1e-9)
                else:
                    assert score.error is None


def test_problems_of_users_are_one_table_whatever_rows_were_split_off() -> None:
    data = {"name": "organisation", "fingerprint": "3d81b5f6eb1e0af5", "train_rows": 210}
    molecules = {"name": "molecules", "fingerprint": "b48f328141dbdd27", "train_rows": 900}
    whole = {**STORIES, "train_rows": 26498}
    records = [
        run(1, {"accuracy": 1.0, "n=9": 1.0, "n=10": 1.0}, data={**data, "train_k": "5,6"}, preset="fitted"),
        run(2, {"accuracy": 0.9, "n=9": 0.8, "n=10": 1.0}, data={**data, "train_k": "5"}, preset="fitted"),
        run(1, {"accuracy": 0.9}, data=molecules, preset="fitted", task="graph-labels"),
        run(1, {"accuracy": 0.9, "k=2": 0.9, "k=3": 0.9}, data=whole, preset="fitted"),
        run(1, {"k=2": 0.9, "k=3": 0.9}),
    ]
    tables = {table.title: table for table in result_tables(records)}
    assert list(tables) == [
        "CLUTRR, trained on k=2,3,4",
        "Organisation charts, 240 rows",
        "CLUTRR, 15,083 rows",
        "Graph classification, 1,000 molecules",
    ]
    charts = tables["Organisation charts, 240 rows"]
    assert [row.runs for row in charts.rows] == [2]
    assert charts.metrics[0] == "accuracy"
    assert not figures_of(charts)
