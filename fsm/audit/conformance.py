"""Checks observed transitions against the tables, by one look-up each.

Only hops whose machine has a table are checked. A hop with an event, as our own machines write them, is one row of the
table, whatever number of states it passes: illegal if the table has no such row, or the row has another target. A hop
without event, as in logs, is a single step: illegal if no row takes it. A broken chain (a state other than the one the
member was in) means that lines are missing or wrong; that is reported as an illegal transition from the state the
member was in, unless the table has that hop too or the order of the lines is not certain.
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
    """The hops of a machine's table as (state, next state); None if there is no such table."""
    for table in ALL:
        if table.name == machine:
            columns = table.columns
            return frozenset((columns.states[a], columns.states[b]) for a, b, _ in columns.edges)
    return None


@cache
def targets(machine: str) -> Mapping[tuple[str, str], str]:
    """The target of each (state, event) of a machine's table; that of an ignored event is the state itself."""
    table = next(t for t in ALL if t.name == machine)
    return {(state.name, event.name): cell.target.name for (state, event), cell in table.compiled.items()}


@cache
def initial(machine: str) -> str:
    """The initial state of a machine; empty if there is no such table."""
    return next((table.compiled.initial.name for table in ALL if table.name == machine), "")


def find_illegal_transitions(hops: Iterable[ObservedTransition]) -> Iterator[Finding]:
    """A finding for each illegal hop."""
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
