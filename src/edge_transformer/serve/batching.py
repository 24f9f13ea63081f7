"""Questions of many requests, answered together: a bounded queue for each model, and a thread that computes.

The first question of a batch waits a few milliseconds for others. While the thread computes, more arrive, so that the
next batch is the larger the busier the server is. A question that fails gets an error of its own: the others of its
batch are answered.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from ..errors import UserError
from .bodies import Refused
from .limits import Limits
from .metrics import Metrics
from .operations import WHOLE_BATCH, Checked, Operation, Options

MOST_ITEMS = 256  # of a batch
INTERNAL = "the server could not answer this; its log says why"


class Failure(NamedTuple):
    """The error of one question."""

    message: str
    internal: bool = False  # a mistake of ours, not of the question


@dataclass(eq=False)
class Ticket:
    """A request's questions, and what is known of their answers."""

    operation: Operation
    options: Options
    outcomes: list[Any]
    future: asyncio.Future[list[Any]]
    missing: int = 0
    gone: bool = False  # nobody waits for it any more

    def put(self, number: int, outcome: Any) -> None:
        self.outcomes[number] = outcome
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result(self.outcomes)


class Waiting(NamedTuple):
    """A question in the queue."""

    ticket: Ticket
    number: int
    checked: Checked


@dataclass(eq=False)
class Batcher:
    """The queue of one model, and the thread that answers it."""

    name: str
    limits: Limits
    metrics: Metrics
    _queue: deque[Waiting] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"answers {self.name}")

    def __len__(self) -> int:
        return sum(each.checked.items for each in self._queue)

    def start(self) -> None:
        """Begin to answer; there must be an event loop."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Answer nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def submit(self, operation: Operation, options: Options, inputs: Sequence[Checked | Failure]) -> Ticket:
        """Queue the questions of a request; full queues refuse it at once."""
        ticket = Ticket(operation, options, [*inputs], asyncio.get_running_loop().create_future())
        fresh = [Waiting(ticket, n, each) for n, each in enumerate(inputs) if isinstance(each, Checked)]
        asked = sum(each.checked.items for each in fresh)
        if fresh and len(self) + asked > self.limits.queue:
            message = f"{len(self)} questions wait for {self.name}, of at most {self.limits.queue}; ask again later"
            raise Refused(503, message, {"Retry-After": "1"})
        ticket.missing = len(fresh)
        if fresh:
            self._queue.extend(fresh)
            self._arrived.set()
        else:
            ticket.future.set_result(ticket.outcomes)
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """Forget a request's questions that are not computed yet: nobody waits for them."""
        if ticket.gone or ticket.future.done():
            return
        ticket.gone = True
        ticket.future.cancel()
        self.metrics.dropped.add(self.name, by=ticket.missing)
        self._queue = deque(each for each in self._queue if each.ticket is not ticket)

    # --- batches ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if self.limits.gather_ms and len(self._queue) < MOST_ITEMS:
                await asyncio.sleep(self.limits.gather_ms / 1000)
            batch = self._take()
            if not self._queue:
                self._arrived.clear()
            if not batch:
                continue
            started = perf_counter()
            ticket = batch[0].ticket
            outcomes = await loop.run_in_executor(
                self._thread, answers, ticket.operation, ticket.options, [each.checked.value for each in batch]
            )
            self.metrics.computing.add(perf_counter() - started, self.name)
            self.metrics.batches.add(len(batch), self.name)
            for each, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Failure):
                    self.metrics.errors.add(self.name, "internal" if outcome.internal else "refused")
                each.ticket.put(each.number, outcome)

    def _take(self) -> list[Waiting]:
        """The oldest question, and others that can be answered with it, up to what a batch may cost."""
        batch: list[Waiting] = []
        left: list[Waiting] = []
        cost = 0
        most = MOST_ITEMS if self.limits.gather_ms else 1
        while self._queue and len(batch) < most:
            each = self._queue.popleft()
            first = batch[0].ticket if batch else each.ticket
            together = (each.ticket.operation, each.ticket.options) == (first.operation, first.options)
            if not together or (batch and cost + each.checked.cost > WHOLE_BATCH):
                left.append(each)
                if together:
                    break
                continue
            batch.append(each)
            cost += each.checked.cost
        self._queue.extendleft(reversed(left))
        return batch


def answers(operation: Operation, options: Options, values: Sequence[Any]) -> list[Any]:
    """The answer to each value, or its failure; where they fail together, each is asked alone."""
    try:
        found = operation.answer(values, options)
        if len(found) == len(values):
            return found
        raise RuntimeError(f"{operation.name}: {len(found)} answers to {len(values)} questions")
    except Exception as error:
        if len(values) == 1:
            return [_failure(error)]
    return [each for value in values for each in answers(operation, options, [value])]


def _failure(error: Exception) -> Failure:
    if isinstance(error, UserError):
        return Failure(f"{error}".removeprefix("input 0: "))
    traceback.print_exception(error)  # to standard error, the server's log
    return Failure(INTERNAL, internal=True)


def failures(outcomes: Iterable[Any]) -> list[Failure]:
    """The failures among outcomes."""
    return [each for each in outcomes if isinstance(each, Failure)]
