"""Presets: named YAML files with the settings of a run, and changes by `--set key=value`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, no_text, suggestion
from ..io.settings import unknown_setting

_UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)  # also for bad dates, huge numbers and deep nesting
SECTIONS = ("model", "train", "data")


def preset_names() -> list[str]:
    """All bundled presets, such as "clutrr/cpu"."""
    folders = [task for task in _root().iterdir() if task.is_dir()]
    files = [(task.name, file.name) for task in folders for file in task.iterdir() if file.name.endswith(".yaml")]
    return sorted(f"{task}/{file.removesuffix('.yaml')}" for task, file in files)


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a bundled preset, or of a YAML file given by its path."""
    return _load(name, ())


def describe_preset(name: str) -> str:
    """The comment at the top of a bundled preset, on one line."""
    lines = _root().joinpath(*f"{name}.yaml".split("/")).read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.removeprefix("#").strip() for line in comment)


def override(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes such as {"model.dim": 64} applied."""
    result = {name: dict(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    for key, value in changes.items():
        section, dot, name = key.partition(".")
        if section not in SECTIONS or not dot or not name:
            sections = ", ".join(f"{each}.NAME" for each in SECTIONS)
            raise UserError(f"setting {key}: found no section; expected one of {sections}")
        result[section] = {**(result.get(section) or {}), name: value}
    return result


def parse_changes(options: Sequence[str]) -> dict[str, Any]:
    """Parse options such as "model.dim=64"; values are YAML."""
    changes = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"--set {option}: found no '='; expected key=value, such as model.dim=64")
        try:
            changes[key.strip()] = yaml.load(value, _Loader)
        except _UNREADABLE as error:
            raise UserError(f"--set {option}: found {value!r}; expected a YAML value") from error
    return changes


def yaml_value(value: Any) -> str:
    """A value as `--set` reads it, on one line."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as the text of a preset."""
    return yaml.dump(dict(settings), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_yaml(path: str | Path | Traversable) -> dict[str, Any]:
    """Read a YAML file that holds a mapping."""
    source = Path(path) if isinstance(path, str) else path
    try:
        values = yaml.load(source.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise no_text(str(path), 0, error) from error
    except _UNREADABLE as error:
        raise UserError(f"{path}: no readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise UserError(f"{path}: found {found}; expected settings as key: value")
    return values


def _load(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name in seen:
        raise UserError(f"preset {name}: is based on itself: {' -> '.join((*seen, name))}")
    file: Traversable | Path = _root().joinpath(*f"{name}.yaml".split("/"))
    if name.endswith((".yaml", ".yml")):
        file = Path(name)
    elif name not in preset_names():
        known = preset_names()
        near = [other for other in known if other.split("/")[0] == name.split("/")[0]]
        near = near or [other for other in known if other.endswith("/cpu")]  # all would be too many
        by = f"{seen[-1]}: " if seen else ""
        raise UserError(
            f"{by}unknown preset {name!r}; known are {', '.join(near)}, or give a .yaml file{suggestion(name, known)}"
        )
    values, known = read_yaml(file), ["task", "base", *SECTIONS]
    for key, value in values.items():
        if key not in known:
            raise UserError(f"{file}: {unknown_setting(key, known)}")
        if key in SECTIONS and not isinstance(value, dict | None):
            raise UserError(f"{file}: {key}: found {value!r}; expected settings as key: value")
        if key not in SECTIONS and not isinstance(value, str):
            raise UserError(f"{file}: {key}: found {value!r}; expected a name")
    if "base" not in values:
        return values
    base = values.pop("base")
    if base.endswith((".yaml", ".yml")) and isinstance(file, Path):
        base = str((file.parent / base).resolve())  # relative to the file that names it
    merged = _load(base, (*seen, name))
    for key, value in values.items():
        merged[key] = _changed(merged.get(key) or {}, value or {}) if key in SECTIONS else value
    return merged


def _changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A section with changes. Null removes a setting, as another kind of model may not have it."""
    return {name: value for name, value in {**base, **changes}.items() if changes.get(name, value) is not None}


def _root() -> Traversable:
    return resources.files("edge_transformer.training") / "presets"


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-3 is a number, unlike in YAML 1.1."""


class _Dumper(yaml.SafeDumper):
    """Writes for `_Loader`, each text on one line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    breaks = len(text.splitlines()) > 1 or text.endswith("\n")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if breaks else None)


_Dumper.add_representer(str, _represent_text)
for _kind in (_Loader, _Dumper):
    _number = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z")
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _number, list("-+.0123456789"))
