"""The rows of tables that a stretch of Python code took.

    with Recorder() as recorder:
        ...                           # step compiled tables, run bound models
    print("\\n".join(report(recorder.coverage())))

A row is taken when `compiled[state, event]` or `compiled.by_state[state][event]` is looked up, as in a step; `bind`
does so at the end of every successful step. Other accesses (`get`, `items`, drawing) do not count. A step costs nothing
while no recorder is running: recording replaces the dict look-up by a Python method, and stopping removes it.

Counted are cells, since a row for six states can be right in five of them. A state counts when a taken row starts in it
or enters it, on the way through included. States and rows that cannot be reached from the initial state are not part of
the sum.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from fsm.errors import FsmError
from fsm.table import Cell, Compiled, Row, Symbol, watch_cells

Pair = tuple[str, str]
"""Names of a state and an event."""


class Line(NamedTuple):
    """A line of a table: what it does, and where."""

    clause: str
    does: str
    enters: tuple[str, ...]
    ignored: bool
    cells: tuple[Pair, ...]


class Shape(NamedTuple):
    """What a report needs of a table; equal for equal tables, also of different processes."""

    name: str
    states: tuple[str, ...]
    lines: tuple[Line, ...]


Coverage = dict[Shape, set[Pair]]
"""The cells taken, by table."""


class Recorder:
    """Records the look-ups in every compiled table between `start` and `stop`. One at a time."""

    _running: Recorder | None = None

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Compiled, set[tuple[Symbol, Symbol]]]] = {}
        self._watching = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to note. Raises `FsmError` while another recorder does."""
        if Recorder._running is not None:
            raise FsmError("a recorder of transition coverage is running already")
        Recorder._running = self
        self._watching.enter_context(watch_cells(self._note))

    def stop(self) -> None:
        """Ends it; stepping costs what it did before. Does nothing if this recorder is not running."""
        if Recorder._running is self:
            Recorder._running = None
            self._watching.close()

    def coverage(self) -> Coverage:
        """The cells taken so far, in the order in which tables were first used."""
        found: Coverage = {}
        for compiled, pairs in list(self._asked.values()):
            taken = {(state.name, event.name) for state, event in list(pairs)}
            found.setdefault(shape_of(compiled), set()).update(taken)
        return found

    def _note(self, compiled: Compiled, state: Symbol, event: Symbol) -> None:
        self._asked.setdefault(id(compiled), (compiled, set()))[1].add((state, event))


def shape_of(compiled: Compiled) -> Shape:
    """The table's states and lines that can be reached, in table order by state and event."""
    reached = _find_reachable(compiled)
    lines: dict[int, list[tuple[Pair, Cell]]] = {}
    for (state, event), cell in compiled.items():
        if state in reached:
            lines.setdefault(id(cell.source), []).append(((state.name, event.name), cell))
    entered = dict.fromkeys((compiled.initial, *reached, *(s for c in compiled.values() for s in c.path)))
    states = sorted(entered, key=lambda state: state.code)
    return Shape(compiled.name, tuple(state.name for state in states), tuple(_line(cells) for cells in lines.values()))


def _line(cells: list[tuple[Pair, Cell]]) -> Line:
    _, cell = cells[0]
    does = ", ".join(step.name for step in cell.steps)
    return Line(
        clause=cell.source.clause,
        does=does if isinstance(cell.source, Row) else cell.source.why,
        enters=tuple(state.name for state in cell.path),
        ignored=cell.ignored,
        cells=tuple(pair for pair, _ in cells),
    )


def _find_reachable(compiled: Compiled) -> set[Symbol]:
    """States in which a machine that begins in the initial state can be."""
    reached, frontier = {compiled.initial}, [compiled.initial]
    while frontier:
        for cell in compiled.by_state.get(frontier.pop(), {}).values():
            if cell.target not in reached:
                reached.add(cell.target)
                frontier.append(cell.target)
    return reached


def merge(into: Coverage, other: Mapping[Shape, Collection[Pair]]) -> None:
    """Adds the coverage of another process."""
    for shape, taken in other.items():
        into.setdefault(shape, set()).update(taken)


def to_json(coverage: Coverage) -> str:
    """One line of JSON that `from_json` reads; the same coverage gives the same text."""
    return json.dumps([(shape, sorted(taken)) for shape, taken in coverage.items()])


def from_json(text: str) -> Coverage:
    """The coverage from the output of `to_json`."""
    found = ((_freeze(shape), _freeze(taken)) for shape, taken in json.loads(text))
    return {
        Shape(name, states, tuple(Line(*line) for line in lines)): {*taken} for (name, states, lines), taken in found
    }


def _freeze(value: Any) -> Any:
    """The value with tuples instead of lists."""
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def percent(shape: Shape, taken: Collection[Pair]) -> float:
    """Transitions taken, of those there are, in percent."""
    rows = _cells(shape, ignored=False)
    return 100 * sum(pair in taken for pair in rows) / len(rows) if rows else 100.0


def report(coverage: Coverage) -> Iterator[str]:
    """A readable report: per table the coverage, then every row that was never taken, with its clause."""
    for shape, taken in coverage.items():
        rows, ignores = _cells(shape, ignored=False), _cells(shape, ignored=True)
        seen = _states(shape, taken)
        parts = [
            f"{sum(state in seen for state in shape.states)} of {len(shape.states)} states",
            f"{sum(pair in taken for pair in rows)} of {len(rows)} transitions ({percent(shape, taken):.1f} %)",
        ]
        if ignores:
            parts.append(f"{sum(pair in taken for pair in ignores)} of {len(ignores)} ignored cells")
        yield f"{shape.name}: {', '.join(parts)}"
        yield from _never(shape, taken)


def _never(shape: Shape, taken: Collection[Pair]) -> Iterator[str]:
    missing = [(line, [pair for pair in line.cells if pair not in taken]) for line in shape.lines if not line.ignored]
    missing = [(line, pairs) for line, pairs in missing if pairs]
    if not missing:
        return
    yield "  never taken:"
    wide = min(max(len(line.clause) for line, _ in missing), 40)
    for line, pairs in missing:
        partly = "" if len(pairs) == len(line.cells) else f" ({len(pairs)} of {len(line.cells)} cells)"
        for states, events in _blocks(pairs):
            where = f"{', '.join(states)} on {', '.join(events)}{partly}"
            yield f"    {line.clause or '-':{wide}}  {where}: {line.does or 'stays, orders nothing'}"


def _blocks(pairs: Iterable[Pair]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The pairs as few groups of states on events: states with the same events stand together."""
    events: dict[str, list[str]] = {}
    for state, event in pairs:
        events.setdefault(state, []).append(event)
    groups: dict[tuple[str, ...], list[str]] = {}
    for state, missed in events.items():
        groups.setdefault(tuple(missed), []).append(state)
    for missed_by_all, states in groups.items():
        yield tuple(states), missed_by_all


def _cells(shape: Shape, *, ignored: bool) -> list[Pair]:
    return [pair for line in shape.lines if line.ignored is ignored for pair in line.cells]


def _states(shape: Shape, taken: Collection[Pair]) -> set[str]:
    seen: set[str] = set()
    for line in shape.lines:
        for state, event in line.cells:
            if (state, event) in taken:
                seen.update((state, *line.enters))
    return seen
