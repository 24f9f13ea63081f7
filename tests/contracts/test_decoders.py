"""What every encoder-decoder of the registry must do: causality, padding, gradients, a cache like the whole pass."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from edge_transformer.nn.encoder import RECOMPUTE, encoder_names, find_encoder, recompute
from edge_transformer.nn.generation import EncoderDecoder
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS, decode, draw_vectors, mask_of, random_pair

CHANGES: list[dict[str, Any]] = [{}, {"norm": "pre"}, {"attention_bias": False}, {"tied": False}, {"norm": "paper"}]
CASES = [
    (name, changes)
    for name in encoder_names("pairs")
    for changes in CHANGES
    if changes.keys() <= {field.name for field in fields(find_encoder(name, "pairs").config)}
    and (changes.get("norm") != "paper" or name == "edge")
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, (case[0], *case[1].values()))))
Case = tuple[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_model(case: Case, **settings: Any) -> EncoderDecoder:
    kind = find_encoder(case[0], "pairs")
    config = kind.config(dim=12, heads=3, layers=3, **case[1], **settings)
    model = kind.encoder(config, SOURCE_TOKENS, TARGET_TOKENS)
    draw_vectors(model)
    return model.double().eval()


@cases
def test_a_token_changes_the_logits_of_those_after_it_only_and_of_all_those(case: Case) -> None:
    model, (source, target) = make_model(case), random_pair(2, 4, 8)
    logits = model(source, target)
    assert logits.shape == (2, 8, TARGET_TOKENS)
    for t in range(8):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 1) % TARGET_TOKENS
        other = model(source, changed)
        assert torch.equal(other[:, : t + 1], logits[:, : t + 1]), t
        assert ((other[:, t + 1 :] - logits[:, t + 1 :]).abs().amax(-1) > 1e-9).all(), t
        torch.testing.assert_close(model(source, target[:, : t + 1]), logits[:, : t + 1])


@cases
def test_padding_changes_nothing(case: Case) -> None:
    model, (source, target) = make_model(case), random_pair(3, 5, 6)
    lengths = (3, 5, 1)
    together = model(source, target, mask_of(*lengths))
    for row, length in enumerate(lengths):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row], alone[0])


@cases
@pytest.mark.parametrize("again", RECOMPUTE)
def test_every_parameter_gets_a_gradient(case: Case, again: str) -> None:
    model, (source, target) = make_model(case, dropout=0.1).train(), random_pair(3, 5, 9)
    recompute(model, again)
    nn.functional.cross_entropy(model(source, target, mask_of(5, 3, 4)).flatten(0, 1), target.flatten()).backward()
    unused = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert unused == []


@cases
@pytest.mark.parametrize(("lengths", "limit"), [((4, 4), None), ((5, 2, 1), 3), ((4, 4), 42)])
def test_the_cache_gives_the_logits_of_the_whole_pass(case: Case, lengths: tuple[int, ...], limit: int | None) -> None:
    """Also where more steps are made than was said."""
    model, (source, target) = make_model(case), random_pair(len(lengths), max(lengths), 42)
    mask = mask_of(*lengths) if len(set(lengths)) > 1 else None
    torch.testing.assert_close(decode(model, model.start(source, mask, limit), target), model(source, target, mask))


@cases
def test_rows_swap_are_repeated_and_left_out_in_the_middle_of_their_sequences(case: Case) -> None:
    model, (source, target), mask = make_model(case), random_pair(3, 5, 12), mask_of(5, 2, 4)
    state = model.start(source, mask)
    decode(model, state, target[:, :4])
    order = torch.arange(3)
    steps = {4: [1, 0, 2], 5: [2, 2, 0], 7: [0, 1, 1, 2, 0], 8: [4, 3, 2, 1, 0], 10: [3], 11: [0]}
    for t in range(4, 12):
        if t in steps:
            index = torch.tensor(steps[t])
            model.reorder(state, index)
            order, target = order[index], target[index]
        expected = model(source[order], target[:, : t + 1], mask[order])[:, -1]
        torch.testing.assert_close(model.step(state, target[:, t - 1]), expected)
    assert state.rows == 1
    for wrong, message in (([1], "rows from 0 to 0"), ([[0]], r"index must be \[rows\]")):
        with pytest.raises(ValueError, match=message):
            model.reorder(state, torch.tensor(wrong))


@pytest.mark.parametrize("name", encoder_names("pairs"))
def test_decoding_keeps_no_graph_and_wrong_arguments_are_refused(name: str) -> None:
    model, (source, target) = make_model((name, {})), random_pair(2, 4, 3)
    assert not decode(model, model.start(source), target).requires_grad
    with pytest.raises(ValueError, match=r"source must be \[batch, S\] with S at least 1, but its shape is \[2, 0\]"):
        model(source[:, :0], target)
    for wrong in (target[:, :0], target[:1]):
        with pytest.raises(ValueError, match=r"target must be \[batch=2, T\] with T at least 1, but its shape is \["):
            model(source, wrong)
    with pytest.raises(ValueError, match=r"source_mask must be bool \[2, 4\], but is torch.int64 \[2, 4\]"):
        model.start(source, source)
    state = model.start(source)
    with pytest.raises(ValueError, match="None at the first step only"):
        model.step(state, target[:, 0])
    model.step(state, None)
    with pytest.raises(ValueError, match="None at the first step only"):
        model.step(state, None)
    with pytest.raises(ValueError, match=r"tokens must be \[batch=2\], but their shape is \[1\]"):
        model.step(state, target[:1, 0])
    with pytest.raises(ValueError, match=r"call model.eval\(\) first"):
        model.train().start(source)
