"""The command: its socket, its token, and a graceful end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from command_line import refused
from edge_transformer.errors import UserError
from edge_transformer.serve.guard import LOOPBACK, read_token
from edge_transformer.serve.limits import Limits
from edge_transformer.serve.run import is_loopback, open_socket, safety_of
from served import FAMILY


def test_hosts() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.3.2.1", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org")] == [False] * 4
    assert safety_of("127.0.0.1", None, ["Me.example"], []).hosts == (*LOOPBACK, "me.example")
    assert safety_of("0.0.0.0", None, [], []).hosts is None
    for origin in ("*", "example.org", "https://example.org/", "https://a/b"):
        with pytest.raises(UserError, match="a scheme and a host"):
            safety_of("127.0.0.1", None, [], [origin])


def test_tokens(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  0123456789abcdef\n")
    assert read_token(path) == b"0123456789abcdef"
    for text in ("", "short", "0123456789 abcdef0", "ü" * 16, "a" * 5000):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="--token-file"):
            read_token(path)
    assert "No such file" in refused("serve", "--token-file", str(tmp_path / "none"))


def test_mistakes_of_the_command_are_told_before_models_are_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"--port {port}: Address already in use" in refused("serve", "--port", port)
    assert "no such folder" in refused("serve", "nowhere", "--port", "0")
    assert "seconds: found 0.0" in refused("serve", "--max-seconds", "0")
    for name, value in (("kilobytes", 0), ("queue", 0), ("gather_ms", -1.0), ("seconds", 1e9)):
        with pytest.raises(UserError, match=name):
            Limits(**{name: value})  # type: ignore[arg-type]
    with open_socket("127.0.0.1", 0) as opened:
        assert opened.proto == socket.IPPROTO_TCP, (
            "asyncio sends small answers at once only where it knows the protocol"
        )


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name != "posix", reason="no SIGTERM here")
def test_sigterm_finishes_what_has_begun() -> None:
    command = [sys.executable, "-m", "edge_transformer", "serve", "clutrr-small", "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        [*command, "--gather-ms", "900"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split()[0]
        found: list[httpx.Response] = []

        def ask() -> None:
            found.append(
                httpx.post(f"{address}/v1/models/clutrr-small/predict", json=FAMILY, timeout=60, trust_env=False)
            )

        asking = threading.Thread(target=ask)
        asking.start()
        end = time.monotonic() + 30
        while 'queue_items{model="clutrr-small"} 1' not in httpx.get(f"{address}/metrics", trust_env=False).text:
            assert time.monotonic() < end
        process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert json.loads(found[0].text)["answer"] == "daughter"
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
