"""The documents for a page, in JSON.

A *position* is the whole state at one moment: components, wires, violations. A *delta* is a position with only the
changed components and wires. A *step* is an event with its delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from fsm.check.model import Look
from fsm.errors import InputError
from fsm.explore.diagrams import diagram
from fsm.table import Table

Document = dict[str, Any]
"""A JSON object."""
WHOLE_EVERY = 200
"""The interval at which a step has the whole position after it, so that a jump needs no earlier steps."""
MOST_STEPS = 2_000
"""The maximum number of steps in one answer."""
LONGEST_PATH = 50_000
"""The maximum length of a path walked by hand."""


class Session(Protocol):
    """The interface of anything opened in a page."""

    def opening(self) -> Document:
        """The components, diagrams and first position."""

    def steps(self, start: int, count: int) -> Document:
        """Steps of the loaded path, and the position before the first of them."""


class Shown(Protocol):
    """A component of the display."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def tables(self) -> Sequence[Table]: ...


def show_who(parts: Sequence[Shown], wires: Iterable[tuple[str, str]]) -> Document:
    """The components, the wires by sender and receiver, and the diagrams of the tables."""
    tables = {table.name: table for part in parts for table in part.tables}
    return {
        "components": [
            {"name": part.name, "role": part.role, "tables": [table.name for table in part.tables]} for part in parts
        ],
        "wires": [{"sender": sender, "receiver": receiver} for sender, receiver in wires],
        "tables": {name: drawn for name, table in tables.items() if (drawn := diagram(table))},
        "states": {name: [state.name for state in table.leaves()] for name, table in tables.items()},
    }


def show_component(text: str, look: Look | None) -> Document:
    """A component at one moment."""
    look = look or Look()
    return {
        "said": text,
        "cells": [one._asdict() for one in look.states],
        "fields": [list(one) for one in look.fields],
        "queues": [{"name": name, "items": list(items)} for name, items in look.queues],
    }


def all_steps(session: Session) -> Iterator[Document]:
    """All steps of the loaded path."""
    start = 0
    while found := session.steps(start, MOST_STEPS)["steps"]:
        yield from found
        start += len(found)


def read_path(text: Any) -> tuple[int, ...]:
    """Parses a path like `0.3.1`. Raises `InputError` for an invalid one."""
    if not isinstance(text, str):
        raise InputError(f"no path: {text!r}"[:80], "path", "write it as 0.3.1")
    numbers = text.split(".") if text else []
    if len(numbers) > LONGEST_PATH:
        raise InputError(f"a path of {len(numbers)} steps", "path", f"give at most {LONGEST_PATH:,}")
    for number in numbers:
        if not (number.isascii() and number.isdigit() and len(number) < 6):
            raise InputError(f"no path: {number[:20]!r} is no number of a step", "path", "write it as 0.3.1")
    return tuple(map(int, numbers))


def read_number(asked: Mapping[str, Any], name: str, otherwise: int) -> int:
    """Parses a number of a request. Raises `InputError` for an invalid one."""
    value = asked.get(name, otherwise)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15:
        return value
    raise InputError(f"no number: {value!r}"[:80], name, "give a whole number from 0 on")
