"""Lazy exports of a package (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def on_demand(
    package: str, names: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the package: the first imports a name's module on first use, the second lists
    `__all__` and the submodules that are loaded.

    `names` maps modules of the package to the names they define. `__getattr__` raises `AttributeError` for any other.
    """
    homes = {name: module for module, given in names.items() for name in given}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def list_names() -> list[str]:
        module = sys.modules[package]
        own = (name for name in vars(module) if name.startswith("__") or f"{package}.{name}" in sys.modules)
        return sorted({*module.__all__, *own})

    return get, list_names
