"""Timed actions of an encoder-decoder: decoding with and without the edge cache, one token, and a training step."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..nn.decoder import EdgeSeq2Seq
from ..nn.encoder import recompute
from ..nn.layer import EdgeTransformerConfig
from .sizes import Configuration
from .timing import Action, Watch
from .work import STEP, Floor

DECODING, TOKEN = "decoding", "one token"
RECOMPUTED, CACHED = "recomputed", "cached"
HIDDEN_AGAIN, LAYERS_AGAIN = "hidden again", "layers again"  # --recompute hidden, --recompute layers
SLICES = 5  # of a target that is decoded without the cache: one prefix of each is timed
_SOURCES, _TOKENS = 13, 100  # words of a question; the vocabulary


def sources_of(configuration: Configuration) -> int:
    """The number of source nodes of a graph."""
    return min(_SOURCES, configuration.size.n // 2)


def targets_of(configuration: Configuration) -> int:
    """The number of target nodes of a graph."""
    return configuration.size.n - sources_of(configuration)


def decode_action(configuration: Configuration, name: str, device: str = "cpu") -> Action:
    """Encode a batch of sources and decode their targets.

    Without the cache, one token in the middle of each slice of the target is timed, and stands for the whole slice.
    The time is convex in the length, so this underestimates the total.
    """
    model, source, target = _model(configuration, "auto", device)

    def cached(watch: Watch) -> None:
        watch.start()
        state = model.start(source, limit=target.shape[1])
        for t in range(target.shape[1]):
            model.step(state, target[:, t - 1] if t else None)
        watch.mark(DECODING)

    @torch.no_grad()
    def recomputed(watch: Watch) -> None:
        watch.start()
        source_edges = model.encoder(model.source_input(source))
        watch.mark(DECODING)
        total = watch.marks[DECODING]
        for prefix, count in slices(target.shape[1]):
            watch.start()
            _recompute(model, source_edges, target[:, :prefix])
            watch.mark(DECODING)
            total += count * watch.marks[DECODING]
        watch.marks[DECODING] = total

    return cached if name == CACHED else recomputed


def slices(tokens: int) -> list[tuple[int, int]]:
    """The prefixes to time, and the number of tokens each stands for."""
    ends = [round(tokens * part / SLICES) for part in range(SLICES + 1)]
    return [((start + 1 + end) // 2, end - start) for start, end in pairwise(ends) if end > start]


def token_action(configuration: Configuration, name: str, device: str = "cpu") -> Action:
    """Decode the last token of a graph of this size."""
    model, source, target = _model(configuration, "auto", device)
    if name == CACHED:
        state = model.start(source, limit=target.shape[1])
        for t in range(target.shape[1] - 1):
            model.step(state, target[:, t - 1] if t else None)

        def last() -> Tensor:
            logits = model.step(state, target[:, -2] if state.steps else None)
            state.steps -= 1  # the next call overwrites this step of the cache
            return logits
    else:
        with torch.no_grad():
            source_edges = model.encoder(model.source_input(source))

        def last() -> Tensor:
            return _recompute(model, source_edges, target)

    @torch.no_grad()
    def action(watch: Watch) -> None:
        watch.start()
        last()
        watch.mark(TOKEN)

    return action


def seq2seq_action(configuration: Configuration, dropout: float, engine: str = "auto", device: str = "cpu") -> Action:
    """Forward and backward of a training step, from tokens to the gradients of all weights.

    HIDDEN_AGAIN or LAYERS_AGAIN as the engine is the default one with recomputation.
    """
    again = {HIDDEN_AGAIN: "hidden", LAYERS_AGAIN: "layers"}.get(engine, "nothing")
    used = engine if again == "nothing" else "auto"
    model, source, target = _model(replace(configuration, dropout=dropout), used, device)
    recompute(model.train(), again)

    def action(watch: Watch) -> None:
        model.zero_grad()
        watch.start()
        logits = model(source, target)
        nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        watch.mark(STEP)

    return action


def seq2seq_floor(configuration: Configuration, device: str = "cpu") -> Action:
    """The matrix products of that step. The decoder's last layer is read at the self-edges of the targets only (q and
    v1 of their rows, k and v2 of their columns)."""
    size, layers = configuration.size, configuration.layers
    targets = targets_of(configuration)
    encoder = replace(configuration, size=replace(size, n=sources_of(configuration)))
    floors = [
        Floor(encoder, device),
        Floor(replace(configuration, layers=layers - 1), device),
        Floor(replace(configuration, layers=2), device, rows=size.batch * targets * size.n, products=((1, 2),)),
        Floor(replace(configuration, layers=1), device, rows=size.batch * targets, products=((1, 1), (1, 4), (4, 1))),
    ]
    return _one_after_the_other(floors)


def _one_after_the_other(actions: list[Floor]) -> Action:
    def run(watch: Watch) -> None:
        total = 0.0
        for action in actions:
            action(watch)
            total += watch.marks[STEP]
        watch.marks[STEP] = total

    return run


def _model(configuration: Configuration, engine: str, device: str) -> tuple[EdgeSeq2Seq, Tensor, Tensor]:
    """A model in eval mode, with sources and targets as long as the size says."""
    size = configuration.size
    config = EdgeTransformerConfig(
        dim=size.dim,
        heads=size.heads,
        layers=configuration.layers,
        dropout=configuration.dropout,
        attention_bias=configuration.attention_bias,
    )
    torch.manual_seed(1)
    model = EdgeSeq2Seq(config, _TOKENS, engine=engine).to(device).eval()
    random = torch.Generator().manual_seed(1)

    def draw(length: int) -> Tensor:
        return torch.randint(_TOKENS, (size.batch, length), generator=random).to(device)

    return model, draw(sources_of(configuration)), draw(targets_of(configuration))


def _recompute(model: EdgeSeq2Seq, source_edges: Tensor, target: Tensor) -> Tensor:
    """The logits of the last token of the target from those before it, without a cache."""
    before = model.decoder_input.beginning.expand(len(target), 1, -1)
    edges = model.decoder_input(source_edges, torch.cat([before, model.embed(target[:, :-1])], dim=1))
    return model.output(model.decoder.read_targets(edges, source_edges.shape[1])[:, -1])
