"""Decoding: greedy, beam search and sampling, for every model that gives the next token step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from .layer import StackConfig

MAX_LENGTH_PENALTY = 5.0  # either way; far more than anybody uses, and nothing overflows


class IncrementalDecoder(Protocol):
    """What decoding needs of a model; see `EncoderDecoder`. The state is of its own making, and `step` changes it."""

    def start(self, source: Tensor, source_mask: Tensor | None = None, limit: int | None = None) -> Any: ...
    def step(self, state: Any, tokens: Tensor | None) -> Tensor: ...
    def reorder(self, state: Any, index: Tensor) -> None: ...


class EncoderDecoder(nn.Module, ABC):
    """What every encoder-decoder offers: the logits of whole targets, and those of one token after the other."""

    config: StackConfig
    has_edge_states: ClassVar[bool] = (
        False  # one that has them, for all pairs of nodes, takes `max_distance` and `ends`
    )

    @abstractmethod
    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits of every token of the target, given the source and the tokens before it, in one parallel pass.

        Args:
            source: token numbers, `[batch, S]`.
            target: the right tokens, `[batch, T]`. Shorter targets end with any tokens: none sees a later one.
            source_mask: bool `[batch, S]`, True for real tokens, where sources of different lengths are padded.

        Returns:
            `[batch, T, target_tokens]`.
        """

    @abstractmethod
    def start(self, source: Tensor, source_mask: Tensor | None = None, limit: int | None = None) -> Any:
        """Read the sources, `[batch, S]`, and get ready to decode one token after the other. Gives the state.

        `limit` is how many steps will be made at most, where that is known: no more memory than these need is taken.
        """

    @abstractmethod
    def step(self, state: Any, tokens: Tensor | None) -> Tensor:
        """Logits of the next token, `[batch, target_tokens]`, after one more token of each row; None at first."""

    @torch.no_grad()
    def reorder(self, state: Any, index: Tensor) -> None:
        """Let row r go on from what was row `index[r]`. Rows may be repeated and left out."""
        state.reorder(index)


@dataclass(frozen=True)
class Generated:
    """A sequence that was decoded."""

    tokens: tuple[int, ...]  # without the end of the sequence
    log_probability: float  # of the tokens and, where it was reached, of the end
    finished: bool  # whether the end was reached; otherwise the limit was
    score: float  # what beam search ranks by: the log-probability over the length penalty


def greedy(
    model: IncrementalDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    end: int,
    limit: int,
    forbidden: Sequence[int] = (),
) -> list[Generated]:
    """The most probable token at every step, until `end`; one sequence for each source.

    `limit` is the most tokens, without the end: a sequence whose next token is another one then is not finished.
    `forbidden` tokens, such as padding, are never given.
    """
    _check(source, limit)
    return _choose_each(model, source, source_mask, end, limit, forbidden, lambda step, rows, logits: logits.argmax(-1))


def sample(
    model: IncrementalDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    end: int,
    limit: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    forbidden: Sequence[int] = (),
) -> list[Generated]:
    """A random sequence for each source.

    Args:
        temperature: logits are divided by it; near 0 the most probable token always wins.
        top_k: only so many of the most probable tokens are drawn from.
        top_p: only the most probable tokens are drawn from, as few as have this probability together.
        generator: makes the draws the same every time. It must be one of the CPU; with one for each source, what a
            source gets does not depend on the others.
        end, limit, forbidden: as for `greedy`. The log-probabilities given back are the model's own.
    """
    _check(source, limit)
    if not 0 < temperature < torch.inf:
        raise ValueError(
            f"temperature must be above 0 and finite, but is {temperature}; greedy() takes the most probable token"
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, but is {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, but is {top_p}")
    # All draws at once: what a row draws does not depend on when the others end.
    if generator is None or isinstance(generator, torch.Generator):
        draws = torch.rand(len(source), limit + 1, generator=generator, dtype=torch.float64)
    elif len(generator) != len(source):
        raise ValueError(f"{len(generator)} generators for {len(source)} sources")
    else:
        draws = torch.zeros(len(source), limit + 1, dtype=torch.float64)
        for row, one in zip(draws, generator, strict=True):
            row.uniform_(generator=one)

    def choose(step: int, rows: Tensor, logits: Tensor) -> Tensor:
        ranked, token = logits.double().sort(dim=-1, descending=True, stable=True)
        ranked = (ranked - ranked[:, :1]) / temperature  # the best is 0 however cold it is: nothing overflows
        if top_k is not None:
            ranked[:, top_k:] = -torch.inf
        probability = ranked.softmax(-1)
        # A token counts while those before it have less than top_p together: the first one always does.
        probability = probability.masked_fill(probability.cumsum(-1) - probability >= top_p, 0.0)
        total = probability.cumsum(-1)
        drawn = draws[rows, step].to(total.device)[:, None] * total[:, -1:]
        place = (total <= drawn).sum(-1, keepdim=True)
        place = torch.minimum(place, (probability > 0).sum(-1, keepdim=True) - 1)  # never beyond the last by rounding
        return token.gather(1, place)[:, 0]

    return _choose_each(model, source, source_mask, end, limit, forbidden, choose)


def _choose_each(
    model: IncrementalDecoder,
    source: Tensor,
    source_mask: Tensor | None,
    end: int,
    limit: int,
    forbidden: Sequence[int],
    choose: Callable[[int, Tensor, Tensor], Tensor],
) -> list[Generated]:
    """One sequence for each source. `choose(step, rows, logits)` picks the next token of these rows."""
    found: list[Generated | None] = [None] * len(source)
    if not len(source):
        return []
    state = model.start(source, source_mask, limit + 1)
    rows = torch.arange(len(source))  # the sources that the rows of the state belong to
    running = torch.ones(len(source), dtype=torch.bool)  # rows that have not ended
    written: list[list[int]] = [[] for _ in range(len(source))]
    sums = [0.0] * len(source)
    tokens = None
    for step in range(limit + 1):
        logits = _without(model.step(state, tokens), forbidden)
        tokens = choose(step, rows, logits)
        gained = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0].tolist()
        for place, (row, token) in enumerate(zip(rows.tolist(), tokens.tolist(), strict=True)):
            if not running[place] or (step == limit and token != end):  # nothing but the end may come then
                continue
            sums[row] += gained[place]
            if token == end:
                found[row] = Generated(tuple(written[row]), sums[row], True, sums[row])
                running[place] = False
            else:
                written[row].append(token)
        left = int(running.sum())
        if not left or step == limit:
            break
        if left <= len(rows) // 2:  # rows that have ended cost as much as others, but so does leaving them out
            (kept,) = torch.where(running)
            model.reorder(state, kept.to(tokens.device))
            rows, running, tokens = rows[kept], running[kept], tokens[kept.to(tokens.device)]
    return [
        Generated(tuple(written[row]), sums[row], False, sums[row]) if result is None else result
        for row, result in enumerate(found)
    ]


@dataclass
class _Beam:
    """The search for one source."""

    live: list[tuple[float, tuple[int, ...]]]  # log-probability and tokens, best first
    ended: list[Generated] = field(default_factory=list)  # the n_best so far, best first


def beam_search(
    model: IncrementalDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    end: int,
    limit: int,
    beams: int = 4,
    length_penalty: float = 0.0,
    n_best: int = 1,
    forbidden: Sequence[int] = (),
) -> list[list[Generated]]:
    """The best sequences that a beam finds for each source, best first: at most `n_best`, at least one.

    Sequences are ranked by log-probability / ((5 + length) / 6) ** length_penalty (Wu et al., 2016), the end counted in
    the length; 0 ranks by log-probability, more prefers longer ones. The beam holds the `beams` most probable sequences
    that go on. The end of each of them is looked at in every step and takes no place in the beam. A search stops when
    no sequence that goes on can still become one of the `n_best`. Sequences that have not ended at the limit come last.
    A beam of 1 is greedy decoding: it takes the first end that is more probable than any other token.
    """
    _check(source, limit)
    if beams < 1 or not 1 <= n_best <= beams:
        raise ValueError(f"beams must be at least 1 and n_best between 1 and beams, but they are {beams} and {n_best}")
    if not abs(length_penalty) <= MAX_LENGTH_PENALTY:
        most = f"{-MAX_LENGTH_PENALTY:g} to {MAX_LENGTH_PENALTY:g}"
        raise ValueError(f"length_penalty must be {most}, but is {length_penalty}")

    def score(log_probability: float, length: int) -> float:
        return log_probability / ((5 + length) / 6) ** length_penalty

    if beams == 1:
        single = greedy(model, source, source_mask, end=end, limit=limit, forbidden=forbidden)
        return [[replace(each, score=score(each.log_probability, len(each.tokens) + each.finished))] for each in single]
    if not len(source):
        return []

    def can_improve(search: _Beam, length: int) -> bool:
        """Whether a live sequence of so many tokens may still be among the best. A log-probability only falls."""
        if not search.live or len(search.ended) < n_best:
            return bool(search.live)
        best = search.live[0][0]
        # The penalty rises or falls with the length, so that the best case is at one end.
        return max(score(best, length + 1), score(best, limit + 1)) > search.ended[-1].score

    searches = [_Beam([(0.0, ())]) for _ in range(len(source))]
    state = model.start(source, source_mask, limit + 1)
    tokens = None
    active = list(range(len(source)))  # sources whose search goes on; their live sequences are the rows of the state
    for step in range(limit + 1):
        logits = _without(model.step(state, tokens), forbidden).double().log_softmax(-1)  # (rows, V)
        parents: list[int] = []
        chosen: list[int] = []
        first, still = 0, []
        for number in active:
            search = searches[number]
            before, rows = search.live, []
            sums = torch.tensor([live[0] for live in before], dtype=torch.float64, device=logits.device)
            totals = logits[first : first + len(before)] + sums[:, None]
            for (_, written), total in zip(before, totals[:, end].tolist(), strict=True):
                if total > -torch.inf:
                    search.ended.append(Generated(written, total, True, score(total, step + 1)))
            search.ended = sorted(search.ended, key=lambda ended: -ended.score)[:n_best]
            if step == limit:  # nothing but the end may come
                first += len(before)
                continue
            search.live = []
            totals[:, end] = -torch.inf
            best = totals.flatten().topk(min(beams, totals.numel()))
            for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                if total == -torch.inf:
                    break
                row, token = divmod(place, logits.shape[1])
                search.live.append((total, (*before[row][1], token)))
                rows.append(first + row)
            first += len(before)
            if can_improve(search, step + 1):
                still.append(number)
                parents += rows
                chosen += [live[1][-1] for live in search.live]
        active = still
        if not active:  # always so at the limit
            break
        if parents != list(range(len(logits))):
            model.reorder(state, torch.tensor(parents, device=source.device))
        tokens = torch.tensor(chosen, device=source.device)
    found = []
    for search in searches:
        cut = [Generated(tokens, total, False, score(total, len(tokens))) for total, tokens in search.live]
        found.append((search.ended + sorted(cut, key=lambda cut: -cut.score))[:n_best])
    return found


def _without(logits: Tensor, forbidden: Sequence[int]) -> Tensor:
    if not forbidden:
        return logits
    logits = logits.clone()
    logits[:, list(forbidden)] = -torch.inf
    return logits


def _check(source: Tensor, limit: int) -> None:
    if source.dim() != 2:
        raise ValueError(f"source must be [batch, S], but its shape is {list(source.shape)}")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, but is {limit}")


def check_pair(source: Tensor, target: Tensor, source_mask: Tensor | None) -> None:
    """Refuse what is no batch of pairs of sequences."""
    check_source(source, source_mask)
    if target.dim() != 2 or target.shape[0] != source.shape[0] or not target.shape[1]:
        raise ValueError(
            f"target must be [batch={len(source)}, T] with T at least 1, but its shape is {list(target.shape)}"
        )


def check_source(source: Tensor, source_mask: Tensor | None) -> None:
    """Refuse what is no batch of sequences."""
    if source.dim() != 2 or not source.shape[1]:
        raise ValueError(f"source must be [batch, S] with S at least 1, but its shape is {list(source.shape)}")
    if source_mask is not None and (source_mask.dtype != torch.bool or source_mask.shape != source.shape):
        raise ValueError(
            f"source_mask must be bool {list(source.shape)}, but is {source_mask.dtype} {list(source_mask.shape)}"
        )


def check_decoding(model: nn.Module, source: Tensor, source_mask: Tensor | None) -> None:
    """Refuse to decode with dropout, and from what is no batch of sequences."""
    if model.training:
        raise ValueError("decoding drops nothing: call model.eval() first")
    check_source(source, source_mask)


def check_step(steps: int, rows: int, tokens: Tensor | None) -> None:
    """Refuse a first step with tokens, a later one without, and tokens for other rows than there are."""
    if (tokens is None) != (steps == 0):
        raise ValueError("give the tokens of the step before, and None at the first step only")
    if tokens is not None and tokens.shape != (rows,):
        raise ValueError(f"tokens must be [batch={rows}], but their shape is {list(tokens.shape)}")


def check_rows(index: Tensor, rows: int) -> None:
    """Refuse to go on with other rows than there are."""
    if index.dim() != 1:
        raise ValueError(f"index must be [rows], but its shape is {list(index.shape)}")
    if len(index) and not 0 <= int(index.min()) <= int(index.max()) < rows:
        raise ValueError(f"index must name rows from 0 to {rows - 1}")
