"""How a grid of a table is written in these tests, and how a story through a table is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from fsm.table import Symbol, Table


@pytest.fixture(scope="session")
def codes() -> Callable[[Table, str, Symbol], str]:
    """One line of a grid: per state the letter of the state it leads to, `-` where ignored, `.` where illegal."""

    def line(table: Table, letters: str, event: Symbol) -> str:
        letter = dict(zip(table.leaves(), letters, strict=True))
        cells = [table.compiled.get((state, event)) for state in letter]
        return " ".join("." if cell is None else "-" if cell.ignored else letter[cell.target] for cell in cells)

    return line


@pytest.fixture(scope="session")
def take_events() -> Callable[[Table, Iterable[Symbol]], list[tuple[str, str, str]]]:
    """(event, effects, state afterwards) for each event of a story that begins in the table's initial state."""

    def take(table: Table, events: Iterable[Symbol]) -> list[tuple[str, str, str]]:
        state, steps = table.compiled.initial, []
        for event in events:
            cell = table.compiled[state, event]
            steps.append((event.name, " ".join(effect.name for effect in cell.effects), cell.target.name))
            state = cell.target
        return steps

    return take
