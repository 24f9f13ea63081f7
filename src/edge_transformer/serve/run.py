"""Run a server: its socket, its loop, and a graceful end."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from ..errors import UserError
from .app import Server, make_app
from .guard import LOOPBACK, Safety, read_token
from .limits import Limits
from .metrics import Metrics
from .models import load_models
from .pages import Pages

LONGEST_END = 30.0  # seconds for what has begun, after SIGTERM
BACKLOG = 512  # connections that wait to be accepted


def build(
    models: Iterable[str],
    limits: Limits | None = None,
    safety: Safety | None = None,
    trust: Iterable[str] = (),
) -> FastAPI:
    """The application with these models, by default the bundled ones."""
    limits, metrics = limits or Limits(), Metrics()
    served = load_models([*models], limits, metrics, trust)
    return make_app(Server(served, limits, metrics), safety or Safety(), Pages())


def safety_of(host: str, token_file: Path | None, hosts: Iterable[str], origins: Iterable[str]) -> Safety:
    """Who may ask a server that binds to this host.

    On loopback a request must name the server by a name of loopback: else a page of any site could reach it, by a name
    of its own that leads here.
    """
    for origin in origins:
        if not origin.startswith(("http://", "https://")) or origin.endswith("/") or origin.count("/") != 2:
            raise UserError(f"--allow-origin {origin}: expected a scheme and a host, such as https://example.org")
    allowed = tuple(name.lower() for name in hosts)
    named = (*LOOPBACK, *allowed) if is_loopback(host) else allowed or None
    return Safety(None if token_file is None else read_token(token_file), named, tuple(origins))


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_socket(host: str, port: int) -> socket.socket:
    """Bind; what the system says against it is an error of the user's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol: asyncio sends at once (TCP_NODELAY) only where it knows that this is TCP. Else each answer
        # waits 40 ms for the client to confirm its header.
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        said = f"--host {host} --port {port}: {error.strerror or error}"
        raise UserError(f"{said}; expected a free port of this machine; port 0 takes any") from error
    return opened


def serve(
    app: FastAPI,
    opened: socket.socket,
    seconds: float,
    started: Callable[[], None] = lambda: None,
    made: Callable[[uvicorn.Server], None] = lambda _: None,
) -> None:
    """Answer until SIGTERM or Ctrl-C, or until `should_exit` of the server that is `made`.

    What has begun is finished first; requests time out after so many `seconds`.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(min(seconds + 1, LONGEST_END)),
        backlog=BACKLOG,
        lifespan="on",
    )
    server = _Server(config)
    server.when_started = started
    made(server)
    server.run(sockets=[opened])


class _Server(uvicorn.Server):
    """Ends with exit code 0 where uvicorn would die of the signal that asked it to end."""

    when_started: Callable[[], None]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            for each in before:
                signal.signal(each, self.handle_exit)
        except ValueError:  # not the main thread, as in tests
            before = {}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.when_started()
