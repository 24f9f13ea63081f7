"""Time and memory of the engines, of whole models, of decoding and of a baseline, as ratios within one run."""

from .cases import PARTS, make_cases
from .results import Bench, Measurement
from .run import Settings, measure
from .sizes import Configuration, Size

__all__ = ["PARTS", "Bench", "Configuration", "Measurement", "Settings", "Size", "make_cases", "measure"]
