"""Tables that exchange messages, as a model: an effect of one table that is an event of another is a message to it.

    fsm check door.yaml --with lift.yaml --never door.OPEN,lift.MOVING

Each machine is a component, and two that exchange messages have a wire (`fsm.exchange` defines the receivers). An event
that no machine sends comes from outside: it may happen wherever the table has a row for it. An event that arrives where
the table has no cell is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.model import (
    Choice,
    Component,
    Disturbance,
    Fault,
    Goal,
    InState,
    Look,
    Model,
    Property,
    Received,
    Step,
    View,
    Wire,
)
from fsm.errors import IllegalTransition
from fsm.exchange import Exchange, Role, exchange_of, leaves_in
from fsm.table import Kind, Symbol, Table

if TYPE_CHECKING:
    from fsm.check.model import Condition, Mask
    from fsm.exchange import Place

DISTURBANCES = (
    Disturbance("lose", Fault.LOSE),
    Disturbance("late", Fault.LATE),
    Disturbance("duplicate", Fault.DUPLICATE),
)
ROOM = 4
"""The capacity of a wire between two machines; a sender waits for room."""


def compose(tables: Iterable[Table | Role], never: Sequence[str] = (), goal: str = "") -> Model:
    """The model of one machine per table, or of the number of a role.

    `never` are places that must not be taken at once, as `door.OPEN,lift.MOVING`; `goal` are places that must always be
    reachable, for a role by all of its machines; by default the terminal states of all tables that have any. Raises
    `InputError` for an unknown name.
    """
    exchange = exchange_of(tables)
    wires = [Wire(*ends, DISTURBANCES, at_most=ROOM, waits=True) for ends in exchange.wires()]
    left_out = [f"more than {ROOM} messages on a wire: who would send one waits"] if wires else []
    properties = [Property(f"never {one}", _negate(_are_taken(exchange.places(one)))) for one in never]
    return Model(
        " with ".join(role.name if role.count == 1 else f"{role.count} {role.name}" for role in exchange.roles),
        [_Part(name, role, exchange).component() for name, role in exchange.role_of.items()],
        wires,
        properties,
        _goal(exchange, goal),
        not_modelled=left_out,
    )


def _goal(exchange: Exchange, goal: str) -> Goal | None:
    name, wanted = f"{goal} can be reached", goal
    if not goal:
        final = [role for role in exchange.roles if role.table.terminal]
        name = "every table can come to its end"
        wanted = ",".join(f"{role.name}.{'|'.join(state.name for state in role.table.terminal)}" for role in final)
    return Goal(name, _are_taken(exchange.places(wanted, every=True))) if wanted else None


def _are_taken(places: Sequence[Place]) -> Condition:
    """Whether all of these places are taken at once."""

    def condition(view: View) -> Mask:
        taken = np.ones(len(view), np.bool_)
        for place in places:
            there = [np.any([view.of(name, state) == 1 for state in place.names], axis=0) for name in place.machines]
            taken &= np.sum(there, axis=0) >= place.least
        return taken

    return condition


def _negate(condition: Condition) -> Condition:
    return lambda view: ~condition(view)


class _Part:
    """The component of one machine."""

    def __init__(self, name: str, role: Role, exchange: Exchange) -> None:
        self.name, self.table, self.exchange = name, role.table, exchange
        self.outside = exchange.outside(role)
        self.events = {event.name: event for event in role.table.alphabet}

    def component(self) -> Component:
        """The component; its features are the state of the machine and the states that enclose it."""
        features = {state.name: _is_in(self.table, state) for state in self.table.all_states()}
        start = self.table.enter(self.table.initial)
        return Component(
            self.name,
            start,
            self.choices,
            self.step,
            features,
            describe=lambda state: state.name,
            look=self.look,
            role="table",
            tables=(self.table,),
        )

    def look(self, state: Symbol) -> Look:
        return Look([InState(self.table.name, state.name)], [("means", state.meaning)])

    def choices(self, state: Symbol) -> Iterable[Choice]:
        """The external events."""
        return [Choice(event.name) for event in self.outside if self.table.kind(state, event) is Kind.ROW]

    def step(self, state: Symbol, given: Any) -> Step:
        """One event, from outside or from another machine."""
        name, sender = (given.message, given.sender) if isinstance(given, Received) else (given, "")
        try:
            cell = self.table.compiled[state, self.events[name]]
        except IllegalTransition as refused:
            return Step(state, broken=(str(refused),))
        return Step(cell.target, list(self.exchange.address(self.name, cell.effects, sender)))


def _is_in(table: Table, state: Symbol) -> Callable[[Symbol], int]:
    inside = leaves_in(table, [state])
    return lambda now: now in inside
