"""Says where pip shall take PyTorch from, as arguments for it; and in words, to stderr.

On Linux, PyPI's build of PyTorch brings gigabytes of packages for GPUs along. Where there is no GPU of NVIDIA, the
build for CPUs is taken, if its index can be reached and has the version of constraints.txt. Who told pip where to look
(PIP_INDEX_URL, PIP_NO_INDEX, an index of PyTorch, or the same in pip's files) has chosen already.
"""

import platform
import re
import shutil
import subprocess
import sys
import threading
from glob import glob
from pathlib import Path
from urllib.request import urlopen

INDEX = "https://download.pytorch.org/whl/cpu"
PATIENCE = 5  # seconds
CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def has_gpu() -> bool:
    """Whether there is a GPU of NVIDIA, or a driver for one."""
    return shutil.which("nvidia-smi") is not None or bool(glob("/dev/nvidia[0-9]*"))


def own_choice() -> str | None:
    """The setting of pip, from the environment or its files, by which its user has chosen an index."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in settings.splitlines():
        name, _, value = line.partition("=")
        if re.search(r"\.(index-url|no-index)$", name) or "download.pytorch.org" in value:
            return line
    return None


def index_has(version: str | None) -> bool:
    """Whether the index can be reached soon, and has this version, or any."""
    pages: list[str] = []

    def fetch() -> None:
        try:
            with urlopen(f"{INDEX}/torch/", timeout=PATIENCE) as page:
                pages.append(page.read().decode())
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=fetch, daemon=True)  # the search for an address knows no timeout
    thread.start()
    thread.join(PATIENCE)
    wanted = r"[\d.]+" if version is None else re.escape(version)
    return any(re.search(rf"torch-{wanted}(%2B|\+)cpu", page) for page in pages)


def choose() -> tuple[list[str], str]:
    """Arguments for pip, and why."""
    if platform.system() != "Linux":
        return [], "the ordinary build: it has no GPU packages on this system"
    if (setting := own_choice()) is not None:
        return [], f"the build that pip is told to take: {setting}"
    if has_gpu():
        return [], "the ordinary build: there is an NVIDIA GPU"
    pinned = re.search(r"^torch==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    version = pinned[1] if pinned else None
    if index_has(version):
        return ["--extra-index-url", INDEX], f"the build for CPUs, from {INDEX}: there is no NVIDIA GPU"
    return (
        [],
        f"what pip finds by itself, GPU packages perhaps: {INDEX} cannot be reached or has no {version or 'PyTorch'}",
    )


if __name__ == "__main__":
    arguments, why = choose()
    print(f"PyTorch: {why}", file=sys.stderr, flush=True)
    print(*arguments, flush=True)
