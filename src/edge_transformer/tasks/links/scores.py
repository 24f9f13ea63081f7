"""Scores of ranked answers: MRR and Hits@k over all candidates or over sampled ones, and average precision.

A fact is a row of three numbers: head, relation, tail. It asks two questions, in the order of `DIRECTIONS`: for its
tail, given head and relation, and for its head, given relation and tail. The candidates are all entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..calibration import Flags, Floats, require_fine
from ..scores import Scores

DIRECTIONS = ("tail", "head")  # what is asked for
CUTOFFS = (1, 3, 10)  # of Hits@k
NOBODY = -1  # in samples: there are no more negatives
SAMPLED = 50  # negatives a question, as in Teru et al. (2020)
_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
_CELLS = 1 << 24  # of a table of questions by entities that is in memory at once


def ranks(scores: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
    """The rank of each query's target, from 1; candidates with the target's score share their mean rank: `[queries]`.

    Args:
        scores: `[queries, candidates]`; -inf for what is no candidate. A target with -inf comes after all candidates,
            tied with the others that have -inf.
        targets: `[queries]`, numbers of candidates.
        known: `[queries, candidates]`, bool: other true answers, which are not counted. The target always is.
    """
    targets = _checked(scores, targets, known)
    at_target = scores.gather(1, targets[:, None])
    counted = torch.ones_like(scores, dtype=torch.bool) if known is None else ~known
    above = ((scores > at_target) & counted).sum(1)
    ties = ((scores == at_target) & counted).sum(1) - counted.gather(1, targets[:, None])[:, 0].long()
    return 1 + above + ties / 2


def sampled_ranks(scores: Tensor, targets: Tensor, negatives: Tensor) -> Tensor:
    """`ranks` of the targets among themselves and `negatives`, `[queries, count]`, numbers of candidates or NOBODY."""
    targets = _checked(scores, targets, None)
    if negatives.ndim != 2 or len(negatives) != len(scores) or negatives.is_floating_point():
        found = f"{negatives.dtype} of the shape {list(negatives.shape)}"
        raise ValueError(f"negatives: found {found}; expected integers of the shape [{len(scores)}, count]")
    _require(
        "negatives",
        negatives,
        (negatives >= NOBODY) & (negatives < scores.shape[1]),
        f"numbers of {scores.shape[1]} candidates, or {NOBODY}",
    )
    among = torch.cat([targets[:, None], negatives.to(targets)], 1)  # [queries, 1 + count]
    return ranks(scores.gather(1, among.clamp(min=0)), torch.zeros_like(targets), among == NOBODY)


def ranking_scores(
    ranks: Tensor, relations: Sequence[str], directions: Sequence[str], sampled: int | None = None
) -> Scores:
    """Score ranked answers: "MRR", "Hits@1", "Hits@3" and "Hits@10", each the mean over all queries.

    Args:
        ranks: `[queries]`, as of `ranks`.
        relations: of the queries, by name.
        directions: of the queries: "tail" where the tail was asked for, "head" where the head was.
        sampled: how many sampled negatives the targets were ranked among, if not all candidates: the names of the
            scores say so ("MRR among 50"), as these ranks are not comparable with the others.

    Details: "kind" ("ranking"), "sampled", "queries", "mrr", "standard_error" and "interval" (of the MRR: 95 %, normal,
    over queries), "hits" (by k, as text), "mean_rank", and the same without the errors for each of "directions" and
    "relations"; each relation has "directions" of its own.
    """
    values = _rank_values(ranks)
    for name, given in (("relations", relations), ("directions", directions)):
        if len(given) != len(values):
            raise ValueError(f"{name}: found {len(given)}; expected one for each of {len(values)} queries")
    unknown = sorted(set(directions).difference(DIRECTIONS))
    if unknown:
        raise ValueError(f"directions: found {unknown[0]!r}; expected one of {', '.join(DIRECTIONS)}")
    overall = _summary(values)
    error = float((1 / values).std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    asked, of_relation = np.array(directions, dtype=object), np.array(relations, dtype=object)
    details = {
        "kind": "ranking",
        "sampled": sampled,
        **overall,
        "standard_error": error,
        "interval": None if error is None else _interval(overall["mrr"], error),
        "directions": _by_direction(values, asked),
        "relations": {
            name: {**_summary(values[here]), "directions": _by_direction(values[here], asked[here])}
            for name, here in _places(of_relation)
        },
    }
    among = "" if sampled is None else f" among {sampled}"
    hits = {f"Hits@{k}{among}": overall["hits"][str(k)] for k in CUTOFFS}
    return Scores({f"MRR{among}": overall["mrr"]} | hits, details)


def expected_hits(ranks: Tensor, negatives: Tensor, count: int = SAMPLED, top: int = 10) -> float:
    """The mean of Hits@top among `count` sampled negatives, over all samples with replacement: what NBFNet reports.

    Args:
        ranks: `[queries]`, among all candidates.
        negatives: `[queries]`, the number of candidates besides the target that were counted.
    """
    values, others = _rank_values(ranks), negatives.detach().cpu().to(torch.float64).numpy()
    if others.shape != values.shape:
        raise ValueError(f"negatives: found the shape {list(others.shape)}; expected [{len(values)}]")
    require_fine("negatives", others, (others >= values - 1) & np.isfinite(others), "at least the rank - 1")
    chance: Floats = (values - 1) / np.maximum(others, 1)  # that a negative comes before the target
    below = [comb(count, each) * chance**each * (1 - chance) ** (count - each) for each in range(min(top, count + 1))]
    return float(np.clip(np.sum(below, 0), 0, 1).mean())


def average_precision(scores: Tensor, truths: Tensor) -> float:
    """The area under the curve of precision over recall, in steps: the sum of precision times gained recall.

    Equal scores are one step, as in scikit-learn's `average_precision_score`.

    Args:
        scores: `[rows]`, higher for what is more probably true; -inf comes last.
        truths: `[rows]`, bool, or 0 and 1; one row at least is true.
    """
    if scores.ndim != 1 or truths.shape != scores.shape:
        found = f"{list(scores.shape)} and {list(truths.shape)}"
        raise ValueError(f"scores and truths: found the shapes {found}; expected [rows] twice")
    values: Floats = scores.detach().cpu().to(torch.float64).numpy()
    require_fine("scores", values, values < np.inf, "finite numbers or -inf")
    gold = truths.detach().cpu().to(torch.float64).numpy()
    true: Flags = gold == 1
    require_fine("truths", gold, true | (gold == 0), "0 and 1 only")
    if not true.any():
        raise ValueError("truths: found none that is true; expected one at least")
    order = np.argsort(-values, kind="stable")
    hits = true[order].cumsum()
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))  # the last row of each step
    recall = hits[ends] / hits[-1]
    return float((np.diff(recall, prepend=0.0) * hits[ends] / (ends + 1)).sum())


def known_answers(facts: Tensor, known: Tensor, entities: int) -> Tensor:
    """Which candidates make a fact that is known: `[facts, 2, entities]`, by `DIRECTIONS`; what `ranks` leaves out.

    Args:
        facts: `[facts, 3]`, what is asked.
        known: `[known, 3]`, all facts that are known to be true; those asked may be among them.
        entities: how many there are.
    """
    facts, known = _facts("facts", facts, entities), _facts("known", known, entities)
    found = torch.zeros(len(facts), 2, entities, dtype=torch.bool, device=facts.device)
    relations = 1 + max((int(each[:, 1].max()) for each in (facts, known) if len(each)), default=0)
    for direction, (given, asked) in enumerate(((0, 2), (2, 0))):
        keys, order = (known[:, given] * relations + known[:, 1]).sort()
        wanted = facts[:, given] * relations + facts[:, 1]
        first, end = (torch.searchsorted(keys, wanted, right=right) for right in (False, True))
        counts = end - first
        rows = torch.arange(len(facts), device=facts.device).repeat_interleave(counts)
        # the n-th answer of a row is known[order[first + n]]
        place = torch.arange(len(rows), device=facts.device) + (first - counts.cumsum(0) + counts)[rows]
        found[rows, direction, known[order[place], asked]] = True
    return found


def sample_negatives(
    facts: Tensor, known: Tensor, entities: int | Tensor, count: int = SAMPLED, seed: int = 0
) -> Tensor:
    """Wrong tails and wrong heads for each fact, drawn without replacement: `[facts, 2, count]`, by `DIRECTIONS`.

    An entity is wrong where the fact it makes is neither known nor among `facts`, and no self-loop (Teru et al. 2020).
    Where there are fewer, the rest is NOBODY. The same arguments give the same negatives.

    Args:
        facts: `[facts, 3]`.
        known: `[known, 3]`, other facts that are known to be true.
        entities: how many there are, or the numbers of those to draw from.
    """
    if count < 1:
        raise ValueError(f"count: found {count}; expected 1 at least")
    pool = torch.arange(entities) if isinstance(entities, int) else entities.detach().cpu().long().unique()
    both = torch.cat([facts, known.to(facts)]).cpu()
    size = 1 + max(int(each.max()) for each in (pool, both[:, [0, 2]]) if each.numel()) if len(pool) else 0
    if not len(pool) or int(pool.min()) < 0:
        raise ValueError(f"entities: found {entities}; expected one at least, numbered from 0")
    random = torch.Generator().manual_seed(seed)
    samples = torch.full((len(facts), 2, count), NOBODY)
    drawn, step = min(count, len(pool)), max(1, _CELLS // (2 * size))
    for start in range(0, len(facts), step):
        asked = facts[start : start + step].cpu()
        wrong = ~known_answers(asked, both, size)
        wrong.scatter_(2, asked[:, [0, 2], None].long(), False)  # a self-loop has the head as tail, the tail as head
        keys = torch.rand(len(asked), 2, len(pool), generator=random).masked_fill_(~wrong[:, :, pool], -1)
        best, places = keys.topk(drawn, dim=-1)
        samples[start : start + step, :, :drawn] = pool[places].masked_fill(best < 0, NOBODY)
    return samples.to(facts.device)


def _checked(scores: Tensor, targets: Tensor, known: Tensor | None) -> Tensor:
    """The targets as int64, where all shapes and values are as they must be."""
    if scores.ndim != 2 or not scores.shape[1]:
        expected = "[queries, candidates], one candidate at least"
        raise ValueError(f"scores: found the shape {list(scores.shape)}; expected {expected}")
    queries, candidates = scores.shape
    _require("scores", scores, scores < torch.inf, "finite numbers, or -inf for no candidate")  # nan is not below inf
    if list(targets.shape) != [queries] or targets.is_floating_point() or targets.dtype == torch.bool:
        found = f"{targets.dtype} of the shape {list(targets.shape)}"
        raise ValueError(f"targets: found {found}; expected integers of the shape [{queries}]")
    _require("targets", targets, (targets >= 0) & (targets < candidates), f"numbers from 0 to {candidates - 1}")
    if known is not None and (known.shape != scores.shape or known.dtype != torch.bool):
        found = f"{known.dtype} of the shape {list(known.shape)}"
        raise ValueError(f"known: found {found}; expected bool of the shape {[queries, candidates]}")
    return targets.to(device=scores.device, dtype=torch.int64)


def _require(name: str, values: Tensor, fine: Tensor, expected: str) -> None:
    if not fine.all():
        require_fine(name, values.detach().cpu().to(torch.float64).numpy(), fine.cpu().numpy(), expected)


def _rank_values(ranks: Tensor) -> Floats:
    if ranks.ndim != 1 or not len(ranks):
        raise ValueError(f"ranks: found the shape {list(ranks.shape)}; expected [queries], one query at least")
    values: Floats = ranks.detach().cpu().to(torch.float64).numpy()
    require_fine("ranks", values, np.isfinite(values) & (values >= 1), "finite numbers from 1")
    return values


def _facts(name: str, facts: Tensor, entities: int) -> Tensor:
    """Facts as int64."""
    if facts.ndim != 2 or facts.shape[1] != 3 or facts.is_floating_point():
        found = f"{facts.dtype} of the shape {list(facts.shape)}"
        raise ValueError(f"{name}: found {found}; expected integers of the shape [{name}, 3]")
    fine = facts >= 0
    fine[:, [0, 2]] &= facts[:, [0, 2]] < entities
    _require(name, facts, fine, f"numbers from 0, of entities below {entities}")
    return facts.long()


def _summary(values: Floats) -> dict[str, Any]:
    return {
        "queries": len(values),
        "mrr": float((1 / values).mean()),
        "hits": {str(k): float((values <= k).mean()) for k in CUTOFFS},
        "mean_rank": float(values.mean()),
    }


def _by_direction(values: Floats, asked: np.ndarray[Any, np.dtype[np.object_]]) -> dict[str, dict[str, Any]]:
    return {name: _summary(values[asked == name]) for name in DIRECTIONS if (asked == name).any()}


def _places(names: np.ndarray[Any, np.dtype[np.object_]]) -> list[tuple[str, Flags]]:
    """The distinct names in alphabetical order, and where they are."""
    return [(str(name), names == name) for name in sorted(set(names.tolist()))]


def _interval(mean: float, error: float) -> list[float]:
    return [max(0.0, mean - _Z * error), min(1.0, mean + _Z * error)]
