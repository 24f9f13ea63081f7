"""The model of sequence-to-sequence tasks: how it reads questions, and that it can be saved and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import DataError, UserError
from edge_transformer.tasks.seq2seq import model as module
from edge_transformer.tasks.seq2seq.model import Translation, Translator
from edge_transformer.tasks.seq2seq.questions import Decoding, Question

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}
WORDS = Vocab.of(["did", "m0", "'", "s", "child", "marry", ",", "m1"])


def make(seed: int = 0, **options: Any) -> Translator:
    torch.manual_seed(seed)
    return Translator({**SMALL, **options}, WORDS, Vocab.of(["select", "}", "{"]), lower_case=True, longest=4).eval()


def test_how_questions_are_read() -> None:
    """Words are known whatever their case, where the model reads lower case; see also test_questions.py."""
    model = make()
    assert model.question_of("Did M0's child marry M1?", "x").words == ("Did", "M0", "'", "s", "child", "marry", "M1")
    assert model.source_numbers(["Did", "Bob"]) == [WORDS.number("did") + 2, 1]  # type: ignore[operator]
    [found] = model.translate(["Did Bob marry M1 ?"])
    assert (found.unknown, found.left_out) == (("Bob",), ("?",))
    assert (found.to_json()["unknown"], found.to_json()["left_out"]) == (["Bob"], ["?"])


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    lines = ["\ufeffdid m0\n", "\n", '{"source": "marry"}\n', '["did', "did\n"]
    answers = model.predict_lines(lines, "somewhere")
    assert [next(answers)["source"] for _ in range(2)] == ["did m0", "marry"]  # what came before the broken line
    with pytest.raises(DataError, match="somewhere:4"):
        next(answers)
    pausing = iter([False, True, False])
    asked: list[int] = []
    translate = model._translate

    def count(questions: Sequence[Question], how: Decoding) -> list[list[Translation]]:
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
    output = model.network.get_submodule("output")
    assert isinstance(output, torch.nn.Linear)
    assert output.out_features == (10 if one else 3)


def test_words_of_targets_alone_are_not_known_in_questions() -> None:
    words = Vocab.of([*WORDS, ".", "where"])
    model = Translator(SMALL, words, lower_case=True, only_targets=["where", "."]).eval()
    for each in (model, Translator.from_description(model.description()).eval()):
        [found] = each.translate(["Where did m0 marry m1 ."])
        assert (found.unknown, found.left_out) == (("Where",), (".",))
    old = {name: value for name, value in model.description().items() if name != "only_targets"}
    assert Translator.from_description(old).is_known("where")


def test_edges_that_know_both_ends() -> None:
    model = make(ends=True)
    again = Translator.from_description(model.description()).eval()
    again.load_state_dict(model.state_dict())
    found = model.candidates(["did m0", "m0 marry m1"], 2, beams=3)
    assert again.candidates(["did m0", "m0 marry m1"], 2, beams=3) == found
    assert len(list(model.parameters())) == len(list(make().parameters())) + 2
    with pytest.raises(UserError, match=r"model\.ends: found a transformer model; expected one that has edges"):
        make(kind="transformer", ends=True)


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
    monkeypatch.undo()
    monkeypatch.setattr(module, "DECODE_ROWS", 6)  # sequences, not texts
    assert [len(rows) for rows in model._decoded_together([[2]] * 5, [3] * 5, beams=3)] == [2, 2, 1]
    assert [len(rows) for rows in model._decoded_together([[2]] * 2, [3] * 2, beams=9)] == [1, 1]


def test_limits() -> None:
    model = make(2)
    assert all(len(each.target) <= 8 for each in model.translate(["did", "m0"]))
    assert len(model.translate(["did"], limit=1)[0].target) <= 1
    assert model.translate([]) == []
    model.train()
    model.translate(["did"])
    assert model.training

    def interrupt(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.decode([[2]], [3], progress=interrupt)
    assert model.training
    with pytest.raises(UserError, match="expected a list of texts"):
        model.translate("did")


def test_all_lines_are_answered() -> None:
    model = make(3)
    lines = ["did m0", "", "d" * 10_000_001, '{"source": "marry", "id": 7}', "  ", '{"id": 8}', "{ m1"]
    answered = list(model.translate_lines(lines, "here"))
    assert [each.line.number for each in answered] == list(range(1, 8))
    assert [len(each.translations) for each in answered] == [1, 0, 0, 1, 0, 0, 1]
    assert [each.line.number for each in answered if each.line.error] == [3, 6]
    assert [answered[place].line.question.fields for place in (3, 5)] == [{"id": 7}, {"id": 8}]
    # Matrix products of other sizes may add up their numbers in another order.
    for place, alone in zip((0, 3), model.translate(["did m0", "marry"]), strict=True):
        found = answered[place].translations[0]
        assert (found.source, found.target, found.finished) == (alone.source, alone.target, alone.finished)
        assert found.log_probability == pytest.approx(alone.log_probability, rel=1e-5)


def test_what_would_need_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(3)
    monkeypatch.setattr(module, "MAX_DECODE_NUMBERS", 2 * model._cached_numbers(2 + 8))
    lines = ["did m0", "did m0 marry", "m0"]
    answered = list(model.translate_lines(lines, "here", how=Decoding(beams=2)))
    assert [bool(each.translations) for each in answered] == [True, False, True]
    expected = "expected fewer words, a lower limit or a narrower beam"
    assert answered[1].line.error is not None
    assert str(answered[1].line.error).startswith("here:2: found 3 words, and up to 8 to decode with a beam of 2: ")
    assert str(answered[1].line.error).endswith(expected)
    assert model.translate(lines, beams=2, limit=7)[1].target == model.translate(lines[1:], beams=2, limit=7)[0].target
    with pytest.raises(UserError, match=f"text 2: found 3 words.*{expected}"):
        model.translate(lines, beams=2)
    # What is decoded together fits too, also where all answers are far longer than those of training.
    monkeypatch.setattr(model, "longest", 1)
    for rows in model._decoded_together([[2]] * 50, [40] * 50, 1):
        assert len(rows) == 1 or len(rows) * model._cached_numbers(41) <= module.MAX_DECODE_NUMBERS


def test_a_beam_that_is_not_given_is_wider_than_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(4)
    widths: list[int] = []
    decode = model.decode

    def remember(sources: Any, limits: Any, how: Decoding) -> Any:
        widths.append(how.beams)
        return decode(sources, limits, how)

    monkeypatch.setattr(model, "decode", remember)
    for count in (1, 2, 6):
        assert [len(found) for found in model.candidates(["did", "m0"], count)] == [count, count]
    assert widths == [1, 4, 6]


def test_samples_depend_on_text_and_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(5)
    questions = ["did", "did m0 marry m1", "m0 , m1"]
    together = model.sample(questions, 6, temperature=1.5)
    assert [len(found) for found in together] == [6, 6, 6]
    assert len({each.target for each in together[1]}) > 1
    monkeypatch.setattr(module, "DECODE_ROWS", 4)  # samples of one text are drawn in several batches

    def targets(found: list[list[Translation]]) -> list[list[tuple[str, ...]]]:
        return [[each.target for each in of_one] for of_one in found]

    assert targets(model.sample(questions, 6, temperature=1.5)) == targets(together)
    assert targets(model.sample(questions[1:2], 3, temperature=1.5)) == [targets(together)[1][:3]]
    assert targets(model.sample(questions, 6, temperature=1.5, seed=2)) != targets(together)
    best = [each.target for each in model.translate(questions)]
    for options in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-9}):
        assert targets(model.sample(questions, 2, **options)) == [[target] * 2 for target in best]
    with pytest.raises(UserError, match="found 0 samples"):
        model.sample(questions, 0)


@pytest.mark.parametrize("option", ["layers", "min_layers"])
def test_one_layer_would_not_see_the_source(option: str) -> None:
    with pytest.raises(UserError, match=rf"model\.{option}: found 1; expected 2 or more"):
        make(**{option: 1})
    Translator({**SMALL, "kind": "transformer", "layers": 1}, WORDS)
