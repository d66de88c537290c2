"""A table, or a list of tables, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fsm.render.wording import plain
from fsm.table import Row, Symbol, Table


def listing(tables: Iterable[Table]) -> str:
    """One line for each table: its sizes and its description."""
    heads = ("table", "states", "events", "rows", "ignores", "illegal", "title")
    return "".join(
        f"{line}\n" for line in _columns(heads, [(table.name, *sizes(table), table.title) for table in tables])
    )


def sizes(table: Table) -> list[str]:
    """The sizes in a list of tables: states, events, rows, ignores and illegal cells."""
    counts = table.counts()
    return [str(counts[name]) for name in ("states", "events", "rows", "ignores", "illegal_cells")]


def text(table: Table) -> str:
    """A table in full: its states, events, effects, rows and ignores."""
    return "".join(f"{line}\n" for line in _blocks(table))


def _blocks(table: Table) -> Iterator[str]:
    yield f"{table.name}: {plain(table.title)}" if table.title else table.name
    if table.source:
        yield f"source: {plain(table.source)}"
    yield ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in table.counts().items())
    yield f"begins in {table.compiled.initial.name}, ends in {_list_states(table.terminal)}"
    yield from _meanings("STATES", list(_states(table)))
    for heading, members in (("EVENTS", table.alphabet), ("EFFECTS", table.effects or ())):
        yield from _meanings(heading, [(member.name, plain(member.meaning)) for member in members])
    yield from _rows(table)


def _list_states(states: Sequence[Symbol]) -> str:
    return ", ".join(state.name for state in states) or "no state"


def _states(table: Table, indent: str = "") -> Iterator[tuple[str, str]]:
    """Name and meaning, the states of a nested table below the one that holds it."""
    for state in table.states:
        yield indent + state.name, plain(state.meaning)
        if state in table.nested:
            yield from _states(table.nested[state], indent + "  ")


def _meanings(heading: str, members: Sequence[tuple[str, str]]) -> Iterator[str]:
    if members:
        yield from ("", heading)
        yield from _columns((), [(f"  {name}", meaning) for name, meaning in members])


def _rows(table: Table, inside: str = "") -> Iterator[str]:
    """Rows and ignores, then those of each nested table under a heading of its own."""
    state = type(table.initial)
    for ignored, heading in ((False, "ROWS"), (True, "IGNORED")):
        lines = [line for line in table.rows if isinstance(line, Row) is not ignored]
        if lines:
            yield from ("", heading + inside)
        for line in lines:
            yield f"  {' | '.join(s.name for s in line.states)} on {' | '.join(e.name for e in line.events)}"
            if isinstance(line, Row):
                steps = ", ".join(f"-> {s.name}" if isinstance(s, state) else s.name for s in line.steps)
                yield from _detail(steps or "stays", line.clause, line.note)
            else:
                yield from _detail("ignored", line.clause, line.why)
    for holder, nested in table.nested.items():
        exits = f", goes out to {_list_states(nested.exits)}" if nested.exits else ""
        yield from _rows(nested, f" inside {holder.name}: {nested.name}, begins in {nested.initial.name}{exits}")


def _detail(steps: str, clause: str, remark: str) -> Iterator[str]:
    cited = f"  [{plain(clause)}]" if clause else ""
    yield f"      {steps}{cited}"
    if remark:
        yield f"      {plain(remark)}"


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [tuple(heads), *rows] if heads else list(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = (c.rjust(w) if c.isdigit() else c.ljust(w) for c, w in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
