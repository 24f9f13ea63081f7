"""The HTTP API: its routes, and how a request becomes questions in a queue and an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import HTTPException
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from .. import __version__
from ..errors import UserError, suggestion
from .batching import Failure, Ticket
from .bodies import Refused, as_json, read_body, read_json
from .guard import Guard, Safety
from .limits import Limits
from .metrics import Metrics
from .models import ServedModel
from .openapi import about, describe
from .operations import Checked, Operation
from .pages import Pages

GONE = 499  # what is counted where the client hung up; nobody reads it
OPERATIONS = ("predict", "explain", "attention", "parse", "translate", "missing")


class Server:
    """Served models with what they share: limits, metrics, and whether the server is ready."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics) -> None:
        self.models, self.limits, self.metrics = models, limits, metrics
        self.ready = False
        started = time.time()
        metrics.gauge(
            "edge_transformer_queue_items",
            "Questions that wait",
            ("model",),
            lambda: {(name,): float(len(each.batcher)) for name, each in models.items()},
        )
        metrics.gauge(
            "edge_transformer_start_seconds", "When the server started, as Unix time", (), lambda: {(): started}
        )

    def model(self, name: str) -> ServedModel:
        """The model of an address."""
        if name not in self.models:
            known = ", ".join(self.models)
            raise Refused(404, f"found no model {name[:80]!r}; expected one of {known}{suggestion(name, self.models)}")
        return self.models[name]

    async def ask(self, request: Request, name: str, verb: str) -> Response:
        """Answer the questions in the body of a request."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await received(request, self.limits)
                served = self.model(name)
                operation = served.operation(verb)
                asked = read_body(read_json(body), operation.options)
                ticket, most = served.batcher, min(self.limits.items, operation.most or self.limits.items)
                try:
                    options = operation.read_options(asked.options)
                except UserError as error:
                    raise Refused(422, f"{error}") from error
                if len(asked.inputs) > most:
                    message = f"inputs: found {len(asked.inputs)}; expected at most {most} a request"
                    raise Refused(413, message)
                inputs = [
                    check(operation, value, "the input" if asked.single else f"inputs[{number}]")
                    for number, value in enumerate(asked.inputs)
                ]
                asked_items = sum(each.items for each in inputs if isinstance(each, Checked))
                if asked_items > self.limits.items:
                    message = f"inputs: found {asked_items} questions; expected at most {self.limits.items} a request"
                    raise Refused(413, message)
                for each in inputs:
                    if isinstance(each, Failure):
                        self.metrics.errors.add(name, "refused")
                outcomes = await self._outcomes(request, served.batcher.submit(operation, options, inputs), ticket)
        except TimeoutError as error:
            message = f"no answer within {self.limits.seconds:g} seconds; ask for less, or again later"
            raise Refused(503, message, {"Retry-After": "1"}) from error
        return answer(outcomes, asked.single)

    async def _outcomes(self, request: Request, ticket: Ticket, batcher: Any) -> list[Any]:
        """Wait for the answers; where the client hangs up, or the time is over, its questions are dropped."""
        hung_up = asyncio.create_task(_disconnected(request))
        either: set[asyncio.Future[Any]] = {hung_up, ticket.future}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ticket.future.done():
                raise Refused(GONE, "the client hung up")
            return ticket.future.result()
        finally:
            batcher.drop(ticket)
            hung_up.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def received(request: Request, limits: Limits) -> bytes:
    """The whole body, up to the limit; only JSON, so that no other site's form can send it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"found a body of type {kind[:40] or 'none'!r}; expected Content-Type: application/json")
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said[:20]) > limits.body:
        raise Refused(
            413, f"found a body of {said[:20]} bytes; expected at most {limits.body}", {"Connection": "close"}
        )
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > limits.body:
                message = f"found a body of more than {limits.body} bytes; expected at most so many"
                raise Refused(413, message, {"Connection": "close"})
    except ClientDisconnect as error:
        raise Refused(GONE, "the client hung up") from error
    return b"".join(parts)


def check(operation: Operation, value: Any, where: str) -> Checked | Failure:
    """An input that can be answered, or what is wrong with it."""
    try:
        return operation.check(value, where)
    except UserError as error:
        return Failure(f"{error}")


def answer(outcomes: Sequence[Any], single: bool) -> Response:
    """The answer to a request: a single one as it is, several as a list in which each has its answer or its error."""
    if single:
        [outcome] = outcomes
        if isinstance(outcome, Failure):
            raise Refused(500 if outcome.internal else 422, outcome.message)
        return plain(outcome)
    return plain({"answers": [{"error": each.message} if isinstance(each, Failure) else each for each in outcomes]})


def plain(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response of JSON."""
    return Response(as_json(value), status, headers, "application/json")


def make_app(server: Server, safety: Safety, pages: Pages) -> FastAPI:
    """The application: the API, the page, health and metrics."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for each in server.models.values():
            each.batcher.start()
        server.ready = True
        yield
        server.ready = False
        for each in server.models.values():
            await each.batcher.stop()

    app = FastAPI(
        title="Edge Transformer",
        version=__version__,
        description=about(),
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    add_models(app, server)
    add_state(app, server)
    add_pages(app, pages)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return plain({"error": error.message}, error.status, error.headers)

    @app.exception_handler(StarletteHTTPException)
    async def not_found(_: Request, error: HTTPException) -> Response:
        found = {404: "nothing is here; GET /docs lists what is", 405: "not by this method; GET /docs lists what is"}
        return plain({"error": found.get(error.status_code, f"{error.detail}")}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return plain({"error": "the server could not answer this; its log says why"}, 500)

    app.add_middleware(Guard, safety=safety, metrics=server.metrics, models=server.models, operations=OPERATIONS)
    if safety.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(safety.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            max_age=600,
        )
    return app


def add_models(app: FastAPI, server: Server) -> None:
    """The routes of models."""

    @app.get("/v1/models", tags=["models"], summary="The served models")
    async def models() -> Response:
        return plain({"models": [each.describe() for each in server.models.values()]})

    @app.get("/v1/models/{name}", tags=["models"], summary="One model: its task, operations, labels and limits")
    async def one_model(name: str) -> Response:
        return plain(server.model(name).describe())

    @app.get("/v1/models/{name}/nodes", tags=["graph"], summary="Names of the nodes of a knowledge graph")
    async def nodes(name: str, like: str = "", limit: int = 50) -> Response:
        return plain({"nodes": server.model(name).graph().nodes(like, limit)})

    @app.get("/v1/models/{name}/around", tags=["graph"], summary="The facts around a node of a knowledge graph")
    async def around(name: str, node: str, limit: int = 30) -> Response:
        return plain(server.model(name).graph().around(node, limit))

    for verb in OPERATIONS:
        add_operation(app, server, verb)


def add_operation(app: FastAPI, server: Server, verb: str) -> None:
    """The route of one thing to ask models for."""
    summary, extra = describe(verb)

    @app.post(f"/v1/models/{{name}}/{verb}", tags=["ask"], summary=summary, openapi_extra=extra, operation_id=verb)
    async def ask(request: Request, name: str) -> Response:
        return await server.ask(request, name, verb)


def add_state(app: FastAPI, server: Server) -> None:
    """Whether the server runs, whether it takes requests, and what it counted."""

    @app.get("/health", tags=["state"], summary="Whether the process answers")
    async def health() -> Response:
        return plain({"status": "ok"})

    @app.get("/ready", tags=["state"], summary="Whether questions are answered; 503 while it starts or stops")
    async def ready() -> Response:
        if not server.ready:
            raise Refused(503, "the server starts or stops; ask again later", {"Retry-After": "1"})
        return plain({"status": "ready", "models": list(server.models)})

    @app.get("/metrics", tags=["state"], summary="Counters and histograms in Prometheus' text format")
    async def metrics() -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")


def add_pages(app: FastAPI, pages: Pages) -> None:
    """The playground, and the description of this API."""

    @app.get("/", include_in_schema=False)
    async def playground(request: Request) -> Response:
        return pages.response("index.html", request.headers)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return pages.response("docs.html", request.headers)

    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str, request: Request) -> Response:
        return pages.response(name, request.headers)
