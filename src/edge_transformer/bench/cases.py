"""The parts of the benchmark, and the cases that each measures side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..errors import UserError
from ..io.process import DEVICES, require_device
from ..ops.attention import ENGINES, resolve_engine
from . import sizes
from .links import PASS, links_action, links_floor, links_pass
from .machine import usable_cores
from .sizes import Configuration, Size
from .timing import Action
from .translation import (
    CACHED,
    DECODING,
    HIDDEN_AGAIN,
    LAYERS_AGAIN,
    RECOMPUTED,
    TOKEN,
    decode_action,
    seq2seq_action,
    seq2seq_floor,
    token_action,
)
from .work import (
    BOTH,
    FLOYDNET,
    FORWARD,
    STEP,
    Floor,
    attention_action,
    expected_bytes,
    floydnet_action,
    floydnet_missing,
    step_action,
    two_at_once,
    with_threads,
)

FLOOR, PLAIN, DROPOUT = "floor", "step", "step with dropout"
LINKS_FLOOR = "products and attention"
ONE, TWO = "1 thread", "2 threads"
PEAK = "peak"
# Factors of the time limit, for parts with a single run.
PATIENCE = {"memory": 3, "seq2seq-memory": 3, "links-pass": 30, "links-memory": 30}


@dataclass(frozen=True)
class Case:
    """Actions of one size that are measured in turn."""

    part: str
    name: str
    size: Size
    names: tuple[str, ...]
    build: Callable[[Size, str], Action]  # also makes the inputs
    what: tuple[str, ...] = (FORWARD, BOTH)  # the marks of every action
    reference: str | None = None
    layers: int = 0  # 0 for the attention alone
    aims: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # reasons why names cannot be measured
    backward: bool = True  # whether layers keep what a backward pass needs

    def expected_bytes(self, name: str) -> int:
        return expected_bytes(name, self.size, self.layers if self.backward else 0)


Maker = Callable[[str, Configuration, tuple[str, ...], str], Case]


def _attention(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    return Case(
        part,
        configuration.name,
        configuration.size,
        engines,
        lambda size, engine: attention_action(size, engine, device),
        what=(PEAK,) if part == "memory" else (FORWARD, BOTH),
        reference="einsum" if "einsum" in engines else None,
    )


def _layers(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    def build(size: Size, name: str) -> Action:
        sized = replace(configuration, size=size)
        if name == FLOOR:
            return Floor(sized, device)
        return step_action(sized, configuration.dropout if name == DROPOUT else 0.0, device)

    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers, dropout {configuration.dropout}",
        configuration.size,
        (FLOOR, PLAIN, DROPOUT),
        build,
        what=(STEP,),
        reference=FLOOR,
        layers=configuration.layers,
        aims=dict(zip((PLAIN, DROPOUT), configuration.aims, strict=False)),
    )


def _seq2seq(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    def build(size: Size, name: str) -> Action:
        sized = replace(configuration, size=size)
        if name == FLOOR:
            return seq2seq_floor(sized, device)
        engine = name if name == HIDDEN_AGAIN else "auto"
        return seq2seq_action(sized, configuration.dropout if name == DROPOUT else 0.0, engine, device)

    case = _layers(part, configuration, engines, device)
    aims = dict(zip((PLAIN, DROPOUT, HIDDEN_AGAIN), configuration.aims, strict=False))
    return replace(case, names=(*case.names, HIDDEN_AGAIN), build=build, aims=aims)


def _seq2seq_memory(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers",
        configuration.size,
        (*engines, HIDDEN_AGAIN, LAYERS_AGAIN),
        lambda size, engine: seq2seq_action(replace(configuration, size=size), 0.0, engine, device),
        what=(PEAK,),
        reference="einsum" if "einsum" in engines else None,
        layers=configuration.layers,
        aims={name: aim for name in (HIDDEN_AGAIN, LAYERS_AGAIN) for aim in configuration.aims},
    )


def _links(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    def build(size: Size, name: str) -> Action:
        sized = replace(configuration, size=size)
        return links_floor(sized, device) if name == LINKS_FLOOR else links_action(sized, device)

    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers",
        configuration.size,
        (LINKS_FLOOR, PLAIN),
        build,
        what=(STEP,),
        reference=LINKS_FLOOR,
        layers=configuration.layers,
        aims=dict(zip((PLAIN,), configuration.aims, strict=False)),
    )


def _links_pass(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    def build(size: Size, name: str) -> Action:
        return with_threads(2 if name == TWO else 1, links_pass(replace(configuration, size=size), device))

    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers",
        configuration.size,
        (ONE, TWO),
        build,
        what=(PASS,),
        reference=ONE,
        layers=configuration.layers,
        aims=dict(zip((TWO,), configuration.aims, strict=False)),
        missing={TWO: "one core"} if usable_cores() < 2 else {},
        backward=False,
    )


def _links_memory(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers",
        configuration.size,
        (PASS,),
        lambda size, name: links_pass(replace(configuration, size=size), device),
        what=(PEAK,),
        layers=configuration.layers,
        backward=False,
    )


def _decode(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    action, what = (token_action, TOKEN) if part == "token" else (decode_action, DECODING)
    return Case(
        part,
        f"{configuration.name}, {configuration.layers} layers",
        configuration.size,
        (RECOMPUTED, CACHED),
        lambda size, name: action(replace(configuration, size=size), name, device),
        what=(what,),
        reference=RECOMPUTED,
        layers=configuration.layers,
        aims=dict(zip((CACHED,), configuration.aims, strict=False)),
    )


def _baselines(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    ours = _ours()
    missing = floydnet_missing()
    return Case(
        part,
        configuration.name,
        configuration.size,
        (FLOYDNET, ours),
        lambda size, name: floydnet_action(size) if name == FLOYDNET else attention_action(size, name),
        reference=FLOYDNET,
        missing={FLOYDNET: missing} if missing else {},
    )


def _threads(part: str, configuration: Configuration, engines: tuple[str, ...], device: str) -> Case:
    ours = _ours()
    one, two, apart = ONE, TWO, "2 at once"

    def build(size: Size, name: str) -> Action:
        if name == apart:
            return two_at_once(attention_action(size, ours), attention_action(size, ours))
        return with_threads(1 if name == one else 2, attention_action(size, ours))

    missing = {two: "one core", apart: "one core"} if usable_cores() < 2 else {}
    return Case(part, configuration.name, configuration.size, (one, two, apart), build, reference=one, missing=missing)


@dataclass(frozen=True)
class Part:
    """A part: its title, its sizes, and how to make a case of one."""

    about: str
    configurations: tuple[Configuration, ...]
    make: Maker


PARTS: dict[str, Part] = {
    "core": Part("the attention alone, at the sizes of the paper and a long one", sizes.CORE, _attention),
    "scaling": Part("the attention alone, on ever larger graphs", sizes.SCALING, _attention),
    "baselines": Part("FloydNet's pivotal attention, a simpler operation", sizes.BASELINES, _baselines),
    "threads": Part("one thread and two", sizes.THREADS, _threads),
    "memory": Part("extra peak memory of the attention, forward and backward", sizes.MEMORY, _attention),
    "layers": Part("a training step of whole stacks against its matrix products alone", sizes.PAPER, _layers),
    "links": Part("a training step on a knowledge graph against its products and attention", sizes.LINKS, _links),
    "links-pass": Part("one pass over a large knowledge graph, one thread and two", sizes.LINKS_LARGE, _links_pass),
    "links-memory": Part("extra peak memory of one pass over a large graph", sizes.LINKS_LARGE, _links_memory),
    "decode": Part("a batch of targets, with the edge cache and without", sizes.DECODE, _decode),
    "token": Part("one more token, with the edge cache and without, on ever larger graphs", sizes.TOKEN, _decode),
    "seq2seq": Part("a training step of an encoder-decoder against its matrix products", sizes.SEQ2SEQ, _seq2seq),
    "seq2seq-memory": Part("extra peak memory of that step", sizes.SEQ2SEQ_MEMORY, _seq2seq_memory),
}
_CPU_ONLY = ("baselines", "threads")


def make_cases(
    parts: Sequence[str] = (), own_sizes: Sequence[str] = (), engines: Sequence[str] = (), device: str = "cpu"
) -> list[Case]:
    """The cases to measure. Own sizes replace those of the parts, by default of `core` only."""
    for part in parts:
        if part not in PARTS:
            raise UserError(f"--part {part}: unknown; known are {', '.join(PARTS)}")
    usable = usable_engines(engines, device)
    own = tuple(Configuration.of(Size.parse(text)) for text in own_sizes)
    default = ["core"] if own else [part for part in PARTS if device == "cpu" or part not in _CPU_ONLY]
    chosen = [part for part in PARTS if part in (parts or default)]
    for part in chosen:
        if device != "cpu" and part in _CPU_ONLY:
            raise UserError(f"--part {part} is measured on the CPU only")
    return [
        PARTS[part].make(part, configuration, usable, device)
        for part in chosen
        for configuration in own or PARTS[part].configurations
    ]


def usable_engines(engines: Sequence[str], device: str) -> tuple[str, ...]:
    """The engines to measure, in the library's order: the given ones, or all that run on this device."""
    require_device(device.partition(":")[0], DEVICES[1:])
    try:
        like = torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {device}: {str(error).splitlines()[0]}") from error
    for engine in engines:
        if engine not in ENGINES:
            raise UserError(f"--engine {engine}: unknown; known are {', '.join(ENGINES)}")
        reason = ENGINES[engine].why_not(like)
        if reason is not None:
            raise UserError(f'--engine {engine}: engine="{engine}" cannot be used: {reason}')
    usable = [engine for engine in ENGINES.values() if engine.usable_for(like) and not engine.only_for_tests(like)]
    return tuple(engine for engine in ENGINES if engine in (engines or [each.name for each in usable]))


def _ours() -> str:
    """The default engine on a CPU."""
    return resolve_engine("auto", torch.empty(0)).name
