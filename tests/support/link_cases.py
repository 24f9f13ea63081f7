"""Facts of a ring of people, and models of them."""

from __future__ import annotations

from typing import Any, cast

import torch

from edge_transformer import LinkModel
from edge_transformer.nn.links import LinkNetwork
from edge_transformer.tasks.links.data import LinkData, LinkSettings

PEOPLE = [f"p{number}" for number in range(8)]
RING = [
    fact
    for this, near, far in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], PEOPLE[2:] + PEOPLE[:2], strict=True)
    for fact in ([this, "next", near], [near, "before", this], [this, "skips", far])
]
MODEL: dict[str, Any] = {"kind": "edge", "dim": 8, "heads": 2, "layers": 2}
CPU = torch.device("cpu")


def network_of(model: LinkModel) -> LinkNetwork:
    """The first of its networks."""
    return cast(LinkNetwork, model.networks[0])


def link_data(splits: Any, seed: int = 1, model: LinkModel | None = None, **settings: Any) -> LinkData:
    """Data of facts in memory; without a share held out unless it is asked for."""
    return LinkData.from_rows(splits, LinkSettings(**{"valid_share": 0.0, **settings}), seed, model)


def link_model(facts: Any = RING, seed: int = 0, data: LinkData | None = None, **settings: Any) -> LinkModel:
    """A model with random weights on these facts, in eval mode."""
    torch.manual_seed(seed)
    model = (data or link_data({"train": facts})).new_model({**MODEL, **settings})
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter)  # what starts at zero would hide mistakes
    return model.eval()
