"""Classes outside of the library, named "package.module:Class": which ones may be imported, and how.

A name that stands in a file runs no code. Only what a user names may be imported: as the kind of a model to train, or
as one to trust in a model that is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from ..errors import UserError, suggestion

_PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_TRUSTED: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())


def is_place(name: Any) -> bool:
    """Whether a name says where a class is: package.module:Class."""
    return isinstance(name, str) and _PLACE.fullmatch(name) is not None


@contextmanager
def trusting(names: str | Iterable[str]) -> Iterator[None]:
    """Let these classes be imported for a block, where a model names them."""
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if not is_place(name):
            raise UserError(f"trust: found {name!r}; expected a class as package.module:Class")
    token = _TRUSTED.set(_TRUSTED.get() | set(listed))
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def import_trusted(name: str, where: str) -> Any:
    """Import what has this name, if it is trusted; errors say `where` the name was found."""
    if name not in _TRUSTED.get():
        raise UserError(
            f"{where}: found {name!r}, code outside of this library, which is imported only if you name it; expected "
            f'trust=("{name}",) in `load`, --trust {name} in a command, or a class that `register_encoder` knows'
        )
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except AttributeError as error:
        if getattr(error, "name", None) != attribute:  # raised by the code of the module
            raise _not_imported(name, where, error) from error
        near = suggestion(attribute, (each for each in dir(import_module(module)) if not each.startswith("_")))
        raise UserError(f"{where}: found {name!r}, but {module} has no {attribute}{near}") from error
    except Exception as error:  # the module may do anything
        raise _not_imported(name, where, error) from error


def _not_imported(name: str, where: str, error: Exception) -> UserError:
    module = name.partition(":")[0]
    found = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return UserError(
        f"{where}: found {name!r}, but {module} cannot be imported ({found}); expected a module that Python finds, "
        "such as one of an installed package, or of a folder in PYTHONPATH"
    )
