"""The table of default settings: from records, the last run of each seed, beside the best settings by hand."""

from __future__ import annotations

from typing import Any

from documents import generator


def record(name: str, accuracy: float | None, seed: int, preset: str = "fitted", **more: Any) -> dict[str, Any]:
    metrics = {"accuracy": accuracy, **more.pop("metrics", {})}
    return {
        "data": {"name": name, **more.pop("data", {})},
        "model": "edge",
        "preset": preset,
        "overrides": {},
        "seed": seed,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "minutes": 3.0,
        "cpu_minutes": 2.0 + seed,
        "finished": f"2026-01-0{seed}T00:00:00+00:00",
        **more,
    }


def cells(table: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_the_default_stands_beside_the_best_by_hand_and_the_reference() -> None:
    references = [
        {"problem": "spatial", "train_rows": 1000, "majority": 0.11, "test": test} for test in (0.7, 0.72)
    ] + [{"problem": "clutrr", "train_rows": 15083, "majority": 0.07, "test": 0.45}]
    wide: dict[str, Any] = {"overrides": {"model.dim": 128}}
    by_length = {f"k={k}": 1.0 if k > 3 else 0.5 for k in range(2, 11)}
    records = [
        record("spatial", 0.5, 1),
        record("spatial", 0.98, 2),
        record("spatial", 0.96, 1, finished="2026-02-01T00:00:00+00:00"),  # the same run again
        record("spatial", 0.99, 1, **wide),
        record("spatial", 0.97, 2, **wide),
        record("spatial", 0.9, 1, "relations/cpu"),
        record("spatial", 1.0, 1, "relations/cpu", model="gat"),
        record("data_db9b8f04", None, 1, "clutrr/best", metrics=by_length, data={"train_k": "2,3,4"}),
        record("data_db9b8f04", 1.0, 1, "clutrr/best", data={"train_k": "2,3"}),
        record("data_db9b8f04", 1.0, 1, data={"train_k": "2,3,4", "tested": "others"}),
        record("organisation", 0.975, 1, cpu_minutes=None),
    ]
    table = cells(generator().own_data_table(references, records))
    heads = ["rows", "majority", "reference", "by hand", "default", "difference", "seeds", "minutes"]
    assert table["problem"] == heads
    about_spatial, about_clutrr = table["spatial relations: left of, above, inside"], table["CLUTRR, all rows"]
    assert about_spatial == ["1,000", "11.0 ± 0.0", "71.0 ± 1.0", "98.0 ± 1.0", "97.0 ± 1.0", "-1.0", "2", "4.0"]
    share = 100 * (1 - 0.5 * (38 + 107) / 1048)
    assert about_clutrr == ["15,083", "7.0", "45.0", f"{share:.1f}", "", "", "", ""]
    assert table["organisation charts: who reports to whom"][3:] == ["", "97.5", "", "1", "3.0"]
    assert table["families"] == [""] * 8
    assert len(table) == 2 + 9
