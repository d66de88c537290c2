"""A table against its whole grid: what each pair of state and event does, as somebody else wrote it down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from fsm.errors import IllegalTransition
from fsm.table import Table

IGNORED = "ignored"


def differing(table: Table, events: Iterable[Any], cells: Mapping[Any, Mapping[Any, Any]]) -> list[str]:
    """A line for each pair that does not do exactly the steps of its cell, is not ignored, or not illegal as there."""
    found = []
    for state, event in product(table.leaves(), events):
        expected, got = cells[state].get(event), _taken(table, state, event)
        if got != expected:
            found.append(f"{state.name}, {event.name}: expected {expected}, got {got}")
    return found


def _taken(table: Table, state: Any, event: Any) -> tuple[Any, ...] | str | None:
    try:
        cell = table.compiled[state, event]
    except IllegalTransition:
        return None
    return IGNORED if cell.ignored else cell.steps
