"""A table, or a list of tables, as text for a terminal; and as a stub file with typed bases for models."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from fsm.render.wording import plain
from fsm.table import Row, Symbol, Table


def listing(tables: Iterable[Table]) -> str:
    """One line for each table: its sizes and its description."""
    heads = ("table", "states", "events", "rows", "ignores", "illegal", "title")
    return "".join(
        f"{line}\n" for line in _columns(heads, [(table.name, *sizes(table), table.title) for table in tables])
    )


def sizes(table: Table) -> list[str]:
    """The sizes in a list of tables: states, events, rows, ignores and illegal cells."""
    counts = table.counts()
    return [str(counts[name]) for name in ("states", "events", "rows", "ignores", "illegal_cells")]


def text(table: Table) -> str:
    """A table in full: its states, events, effects, rows and ignores."""
    return "".join(f"{line}\n" for line in _blocks(table))


def _blocks(table: Table) -> Iterator[str]:
    yield f"{table.name}: {plain(table.title)}" if table.title else table.name
    if table.source:
        yield f"source: {plain(table.source)}"
    yield ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in table.counts().items())
    yield f"begins in {table.compiled.initial.name}, ends in {_list_states(table.terminal)}"
    yield from _meanings("STATES", list(_states(table)))
    for heading, members in (("EVENTS", table.alphabet), ("EFFECTS", table.effects or ())):
        yield from _meanings(heading, [(member.name, plain(member.meaning)) for member in members])
    yield from _rows(table)


def _list_states(states: Sequence[Symbol]) -> str:
    return ", ".join(state.name for state in states) or "no state"


def _states(table: Table, indent: str = "") -> Iterator[tuple[str, str]]:
    """Name and meaning, the states of a nested table below the one that holds it."""
    for state in table.states:
        yield indent + state.name, plain(state.meaning)
        if state in table.nested:
            yield from _states(table.nested[state], indent + "  ")


def _meanings(heading: str, members: Sequence[tuple[str, str]]) -> Iterator[str]:
    if members:
        yield from ("", heading)
        yield from _columns((), [(f"  {name}", meaning) for name, meaning in members])


def _rows(table: Table, inside: str = "") -> Iterator[str]:
    """Rows and ignores, then those of each nested table under a heading of its own."""
    state = type(table.initial)
    for ignored, heading in ((False, "ROWS"), (True, "IGNORED")):
        lines = [line for line in table.rows if isinstance(line, Row) is not ignored]
        if lines:
            yield from ("", heading + inside)
        for line in lines:
            yield f"  {' | '.join(s.name for s in line.states)} on {' | '.join(e.name for e in line.events)}"
            if isinstance(line, Row):
                steps = ", ".join(f"-> {s.name}" if isinstance(s, state) else s.name for s in line.steps)
                yield from _detail(steps or "stays", line.clause, line.note)
            else:
                yield from _detail("ignored", line.clause, line.why)
    for holder, nested in table.nested.items():
        exits = f", goes out to {_list_states(nested.exits)}" if nested.exits else ""
        yield from _rows(nested, f" inside {holder.name}: {nested.name}, begins in {nested.initial.name}{exits}")


def _detail(steps: str, clause: str, remark: str) -> Iterator[str]:
    cited = f"  [{plain(clause)}]" if clause else ""
    yield f"      {steps}{cited}"
    if remark:
        yield f"      {plain(remark)}"


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [tuple(heads), *rows] if heads else list(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = (c.rjust(w) if c.isdigit() else c.ljust(w) for c, w in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()


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
