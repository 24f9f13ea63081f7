"""The workflows name what exists, and a release is refused where its parts disagree."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from documents import ROOT, text_of
from edge_transformer.ops.private import TESTED

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]
MADE = set(re.findall(r"^([a-z]+):", text_of("Makefile"), flags=re.MULTILINE))


def workflow(name: str) -> dict[str, Any]:
    return yaml.load(text_of(f".github/workflows/{name}"), Loader=yaml.BaseLoader)  # else `on` is a truth value


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job.get("steps", [])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_names_exists(path: Path) -> None:
    found = workflow(path.name)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert ("uses" in job) != ("runs-on" in job)
        needs = job.get("needs", [])
        assert {needs} if isinstance(needs, str) else set(needs) <= set(found["jobs"])
        if "uses" in job:
            called = workflow(Path(job["uses"]).name)
            assert "workflow_call" in called["on"]
    for step in steps(path.name):
        assert ("uses" in step) != ("run" in step)
        run = step.get("run", "")
        assert set(re.findall(r"\bmake ([a-z]+)", run)) <= MADE
        for file in re.findall(r"\.ci/\w+\.py", run):
            assert (ROOT / file).exists()


def test_continuous_integration_runs_everything() -> None:
    assert ".ci/run" in {path.relative_to(ROOT).as_posix() for path in (ROOT / ".ci").iterdir()}
    assert text_of(".ci/run").endswith("\nmake test\n")
    assert "make test PYTHON=python" in [step.get("run") for step in steps("test.yml")]


def test_every_declared_python_and_the_oldest_pytorch_are_tested() -> None:
    jobs = workflow("test.yml")["jobs"]
    declared = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert jobs["test"]["strategy"]["matrix"]["python"] == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"
    [oldest] = [name.removeprefix("torch>=") for name in PROJECT["dependencies"] if name.startswith("torch>=")]
    torch = [entry["torch"] for entry in jobs["torch"]["strategy"]["matrix"]["include"]]
    pinned = re.findall(r"^torch==(\S+)", text_of("constraints.txt"), flags=re.MULTILINE)
    assert torch == [f"=={oldest}.0", f">={pinned[0]}"]
    assert (oldest, pinned[0].rpartition(".")[0]) == TESTED


def test_wheels_are_built_once_a_platform_and_tried_out() -> None:
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["cibuildwheel"]
    assert settings["build"] == "cp311-* cp314-*"
    assert {settings["linux"][f"manylinux-{machine}-image"] for machine in ("x86_64", "aarch64")} == {"manylinux_2_28"}
    assert (ROOT / settings["test-command"].removeprefix("python {project}/")).exists()
    names = [step["with"] for step in steps("wheels.yml") if "upload-artifact" in step.get("uses", "")]
    assert all(each["name"].startswith("dist-") for each in names)
    assert len(names) == 2


def test_only_publishing_may_ask_for_an_identity() -> None:
    for path in WORKFLOWS:
        for name, job in workflow(path.name)["jobs"].items():
            expected = {"id-token": "write"} if (path.stem, name) == ("release", "publish") else None
            assert job.get("permissions") == expected
    assert workflow("release.yml")["on"] == {"push": {"tags": ["v*"]}}
    assert set(workflow("release.yml")["jobs"]["publish"]["needs"]) == {"test", "wheels"}


# --- the version ------------------------------------------------------------------------------------------------------


@pytest.fixture
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_check", ROOT / ".ci/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_citation_has_the_version_of_the_package() -> None:
    assert f"\nversion: {PROJECT['version']}\n" in text_of("CITATION.cff")


def test_a_release_whose_parts_agree(release: ModuleType, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    version, repository = PROJECT["version"], PROJECT["urls"]["Repository"].removeprefix("https://github.com/")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} - 2026-01-01\n")
    assert release.disagreements(f"v{version}", repository, tmp_path) == []
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    (tmp_path / "CITATION.cff").write_text("\nversion: 7\n")
    assert release.disagreements("v9.9", "someone/else", tmp_path) == [
        f"pyproject.toml has version {version}, so the tag must be v{version}, not v9.9",
        f"CITATION.cff has another version than {version}",
        f"CHANGELOG.md has no section {version}",
        f"pyproject.toml has the repository https://github.com/{repository}, not https://github.com/someone/else: "
        "links would break",
    ]


# --- the container ----------------------------------------------------------------------------------------------------


def test_the_container_gets_what_the_build_needs() -> None:
    kept = {line[1:] for line in text_of(".dockerignore").splitlines() if line.startswith("!")}
    assert kept == {"src", "README.md", "LICENSE", "constraints.txt", "pyproject.toml", "setup.py"}
    assert all((ROOT / name).exists() for name in kept)
    assert 'ENTRYPOINT ["edge-transformer"]' in text_of("Dockerfile")
    assert "edge-transformer" in PROJECT["scripts"]
