"""A server of small models in this process, at a free port of loopback, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from edge_transformer.serve import run
from edge_transformer.serve.app import Server, make_app
from edge_transformer.serve.guard import Safety
from edge_transformer.serve.limits import Limits
from edge_transformer.serve.metrics import Metrics
from edge_transformer.serve.models import ServedModel
from edge_transformer.serve.pages import Pages
from edge_transformer.tasks.base import TaskModel

FAMILY = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}


@contextmanager
def serving(
    models: Mapping[str, TaskModel], limits: Limits | None = None, safety: Safety | None = None, port: int = 0
) -> Iterator[tuple[httpx.Client, Server]]:
    """A client of a running server, and what the server shares."""
    limits, metrics = limits or Limits(), Metrics()
    served = {name: ServedModel(name, model, limits, metrics) for name, model in models.items()}
    server = Server(served, limits, metrics)
    opened = run.open_socket("127.0.0.1", port)
    app = make_app(server, safety or Safety(), Pages())
    ready = threading.Event()
    ending: list[Any] = []

    def work() -> None:
        run.serve(app, opened, limits.seconds, ready.set, ending.append)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            yield client, server
    finally:
        ending[0].should_exit = True
        thread.join(60)
        opened.close()
    assert not thread.is_alive(), "the server did not end"


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
