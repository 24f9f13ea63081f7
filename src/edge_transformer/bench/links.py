"""Timed actions on whole knowledge graphs: a training step, its lower bound, and one pass over a large graph."""

from __future__ import annotations

import torch

from ..data.links.rows import Fact
from ..ops.attention import triangular_attention
from ..tasks.base import get_task
from ..tasks.links.data import LinkData, LinkSettings
from ..tasks.links.model import LinkModel
from .sizes import Configuration
from .timing import Action, Watch
from .work import STEP, Floor

PASS = "one pass"
RELATIONS, FACTS_A_NODE, HIDDEN = 46, 39, 0.15  # as UMLS has them; the share of facts that a step asks for


def links_data(configuration: Configuration, facts_a_node: int = FACTS_A_NODE) -> tuple[LinkData, LinkModel]:
    """Random facts, and a model of them."""
    size = configuration.size
    random = torch.Generator().manual_seed(1)
    count = size.n * facts_a_node
    heads, tails = (torch.randint(size.n, (count,), generator=random).tolist() for _ in range(2))
    relations = torch.randint(RELATIONS, (count,), generator=random).tolist()
    facts = [Fact(str(h), str(r), str(t)) for h, r, t in zip(heads, relations, tails, strict=True)]
    facts += [Fact(str(node), "0", str(node)) for node in range(size.n)]  # so that every node has one
    data = LinkData.from_rows({"train": facts}, LinkSettings(hidden=0.0, valid_share=0.0), 1)
    settings = {
        "kind": "edge",
        "dim": size.dim,
        "heads": size.heads,
        "layers": configuration.layers,
        "norm": "pre",
        "dropout": configuration.dropout,
    }
    torch.manual_seed(1)
    model = data.new_model(settings)
    assert isinstance(model, get_task("links").model)
    return data, model


def links_action(configuration: Configuration, device: str = "cpu") -> Action:
    """Forward and backward of a training step, from facts to the gradients of all weights."""
    data, model = links_data(configuration)
    model.to(device).train()
    rows = torch.randperm(data.train_rows, generator=torch.Generator().manual_seed(1))[: int(HIDDEN * data.train_rows)]

    def action(watch: Watch) -> None:
        model.zero_grad()
        watch.start()
        data.loss(model, rows, torch.device(device)).backward()
        watch.mark(STEP)

    return action


def links_floor(configuration: Configuration, device: str = "cpu") -> Action:
    """The matrix products of that step, and the attention of its layers, forward and backward."""
    size, products = configuration.size, Floor(configuration, device)
    random = torch.Generator().manual_seed(1)
    shape = (size.batch, size.n, size.n, size.heads, size.head_dim)
    inputs = [torch.randn(*shape, generator=random).to(device).requires_grad_() for _ in range(4)]
    gradient = torch.randn(*shape, generator=random).to(device)

    def action(watch: Watch) -> None:
        watch.start()
        products(Watch(device))
        for _ in range(configuration.layers):
            for tensor in inputs:
                tensor.grad = None
            triangular_attention(*inputs, dropout_p=configuration.dropout).backward(gradient)
        watch.mark(STEP)

    return action


def links_pass(configuration: Configuration, device: str = "cpu") -> Action:
    """The states of all pairs of a large graph, as answers need them."""
    _, model = links_data(configuration, facts_a_node=3)
    model.to(device).eval()

    def action(watch: Watch) -> None:
        model._states = None
        watch.start()
        model.whole()
        watch.mark(PASS)

    return action
