"""Explanations and parses as one file that needs nothing else: the page's own views, with the answers inside.

The modules of the page are put together in the order of their imports. The file's policy names the hashes of its
script and its style, so that nothing else in it can run, and nothing can be asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.relations.rows import Pair, Story
from ..errors import UserError
from ..explain.attention import edge_attention
from ..explain.claims import Claim, Explanation
from ..io.files import write_text
from ..io.html import escape
from ..tasks.base import TaskModel
from .describe import describe_model

FOLDER = Path(__file__).parent / "page"
FIRST = "saved.js"
MOST_ITEMS = 200  # explanations, links or sentences of a file
ALL_PAIRS = 8  # nodes: of larger graphs, only the edges of the proof come with their attention
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)


def check_name(path: Path) -> None:
    """Refuse a file whose name a browser would not take for a page."""
    if path.suffix not in (".html", ".htm"):
        raise UserError(f"--html {path}: expected a name that ends in .html")


def write_explanations(path: Path, model: TaskModel, explained: Sequence[tuple[Story, Explanation]]) -> None:
    """Write the proofs of questions about labelled graphs."""
    write(path, "families", [_explanation(model, *each) for each in explained], describe_model(model))


def write_links(path: Path, model: TaskModel, explained: Sequence[dict[str, Any]]) -> None:
    """Write the reasons of links."""
    write(path, "links", explained, describe_model(model))


def write_parses(path: Path, model: TaskModel, parses: Sequence[dict[str, Any]]) -> None:
    """Write the graphs of sentences."""
    write(path, "sentences", parses, describe_model(model))


def write(path: Path, kind: str, items: Sequence[Any], model: dict[str, Any]) -> None:
    """Write a file with these answers."""
    if not 1 <= len(items) <= MOST_ITEMS:
        raise UserError(f"--html {path}: found {len(items):,} lines; expected 1 to {MOST_ITEMS}")
    write_text(path, page({"kind": kind, "model": model, "items": list(items)}))


def page(saved: dict[str, Any], title: str = "Edge Transformer") -> str:
    """The text of a file."""
    script, style = script_of(FIRST), (FOLDER / "style.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:"
    # In a script element only "<" could end it, or open a comment.
    data = json.dumps(saved, separators=(",", ":")).replace("<", "\\u003c")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>\n</head>\n<body>",
            f"<header><h1>{escape(title)}</h1></header>",
            '<main id="views"><noscript>This page needs JavaScript.</noscript></main>',
            f'<script type="application/json" id="saved">{data}</script>',
            f'<script type="module">{script}</script>\n</body>\n</html>\n',
        ]
    )


def script_of(first: str, folder: Path = FOLDER) -> str:
    """A module and all that it imports, as one script; names at the top of modules must differ."""
    order: list[str] = []

    def add(name: str) -> None:
        if name not in order:
            text = (folder / name).read_text(encoding="utf-8")
            for other in _IMPORT.findall(text):
                add(other)
            order.append(name)

    add(first)
    texts = [_IMPORT.sub("", (folder / name).read_text(encoding="utf-8")) for name in order]
    return "".join(re.sub(r"^export ", "", text, flags=re.MULTILINE) for text in texts)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _explanation(model: TaskModel, story: Story, explanation: Explanation) -> dict[str, Any]:
    question = _question(story)
    [predicted] = model.predict([question])
    return {
        "question": question,
        "predict": predicted,
        "explain": explanation.to_dict(),
        "attention": edge_attention(model, story, _pairs(story, explanation.proof)),
    }


def _question(story: Story) -> dict[str, Any]:
    """The row of a story, with all that it tells."""
    names = story.names
    of_edges = story.edge_features or (None,) * len(story.edges)
    row: dict[str, Any] = {
        "edges": [
            [names[start], relation, names[end], *([] if numbers is None else [list(numbers)])]
            for (start, end), relation, numbers in zip(story.edges, story.relations, of_edges, strict=True)
        ],
        "query": [names[node] for node in story.query],
    }
    if story.node_labels or story.node_features or len({node for edge in story.edges for node in edge}) < story.size:
        of_nodes = story.node_features or (None,) * story.size
        labels = [[label for node, label in story.node_labels if node == number] for number in range(story.size)]
        row["nodes"] = {
            name: {"labels": of_node, "features": None if numbers is None else list(numbers)}
            for name, of_node, numbers in zip(names, labels, of_nodes, strict=True)
        }
    if story.absent:
        row["absent"] = [[names[start], relation, names[end]] for start, end, relation in story.absent]
    return row


def _pairs(story: Story, proof: Claim | None) -> list[Pair]:
    """The edges whose attention is shown, the question first."""
    pairs = [story.query, *((step.start, step.end) for step in (proof.steps() if proof else ()))]
    if story.size <= ALL_PAIRS:
        pairs += [(start, end) for start in range(story.size) for end in range(story.size)]
    return list(dict.fromkeys(pairs))
