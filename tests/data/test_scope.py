"""What all questions of CLUTRR have in common."""

from __future__ import annotations

from edge_transformer.data.scope import told_path


def test_told_paths() -> None:
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (1, 3)]
    assert told_path(edges, (0, 3)) == [0, 1, 3]
    assert told_path(edges, (0, 0)) == [0, 1, 2, 0]  # at least one edge
    assert told_path(edges, (3, 0)) is None
