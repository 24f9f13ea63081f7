"""Greedy decoding, beam search and sampling, over a model whose every probability is known."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer import EdgeTransformerConfig
from edge_transformer.nn.baselines.seq2seq import Seq2SeqTransformerConfig, TransformerSeq2Seq
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.generation import Generated, IncrementalDecoder, beam_search, greedy, sample

TOKENS, END, LIMIT = 4, 3, 4


class Table:
    """A model that knows nothing but the source and the last token: logits `[source, last token, next token]`."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits  # last token 0 to V - 1, and V for none
        self.rows_computed = 0

    def start(self, source: Tensor, source_mask: Tensor | None = None, limit: int | None = None) -> dict[str, Tensor]:
        return {"source": source[:, 0].clone()}

    def step(self, state: dict[str, Tensor], tokens: Tensor | None) -> Tensor:
        self.rows_computed += len(state["source"])
        last = torch.full_like(state["source"], self.logits.shape[2]) if tokens is None else tokens
        return self.logits[state["source"], last]

    def reorder(self, state: dict[str, Tensor], index: Tensor) -> None:
        state["source"] = state["source"][index]


def random_table(seed: int = 0, sources: int = 6) -> Table:
    generator = torch.Generator().manual_seed(seed)
    return Table(2 * torch.randn(sources, TOKENS + 1, TOKENS, generator=generator, dtype=torch.float64))


def all_sequences(table: Table, source: int, length_penalty: float = 0.0) -> list[Generated]:
    """Every sequence that ends within the limit, best first."""
    log = table.logits[source].log_softmax(-1)
    found = []
    for length in range(LIMIT + 1):
        for tokens in product([token for token in range(TOKENS) if token != END], repeat=length):
            path = [TOKENS, *tokens, END]
            total = sum(log[first, second].item() for first, second in pairwise(path))
            found.append(Generated(tokens, total, True, total / ((6 + length) / 6) ** length_penalty))
    return sorted(found, key=lambda sequence: -sequence.score)


def sources(count: int = 6) -> Tensor:
    return torch.arange(count)[:, None]


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_best_token_each_time(seed: int) -> None:
    table = random_table(seed)
    for source, found in enumerate(greedy(table, sources(), end=END, limit=20)):
        last, tokens, total = TOKENS, [], 0.0
        for _ in range(20):
            log = table.logits[source, last].log_softmax(-1)
            last = int(log.argmax())
            total += log[last].item()
            if last == END:
                break
            tokens.append(last)
        assert found.tokens == tuple(tokens)
        assert found.finished == (last == END)
        assert found.log_probability == pytest.approx(total)
        assert len(tokens) == 20 or found.finished


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_best_sequences(seed: int, length_penalty: float) -> None:
    table = random_table(seed)
    width = 3**LIMIT  # no sequence that can still end ever falls out
    found = beam_search(table, sources(), end=END, limit=LIMIT, beams=width, length_penalty=length_penalty, n_best=5)
    for source, best in enumerate(found):
        expected = all_sequences(table, source, length_penalty)[:5]
        assert [sequence.tokens for sequence in best] == [sequence.tokens for sequence in expected]
        for one, other in zip(best, expected, strict=True):
            assert one.score == pytest.approx(other.score)
            assert one.log_probability == pytest.approx(other.log_probability)
            assert one.finished


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 2.0])
def test_wider_beams_are_no_worse_where_the_past_does_not_matter(seed: int, length_penalty: float) -> None:
    """There the beam holds the most probable of all sequences of a length, so that a wider one holds them too."""
    table = random_table(seed)
    table.logits = table.logits[:, :1].expand(-1, TOKENS + 1, -1)
    options: dict[str, Any] = {"end": END, "limit": LIMIT, "length_penalty": length_penalty, "n_best": 3}
    before = [[-math.inf] * 3 for _ in range(6)]
    for beams in range(3, 30):
        found = beam_search(table, sources(), beams=beams, **options)
        scores = [[sequence.score for sequence in best] for best in found]
        for narrow, wide in zip(before, scores, strict=True):
            assert all(one <= other + 1e-12 for one, other in zip(narrow, wide, strict=True))
        before = scores
    for source, scores_of_source in enumerate(before):
        expected = [sequence.score for sequence in all_sequences(table, source, length_penalty)[:3]]
        assert scores_of_source == pytest.approx(expected)


def test_a_sequence_that_ends_takes_no_place_from_others() -> None:
    first, second = 0, 1
    logits = torch.full((1, TOKENS + 1, TOKENS), -math.inf, dtype=torch.float64)
    logits[0, TOKENS, [END, first, second]] = torch.tensor([0.4, 0.35, 0.25], dtype=torch.float64).log()
    logits[0, first, [first, second, END]] = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    logits[0, second, END] = 0.0
    [best] = beam_search(Table(logits), sources(1), end=END, limit=5, beams=2, n_best=2)
    assert [sequence.tokens for sequence in best] == [(), (second,)]
    assert [math.exp(sequence.score) for sequence in best] == pytest.approx([0.4, 0.25])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_beam_of_one_is_greedy(seed: int, length_penalty: float) -> None:
    table = random_table(seed)
    found = beam_search(table, sources(), end=END, limit=7, beams=1, length_penalty=length_penalty)
    for (one,), other in zip(found, greedy(table, sources(), end=END, limit=7), strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.log_probability == pytest.approx(other.log_probability)
        length = len(one.tokens) + one.finished
        assert one.score == pytest.approx(one.log_probability / ((5 + length) / 6) ** length_penalty)


def test_the_search_stops_when_nothing_can_become_better() -> None:
    logits = torch.full((1, TOKENS + 1, TOKENS), -3.0, dtype=torch.float64)
    logits[:, :, END] = 3.0  # to end at once is best, and nothing else comes near
    table = Table(logits)
    [[best]] = beam_search(table, sources(1), end=END, limit=100, beams=3)
    assert best.tokens == ()
    assert table.rows_computed == 1
    # A large penalty of short sequences leaves hope for longer ones.
    table.rows_computed = 0
    beam_search(table, sources(1), end=END, limit=100, beams=3, length_penalty=3.0)
    assert 1 < table.rows_computed < 50


def test_sequences_that_reach_the_limit_come_last() -> None:
    logits = torch.zeros(1, TOKENS + 1, TOKENS, dtype=torch.float64)
    logits[:, :, END] = -torch.inf
    table = Table(logits)
    [best] = beam_search(table, sources(1), end=END, limit=3, beams=2, n_best=2)
    assert [(len(sequence.tokens), sequence.finished) for sequence in best] == [(3, False)] * 2
    logits[:, 1, END] = -2.0
    [best] = beam_search(table, sources(1), end=END, limit=3, beams=40, n_best=40)
    assert [sequence.finished for sequence in best] == sorted((s.finished for s in best), reverse=True)
    assert {sequence.finished for sequence in best} == {True, False}
    assert greedy(table, sources(1), end=END, limit=3)[0] == Generated(
        (0, 0, 0), -3 * math.log(3), False, -3 * math.log(3)
    )


def test_the_end_takes_no_place_of_the_limit() -> None:
    logits = torch.full((1, TOKENS + 1, TOKENS), -5.0, dtype=torch.float64)
    logits[:, TOKENS, 0] = logits[:, 0, 1] = logits[:, 1, END] = 0.0  # 0, 1 and the end
    table = Table(logits)
    drawn = sample(table, sources(1), end=END, limit=2, temperature=1e-3, generator=torch.Generator().manual_seed(1))
    [[beam]] = beam_search(table, sources(1), end=END, limit=2, beams=3)
    for found in (*greedy(table, sources(1), end=END, limit=2), *drawn, beam):
        assert (found.tokens, found.finished) == ((0, 1), True)
    [cut] = greedy(table, sources(1), end=END, limit=1)
    assert (cut.tokens, cut.finished) == ((0,), False)
    assert cut.log_probability == pytest.approx(logits[0, TOKENS].log_softmax(-1)[0].item())


def test_forbidden_tokens() -> None:
    table = random_table(1)
    for found in greedy(table, sources(), end=END, limit=9, forbidden=[0, 1]):
        assert set(found.tokens) <= {2}
    for [found] in beam_search(table, sources(), end=END, limit=9, beams=3, forbidden=[2]):
        assert 2 not in found.tokens
    generator = torch.Generator().manual_seed(0)
    for found in sample(table, sources(), end=END, limit=9, generator=generator, forbidden=[0, 2]):
        assert set(found.tokens) <= {1}


# --- sampling ---------------------------------------------------------------------------------------------------------


def draw(table: Table, count: int, seed: int = 0, **options: Any) -> list[Generated]:
    generator = torch.Generator().manual_seed(seed)
    source = torch.zeros(count, 1, dtype=torch.long)
    return sample(table, source, end=END, limit=2, generator=generator, **options)


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.9, "temperature": 2.0}]
)
def test_samples_have_the_right_frequencies(options: dict[str, Any]) -> None:
    table = random_table(2)
    ranked, order = (table.logits[0, TOKENS] / options.get("temperature", 1.0)).sort(descending=True)
    ranked[options.get("top_k", TOKENS) :] = -torch.inf
    probability = ranked.softmax(0)
    kept, total = torch.zeros(TOKENS, dtype=torch.float64), 0.0
    for place, share in enumerate(probability.tolist()):
        if total < options.get("top_p", 1.0):
            kept[order[place]] = share
        total += share
    kept /= kept.sum()
    count = 4000
    found = Counter((*sequence.tokens, END)[0] for sequence in draw(table, count, **options))
    for token in range(TOKENS):
        expected = kept[token].item()
        assert found[token] / count == pytest.approx(
            expected, abs=4 * math.sqrt(expected * (1 - expected) / count) + 1e-9
        )


def test_samples_depend_on_the_seed_only() -> None:
    table = random_table(3)
    assert draw(table, 20) == draw(table, 20)
    assert draw(table, 20) != draw(table, 20, seed=1)


def test_sources_with_generators_of_their_own() -> None:
    table = random_table(3)

    def generators(*seeds: int) -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    both = sample(table, sources(2), end=END, limit=9, generator=generators(5, 6))
    assert sample(table, sources(2)[1:], end=END, limit=9, generator=generators(6)) == both[1:]
    assert sample(table, sources(1), end=END, limit=9, generator=generators(5)[0]) == both[:1]


def test_cold_samples_are_greedy() -> None:
    table = random_table(4)
    best = [sequence.tokens for sequence in greedy(table, sources(), end=END, limit=8)]
    for options in ({"temperature": 1e-6}, {"temperature": 1e-310}, {"top_k": 1}, {"top_p": 1e-9}):
        found = sample(table, sources(), end=END, limit=8, **options)
        assert [sequence.tokens for sequence in found] == best


# --- real models ------------------------------------------------------------------------------------------------------


def make_model(kind: str) -> IncrementalDecoder:
    torch.manual_seed(38)  # some sequences end early, some at the limit
    model: EdgeSeq2Seq | TransformerSeq2Seq
    if kind == "edge":
        model = EdgeSeq2Seq(EdgeTransformerConfig(dim=12, heads=3, layers=2), 9, TOKENS)
    else:
        model = TransformerSeq2Seq(Seq2SeqTransformerConfig(dim=12, heads=3, layers=2), 9, TOKENS)
    return model.double().eval()


@pytest.mark.parametrize("kind", ["edge", "transformer"])
def test_batches_are_decoded_as_one_by_one(kind: str) -> None:
    model = make_model(kind)
    lengths = torch.tensor([5, 2, 4, 1, 3, 5])
    source = torch.randint(9, (6, 5), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(5) < lengths[:, None]
    options: dict[str, Any] = {"end": END, "limit": 12}
    together = greedy(model, source, mask, **options)
    beams = beam_search(model, source, mask, beams=3, n_best=3, length_penalty=0.6, **options)
    assert len({sequence.tokens for sequence in together}) > 1
    for row, length in enumerate(lengths.tolist()):
        alone = source[row : row + 1, :length]
        [found] = greedy(model, alone, **options)
        assert found.tokens == together[row].tokens
        assert found.log_probability == pytest.approx(together[row].log_probability)
        [best] = beam_search(model, alone, beams=3, n_best=3, length_penalty=0.6, **options)
        assert [sequence.tokens for sequence in best] == [sequence.tokens for sequence in beams[row]]
        for one, other in zip(best, beams[row], strict=True):
            assert one.score == pytest.approx(other.score)
    for (one,), other in zip(beam_search(model, source, mask, beams=1, **options), together, strict=True):
        assert one.tokens == other.tokens


@pytest.mark.parametrize("kind", ["edge", "transformer"])
def test_log_probabilities_are_those_of_the_whole_pass(kind: str) -> None:
    model: Any = make_model(kind)
    source = torch.randint(9, (3, 4), generator=torch.Generator().manual_seed(1))
    for row, best in enumerate(beam_search(model, source, end=END, limit=6, beams=4, n_best=4)):
        for found in best:
            tokens = torch.tensor([[*found.tokens, *([END] if found.finished else [])]])
            log = model(source[row : row + 1], tokens).log_softmax(-1)
            total = log.gather(2, tokens[..., None]).sum().item()
            assert found.log_probability == pytest.approx(total)


def test_no_sources() -> None:
    table, none = random_table(), torch.zeros(0, 1, dtype=torch.long)
    assert greedy(table, none, end=END, limit=3) == []
    assert beam_search(table, none, end=END, limit=3) == []
    assert sample(table, none, end=END, limit=3) == []


@pytest.mark.parametrize(
    ("decode", "options", "message"),
    [
        (greedy, {"limit": 0}, "limit must be at least 1"),
        (beam_search, {"beams": 0}, "beams must be at least 1"),
        (beam_search, {"beams": 2, "n_best": 3}, "n_best between 1 and beams"),
        (beam_search, {"length_penalty": 1000.0}, "length_penalty must be -5 to 5"),
        (beam_search, {"length_penalty": math.nan}, "length_penalty must be -5 to 5"),
        (sample, {"temperature": 0.0}, "temperature must be above 0"),
        (sample, {"temperature": math.inf}, "temperature must be above 0 and finite"),
        (sample, {"generator": []}, "0 generators for 6 sources"),
        (sample, {"top_k": 0}, "top_k must be at least 1"),
        (sample, {"top_p": 1.5}, "top_p must be above 0"),
    ],
)
def test_wrong_settings_are_refused(decode: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(random_table(), sources(), **{"end": END, "limit": 3, **options})
    with pytest.raises(ValueError, match=r"source must be \[batch, S\]"):
        decode(random_table(), torch.zeros(3, dtype=torch.long), end=END, limit=3)
