"""Builds the package. The rest of its description is in pyproject.toml.

- The compiled kernels know nothing of Python: they are called through ctypes. So they have a plain name, and one wheel
  of a platform serves every Python. Without a C compiler the package installs all the same, only slower.
- The README's links point into the repository, where the page on PyPI has none beside it.
- A wheel knows the commit that it was built from, for the records of what it trains.
"""

import re
import subprocess
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CSRC = Path("src/edge_transformer/ops/csrc")
COMMIT = "edge_transformer/io/commit.txt"


class BuildKernels(build_ext):
    """A shared library without Python's name, ABI or library in it."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def get_libraries(self, ext: Extension) -> list[str]:
        return ext.libraries

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


class PlatformWheel(bdist_wheel):
    """For any Python 3: on this platform, or on every one where no kernels could be compiled."""

    def get_tag(self) -> tuple[str, str, str]:
        built = any(Path(file).exists() for file in self.get_finalized_command("build_ext").get_outputs())
        return "py3", "none", super().get_tag()[2] if built else "any"


def commit() -> str:
    """The commit of this checkout; nothing elsewhere."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        command = [
            "git",
            "-c",
            "safe.directory=*",
            "-C",
            str(ROOT),
            "rev-parse",
            "HEAD",
        ]  # in a container, of any owner
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


class PackageWithCommit(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode and commit():
            Path(self.build_lib, COMMIT).write_text(commit(), encoding="utf-8")


class SourceWithCommit(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        if commit():
            Path(base_dir, "src", COMMIT).write_text(commit(), encoding="utf-8")


def page() -> str:
    """The README with absolute links, to this version's files."""
    repository, version = PROJECT["urls"]["Repository"], PROJECT["version"]
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\])\((?!https?:|#)", rf"\1({raw}/v{version}/", text)
    return re.sub(r"\]\((?!https?:|#)", f"]({repository}/blob/v{version}/", text)


setup(
    long_description=page(),
    long_description_content_type="text/markdown",
    cmdclass={
        "bdist_wheel": PlatformWheel,
        "build_ext": BuildKernels,
        "build_py": PackageWithCommit,
        "sdist": SourceWithCommit,
    },
    ext_modules=[
        Extension(
            "edge_transformer.ops._kernels",
            sources=sorted(map(str, CSRC.glob("*.c"))),
            depends=sorted(map(str, CSRC.glob("*.h"))),
            extra_compile_args=["-O3", "-g0", "-std=gnu11", "-fno-trapping-math", "-fno-math-errno", "-Wno-psabi"],
            libraries=["m", "pthread"],
            optional=True,
        )
    ],
)
