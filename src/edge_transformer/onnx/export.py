"""Write models to ONNX files, each with what one must know to use it, and compare them with PyTorch."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..io.files import check_writable, replacing_together
from ..io.settings import to_dict
from ..tasks.base import TaskModel
from .engine import plain_operations
from .programs import Port, Program, programs_of

if TYPE_CHECKING:
    from torch.onnx import ONNXProgram

ONNX_FORMAT = "edge-transformer onnx 1"
METADATA = "edge_transformer"  # the name of our entry in a file's metadata
OPSET = 20
TOLERANCE = 1e-4  # between ONNX Runtime and PyTorch
SIZES = (3, 5)  # of the graphs that a model is traced with: how many, and their nodes
OTHER_SIZES = ((1, 2), (2, 7))  # of those that the file is tried on


def export(model: nn.Module, path: str | Path) -> list[Path]:
    """Write a model to an ONNX file that takes any number of graphs of any size, and compare it with PyTorch.

    Args:
        model: a `RelationModel`, `GraphParser`, `TreeParser`, `Translator`, `EdgeTransformer` or `EdgeSeq2Seq`.
        path: the file. An encoder-decoder gives two, NAME.start.onnx and NAME.step.onnx.

    Returns:
        The files. The entry "edge_transformer" of their metadata has the inputs, outputs and vocabularies as JSON.
    """
    onnxruntime = _onnxruntime()
    target = Path(path)
    if target.suffix != ".onnx":
        raise UserError(f"{target}: found a name that does not end with .onnx; expected one that does")
    model = copy.deepcopy(model).float().cpu().eval()
    programs = programs_of(model)
    names = [target.with_suffix(f".{program.name}.onnx" if program.name else ".onnx").name for program in programs]
    for name in names:
        check_writable("export", target.with_name(name))
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # errors alone
    about = _about(model, dict(zip((program.name for program in programs), names, strict=True)))
    with replacing_together(target.parent) as aside:
        for program, name in zip(programs, names, strict=True):
            written = aside(name)
            _write(program, {**about, "program": program.name or None}, written, model)
            _compare(program, onnxruntime.InferenceSession(written, quiet), name)
    return [target.with_name(name) for name in names]


def _about(model: nn.Module, files: Mapping[str, str]) -> dict[str, Any]:
    """What the metadata say of all programs of a model."""
    task = model.task if isinstance(model, TaskModel) else None
    settings = model.settings if hasattr(model, "settings") else to_dict(model.config)
    several = {"files": files} if len(files) > 1 else {}
    return {"format": ONNX_FORMAT, "task": task, "model": settings, "opset": OPSET, **several}


def _write(program: Program, about: Mapping[str, Any], path: Path, model: nn.Module) -> None:
    example = program.example(*SIZES)
    with plain_operations(model), _quietly(), torch.no_grad():
        try:
            made = torch.onnx.export(
                program.module,
                example,
                dynamo=True,
                dynamic_shapes=_dynamic_shapes(program),
                input_names=list(program.inputs),
                output_names=list(program.outputs),
                opset_version=OPSET,
                verbose=False,
            )
        except (torch.onnx.errors.OnnxExporterError, ImportError) as error:
            reason = " ".join(str(error.__cause__ or error).split())
            raise UserError(f"export: PyTorch {torch.__version__} cannot make an ONNX file of it: {reason}") from error
    assert made is not None
    ports = {"inputs": _ports(program.inputs, made, "inputs"), "outputs": _ports(program.outputs, made, "outputs")}
    made.model.metadata_props[METADATA] = json.dumps({**about, **ports}, ensure_ascii=False)
    made.save(path, external_data=False)


def _dynamic_shapes(program: Program) -> tuple[dict[int, Any], ...]:
    """For each input the axes whose sizes may differ."""
    names = {axis for port in program.inputs.values() for axis in port.axes if isinstance(axis, str)}
    sizes = {name: torch.export.Dim(name, min=1) for name in sorted(names)}
    axes = (enumerate(port.axes) for port in program.inputs.values())
    return tuple({place: sizes[axis] for place, axis in each if isinstance(axis, str)} for each in axes)


def _ports(ports: Mapping[str, Port], made: ONNXProgram, side: str) -> dict[str, Any]:
    """Inputs or outputs as the metadata describe them."""
    described = {}
    for (name, port), value in zip(ports.items(), getattr(made.model.graph, side), strict=True):
        assert value.name == name
        values = {} if port.values is None else {"values": port.values}
        note = {"about": port.about} if port.about else {}
        described[name] = {"type": str(value.dtype).lower(), "shape": list(port.axes), **note, **values}
    return described


def _compare(program: Program, session: Any, name: str) -> None:
    """Refuse a file that does not compute what PyTorch does."""
    for sizes in (SIZES, *OTHER_SIZES):
        example = program.example(*sizes)
        with torch.no_grad():
            expected = program.module(*example)
        expected = [expected] if isinstance(expected, Tensor) else list(expected)
        given = {port: tensor.numpy() for port, tensor in zip(program.inputs, example, strict=True)}
        for port, found, wanted in zip(program.outputs, session.run(None, given), expected, strict=True):
            found = torch.from_numpy(found)
            if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE):
                raise UserError(f"export: {port} of {name} differs from what PyTorch computes; the file was not kept")


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the exporter's remarks on its own workings from the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _onnxruntime() -> Any:
    """Import what an export needs, which is optional."""
    try:
        import onnx  # noqa: F401 - the exporter wants it
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(
            "an ONNX file needs onnx, onnxscript and onnxruntime: pip install '.[export]' in a clone"
        ) from error
    return onnxruntime
