"""Observed transitions held against the tables: one look-up each.

Judged are hops whose machine has a table. A hop that names its event, as our own machines write them, is one row of
the table, however many states that goes through: illegal if the table has no such row, or if the row leads elsewhere. A
hop without event, as logs have them, is one single step: illegal if no row of the table takes it. A chain that breaks
(a state that is not the one the member was in) means that lines are missing or wrong; that is reported as an illegal
transition from the state the member was in, unless the table has that hop as well or the order of the lines is not
certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.rows import ObservedTransition
from fsm.tables import ALL

Edges = frozenset[tuple[str, str]]


@cache
def edges(machine: str) -> Edges | None:
    """The hops of a machine's table as (state, next state); None where there is no such table."""
    for table in ALL:
        if table.name == machine:
            columns = table.columns
            return frozenset((columns.states[a], columns.states[b]) for a, b, _ in columns.edges)
    return None


@cache
def targets(machine: str) -> Mapping[tuple[str, str], str]:
    """Where each (state, event) of a machine's table leads; the events that it ignores lead nowhere else."""
    table = next(t for t in ALL if t.name == machine)
    return {(state.name, event.name): cell.target.name for (state, event), cell in table.compiled.items()}


@cache
def initial(machine: str) -> str:
    """The state a machine begins in; empty where there is no such table."""
    return next((table.compiled.initial.name for table in ALL if table.name == machine), "")


def illegal_transitions(hops: Iterable[ObservedTransition]) -> Iterator[Finding]:
    """A finding for each hop that its table does not have."""
    for hop in hops:
        legal = edges(hop.machine)
        if legal is None or not hop.state:
            continue
        if hop.event and targets(hop.machine).get((hop.state, hop.event)) != hop.next_state:
            yield _illegal(hop, f"went from {hop.state} to {hop.next_state} on {hop.event}")
        elif not hop.event and (hop.state, hop.next_state) not in legal:
            yield _illegal(hop, f"went from {hop.state} to {hop.next_state}")
        elif hop.previous and hop.previous != hop.state:
            yield _illegal(hop, f"was {hop.previous} and then left {hop.state} for {hop.next_state}; lines are missing")


def _illegal(hop: ObservedTransition, what: str) -> Finding:
    return finding(
        FindingKind.ILLEGAL_TRANSITION,
        hop.group,
        hop.member,
        hop.ts_ms,
        hop.ts_ms,
        summary=f"{hop.member} {what}; the table {hop.machine} has no such step",
        places=[hop.place],
    )
