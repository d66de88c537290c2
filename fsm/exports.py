"""Lazy exports of a package (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def on_demand(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A `__getattr__` for the package that imports a name's module on first use.

    `names` maps modules of the package to the names they define. The function raises `AttributeError` for any other.
    """
    homes = {name: module for module, given in names.items() for name in given}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get
