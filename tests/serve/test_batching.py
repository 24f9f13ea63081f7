"""The queue of a model: what is answered together, what fails alone, what nobody waits for, and how much may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from edge_transformer.errors import UserError
from edge_transformer.serve.batching import INTERNAL, Batcher, Failure, answers
from edge_transformer.serve.bodies import Refused
from edge_transformer.serve.limits import Limits
from edge_transformer.serve.metrics import Metrics
from edge_transformer.serve.operations import WHOLE_BATCH, Checked, Operation, Options


class Double(Operation):
    """Doubles numbers; refuses 13 and fails at 666."""

    name = "double"

    def __init__(self) -> None:
        super().__init__(Limits())
        self.asked: list[list[Any]] = []
        self.go = threading.Event()
        self.go.set()

    def check(self, value: Any, where: str) -> Checked:
        return Checked(value, 1)

    def answer(self, values: Sequence[Any], options: Options) -> list[Any]:
        self.asked.append(list(values))
        assert self.go.wait(20)
        if 13 in values:
            raise UserError("input 0: found 13; expected luck")
        if 666 in values:
            raise RuntimeError("secret")
        return [2 * value for value in values]


def with_batcher(work: Callable[[Batcher], Awaitable[None]], **limits: Any) -> Metrics:
    async def whole() -> Metrics:
        metrics = Metrics()
        batcher = Batcher("m", Limits(**limits), metrics)
        batcher.start()
        await work(batcher)
        await batcher.stop()
        return metrics

    return asyncio.run(whole())


def checked(*values: Any, cost: int = 1) -> list[Checked]:
    return [Checked(value, cost) for value in values]


def test_questions_of_many_requests_are_answered_together_each_with_its_own() -> None:
    double = Double()

    async def work(batcher: Batcher) -> None:
        tickets = [batcher.submit(double, (), checked(number, 10 * number)) for number in range(100, 120)]
        found = await asyncio.gather(*(ticket.future for ticket in tickets))
        assert found == [[2 * number, 20 * number] for number in range(100, 120)]

    metrics = with_batcher(work)
    assert [len(batch) for batch in double.asked] == [40]
    assert "batch_items_count" in metrics.text()


def test_without_gathering_each_is_asked_alone() -> None:
    double = Double()

    async def work(batcher: Batcher) -> None:
        assert await batcher.submit(double, (), checked(1, 2, 3)).future == [2, 4, 6]

    with_batcher(work, gather_ms=0)
    assert double.asked == [[1], [2], [3]]


def test_a_failure_is_that_of_one_question(capsys: pytest.CaptureFixture[str]) -> None:
    found = answers(Double(), (), [1, 13, 2, 666])
    assert found == [2, Failure("found 13; expected luck"), 4, Failure(INTERNAL, internal=True)]
    assert "secret" in capsys.readouterr().err


def test_other_options_and_costly_questions_are_batches_of_their_own() -> None:
    double, other = Double(), Double()

    async def work(batcher: Batcher) -> None:
        tickets = [
            batcher.submit(double, (), checked(1)),
            batcher.submit(double, (("top", 1),), checked(2)),
            batcher.submit(other, (), checked(3)),
            batcher.submit(double, (), checked(4, 5, cost=WHOLE_BATCH)),
            batcher.submit(double, (), checked(6)),
        ]
        assert await asyncio.gather(*(each.future for each in tickets)) == [[2], [4], [6], [8, 10], [12]]

    with_batcher(work)
    assert double.asked == [[1], [2], [4], [5], [6]]
    assert other.asked == [[3]]


def test_what_nobody_waits_for_is_not_computed_and_makes_room() -> None:
    double = Double()
    double.go.clear()

    async def work(batcher: Batcher) -> None:
        first = batcher.submit(double, (), checked(1))
        while not double.asked:
            await asyncio.sleep(0.001)
        gone = batcher.submit(double, (), checked(2, 3))
        with pytest.raises(Refused, match="2 questions wait for m, of at most 2") as refused:
            batcher.submit(double, (), checked(4))
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        batcher.drop(gone)
        batcher.drop(gone)
        assert len(batcher) == 0
        last = batcher.submit(double, (), checked(4))
        double.go.set()
        assert await asyncio.gather(first.future, last.future) == [[2], [8]]
        batcher.drop(last)

    metrics = with_batcher(work, queue=2)
    assert double.asked == [[1], [4]]
    assert metrics.dropped.values == {("m",): 2}


def test_a_request_whose_inputs_all_fail_waits_for_nothing() -> None:
    async def work(batcher: Batcher) -> None:
        failures = [Failure("a"), Failure("b")]
        assert await batcher.submit(Double(), (), failures).future == failures

    with_batcher(work)
