"""Observed transitions held against the tables: one look-up each.

Judged are hops whose machine has a table. A hop is illegal if the table has no such hop at all. A chain that breaks
(a state that is not the one the member was in) means that lines are missing or wrong; that is reported as an illegal
transition from the state the member was in, unless the table has that hop as well or the order of the lines is not
certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.rows import Hop
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
def initial(machine: str) -> str:
    """The state a machine begins in; empty where there is no such table."""
    return next((table.compiled.initial.name for table in ALL if table.name == machine), "")


def illegal_transitions(hops: Iterable[Hop]) -> Iterator[Finding]:
    """A finding for each hop that its table does not have."""
    for hop in hops:
        legal = edges(hop.machine)
        if legal is None or not hop.state:
            continue
        if (hop.state, hop.next_state) not in legal:
            yield _illegal(hop, f"went from {hop.state} to {hop.next_state}")
        elif hop.previous and hop.previous != hop.state:
            yield _illegal(hop, f"was {hop.previous} and then left {hop.state} for {hop.next_state}; lines are missing")


def _illegal(hop: Hop, what: str) -> Finding:
    return finding(
        FindingKind.ILLEGAL_TRANSITION,
        hop.group,
        hop.member,
        hop.ts_ms,
        hop.ts_ms,
        summary=f"{hop.member} {what}; the table {hop.machine} has no such step",
        places=[hop.place],
    )
