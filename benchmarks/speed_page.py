"""docs/speed.md and its figure from benchmarks/speed.json, which `edge-transformer bench` writes on an idle machine.

The page names the commands.
"""

from __future__ import annotations

from pathlib import Path

from edge_transformer.bench.tables import write_page

FOLDER = Path(__file__).parent
SOURCE, PAGE = FOLDER / "speed.json", FOLDER.parent / "docs" / "speed.md"
COMMAND = "python benchmarks/speed_page.py"

if __name__ == "__main__":
    for path in write_page(SOURCE, PAGE, COMMAND):
        print(f"written: {path}")
