"""The part of a table to draw: some of its events or states, one path through it, with or without effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fsm.errors import IllegalTransition, InputError
from fsm.nodes import nearest
from fsm.table import Cell, Symbol, Table

Cells = Mapping[tuple[Symbol, Symbol], Cell]


@dataclass(frozen=True, slots=True)
class View:
    """A part of a table, by names; an empty field does not restrict it.

    Raises `InputError` for a name that the table does not have.
    """

    events: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Events from the initial state on; only the cells that they take are drawn."""
    effects: bool = False
    lit: str = ""

    def cells(self, table: Table) -> Cells:
        """The cells to draw."""
        _check_names(self.events, table.alphabet, table.name, "event")
        _check_names((*self.states, *filter(None, (self.lit,))), table.leaves(), table.name, "state")
        cells: Cells = self._walk(table) if self.path else table.compiled
        return {
            pair: cell
            for pair, cell in cells.items()
            if (not self.events or pair[1].name in self.events) and (not self.states or pair[0].name in self.states)
        }

    def _walk(self, table: Table) -> Cells:
        _check_names(self.path, table.alphabet, table.name, "event")
        by_name = {event.name: event for event in table.alphabet}
        state, cells = table.compiled.initial, dict[tuple[Symbol, Symbol], Cell]()
        for event in (by_name[name] for name in self.path):
            try:
                cells[state, event] = table.compiled[state, event]
            except IllegalTransition as error:
                raise InputError(f"no such path: {error}") from None
            state = cells[state, event].target
        return cells

    def shows(self, table: Table, cells: Cells) -> tuple[str, ...]:
        """The states to draw, in reading order."""
        initial = table.compiled.initial
        ordered = [initial, *(s for s in table.leaves() if s is not initial)]
        if self.states:
            return tuple(s.name for s in ordered if s.name in self.states)
        if not (self.events or self.path):
            return tuple(s.name for s in ordered)
        met = {initial, *(state for state, _ in cells), *(s for cell in cells.values() for s in cell.path)}
        return tuple(s.name for s in ordered if s in met)


def _check_names(names: Iterable[str], members: Iterable[Symbol], table: str, role: str) -> None:
    known = [member.name for member in members]
    for name in names:
        if name not in known:
            raise InputError(f"{table} has no {role} {name[:60]!r}", remedy=nearest(name, known))


WHOLE = View()
