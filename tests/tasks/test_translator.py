"""The model of sequence-to-sequence tasks: how it reads questions, and that it can be saved and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from edge_transformer.data.vocab import Vocab
from edge_transformer.errors import DataError, UserError
from edge_transformer.tasks import translator as module
from edge_transformer.tasks.translator import Decoding, Translation, Translator

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}
WORDS = Vocab.of(["did", "m0", "'", "s", "child", "marry", ",", "m1"])


def make(seed: int = 0, **options: Any) -> Translator:
    torch.manual_seed(seed)
    return Translator({**SMALL, **options}, WORDS, Vocab.of(["select", "}", "{"]), lower_case=True, longest=4).eval()


def test_how_questions_are_read() -> None:
    model = make()
    assert model.words_of("Did M0's child marry M1", "x") == ("Did", "M0", "'", "s", "child", "marry", "M1")
    assert model.words_of({"source": ["M0's", "child"]}, "x") == ("M0's", "child")  # a list says what the words are
    assert model.words_of("Did O'Brien marry", "x") == ("Did", "O'Brien", "marry")
    assert model.source_numbers(["Did", "Bob"]) == [WORDS.number("did") + 2, 1]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", "0 words"),
        ([], "0 words"),
        ({"text": "a"}, "the fields text"),
        ({}, "the fields none"),
        (7, "7"),
        (["a b"], "a b"),
        (["a", 7], "7"),
        ({"source": None}, "None"),
        ("a " * 600, "600 words"),
    ],
)
def test_questions_that_are_none(value: Any, found: str) -> None:
    with pytest.raises(DataError, match=found):
        make().words_of(value, "file", 3)


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    lines = ["\ufeffdid m0\n", "\n", '{"source": "marry"}\n', "[", "did\n"]
    answers = model.predict_lines(lines, "somewhere")
    assert [next(answers)["source"] for _ in range(2)] == ["did m0", "marry"]  # what came before the broken line
    with pytest.raises(DataError, match="somewhere:4"):
        next(answers)
    pausing = iter([False, True, False])
    asked: list[int] = []
    translate = model._translate

    def count(questions: Sequence[tuple[str, ...]], how: Decoding) -> list[list[Translation]]:
        asked.append(len(questions))
        return translate(questions, how)

    monkeypatch.setattr(model, "_translate", count)
    assert len(list(model.predict_lines(["did", "did m0", "m0"], "x", lambda: next(pausing)))) == 3
    assert asked == [2, 1]


@pytest.mark.parametrize("kind", ["edge", "transformer", "universal"])
@pytest.mark.parametrize("one", [True, False])
def test_description_leads_back_to_the_model(kind: str, one: bool) -> None:
    model = Translator({**SMALL, "kind": kind}, WORDS, None if one else Vocab(["a"]), lower_case=True, longest=7).eval()
    again = Translator.from_description(model.description()).eval()
    again.load_state_dict(model.state_dict())
    assert again.description() == model.description()
    assert again.translate(["did m0"]) == model.translate(["did m0"])
    assert model.network.output.out_features == (10 if one else 3)


def test_answers_do_not_depend_on_what_is_asked_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(1)
    questions = ["did", "did m0 marry m1", "m0 , m1", "child", "did m0 Bob"]
    together = model.candidates(questions, 2, beams=3)
    monkeypatch.setattr(module, "DECODE_ROWS", 2)
    for more in (model.candidates(questions, 2, beams=3), [model.candidates([q], 2, beams=3)[0] for q in questions]):
        assert [[each.target for each in found] for found in more] == [
            [each.target for each in found] for found in together
        ]
    assert together[-1][0].unknown == ("Bob",)
    monkeypatch.setattr(module, "DECODE_NUMBERS", 1)
    assert [each.target for each in model.translate(questions)] == [
        model.translate([question])[0].target for question in questions
    ]
    assert list(model._decoded_together([[2], [2, 2], [2]], [3, 3, 3], 1)) == [[0], [2], [1]]


def test_limits() -> None:
    model = make(2)
    assert all(len(each.target) <= 8 for each in model.translate(["did", "m0"]))
    assert len(model.translate(["did"], limit=1)[0].target) <= 1
    assert model.translate([]) == []
    model.train()
    model.translate(["did"])
    assert model.training
    for values in ({"beams": 0}, {"beams": 2, "n_best": 3}, {"limit": 0}, {"beams": 1000}):
        with pytest.raises(UserError, match="expected 1 to"):
            Decoding(**values)
    with pytest.raises(UserError, match="expected a list of texts"):
        model.translate("did")


@pytest.mark.parametrize("option", ["layers", "min_layers"])
def test_one_layer_would_not_see_the_source(option: str) -> None:
    with pytest.raises(UserError, match=rf"model\.{option}: found 1; expected 2 or more"):
        make(**{option: 1})
    Translator({**SMALL, "kind": "transformer", "layers": 1}, WORDS)
