"""Devices and processes of a run, by Lightning Fabric."""

from __future__ import annotations

import os
from typing import Any

import torch

from ..errors import UserError
from .config import Hardware


def launch(hardware: Hardware) -> Any:
    """Launch Lightning Fabric for one process, or for all that torchrun started."""
    from lightning_fabric import Fabric  # late: it takes seconds to import

    local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    world = int(os.environ.get("WORLD_SIZE", 1))
    accelerator = hardware.device
    if accelerator == "auto" and not torch.cuda.is_available():
        accelerator = "cpu"  # Apple's device lacks float64 and is slower than its CPU on small graphs
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=local,
            num_nodes=max(1, world // local),
            strategy="ddp" if world > 1 else "auto",
            precision=hardware.precision,  # type: ignore[arg-type]  # checked by Hardware
        )
    except (RuntimeError, ValueError) as error:  # an unknown or missing device
        raise UserError(f"--device {hardware.device}: {' '.join(str(error).split())}") from error
    fabric.launch()
    return fabric
