"""Typed bases of models: the attributes that `bind` adds to a model, for type checkers, as a stub file.

`fsm/tables/models.pyi` holds those of the shipped tables: `fsm tables --format stub` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from fsm.table import Table

HEAD = """# Bases of models for `fsm.machine.bind`. Made by `fsm tables --format stub`, not edited by hand.
from collections.abc import Awaitable
from typing import Any

from fsm.render import Graph"""


def class_name(table: Table) -> str:
    """The name of the base of its models.

    >>> from fsm.tables import consumer_member
    >>> class_name(consumer_member.TABLE)
    'ConsumerMemberModel'
    """
    return "".join(part.capitalize() for part in table.name.split("-")) + "Model"


def stub(tables: Sequence[Table]) -> str:
    """The stub file of these tables: for each a base for `bind` and one for `bind(asynchronous=True)`.

    The symbols of a table in YAML, JSON or a script have no module that could be imported: they are `Symbol`.
    """
    homes = {table.name: _find_home(table) for table in tables}
    names: dict[str, set[str]] = {}
    for package, _, name in homes.values():
        names.setdefault(package, set()).add(name)
    imports = (_import(package, sorted(names[package])) for package in sorted(names))
    classes = ("\n".join(_classes(table, homes[table.name][2])) for table in tables)
    return "\n".join((HEAD, *imports, "", *classes)).rstrip() + "\n"


def _find_home(table: Table) -> tuple[str, str, str]:
    """The package, "." and the module of its states and events; of `Symbol` if they have none."""
    module = type(table.initial).__module__
    has_state = getattr(sys.modules.get(module), "State", None) is type(table.initial)
    return module.rpartition(".") if has_state else ("fsm", ".", "Symbol")


def _import(package: str, modules: Sequence[str]) -> str:
    if len(modules) == 1:
        return f"from {package} import {modules[0]}" if package else f"import {modules[0]}"
    return "\n".join((f"from {package} import (", *(f"    {module}," for module in modules), ")"))


def _classes(table: Table, module: str) -> Iterator[str]:
    name = class_name(table)
    state, event = ("Symbol", "Symbol") if module == "Symbol" else (f"{module}.State", f"{module}.Event")
    for base, answer in ((name, "bool"), (f"Async{name}", "Awaitable[bool]")):
        yield f"class {base}:"
        yield f"    state: {state}"
        yield f"    def trigger(self, event: {event} | str, *args: Any, **kwargs: Any) -> {answer}: ..."
        yield "    def get_graph(self, **options: Any) -> Graph: ..."
        for method in (one.name.lower() for one in table.alphabet):
            yield f"    def {method}(self, *args: Any, **kwargs: Any) -> {answer}: ..."
            yield f"    def may_{method}(self, *args: Any, **kwargs: Any) -> {answer}: ..."
        yield ""
