"""Tables that work together, as a model: an effect of one table that is an event of another is a message to it.

    fsm check door.yaml --with lift.yaml --never door.OPEN,lift.MOVING

Each table is a component, and between two that talk there is a wire. An event that no table sends comes from outside:
it may happen wherever the table has a row for it. An event that arrives where the table has no cell is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.model import Choice, Component, Disturbance, Fault, Goal, Model, Property, Received, Step, View, Wire
from fsm.errors import IllegalTransition, InputError
from fsm.table import Kind, Symbol, Table

if TYPE_CHECKING:
    from fsm.check.model import Condition, Mask

DISTURBANCES = (
    Disturbance("lose", Fault.LOSE),
    Disturbance("late", Fault.LATE),
    Disturbance("duplicate", Fault.DUPLICATE),
)
ROOM = 4
"""So many messages are on their way from one table to another; whoever would send more waits."""


def compose(tables: Sequence[Table], never: Sequence[str] = (), goal: str = "") -> Model:
    """The model of these tables.

    `never` are places that may not be taken at once, as `door.OPEN,lift.MOVING`; `goal` are places that can always be
    reached; without one, the terminal states of all tables that have any. Raises `InputError` for a name that there is
    not.
    """
    names = [table.name for table in tables]
    if len(set(names)) < len(names):
        raise InputError("two tables have one name", ", ".join(names), "rename one")
    parts = [_Part(table, [other for other in tables if other is not table]) for table in tables]
    ends = [(part.table.name, to) for part in parts for to in part.receivers]
    wires = [Wire(*one, DISTURBANCES, at_most=ROOM, waits=True) for one in ends]
    left_out = [f"more than {ROOM} messages on a wire: who would send one waits"] if wires else []
    properties = [Property(f"never {one}", _negated(_at(tables, one))) for one in never]
    return Model(
        " with ".join(names),
        [part.component() for part in parts],
        wires,
        properties,
        _goal(tables, goal),
        not_modelled=left_out,
    )


def _goal(tables: Sequence[Table], goal: str) -> Goal | None:
    if goal:
        return Goal(f"{goal} can be reached", _at(tables, goal))
    ends = [f"{table.name}.{'|'.join(state.name for state in table.terminal)}" for table in tables if table.terminal]
    return Goal("every table can come to its end", _at(tables, ",".join(ends))) if ends else None


def _at(tables: Sequence[Table], places: str) -> Condition:
    """Whether all of these places are taken: `door.OPEN|AJAR,lift.MOVING`."""
    known = {table.name: [state.name for state in table.all_states()] for table in tables}
    wanted: list[tuple[str, list[str]]] = []
    for place in places.split(","):
        table, _, states = place.strip().rpartition(".")
        for state in states.split("|"):
            if table not in known or state not in known[table]:
                there = ", ".join(known.get(table, sorted(known)))
                raise InputError(f"no such place: {place!r}", "", f"write TABLE.STATE; there are {there}")
        wanted.append((table, states.split("|")))

    def condition(view: View) -> Mask:
        taken = np.ones(len(view), np.bool_)
        for table, states in wanted:
            taken &= np.any([view.of(table, state) == 1 for state in states], axis=0)
        return taken

    return condition


def _negated(condition: Condition) -> Condition:
    return lambda view: ~condition(view)


class _Part:
    """One table among others."""

    def __init__(self, table: Table, others: Sequence[Table]) -> None:
        self.table = table
        self.receivers: dict[str, set[str]] = {}
        """Other tables, with the events that this one sends them."""
        effects = {effect.name for effect in table.all_effects}
        for other in others:
            if heard := effects & {event.name for event in other.alphabet}:
                self.receivers[other.name] = heard
        self.heard = {effect.name for other in others for effect in other.all_effects}
        self.events = {event.name: event for event in table.alphabet}

    def component(self) -> Component:
        """Its features say which state it is in; of a nested one, those around it too."""
        features = {state.name: _is_in(self.table, state) for state in self.table.all_states()}
        start = self.table.enter(self.table.initial)
        return Component(self.table.name, start, self.choices, self.step, features, describe=lambda state: state.name)

    def choices(self, state: Symbol) -> Iterable[Choice]:
        """What may come from outside."""
        for name, event in self.events.items():
            if name not in self.heard and self.table.kind(state, event) is Kind.ROW:
                yield Choice(name)

    def step(self, state: Symbol, given: Any) -> Step:
        """One event, from outside or from another table."""
        name = given.message if isinstance(given, Received) else given
        try:
            cell = self.table.compiled[state, self.events[name]]
        except IllegalTransition as refused:
            return Step(state, broken=(str(refused),))
        sent = [
            (receiver, effect.name)
            for effect in cell.effects
            for receiver, heard in self.receivers.items()
            if effect.name in heard
        ]
        return Step(cell.target, sent)


def _is_in(table: Table, state: Symbol) -> Callable[[Symbol], int]:
    inside = {leaf for leaf in table.leaves() if leaf is state or state in _holders(table, leaf)}
    return lambda now: int(now in inside)


def _holders(table: Table, leaf: Symbol) -> tuple[Symbol, ...]:
    for state, nested in table.nested.items():
        if leaf in nested.all_states():
            return (state, *_holders(nested, leaf))
    return ()
