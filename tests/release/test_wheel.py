"""The wheel: for every Python of a platform, whole, and able to answer from where it was unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest

from documents import ROOT
from edge_transformer.ops.native import NATIVE

PACKAGE = ROOT / "src/edge_transformer"
SOURCES = ("src", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "setup.py", "MANIFEST.in", ".ci")
COMMIT = "0123456789" * 4

INSTALLED = {each.name for each in metadata.distributions()}
pytestmark = pytest.mark.skipif(not {"build", "setuptools"} <= INSTALLED, reason="`build` or setuptools is missing")


def checkout(folder: Path) -> Path:
    """A copy of what a build needs, in a folder that says its commit. Its kernels are still to be compiled."""
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / "src/edge_transformer/io/commit.txt").write_text(COMMIT)
    return folder


def build(folder: Path, compiler: str, *arguments: str) -> tuple[Path, str]:
    """The built file, and what was said. The compiler is a line of shell that takes the arguments of one."""
    command = folder / "compiler"
    command.write_text(f"#!/bin/sh\n{compiler}\n")
    command.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *arguments, "."],
        cwd=folder,
        env={**os.environ, "CC": str(command), "LDSHARED": f"{command} -shared"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = (folder / "dist").iterdir()
    return built, done.stdout + done.stderr


def answer(wheel: Path, folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """What the package says from where the wheel was unpacked."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return subprocess.run(
        [sys.executable, *lines],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def package_files(names: list[str]) -> set[str]:
    return {name for name in names if name.startswith("edge_transformer/")}


def expected_files() -> set[str]:
    """All of the package but what is compiled, or comes from it."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    left_out = {".c", ".h", ".so"}
    return {path.relative_to(PACKAGE.parent).as_posix() for path in files if path.suffix not in left_out}


@pytest.mark.skipif(NATIVE.unavailable() is not None, reason="no compiled kernels, so perhaps no compiler")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_wheel_with_kernels(tmp_path: Path) -> None:
    wheel, _ = build(checkout(tmp_path), 'exec cc "$@" -O0', "--wheel")
    *_, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) == ("py3", "none")
    assert platform.startswith(("linux_", "macosx_"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [about] = [message_from_bytes(archive.read(name)) for name in names if name.endswith("/WHEEL")]
        [described] = [message_from_bytes(archive.read(name)) for name in names if name.endswith("/METADATA")]
    kernels, commit = "edge_transformer/ops/_kernels.so", "edge_transformer/io/commit.txt"
    assert package_files(names) == {*expected_files(), kernels, commit}
    assert about["Tag"] == f"py3-none-{platform}"
    page = str(described.get_payload())
    assert "](docs/" not in page
    assert "](https://raw.githubusercontent.com/" in page
    found = answer(wheel, tmp_path / "site", str(ROOT / ".ci/answer.py"))
    assert found.returncode == 0, found.stderr
    assert str(tmp_path / "site") in found.stdout
    code = "from edge_transformer.io.records import code_commit; print(code_commit())"
    assert answer(wheel, tmp_path / "site", "-c", code).stdout.strip() == COMMIT


def test_the_wheel_without_a_compiler(tmp_path: Path) -> None:
    wheel, said = build(checkout(tmp_path), "exit 1", "--wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert said.count('building extension "edge_transformer.ops._kernels" failed') == 1
    with zipfile.ZipFile(wheel) as archive:
        assert package_files(archive.namelist()) == {*expected_files(), "edge_transformer/io/commit.txt"}
    code = """
import edge_transformer as et
model = et.load("clutrr-small")
question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
for _ in range(2):
    print(model.predict([question])[0]["answer"])
"""
    found = answer(wheel, tmp_path / "site", "-c", code)
    assert found.stdout.split() == ["daughter"] * 2, found.stderr
    assert found.stderr.count("no compiled kernels") == 1


def test_the_sdist_has_what_a_build_needs(tmp_path: Path) -> None:
    archive, _ = build(checkout(tmp_path), "exit 1", "--sdist")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {path.relative_to(ROOT).as_posix() for path in (PACKAGE / "ops/csrc").iterdir()}
    assert {*sources, *(f"src/{name}" for name in expected_files())} <= names
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE", "src/edge_transformer/io/commit.txt"} <= names
    assert not any(name.startswith("tests") for name in names)
