"""How translations are looked for: greedily, with a beam, or at random."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import UserError
from ...nn.generation import MAX_LENGTH_PENALTY
from .questions import MAX_WORDS

MAX_BEAMS = 64
MAX_SAMPLES = 1000
MAX_SEED = 2**32 - 1
DEFAULT_BEAMS = 4  # where several translations are asked for


@dataclass(frozen=True)
class Decoding:
    """How translations are looked for, and how many."""

    beams: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    limit: int | None = None  # the most words; twice as many as the longest target in training has, if not given
    sample: int = 0  # so many random translations, in place of the best
    temperature: float = 1.0  # for these and what follows see `generation.sample`
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        _require_count(self.beams, MAX_BEAMS, "a beam of {}")
        _require_count(self.n_best, self.beams, f"{{}} translations of a beam of {self.beams}")
        if self.limit is not None:
            _require_count(self.limit, MAX_WORDS, "a limit of {} words")
        _require_number(self.length_penalty, -MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY, "a length penalty of {}")
        if self.sample:
            self._check_sampling()
        elif (self.temperature, self.top_k, self.top_p) != (1.0, None, 1.0):
            raise UserError("found a temperature, top-k or top-p without samples; expected a number of samples as well")
        elif self.length_penalty and self.beams == 1:
            raise UserError(
                f"a length penalty of {self.length_penalty} with greedy decoding, which ranks nothing; "
                "expected a beam of 2 or more"
            )

    def _check_sampling(self) -> None:
        _require_count(self.sample, MAX_SAMPLES, "{} samples")
        if (self.beams, self.n_best, self.length_penalty) != (1, 1, 0.0):
            raise UserError("found samples and a beam, n-best or length penalty; expected one of the two")
        if not 0 < _number(self.temperature) < math.inf:
            raise UserError(f"a temperature of {self.temperature}; expected a number above 0")
        if self.top_k is not None and (type(self.top_k) is not int or self.top_k < 1):
            raise UserError(f"a top-k of {self.top_k}; expected a whole number of at least 1")
        if not 0 < _number(self.top_p) <= 1:
            raise UserError(f"a top-p of {self.top_p}; expected a number above 0 and at most 1")
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_SEED:
            raise UserError(f"a seed of {self.seed}; expected 0 to {MAX_SEED}")

    @property
    def count(self) -> int:
        """How many translations a text gets at most."""
        return self.sample or self.n_best


def beams_for(n_best: int) -> int:
    """The width of the beam where none is given: greedy decoding finds one translation."""
    return 1 if n_best == 1 else max(DEFAULT_BEAMS, n_best)


def _require_count(value: object, most: int, what: str) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise UserError(f"{what.format(value)}; expected 1 to {most}, a whole number")


def _require_number(value: object, least: float, most: float, what: str) -> None:
    if not least <= _number(value) <= most:
        raise UserError(f"{what.format(value)}; expected {least:g} to {most:g}")


def _number(value: object) -> float:
    """Not a number where it is none: no comparison holds for that."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
