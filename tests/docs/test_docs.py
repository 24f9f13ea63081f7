"""The examples of docs about data, taken from the pages and run (with fewer epochs); numbers of other pages."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import edge_transformer as et
from edge_transformer.cli.app import app
from edge_transformer.data.relations.generate import GeneratedData, generate
from edge_transformer.explain.faithfulness import gold_rules
from edge_transformer.io.records import read_records
from edge_transformer.tasks.seq2seq.data import Seq2SeqSettings
from edge_transformer.tasks.seq2seq.model import DECODE_NUMBERS, DECODE_ROWS
from edge_transformer.tasks.seq2seq.questions import MAX_BEAMS, MAX_SAMPLES, MAX_WORDS
from edge_transformer.tasks.trees.data import TreeSettings
from edge_transformer.tasks.trees.model import TreeParserOptions
from edge_transformer.training.experiment import Experiment, PlannedPreset, TrainingSet
from edge_transformer.training.presets import preset_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/your-own-data.md").read_text(encoding="utf-8")
TRANSLATE = (ROOT / "docs/translate.md").read_text(encoding="utf-8")
SMALLER = ["--set", "model.dim=16", "--set", "train.epochs=1", "--threads", "1"]


def section(title: str, page: str = PAGE) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def run(command: str, *more: str) -> str:
    done = CliRunner().invoke(app, [*shlex.split(command)[1:], *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_graphs_over_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("Graphs over sentences")
    [lines] = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    commands = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    info, train, evaluate, parse, exchange, hold_out = commands
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-sentences"
    folder.mkdir()
    for name in ("train", "dev", "test"):
        (folder / f"{name}.jsonl").write_text(lines * 20)
    assert "labels of role" in run(info)
    run(train, *SMALLER)
    assert "test" in run(evaluate, "--threads", "1")
    asked = json.loads(lines.splitlines()[0])["tokens"]
    assert json.loads(run(parse, "--json", "--threads", "1"))["tokens"] == asked
    run(exchange, *SMALLER)
    assert json.loads((tmp_path / "runs/augmented/record.json").read_text())["data"]["augmented_rows"] > 0
    settings = re.findall(r"^\| `(\S+=\S+)` \|", text, flags=re.MULTILINE)
    assert len(settings) == 7
    for setting in settings:
        command = exchange if "augmented" in setting else train
        run(re.sub(r"--out \S+", f"--out runs/{setting}", command), "--set", setting, *SMALLER)
    run(hold_out)
    assert (tmp_path / "held-out/test.jsonl").stat().st_size


def test_many_runs_at_once(tmp_path: Path) -> None:
    text = section("Many runs at once")
    [example] = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "my-comparison.yaml").write_text(example)
    experiment = Experiment.read(tmp_path / "my-comparison.yaml")
    assert [(entry.preset, experiment.seeds_of(entry)) for entry in experiment.runs] == [
        ("clutrr/cpu", (1, 2, 3)),
        ("clutrr/cpu", (1,)),
        ("clutrr/cpu-rat", (1, 2, 3)),
    ]
    keys = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, flags=re.MULTILINE))
    assert set(keys) == {field.name for field in fields(Experiment)}
    for key, entry in (("runs", PlannedPreset), ("training_sets", TrainingSet), ("generate", GeneratedData)):
        named = {field.name for field in fields(entry)} - {"kind"}
        assert named <= set(re.findall(r"`(\w+)`", keys[key])), key


def test_relations_in_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("Relations in graphs")
    [line] = re.findall(r"```json\n(.*)\n```", text)
    commands = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    info, train, evaluate, elsewhere, _ = commands
    monkeypatch.chdir(tmp_path)
    for name in ("my-data", "new-data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.jsonl").write_text(f"{line}\n" * 3)
    (tmp_path / "my-data/train.jsonl").write_text(f"{line}\n" * 10)
    assert "son" in run(info)
    run(train, *SMALLER)
    assert "100.0" in run(evaluate, "--threads", "1")  # there is but one answer
    assert "100.0" in run(elsewhere, "--threads", "1")


def test_treebanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/treebanks.md").read_text(encoding="utf-8")
    train, evaluate, parse = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    tree = "# text = Ann ran\n1\tAnn\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-treebank").mkdir()
    for name in ("train", "dev", "test"):
        (tmp_path / f"my-treebank/{name}.conllu").write_text(tree * 10)
    (tmp_path / "text.txt").write_text("Ann ran\nran Bob\n")
    run(train, *SMALLER)
    scores = run(evaluate, "--threads", "1")
    assert all(score in scores for score in re.findall(r"^\| `(\w+)`", section("Scores", text), flags=re.MULTILINE))
    assert run(parse, "--threads", "1").splitlines()[:2] == ["# text = Ann ran", "1\tAnn\t_\t_\t_\t_\t2\tnsubj\t_\t_"]
    known = {**asdict(TreeSettings()), **asdict(TreeParserOptions())}
    for name in re.findall(r"`(?:data|model)\.(\w+)`", section("Settings", text)):
        assert name in known
    assert set(asdict(TreeSettings())) <= set(re.findall(r"`data\.(\w+)`", section("Settings", text)))


def test_pairs_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("Pairs of texts")
    [line] = re.findall(r"```tsv\n(.*)\n```", text)
    info, train, evaluate, translate = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-pairs").mkdir()
    for name in ("train", "dev", "test"):
        (tmp_path / f"my-pairs/{name}.tsv").write_text("".join(f"{number} {line}\n" for number in range(110)))
    assert "110" in run(info)
    run(train, *SMALLER)
    assert "EM" in run(evaluate, "--threads", "1")
    assert run(translate, "--threads", "1")
    for setting in re.findall(r"--set (\S+=\S+)`", text):
        run(train.replace("runs/pairs", f"runs/{setting}"), "--set", setting, *SMALLER)
    for code in re.findall(r"```python\n(.*?)```", TRANSLATE, flags=re.DOTALL):
        exec(code, {})


def test_all_settings_of_pairs_and_options_of_translate_are_named() -> None:
    rows = re.findall(r"^\| `data\.(\w+)` \|", TRANSLATE, flags=re.MULTILINE)
    assert rows == [each.name for each in fields(Seq2SeqSettings)]
    table = re.findall(r"^\| (`--.*?) \| ", TRANSLATE, flags=re.MULTILINE)
    options = {option for cell in table for option in re.findall(r"`(--[a-z-]+)", cell)}
    known = {option for each in get_command(app).commands["translate"].params for option in each.opts}  # type: ignore[attr-defined]
    assert options == known - {"run", "text", "--input", "--json", "--threads", "--help"}
    assert f"at most {MAX_WORDS} words" in TRANSLATE
    assert f"up to {MAX_BEAMS};" in TRANSLATE
    assert f"up to {MAX_SAMPLES}," in TRANSLATE
    assert f"up to {DECODE_ROWS} sequences at once" in TRANSLATE
    assert DECODE_NUMBERS == 2**28  # as the page says
    assert set(re.findall(r"`((?:cfq|scan|seq2seq)/[\w-]+)`", TRANSLATE)) <= set(preset_names())


CONTROLS = ("", "balanced_", "random_")
EXPLANATION_TABLES = (  # the columns after k and rows
    ("accuracy", *(f"{of}{name}" for name in ("precision", "recall") for of in (*CONTROLS, "uniform_"))),
    (*(f"{of}known_rules" for of in CONTROLS), *(f"{of}changed" for of in (*CONTROLS, "gold_", "other_"))),
)


def test_the_explained_questions() -> None:
    page = (ROOT / "docs/explain.md").read_text(encoding="utf-8")
    shown = re.findall(r"^    echo '(.*)' \| (edge-transformer .*)\n\n```\n((?:.+\n)+)```", page, flags=re.MULTILINE)
    known = gold_rules(generate([2, 3], [2], rows=1000, seed=1, test_rows=1)[0])
    right = []
    for question, command, text in shown:
        arguments = [*shlex.split(command)[1:], "--threads", "1"]
        done = CliRunner().invoke(app, arguments, input=f"{question}\n", catch_exceptions=False)
        assert done.output == text
        proof = et.explain(et.load("clutrr-small"), json.loads(question)).proof
        assert proof is not None
        rules = [(*(premise.relation for premise in step.premises), step.relation) for step in proof.steps()]
        right.append([rule in known for rule in rules])
    assert right == [[True, True, True], [False, True, False]]  # as the page says


def test_the_numbers_of_explanations_are_those_that_were_measured() -> None:
    measured = [json.loads(line) for line in (ROOT / "benchmarks/explanations.jsonl").read_text().splitlines()]
    expected = []
    for record in measured:
        for columns in EXPLANATION_TABLES:
            for k, scores in record["scores"].items():
                cells = [f"{100 * scores['fractions'][name]:.1f}" for name in columns]
                expected.append(f"| {' | '.join([k.removeprefix('k='), str(scores['sums']['rows']), *cells])} |")
    page = (ROOT / "docs/explain.md").read_text()
    assert len(expected) == 36
    assert [line for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()] == expected
    commands = re.findall(r"^    (edge-transformer explain-score .*benchmarks.*)", page, flags=re.MULTILINE)
    assert commands == [record["command"] for record in measured]


def test_what_is_said_of_explanations_is_what_was_measured() -> None:
    page = (ROOT / "docs/explain.md").read_text()
    small, best = (
        json.loads(line)["scores"] for line in (ROOT / "benchmarks/explanations.jsonl").read_text().splitlines()
    )

    def percent(scores: dict[str, Any], k: int, name: str) -> float:
        return 100 * float(scores[f"k={k}"]["fractions"][name])

    for scores in (small, best):
        ratios = [percent(scores, k, "precision") / percent(scores, k, "balanced_precision") for k in range(5, 11)]
        assert f"from k=5 on, precision is {min(ratios):.1f} to {max(ratios):.1f} times" in page.lower()
        for k in range(5, 11):
            assert percent(scores, k, "balanced_precision") > percent(scores, k, "random_precision")
    for scores in (small, best):
        layers = [scores[f"k={k}"]["mean_reading_layer"] for k in range(3, 11)]
        assert all(1 <= layer[name] <= 3 for layer in layers for name in ("found", "balanced"))
        assert all(4 <= layer["random"] <= 5 for layer in layers)
    recall = {k: percent(small, k, "recall") - percent(small, k, "balanced_recall") for k in range(3, 11)}
    assert [k for k, difference in recall.items() if difference < 0] == [9]
    assert percent(small, 2, "changed") == percent(small, 2, "gold_changed") == 0
    assert f"none of the {small['k=2']['sums']['rows']} answers changes" in page
    assert f"changes {percent(small, 2, 'other_changed'):.1f} %" in page
    changed = {k: percent(small, k, "changed") - percent(small, k, "balanced_changed") for k in range(3, 11)}
    assert changed[3] == 0 > changed[4]
    assert all(changed[k] > 0 for k in range(5, 11))
    _check_removal([small[f"k={k}"]["sums"] for k in range(5, 11)], page)
    behind = [k for k in range(3, 11) if percent(best, k, "recall") < percent(best, k, "balanced_recall")]
    assert behind == [8, 9, 10]
    rules = [k for k in range(3, 11) if percent(best, k, "known_rules") < percent(best, k, "balanced_known_rules")]
    assert rules == [3]
    assert all(percent(small, k, "known_rules") > percent(small, k, "balanced_known_rules") for k in range(3, 11))


def _check_removal(sums: list[dict[str, Any]], page: str) -> None:
    """The table of triangles taken away, all lengths together."""
    rows = sum(each["rows"] for each in sums)
    assert f"{rows} rows" in page
    triangles = {kind: sum(each[kind]["steps"] for each in sums) for kind in ("found", "random", "balanced")}
    changed = {kind: sum(each[kind]["changed"] for each in sums) for kind in triangles}
    for kind, like in (("gold", None), ("other", "found")):
        triangles[kind] = triangles[like] if like else sum(each["gold_steps"] for each in sums)
        changed[kind] = sum(each[f"changed_{kind}"] for each in sums)
    names = {"found": "proof", "other": "other pivots"}
    for kind in changed:
        part = changed[kind] / rows
        error = math.sqrt(part * (1 - part) / rows)
        cells = f"{triangles[kind] / rows:.1f} | {changed[kind]} | {100 * part:.1f} ± {100 * error:.1f} |"
        assert f"  | {names.get(kind, kind)} | {cells}" in page
    assert changed["found"] > 2 * changed["random"]
    assert changed["found"] >= max(changed["gold"], changed["balanced"])


def test_what_is_said_of_decoding_is_what_was_measured() -> None:
    found = json.loads((ROOT / "benchmarks/decode.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs/translate.md").read_text(encoding="utf-8")
    assert found["command"] in text
    of = {(each["part"], each["case"], each["name"]): each for each in found["measurements"]}
    tokens = 16 * 50
    for preset, case in (("cfq/cpu", "cfq/cpu, 3 layers"), ("cfq/paper", "cfq/paper, 6 layers")):
        slow, fast = (of["decode", case, name]["value"] for name in ("recomputed", "cached"))
        assert f"| `{preset}` | {tokens / slow:.3g} | {tokens / fast:.3g} | {slow / fast:.1f} |" in text
    first, last = (of["token", f"n={n}, 3 layers", "cached"]["value"] for n in (20, 160))
    assert f"n^{math.log(last / first) / math.log(8):.1f}" in re.sub(r"(n\^\d\.\d)\d", r"\1", text)
    newer = json.loads((ROOT / "benchmarks/seq2seq.json").read_text(encoding="utf-8"))
    assert newer["command"] in text
    of = {(each["part"], each["case"], each["name"]): each for each in newer["measurements"]}
    step = "cfq/paper, 6 layers, dropout 0.1"
    names = ("step", "step with dropout", "hidden again")
    plain, dropout, slower = (of["seq2seq", step, name]["ratio"] for name in names)
    names = ("native", "hidden again", "layers again")
    memory, hidden, layers = (of["seq2seq-memory", "cfq/paper, 6 layers", name]["ratio"] for name in names)
    time = f"{plain:.2f} times the time of its matrix products ({dropout:.2f} with dropout)"
    assert f"{time}, and {memory:.2f} of the memory that the einsum engine needs." in text
    assert f"{slower:.2f} times the time of its products and {hidden:.2g} of that memory;" in text
    assert f"computes all of every layer again, {layers:.2g} of it." in text


def test_the_fingerprints_of_the_benchmarks_are_those_of_the_records() -> None:
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `[\w/]*?(\w+)` \| (\w+) \| `([0-9a-f]{16})` \|", text, flags=re.MULTILINE)
    records = {path.stem: read_records(path) for path in (ROOT / "results").glob("*.jsonl")}
    known = {
        (record.data["name"], record.task, record.data["fingerprint"]) for each in records.values() for record in each
    }
    assert len(found) >= 3
    assert set(found) <= known
