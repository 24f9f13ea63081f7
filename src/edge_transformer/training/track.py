"""Follow a run from outside: what a callback gets at every step, and TensorBoard as one such callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import UserError

TRACKERS = ("tensorboard",)
TENSORBOARD_FOLDER = "tensorboard"  # in the folder of the run


@dataclass(frozen=True)
class TrainingStep:
    """What the callback of a run gets after each step. In distributed runs only the first process calls it."""

    step: int  # the number of this step, counted from 1; a resumed run goes on counting
    total_steps: int  # of the whole run
    epoch: int  # passes over the training rows that have begun
    loss: float  # mean loss of the rows of this step
    learning_rate: float  # of this step
    minutes: float  # of training so far, those before a resume included
    scores: Mapping[str, float] = field(default_factory=dict)  # from 0 to 1, if the model was scored after this step


Callback = Callable[[TrainingStep], Any]


class TensorBoard:
    """Writes loss, learning rate and scores as TensorBoard's scalars: "loss", "learning_rate", "scores/NAME".

    What an earlier process wrote from step `first` on, and a resumed run does again, is replaced.
    """

    def __init__(self, folder: str | Path, first: int = 1) -> None:
        self.folder, self._first = Path(folder), first
        self._writer: Any = None  # made at the first step: a finished run leaves no empty file

    def __call__(self, now: TrainingStep) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # takes seconds

            self._writer = SummaryWriter(self.folder, purge_step=self._first if self._first > 1 else None)
        values = {"loss": now.loss, "learning_rate": now.learning_rate}
        values |= {f"scores/{name}": value for name, value in now.scores.items()}
        for name, value in values.items():
            self._writer.add_scalar(name, value, now.step)

    def close(self) -> None:
        """Write what is still in memory."""
        if self._writer is not None:
            self._writer.close()


def check_tracker(name: str, out: str | Path | None) -> None:
    """Refuse a tracker that is not known, not installed, or has no folder to write to."""
    if name not in TRACKERS:
        raise UserError(f"--track {name}: unknown; known is {', '.join(TRACKERS)}; a callback serves other trackers")
    if out is None:
        raise UserError(f"--track {name}: found no folder of the run; expected one to write to: give `out`")
    if find_spec("tensorboard") is None:
        raise UserError(f"--track {name}: is not installed: pip install 'edge-transformer[track]'")
