"""Refuses a release whose parts do not agree: `python .ci/release.py v1.2.3 OWNER/NAME`."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def disagreements(tag: str, repository: str, root: Path = ROOT) -> list[str]:
    """What keeps this tag of this repository from being released."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version, url = project["version"], project["urls"]["Repository"]
    found = []
    if tag != f"v{version}":
        found.append(f"pyproject.toml has version {version}, so the tag must be v{version}, not {tag}")
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff has another version than {version}")
    if not re.search(
        rf"^## \[?{re.escape(version)}\b", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    ):
        found.append(f"CHANGELOG.md has no section {version}")
    if url != f"https://github.com/{repository}":
        found.append(f"pyproject.toml has the repository {url}, not https://github.com/{repository}: links would break")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(disagreements(*sys.argv[1:3])) or None)
