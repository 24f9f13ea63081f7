"""Presets: named YAML files with all settings of a run, which `--set key=value` changes one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError

SECTIONS = ("model", "train", "data")


def preset_names() -> list[str]:
    """All bundled presets, such as "clutrr/cpu"."""
    return sorted(
        f"{task.name}/{file.name[:-5]}" for task in _root().iterdir() if task.is_dir() for file in task.iterdir()
    )


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a bundled preset, or of a YAML file given by its path."""
    return _load(name, ())


def override(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes such as {"model.dim": 64} applied."""
    result = {name: dict(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    for key, value in changes.items():
        section, dot, name = key.partition(".")
        if section not in SECTIONS or not dot or not name:
            raise UserError(
                f"--set {key}: found no section; expected one of {', '.join(s + '.NAME' for s in SECTIONS)}"
            )
        result.setdefault(section, {})[name] = value
    return result


def parse_changes(options: Sequence[str]) -> dict[str, Any]:
    """Options such as "model.dim=64" as a dictionary; values are read as YAML, so numbers, lists and null work."""
    changes = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"--set {option}: found no '='; expected key=value, such as model.dim=64")
        try:
            changes[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"--set {option}: {value!r} is no YAML value") from error
    return changes


def yaml_value(value: Any) -> str:
    """A value as `--set` reads it back, on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def read_yaml(path: str | Path | Traversable) -> dict[str, Any]:
    """A YAML file that holds a mapping."""
    source = Path(path) if isinstance(path, str) else path
    try:
        values = yaml.safe_load(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: no readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: found {type(values).__name__}; expected settings as key: value")
    return values


def _load(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name in seen:
        raise UserError(f"preset {name}: is based on itself: {' -> '.join((*seen, name))}")
    file: Traversable | Path = _root().joinpath(*f"{name}.yaml".split("/"))
    if name.endswith((".yaml", ".yml")):
        file = Path(name)
    elif name not in preset_names():
        raise UserError(f"unknown preset {name!r}; known are {', '.join(preset_names())}, or give a .yaml file")
    values = read_yaml(file)
    unknown = set(values) - {"task", "base", *SECTIONS}
    if unknown:
        raise UserError(f"{file}: unknown setting {min(unknown)!r}; known are task, base, {', '.join(SECTIONS)}")
    base = values.pop("base", None)
    if base is None:
        return values
    merged = _load(base, (*seen, name))
    for key, value in values.items():
        merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def _root() -> Traversable:
    return resources.files("edge_transformer") / "presets"
