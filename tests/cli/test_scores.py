"""Tables of scores fit the terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from edge_transformer.cli import options as score_table


def test_scores_too_many_for_the_terminal_are_listed_below_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, abreast in ((80, 1), (81, 1), (82, 9), (200, 9)):
        monkeypatch.setattr(score_table, "out", Console(width=columns))
        score_table.print_scores("a run", {f"k={number}": 1.0 for number in range(2, 11)} | {"loss": 0.5})
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns
        assert lines[4].count("100.0") == abreast
        assert "…" not in "".join(lines)
