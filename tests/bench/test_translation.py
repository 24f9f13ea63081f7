"""What the benchmark times of an encoder-decoder: it does what it says, and the floor has the products of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from edge_transformer.bench import translation
from edge_transformer.bench.results import Bench, Measurement
from edge_transformer.bench.sizes import DECODE, SEQ2SEQ, SEQ2SEQ_MEMORY, TOKEN, Configuration, Size
from edge_transformer.bench.tables import tables
from edge_transformer.bench.timing import Watch
from edge_transformer.bench.translation import (
    CACHED,
    DECODING,
    HIDDEN_AGAIN,
    LAYERS_AGAIN,
    RECOMPUTED,
    decode_action,
    seq2seq_action,
    seq2seq_floor,
    slices,
    sources_of,
    targets_of,
    token_action,
)
from edge_transformer.bench.work import STEP
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.layer import FeedForward
from edge_transformer.ops import feed_forward
from edge_transformer.training.presets import load_preset
from products import Products

TINY = Configuration("x", Size(2, 9, 8, 2), 2)


def run(action: Any) -> dict[str, float]:
    watch = Watch()
    action(watch)
    return watch.marks


@pytest.mark.parametrize("tokens", [1, 2, 4, 7, 50])
def test_the_prefixes_stand_for_all_tokens(tokens: int) -> None:
    found = slices(tokens)
    assert sum(count for _, count in found) == tokens
    assert all(1 <= prefix <= tokens for prefix, _ in found)
    assert sorted(found) == found


def test_the_prefixes_of_fifty() -> None:
    assert slices(50) == [(5, 10), (15, 10), (25, 10), (35, 10), (45, 10)]


def test_both_ways_of_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    real = EdgeSeq2Seq.step
    monkeypatch.setattr(EdgeSeq2Seq, "step", lambda *arguments: steps.append(1) or real(*arguments))  # type: ignore[func-returns-value]
    assert list(run(decode_action(TINY, CACHED))) == [DECODING]
    assert len(steps) == targets_of(TINY)
    assert list(run(decode_action(TINY, RECOMPUTED))) == [DECODING]
    assert len(steps) == targets_of(TINY)


def test_recomputing_gives_what_the_cache_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[torch.Tensor]] = {CACHED: [], RECOMPUTED: []}
    for owner, name, kind in ((EdgeSeq2Seq, "step", CACHED), (translation, "_recompute", RECOMPUTED)):
        real = getattr(owner, name)

        def spy(*arguments: Any, real: Any = real, kind: str = kind) -> torch.Tensor:
            seen[kind].append(real(*arguments))
            return seen[kind][-1]

        monkeypatch.setattr(owner, name, spy)
    for kind in seen:
        action = token_action(TINY, kind)
        run(action)
        run(action)  # a second time gives the same
        torch.testing.assert_close(seen[kind][-1], seen[kind][-2])
    torch.testing.assert_close(seen[CACHED][-1], seen[RECOMPUTED][-1], rtol=0, atol=1e-5)


def test_the_floor_has_the_products_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the small one to the logits."""
    monkeypatch.setattr(feed_forward, "has_kernels_for", lambda _: False)  # products inside an operator are not seen
    configuration = replace(TINY, layers=3)
    with Products() as floor:
        assert list(run(seq2seq_floor(configuration))) == [STEP]
    action = seq2seq_action(configuration, 0.0)
    with Products() as step:
        assert list(run(action)) == [STEP]
    work = [sum(a * b * c * count for (a, b, c), count in found.counts.items()) for found in (floor, step)]
    size = configuration.size
    logits = 3 * size.batch * targets_of(configuration) * size.dim * 100
    # The gradient of the first edges is needed here; that of the floor's last input too.
    assert work[0] == work[1] - logits


def test_what_is_computed_again_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[EdgeSeq2Seq] = []
    real = translation._model

    def spy(*arguments: Any) -> Any:
        made.append(real(*arguments)[0])
        return (made[-1], *real(*arguments)[1:])

    monkeypatch.setattr(translation, "_model", spy)
    for engine in ("auto", HIDDEN_AGAIN, LAYERS_AGAIN):
        run(seq2seq_action(TINY, 0.0, engine))
    assert [model.decoder.recompute for model in made] == ["nothing", "hidden", "layers"]
    hidden = [{each.keep_hidden for each in model.modules() if isinstance(each, FeedForward)} for model in made]
    assert hidden == [{True}, {False}, {True}]
    for kept, *again in zip(*(model.parameters() for model in made), strict=True):
        for other in again:
            torch.testing.assert_close(kept.grad, other.grad)


def test_sizes_are_those_of_the_presets() -> None:
    for configuration in (*DECODE, *SEQ2SEQ, *SEQ2SEQ_MEMORY):
        model = load_preset(configuration.name)["model"]
        size = configuration.size
        assert (size.dim, size.heads, configuration.layers) == (model["dim"], model["heads"], model["layers"])
        assert configuration.dropout == model["dropout"]
    assert [(sources_of(each), targets_of(each), each.size.batch) for each in DECODE] == [(13, 50, 16)] * 2
    assert [(sources_of(each), targets_of(each)) for each in SEQ2SEQ] == [(13, 47)]
    assert [each.size.n for each in TOKEN] == [20, 40, 80, 160]


def test_notes_say_tokens_a_second_and_the_growth() -> None:
    size = Size(16, 63, 64, 4)
    decoded = [
        Measurement("decode", "x", size, DECODING, RECOMPUTED, value=16.0, reference=RECOMPUTED, ratio=1.0),
        Measurement("decode", "x", size, DECODING, CACHED, value=1.0, reference=RECOMPUTED, ratio=1 / 16),
    ]
    tokens = [
        Measurement("token", f"n={n}", replace(size, n=n), translation.TOKEN, CACHED, value=1e-3 * n**1.5)
        for n in (20, 40, 80)
    ]
    first, second = tables(Bench("", {}, {}, (*decoded, *tokens)))
    assert "x, recomputed: 50.0 tokens a second." in first.notes
    assert "x, cached: 800 tokens a second, 16.0 times as many." in first.notes
    assert second.notes == ("cached: the time grows as n^1.50.",)
