"""Embedding models of PyKEEN for links: each under the same CPU minutes on one core, scored by our ranking.

The models, losses and regularisers are PyKEEN's. They train on all candidates at once (PyKEEN's LCWA training loop),
with inverse relations. Each is scored on the dev facts up to 20 times within its budget, more often at first, and ends
early where a fifth of it brought nothing better; its best weights there are scored on the test facts, once. A record a
run goes to --out; what is recorded already is not run again. One core runs one process; two processes may append to
one file.

    python experiments/links/peers.py --data data/knowledge_graphs/{nations,kinship,umls} --minutes 5
    python experiments/links/peers.py --data data/knowledge_graphs/umls --models ComplEx --minutes 2 --seeds 1

--search tries the usual settings and random ones, and sees the dev facts only: N trials of a quarter of the minutes,
then the best N/4 again with all of them. The winner is written to peers.json, where later runs find it:

    python experiments/links/peers.py --data data/knowledge_graphs/{nations,kinship,umls} --search 16 --minutes 0.4
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import platform
import random
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pykeen import losses, models
from pykeen.models import ERModel
from pykeen.triples import TriplesFactory
from torch import Tensor, nn

from edge_transformer.errors import DataError, UserError
from edge_transformer.io.files import write_json
from edge_transformer.io.records import canonical_json
from edge_transformer.tasks.links.scores import DIRECTIONS, known_answers, ranking_scores, ranks
from edge_transformer.tasks.scores import Scores

CHOSEN = Path(__file__).with_name("peers.json")  # settings by set and model, with the search that found them
EVALUATIONS = 20  # on the dev facts: number k of them when the share (k / 20)^2 of the budget is used
PATIENCE = 0.2  # a run ends where so much of its budget brought nothing better
LOWEST_RATE = 0.02  # of the learning rate, at the end of a linear schedule
BATCHES = 256  # facts that are ranked together

Settings = dict[str, Any]
ADAM = [["Adam", rate] for rate in (0.001, 0.003, 0.01)]  # optimizer and learning rate
ADAGRAD = [["Adagrad", rate] for rate in (0.03, 0.1, 0.3)]
DROPOUTS = {"input_dropout": [0.0, 0.2, 0.4], "map_dropout": [0.0, 0.2, 0.4], "dropout": [0.1, 0.3, 0.5]}
LOSSES = ["CrossEntropyLoss", "BCEWithLogitsLoss"]
PENALTIES = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1]
COMMON: dict[str, list[Any]] = {
    "dim": [32, 64, 128, 256],
    "optimizer": ADAM + ADAGRAD,
    "schedule": ["constant", "linear"],
    "batch": [64, 128, 256, 512],
    "rows": ["pairs", "facts"],  # a row a question with all its answers (KvsAll), or a row a fact (1vsAll)
    "loss": ["CrossEntropyLoss"],
    "smoothing": [0.0, 0.1],
}
FACTORS = COMMON | {"std": [1.0, 0.1, 0.001], "power": [2, 3], "penalty": PENALTIES}  # power 3 is N3 for ComplEx
DEEP = COMMON | {"optimizer": ADAM, "loss": LOSSES} | DROPOUTS
SPACES: dict[str, dict[str, list[Any]]] = {
    "TransE": COMMON | {"norm": [1, 2], "penalty": PENALTIES[:4]},
    "DistMult": FACTORS,
    "ComplEx": FACTORS,
    "RotatE": COMMON | {"dim": [32, 64, 128], "penalty": PENALTIES[:4]},
    "ConvE": DEEP | {"dim": [64, 128, 200], "channels": [8, 16, 32]},
    "TuckER": DEEP | {"dim": [32, 64, 128], "relation_dim": [16, 32, 64]},
}
# The first trials of every search: like the models' authors, and Lacroix et al. (2018) for DistMult and ComplEx
USUAL = {"dim": 128, "optimizer": ["Adam", 0.003], "schedule": "constant", "batch": 128, "rows": "pairs"}
USUAL |= {"loss": "CrossEntropyLoss", "smoothing": 0.0}
N3 = USUAL | {"optimizer": ["Adagrad", 0.1], "rows": "facts", "std": 0.001, "power": 3, "penalty": 0.01}
MIDDLE = USUAL | {"smoothing": 0.1, "input_dropout": 0.2, "map_dropout": 0.2, "dropout": 0.3}
STARTS: dict[str, list[dict[str, Any]]] = {
    "TransE": [USUAL | {"norm": norm, "penalty": 0.0} for norm in (1, 2)],
    "DistMult": [N3, N3 | {"dim": 256, "std": 0.1, "penalty": 0.03}],
    "ComplEx": [N3, N3 | {"dim": 256, "std": 0.1, "penalty": 0.03}],
    "RotatE": [USUAL | {"penalty": 0.0}, USUAL | {"rows": "facts", "penalty": 0.001}],
    "ConvE": [MIDDLE | {"dim": 200, "channels": 32, "loss": each} for each in LOSSES],
    "TuckER": [MIDDLE | {"dim": 64, "relation_dim": 32, "loss": each} for each in LOSSES],
}
CONVE_SHAPES = {64: (8, 8), 128: (8, 16), 200: (10, 20)}


# Data


@dataclass(frozen=True)
class Graph:
    """Facts as numbers, `[facts, 3]` each."""

    name: str
    fingerprint: str
    entities: int
    relations: int
    splits: dict[str, Tensor]

    @property
    def factory(self) -> TriplesFactory:
        names = ({str(number): number for number in range(size)} for size in (self.entities, self.relations))
        return TriplesFactory(self.splits["train"], *names, create_inverse_triples=True)

    @property
    def known(self) -> Tensor:
        """What the filter leaves out, on the dev facts too: as the task `links` does."""
        return torch.cat(list(self.splits.values()))


def read_graph(folder: Path) -> Graph:
    rows: dict[str, list[list[str]]] = {}
    hashed = hashlib.sha256()
    for split, names in {"train": ["train"], "dev": ["dev", "valid"], "test": ["test"]}.items():
        paths = [folder / f"{name}{end}" for name in names for end in (".tsv", ".txt")]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise UserError(f"{folder}: found none of {', '.join(path.name for path in paths)}")
        content = path.read_bytes()
        hashed.update(content)
        rows[split] = [line.split("\t") for line in content.decode("utf-8").splitlines() if line]
        for number, row in enumerate(rows[split], start=1):
            if len(row) != 3:
                raise DataError(path, number, f"{len(row)} columns", "head, relation and tail")
    facts = [row for split in rows.values() for row in split]
    entities = sorted({name for row in facts for name in (row[0], row[2])})
    relations = sorted({row[1] for row in facts})
    numbers = [{name: number for number, name in enumerate(names)} for names in (entities, relations, entities)]
    splits = {
        split: torch.tensor([[of[name] for of, name in zip(numbers, row, strict=True)] for row in each])
        for split, each in rows.items()
    }
    return Graph(folder.resolve().name, hashed.hexdigest()[:16], len(entities), len(relations), splits)


def training_rows(graph: Graph, rows: str) -> tuple[Tensor, Tensor]:
    """Questions (head and relation, inverse ones too) and their answers: `[rows, 2]` and `[rows, entities]`."""
    factory = graph.factory
    facts = factory._add_inverse_triples_if_necessary(factory.mapped_triples)
    if rows == "facts":
        return facts[:, :2], nn.functional.one_hot(facts[:, 2], graph.entities).float()
    questions, numbers = facts[:, :2].unique(dim=0, return_inverse=True)
    answers = torch.zeros(len(questions), graph.entities)
    answers[numbers, facts[:, 2]] = 1
    return questions, answers


# Models


def new_model(name: str, graph: Graph, settings: Settings, seed: int) -> ERModel:
    dim, penalty = settings["dim"], settings.get("penalty", 0.0)
    options: dict[str, Any] = {"embedding_dim": dim}
    regularised = {
        "regularizer": "PowerSum" if penalty else None,
        "regularizer_kwargs": {"weight": penalty, "p": settings.get("power", 2), "normalize": False},
    }
    if name in ("TransE", "RotatE", "ComplEx", "DistMult"):
        options |= regularised
    if name == "TransE":
        options |= {"scoring_fct_norm": settings["norm"], "entity_constrainer": None}
    if name in ("ComplEx", "DistMult"):
        start = functools.partial(nn.init.normal_, std=settings["std"])
        options |= {"entity_initializer": start, "relation_initializer": start}
    if name == "DistMult":  # PyKEEN regularises relations only, and keeps entities on the sphere
        options |= {"entity_constrainer": None, "entity_representations_kwargs": regularised}
    if name == "ConvE":
        height, width = CONVE_SHAPES[dim]
        options |= {"embedding_height": height, "embedding_width": width, "output_channels": settings["channels"]}
        options |= {"input_dropout": settings["input_dropout"], "feature_map_dropout": settings["map_dropout"]}
        options |= {"output_dropout": settings["dropout"]}
    if name == "TuckER":
        options |= {"relation_dim": settings["relation_dim"], "dropout_0": settings["input_dropout"]}
        options |= {"dropout_1": settings["map_dropout"], "dropout_2": settings["dropout"]}
    loss = getattr(losses, settings["loss"])()
    return getattr(models, name)(triples_factory=graph.factory, random_seed=seed, loss=loss, **options)


@torch.no_grad()
def scores_of(model: ERModel, graph: Graph, split: str) -> Scores:
    model.eval()
    facts, known = graph.splits[split], graph.known
    found: dict[str, list[Tensor]] = {direction: [] for direction in DIRECTIONS}
    for part in facts.split(BATCHES):
        left_out = known_answers(part, known, graph.entities)
        answers = (model.predict_t(part[:, :2]), model.predict_h(part[:, 1:]))
        for side, (direction, column) in enumerate(zip(DIRECTIONS, (2, 0), strict=True)):
            found[direction].append(ranks(answers[side], part[:, column], left_out[:, side]))
    model.train()
    directions = [direction for direction in DIRECTIONS for _ in facts]
    relations = [str(number) for number in facts[:, 1].tolist()] * 2
    return ranking_scores(torch.cat([each for parts in found.values() for each in parts]), relations, directions)


# Training


@dataclass
class Run:
    """A trained model, as far as its budget went."""

    model: ERModel
    dev: Scores
    best_at: float  # CPU minutes
    epochs: int
    minutes: float
    curve: list[list[float]]


def batches(rows: int, size: int, seed: int) -> Iterator[tuple[int, Tensor]]:
    """The rows of epoch after epoch; batches of a single row, which batch normalisation cannot use, are left out."""
    generator = torch.Generator().manual_seed(seed)
    epoch = 0
    while True:
        for part in torch.randperm(rows, generator=generator).split(size):
            if len(part) > 1:
                yield epoch, part
        epoch += 1


def train(name: str, graph: Graph, settings: Settings, seed: int, minutes: float) -> Run:
    started = time.process_time()
    torch.manual_seed(seed)
    model = new_model(name, graph, settings, seed)
    questions, answers = training_rows(graph, settings["rows"])
    kind, rate = settings["optimizer"]
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=rate)
    best: Run | None = None
    weights: dict[str, Tensor] = {}
    curve: list[list[float]] = []
    model.train()
    for epoch, part in batches(len(questions), settings["batch"], seed):
        optimizer.zero_grad()
        predictions = model.score_t(questions[part])
        smoothing = {"label_smoothing": settings["smoothing"], "num_entities": graph.entities}
        loss = model.loss.process_lcwa_scores(predictions, answers[part], **smoothing)
        (loss + model.collect_regularization_term()).backward()
        optimizer.step()
        model.post_parameter_update()
        used = (time.process_time() - started) / 60 / minutes
        if settings["schedule"] == "linear":
            for group in optimizer.param_groups:
                group["lr"] = rate * max(LOWEST_RATE, 1 - used)
        if used < min(1.0, ((len(curve) + 1) / EVALUATIONS) ** 2):
            continue
        if not math.isfinite(loss.item()):
            break
        dev = scores_of(model, graph, "dev")
        curve.append([round(used * minutes, 4), round(dev["MRR"], 4)])
        show(f"{graph.name} {name} seed {seed}: {used:.0%} of {minutes:g} minutes, dev MRR {dev['MRR']:.3f}")
        if best is None or dev["MRR"] > best.dev["MRR"]:
            best, weights = Run(model, dev, used * minutes, epoch, 0.0, curve), deepcopy(model.state_dict())
        if used >= 1 or used - best.best_at / minutes > PATIENCE:
            break
    if best is None:
        raise UserError(f"{name} on {graph.name}: found no finite loss with {canonical_json(settings)}")
    model.load_state_dict(weights)
    best.epochs, best.minutes = epoch, (time.process_time() - started) / 60
    return best


def show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<100}", end="", file=sys.stderr, flush=True)


# Search and runs


def drawn(name: str, trials: int) -> list[Settings]:
    """Different settings, the usual ones first: the same for every set."""
    random_ = random.Random(name)
    found = {canonical_json(settings): settings for settings in STARTS[name]}
    while len(found) < trials:
        settings = {setting: random_.choice(values) for setting, values in SPACES[name].items()}
        found.setdefault(canonical_json(settings), settings)
    return list(found.values())[:trials]


def search(name: str, graph: Graph, trials: int, minutes: float) -> dict[str, Any]:
    """The best settings on dev: first all trials with a quarter of the minutes, then the best quarter with all."""

    def tried(settings: Settings, minutes: float) -> float:
        try:
            return float(train(name, graph, settings, 1, minutes).dev["MRR"])
        except UserError:
            return 0.0

    started = time.process_time()
    first = [(tried(settings, minutes / 4), settings) for settings in drawn(name, trials)]
    best = sorted(first, key=lambda each: -each[0])[: max(1, trials // 4)]
    last = [(tried(settings, minutes), settings) for _, settings in best]
    dev, settings = max(last, key=lambda each: each[0])
    spent = round((time.process_time() - started) / 60, 2)
    about = {"dev_mrr": round(dev, 4), "trials": trials, "minutes": minutes, "cpu_minutes": spent}
    return {"settings": settings, **about, "command": command()}


def command() -> str:
    return " ".join(["python", *sys.argv])


def chosen() -> dict[str, dict[str, Any]]:
    return json.loads(CHOSEN.read_text(encoding="utf-8")) if CHOSEN.exists() else {}


def record_of(name: str, graph: Graph, settings: Settings, seed: int, minutes: float) -> dict[str, Any]:
    run = train(name, graph, settings, seed, minutes)
    test = scores_of(run.model, graph, "test")
    return {
        **key_of(name, graph, settings, seed, minutes),
        "dev": {metric: round(value, 4) for metric, value in run.dev.items()},
        "test": {metric: round(value, 4) for metric, value in test.items()},
        "test_standard_error": round(test.details["standard_error"], 4),
        "parameters": sum(each.numel() * (1 + each.is_complex()) for each in run.model.parameters()),
        "cpu_minutes": round(run.minutes, 3),
        "best_at": round(run.best_at, 3),
        "epochs": run.epochs,
        "curve": run.curve,
        "versions": {"python": platform.python_version(), **{each: version(each) for each in ("torch", "pykeen")}},
        "command": command(),
    }


def key_of(name: str, graph: Graph, settings: Settings, seed: int, minutes: float) -> dict[str, Any]:
    data = {"name": graph.name, "fingerprint": graph.fingerprint}
    return {"model": name, "data": data, "settings": settings, "seed": seed, "minutes": minutes}


def recorded(path: Path) -> set[str]:
    """The keys of the runs that a file has."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = ("model", "data", "settings", "seed", "minutes")
    return {canonical_json({name: json.loads(line)[name] for name in names}) for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="folders with train, dev and test .tsv")
    parser.add_argument("--models", nargs="+", choices=list(SPACES), default=list(SPACES))
    parser.add_argument("--minutes", type=float, default=5.0, help="CPU minutes a run; of a search: of its last trials")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--search", type=int, metavar="N", help="look for settings with N trials a model and set")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/link-peers.jsonl"))
    options = parser.parse_args()
    if options.minutes <= 0 or (options.search is not None and options.search < 1):
        parser.error("--minutes and --search take positive numbers")
    torch.set_num_threads(1)
    try:
        for folder in options.data:
            run_all(read_graph(folder), options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def run_all(graph: Graph, options: argparse.Namespace) -> None:
    for name in options.models:
        before = chosen().get(graph.name, {}).get(name)
        if options.search:
            about = {"trials": options.search, "minutes": options.minutes}
            if before is not None and about.items() <= before.items():
                print(f"{graph.name} {name}: searched already", flush=True)
                continue
            found = search(name, graph, options.search, options.minutes)
            table = chosen()  # read again: another process may have written it meanwhile
            table.setdefault(graph.name, {})[name] = found
            write_json(CHOSEN, table)
            show("")
            print(f"\r{graph.name} {name}: dev MRR {found['dev_mrr']:.3f} {found['settings']}", flush=True)
            continue
        if before is None:
            raise UserError(f"{CHOSEN}: found no settings of {name} for {graph.name}; look for some with --search")
        for seed in options.seeds:
            key = key_of(name, graph, before["settings"], seed, options.minutes)
            if canonical_json(key) in recorded(options.out):
                print(f"{graph.name} {name} seed {seed}: recorded already", flush=True)
                continue
            record = record_of(name, graph, before["settings"], seed, options.minutes)
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            show("")
            about = f"dev MRR {record['dev']['MRR']:.3f}, test MRR {record['test']['MRR']:.3f}"
            print(f"\r{graph.name} {name} seed {seed}: {about}, best at {record['best_at']} minutes", flush=True)


if __name__ == "__main__":
    main()
