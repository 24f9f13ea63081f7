"""Problems such as users bring: small sets of rows on which the default settings are judged.

    splits = PROBLEMS["organisation"](seed=1)  # {"train": rows, "test": rows}

The same seed gives the same rows everywhere. What a row shows determines its answer. No test row has the graph and
the query of a training row; only `family` says why some of its have. Rows of `relatives` are facts of one graph, for
the task links.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ....errors import UserError
from ....io.files import replacing_together
from .drawing import Row, Splits, graph_key
from .molecules import molecules
from .organisation import organisation
from .permissions import permissions
from .relatives import relatives
from .spatial import spatial
from .stories import family, sample_clutrr
from .world import graph

__all__ = ["PROBLEMS", "Row", "Splits", "graph_key", "sample_clutrr", "write_problem"]

PROBLEMS: dict[str, Callable[[int], Splits]] = {
    "organisation": organisation,
    "permissions": permissions,
    "spatial": spatial,
    "family": family,
    "graph": graph,
    "molecules": molecules,
    "relatives": relatives,
}


def write_problem(name: str, out: str | Path, seed: int = 1) -> dict[Path, int]:
    """Write train.jsonl and test.jsonl of a problem; return the number of rows of each file."""
    out = Path(out)
    if name not in PROBLEMS:
        raise UserError(f"found the problem {name!r}; expected one of {', '.join(PROBLEMS)}")
    splits = PROBLEMS[name](seed)
    others = {path.name for ending in ("jsonl", "csv", "tsv", "conllu") for path in out.glob(f"*.{ending}")}
    others -= {f"{split}.jsonl" for split in splits}
    if others:
        raise UserError(f"{out}: has other data in it, {', '.join(sorted(others))}; expected a folder without")
    with replacing_together(out) as aside:
        for split, rows in splits.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            aside(f"{split}.jsonl").write_text(text, encoding="utf-8", newline="\n")
    return {out / f"{split}.jsonl": len(rows) for split, rows in splits.items()}
