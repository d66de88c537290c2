"""Names that a package offers and loads when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def on_demand(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A `__getattr__` for the package: a name is taken from its module, which is imported then.

    `names` has what each module, within the package, is to give. Raises `AttributeError` for any other name.
    """
    homes = {name: module for module, given in names.items() for name in given}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get
