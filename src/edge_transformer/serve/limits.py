"""What a request may ask for. Over a limit it is refused, with a sentence that says what to change."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UserError


@dataclass(frozen=True)
class Limits:
    """Limits of a server; each is an option of the command `serve`."""

    kilobytes: int = 256  # of the body of a request
    items: int = 256  # questions of a request
    nodes: int = 64  # of a graph in a question
    tokens: int = 128  # of a sentence or text
    seconds: float = 10.0  # from a request to its answer
    queue: int = 1024  # questions that wait, for each model
    gather_ms: float = 3.0  # how long the first of a batch waits for others; 0: no batches, each question alone

    def __post_init__(self) -> None:
        for name in ("kilobytes", "items", "nodes", "tokens", "queue"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: found {getattr(self, name)}; expected at least 1")
        if not 0 < self.seconds <= 3600:
            raise UserError(f"seconds: found {self.seconds}; expected more than 0, and at most 3600")
        if not 0 <= self.gather_ms <= 1000:
            raise UserError(f"gather_ms: found {self.gather_ms}; expected 0 to 1000")

    @property
    def body(self) -> int:
        """The most bytes of a body."""
        return 1024 * self.kilobytes
