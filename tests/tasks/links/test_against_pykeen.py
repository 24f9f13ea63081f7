"""Our ranks and scores are those of PyKEEN's evaluator, on the same scores of the same facts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.tasks.links.scores import DIRECTIONS, known_answers, ranking_scores, ranks

pykeen_evaluation = pytest.importorskip("pykeen.evaluation", reason="needs PyKEEN: pip install 'pykeen>=1.11'")
from pykeen.models.mocks import FixedModel  # noqa: E402
from pykeen.triples import CoreTriplesFactory  # noqa: E402

ENTITIES, RELATIONS = 9, 3
NAMES = {"MRR": "inverse_harmonic_mean_rank", "Hits@1": "hits_at_1", "Hits@3": "hits_at_3", "Hits@10": "hits_at_10"}


class Table(FixedModel):
    """Scores of given tables: `[heads, relations, tails]`, one for each direction."""

    def __init__(self, triples_factory: CoreTriplesFactory, tails: Tensor, heads: Tensor) -> None:
        super().__init__(triples_factory=triples_factory)
        self.tails, self.heads = tails, heads

    def score_t(self, hr_batch: Tensor, tails: Tensor | None = None, **_: Any) -> Tensor:
        return self.tails[hr_batch[:, 0], hr_batch[:, 1]].clone()  # PyKEEN overwrites them

    def score_h(self, rt_batch: Tensor, heads: Tensor | None = None, **_: Any) -> Tensor:
        return self.heads[:, rt_batch[:, 0], rt_batch[:, 1]].T.clone()


def graph(seed: int, rows: int, levels: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct facts, those of them that are asked, and scores with many ties if there are few levels."""
    random = torch.Generator().manual_seed(seed)
    places = torch.randperm(ENTITIES * RELATIONS * ENTITIES, generator=random)[:rows]
    facts = torch.stack(torch.unravel_index(places, (ENTITIES, RELATIONS, ENTITIES)), 1)
    tails, heads = torch.randint(0, levels, (2, ENTITIES, RELATIONS, ENTITIES), generator=random).float()
    return facts, facts[: max(1, rows // 4)], tails, heads


@given(st.integers(0, 2**32 - 1), st.integers(4, 120), st.sampled_from([1, 3, 1000]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_ranks_and_scores_are_those_of_pykeen(seed: int, rows: int, levels: int, with_others: bool) -> None:
    facts, asked, tails, heads = graph(seed, rows, levels)
    factory = CoreTriplesFactory(facts, num_entities=ENTITIES, num_relations=RELATIONS)
    evaluator = pykeen_evaluation.RankBasedEvaluator(clear_on_finalize=False)  # without filter, 1.11.1 fails
    theirs = evaluator.evaluate(
        Table(factory, tails, heads),
        asked,
        additional_filter_triples=[facts] if with_others else None,
        batch_size=16,
        use_tqdm=False,
    )

    scores = torch.stack([tails[asked[:, 0], asked[:, 1]], heads[:, asked[:, 1], asked[:, 2]].T], 1)
    known = known_answers(asked, facts if with_others else asked, ENTITIES)
    found = [ranks(scores[:, side], asked[:, column], known[:, side]) for side, column in enumerate((2, 0))]
    for direction, of_direction in zip(DIRECTIONS, found, strict=True):
        expected = [rank for part in evaluator.ranks[direction, "realistic"] for rank in part.tolist()]
        assert of_direction.tolist() == expected

    directions = [direction for direction in DIRECTIONS for _ in asked]
    ours = ranking_scores(torch.cat(found), ["r"] * len(directions), directions)
    for name, key in NAMES.items():
        assert ours[name] == pytest.approx(theirs.get_metric(f"both.realistic.{key}"), abs=1e-6), name
    for direction, each in ours.details["directions"].items():
        assert each["mrr"] == pytest.approx(theirs.get_metric(f"{direction}.realistic.{NAMES['MRR']}"), abs=1e-6)
        assert each["mean_rank"] == pytest.approx(theirs.get_metric(f"{direction}.realistic.arithmetic_mean_rank"))
