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

_TABLES = {table.name: table for table in ALL}


def has_table(machine: str) -> bool:
    return machine in _TABLES


def initial(machine: str) -> str:
    """The initial state of a machine; empty if there is no such table."""
    return _TABLES[machine].compiled.initial.name if machine in _TABLES else ""


@cache
def list_steps(machine: str, *, whole: bool = False) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The events from one state to another, by (state, next state): in a single step, or with `whole` by a row of the
    table; an ignored event leads to the state itself. Empty if there is no such table."""
    found: dict[tuple[str, str], list[str]] = {}
    if machine in _TABLES and whole:
        for (state, event), cell in _TABLES[machine].compiled.items():
            found.setdefault((state.name, cell.target.name), []).append(event.name)
    elif machine in _TABLES:
        names = _TABLES[machine].columns
        for source, target, events in names.edges:
            found[names.states[source], names.states[target]] = [names.events[e] for e in events]
    return {key: tuple(sorted(events) if whole else events) for key, events in found.items()}


def find_causes(hop: ObservedTransition) -> tuple[str, ...] | None:
    """The events that cause a hop; None if there is none, or if its own event is not among them."""
    causes = list_steps(hop.machine, whole=bool(hop.event)).get((hop.state, hop.next_state))
    return causes if causes is not None and (not hop.event or hop.event in causes) else None


def find_illegal_transitions(hops: Iterable[ObservedTransition]) -> Iterator[Finding]:
    for hop in hops:
        if not has_table(hop.machine) or not hop.state:
            continue
        if find_causes(hop) is None:
            yield _illegal(hop, f"went from {hop.state} to {hop.next_state}{f' on {hop.event}' if hop.event else ''}")
        elif hop.previous and hop.previous != hop.state:
            yield _illegal(hop, f"was {hop.previous} and then left {hop.state} for {hop.next_state}; lines are missing")


def _illegal(hop: ObservedTransition, what: str) -> Finding:
    summary = f"{hop.member} {what}; the table {hop.machine} has no such step"
    about = hop.group, hop.member, hop.ts_ms, hop.ts_ms, summary, [hop.place]
    return finding(FindingKind.ILLEGAL_TRANSITION, *about)
