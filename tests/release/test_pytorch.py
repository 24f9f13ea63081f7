"""Which build of PyTorch `make` takes: the one for CPUs where there is no GPU, if it can be had."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from documents import ROOT

PINNED = "2.13.0"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """.ci/pytorch.py on a Linux without a GPU, whose pip has no settings and whose network leads nowhere."""
    spec = importlib.util.spec_from_file_location("pytorch_choice", ROOT / ".ci/pytorch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module.platform, "system", lambda: "Linux")
    monkeypatch.setattr(module, "glob", lambda pattern: [])
    monkeypatch.setattr(module, "INDEX", "http://127.0.0.1:9/cpu")
    (tmp_path / "constraints.txt").write_text(f"# about\ntorch=={PINNED}\n")
    monkeypatch.setattr(module, "CONSTRAINTS", tmp_path / "constraints.txt")
    return module


@pytest.fixture
def index(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """An index of PyTorch that can be reached; its page may be changed."""
    served = {"page": f'<a href="torch-{PINNED}%2Bcpu-cp311.whl">'}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "wait" in served:
                time.sleep(float(served["wait"]))
            self.send_response(200 if self.path == "/cpu/torch/" else 404)
            self.end_headers()
            self.wfile.write(served["page"].encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(script, "INDEX", f"http://127.0.0.1:{server.server_port}/cpu")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield served
        server.shutdown()


def test_the_build_for_cpus(script: ModuleType, index: dict[str, str]) -> None:
    arguments, why = script.choose()
    assert arguments == ["--extra-index-url", script.INDEX]
    assert why == f"the build for CPUs, from {script.INDEX}: there is no NVIDIA GPU"


@pytest.mark.parametrize("page", ["torch-2.13.0-cp311.whl", "torch-2.12.0%2Bcpu", ""])
def test_an_index_without_the_version(script: ModuleType, index: dict[str, str], page: str) -> None:
    index["page"] = page
    arguments, why = script.choose()
    assert arguments == []
    assert why.endswith(f"{script.INDEX} cannot be reached or has no {PINNED}")


def test_any_version_where_none_is_pinned(script: ModuleType, index: dict[str, str]) -> None:
    script.CONSTRAINTS.write_text("torch>=2.6\n")
    index["page"] = "torch-2.20.1%2Bcpu"
    assert script.choose()[0] == ["--extra-index-url", script.INDEX]


def test_without_a_network(script: ModuleType) -> None:
    assert script.choose()[0] == []


def test_a_slow_index_is_not_waited_for(
    script: ModuleType, index: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PATIENCE", 0.1)
    index["wait"] = "0.5"
    assert script.choose()[0] == []


def test_with_a_gpu(script: ModuleType, index: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: tuple[list[str], str] = ([], "the ordinary build: there is an NVIDIA GPU")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert script.choose() == expected
    (tmp_path / "nvidia-smi").unlink()
    assert script.choose() != expected
    monkeypatch.setattr(script, "glob", lambda pattern: ["/dev/nvidia0"])
    assert script.choose() == expected


def test_elsewhere(script: ModuleType, index: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script.platform, "system", lambda: "Darwin")
    assert script.choose() == ([], "the ordinary build: it has no GPU packages on this system")


@pytest.mark.parametrize(
    ("name", "value", "respected"),
    [
        ("PIP_INDEX_URL", "https://index.example/simple", True),
        ("PIP_NO_INDEX", "1", True),
        ("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cu128", True),
        ("PIP_EXTRA_INDEX_URL", "https://index.example/simple", False),  # pip looks there too
        ("PIP_DEFAULT_TIMEOUT", "30", False),
    ],
)
def test_who_told_pip_has_chosen(
    script: ModuleType,
    index: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    respected: bool,
) -> None:
    monkeypatch.setenv(name, value)
    arguments, why = script.choose()
    assert (arguments == []) == respected
    assert why.startswith("the build that pip is told to take: ") == respected
    assert (value in why) == respected


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize("target", ["demo", "lint"])
def test_make_hands_the_choice_to_pip(tmp_path: Path, target: str) -> None:
    """With a Python that only notes what it is asked to do, and says the choice as the script would."""
    tools, log = tmp_path / "venv/bin", tmp_path / "log"
    tools.mkdir(parents=True)
    noting = f'#!/bin/sh\ncase "$1" in .ci/pytorch.py) echo --chosen it;; *) echo "$@" >> {log};; esac\n'
    for name in ("python", "ruff", "mypy"):
        (tools / name).write_text(noting)
        (tools / name).chmod(0o755)
    command = ["make", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package = "." if target == "demo" else ".[dev]"
    first = log.read_text().splitlines()[0]
    assert first == f"-m pip install --quiet -c constraints.txt --chosen it -e {package}"
