"""The measured sizes: the paper's five configurations, series of growing graphs, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UserError


@dataclass(frozen=True)
class Size:
    """A batch of graphs of one size: graphs, nodes, width of edge states, heads."""

    batch: int
    n: int
    dim: int
    heads: int

    @classmethod
    def parse(cls, text: str) -> Size:
        """A size from text such as "4,30,128,8"."""
        numbers = [part.strip() for part in text.split(",")]
        if len(numbers) != 4 or not all(part.isdecimal() and 0 < len(part) < 10 and int(part) for part in numbers):
            raise UserError(f"--size {text}: expected four numbers B,n,d,h such as 4,30,128,8")
        size = cls(*map(int, numbers))
        if size.dim % size.heads:
            raise UserError(f"--size {text}: d={size.dim} is not divisible by h={size.heads}")
        return size

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def edges(self) -> int:
        return self.batch * self.n * self.n

    @property
    def triangles(self) -> int:
        return self.edges * self.n

    def __str__(self) -> str:
        return f"{self.batch},{self.n},{self.dim},{self.heads}"


@dataclass(frozen=True)
class Configuration:
    """A size with the settings of a stack of layers."""

    name: str
    size: Size
    layers: int = 4
    dropout: float = 0.1
    attention_bias: bool = True
    aims: tuple[float, ...] = ()  # the largest acceptable ratios

    @classmethod
    def of(cls, size: Size) -> Configuration:
        """A user's own size."""
        return cls("own size", size)


AIMS = (1.5, 1.8)
CLUTRR_TRAIN = Configuration("CLUTRR train", Size(400, 5, 200, 4), 8, 0.2, False, AIMS)
CLUTRR_TEST = Configuration("CLUTRR test", Size(100, 11, 200, 4), 8, 0.2, False, AIMS)
COGS = Configuration("COGS", Size(100, 10, 64, 4), 3, aims=(2.0, 2.0))
CFQ_DEPENDENCY = Configuration("CFQ dependency", Size(38, 13, 360, 4), 7, aims=AIMS)
CFQ_SEMANTIC = Configuration("CFQ semantic", Size(8, 60, 256, 8), 6, aims=AIMS)
PAPER = (CLUTRR_TRAIN, CLUTRR_TEST, COGS, CFQ_DEPENDENCY, CFQ_SEMANTIC)
LONG = Configuration("n=100", Size(1, 100, 256, 8))
CORE = (*PAPER, LONG)

SCALING = tuple(Configuration(f"n={n}", Size(1, n, 64, 4)) for n in (64, 128, 256, 512))
MEMORY = tuple(Configuration(f"n={n}", Size(1, n, 64, 4)) for n in (64, 128, 200, 256, 512))
BASELINES = (
    CFQ_DEPENDENCY,
    Configuration("n=30", Size(16, 30, 256, 8)),
    CFQ_SEMANTIC,
    LONG,
)
LINKS = (Configuration("UMLS", Size(1, 135, 32, 4), 3, aims=(1.5,)),)
LINKS_LARGE = (Configuration("n=1594", Size(1, 1594, 32, 4), 3, aims=(1 / 1.6,)),)
# The sizes of these presets: questions of 13 words, decoded to 50 tokens or trained with 47.
DECODE = (
    Configuration("cfq/cpu", Size(16, 63, 64, 4), 3, dropout=0.0, aims=(1 / 15,)),
    Configuration("cfq/paper", Size(16, 63, 256, 8), 6, aims=(1 / 15,)),
)
TOKEN = tuple(Configuration(f"n={n}", Size(16, n, 64, 4), 3) for n in (20, 40, 80, 160))
SEQ2SEQ = (Configuration("cfq/paper", Size(4, 60, 256, 8), 6, aims=(*AIMS, 1.5)),)  # the last with "hidden again"
SEQ2SEQ_MEMORY = (Configuration("cfq/paper", Size(1, 60, 256, 8), 6, aims=(1 / 10,)),)
THREADS = tuple(Configuration(f"n={n}", Size(1, n, 256, 8)) for n in (60, 100, 200))
