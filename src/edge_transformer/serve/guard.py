"""What every request passes: the host it names, the token, and the headers that keep a browser from anything else."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import UserError
from .bodies import as_json
from .metrics import Metrics

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# Scripts, styles and requests of this server alone; pictures that the page itself draws.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
OPEN = re.compile(r"/(health|ready|docs|page/[^/]*)?")  # without a token; the page asks its reader for one
_PATH = re.compile(r"/v1/models/([^/]+)/(\w+)")
TOKEN_BYTES = 16, 4096


@dataclass(frozen=True)
class Safety:
    """Who may ask."""

    token: bytes | None = None
    hosts: tuple[str, ...] | None = None  # names that a request may call the server by; None: any
    origins: tuple[str, ...] = ()  # of pages elsewhere that may ask


def read_token(path: Path) -> bytes:
    """The token in a file, without spaces and line ends around it."""
    least, most = TOKEN_BYTES
    try:
        with open(path, "rb") as file:
            token = file.read(most + 1).strip()
    except OSError as error:
        raise UserError(f"--token-file {path}: {error.strerror}") from error
    if not least <= len(token) <= most or not re.fullmatch(rb"[!-~]+", token):
        found = (
            f"{len(token)} bytes" if re.fullmatch(rb"[!-~]*", token) else "spaces or letters that a header cannot have"
        )
        raise UserError(f"--token-file {path}: found {found}; expected {least} to {most} letters, digits and signs")
    return token


class Guard:
    """Middleware: refuses strangers, adds headers and counts."""

    def __init__(
        self, app: ASGIApp, safety: Safety, metrics: Metrics, models: Collection[str], operations: Collection[str]
    ) -> None:
        self.app, self.safety, self.metrics = app, safety, metrics
        self.models, self.operations = models, operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            stranger = self._stranger(scope)
            if stranger is None:
                await self.app(scope, receive, sending)
            else:
                await _refuse(sending, *stranger)
        finally:
            model, operation = self._asked(scope["path"])
            self.metrics.requests.add(model, operation, f"{status}")
            if status < 500 and model:
                self.metrics.seconds.add(perf_counter() - started, model, operation)

    def _stranger(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is refused, if it is."""
        headers, safety = Headers(scope=scope), self.safety
        if safety.hosts is not None:
            host = re.sub(r":\d*$", "", headers.get("host", "")).lower()
            if host not in safety.hosts:
                expected = ", ".join(safety.hosts)
                return 421, f"found the host {host[:80]!r}; expected {expected}; --allow-host names others"
        if safety.token is not None and not OPEN.fullmatch(scope["path"]) and scope["method"] != "OPTIONS":
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), safety.token):
                return 401, "found no valid token; expected the header Authorization: Bearer TOKEN"
        return None

    def _asked(self, path: str) -> tuple[str, str]:
        """Model and operation by an address: only known ones, or anybody could fill the memory with labels."""
        found = _PATH.fullmatch(path)
        if not found or found[1] not in self.models or found[2] not in self.operations:
            return "", "other"
        return found[1], found[2]


async def _refuse(send: Send, status: int, message: str) -> None:
    body = as_json({"error": message})
    headers = [(b"content-type", b"application/json"), (b"content-length", f"{len(body)}".encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
