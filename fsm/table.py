"""The kernel: a state machine as a finite map from (state, event) to a state and effects.

A row holds enum members only. There are no guards: the code that decides names its decision as the
event, so a step is one look-up and a picture of the table is the whole truth. Every (state, event)
pair is one of three kinds of cell:

* a **row**: the event is handled; the machine goes through states and orders effects, in the order written;
* an **ignore**: the event is expected there and does nothing, for a reason that is written down;
* **illegal**: there is no cell, and a step raises `IllegalTransition`.

A state may hold a nested `Table`: the machine is then in a state of the nested table, whose own cells
come first and the holder's cells second. Nested rows may leave to states of the holder's table, which
the nested table lists as its `exits`.

A table checks itself when it is built and raises `TableError` with every defect it found. This module
knows no Kafka, does no IO and imports nothing heavy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple, Self

from fsm.errors import IllegalTransition, TableError


class Symbol(Enum):
    """Base of the State, Event and Effect enums of a table.

    The text of a member is its meaning, for readers of the table and of its diagrams. The value is the
    member's position, so `member.code` can stand for it in a column of integers. Members hash by
    identity, which keeps a look-up by member as fast as one by object.
    """

    meaning: str

    def __new__(cls, meaning: str) -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.meaning = meaning
        return member

    @property
    def code(self) -> int:
        """Position of the member in its enum, from 0."""
        return int(self._value_)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class Kind(Enum):
    """The three kinds of cell, as they are coded in `Columns.kind`."""

    ILLEGAL = 0
    IGNORE = 1
    ROW = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: in any of `states`, on any of `events`, do `steps` in order.

    `steps` mixes states (the machine goes there, and is there for the steps that follow) and effects
    (orders to the code around the table). Without a state in `steps` the machine stays where it is.
    """

    states: tuple[Symbol, ...]
    events: tuple[Symbol, ...]
    steps: tuple[Symbol, ...]
    clause: str = ""
    """Where the row comes from: a row of the reference, a KIP section, a Kafka class at a commit."""
    note: str = ""
    """What a reader should know beside the clause."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Any of `events` in any of `states` is expected and does nothing, because of `why`."""

    states: tuple[Symbol, ...]
    events: tuple[Symbol, ...]
    why: str
    clause: str = ""


class Cell(NamedTuple):
    """What one event does in one state: the answer of a step."""

    target: Symbol
    """The state afterwards; the same one where the row stays or the event is ignored."""
    effects: tuple[Symbol, ...]
    """Effects in the order they are due."""
    path: tuple[Symbol, ...]
    """States entered on the way, the last one being `target`; empty where nothing is entered."""
    steps: tuple[Symbol, ...]
    """States and effects interleaved, as the row is written."""
    source: Row | Ignore
    """The line of the table this comes from."""

    @property
    def ignored(self) -> bool:
        """True where the event is deliberately ignored."""
        return isinstance(self.source, Ignore)


def _members(given: Symbol | Iterable[Symbol]) -> tuple[Symbol, ...]:
    return (given,) if isinstance(given, Enum) else tuple(given)


def row(
    states: Symbol | Iterable[Symbol],
    events: Symbol | Iterable[Symbol],
    *steps: Symbol,
    clause: str = "",
    note: str = "",
) -> Row:
    """A row. One member or several on the left; then states and effects in the order they happen."""
    return Row(_members(states), _members(events), steps, clause, note)


def each(
    states: Iterable[Symbol],
    events: Symbol | Iterable[Symbol],
    *steps: Symbol,
    clause: str = "",
    note: str = "",
) -> Iterator[Row]:
    """The same row once for each state, for tables that list them one by one."""
    for state in states:
        yield row(state, events, *steps, clause=clause, note=note)


def ignore(
    states: Symbol | Iterable[Symbol], events: Symbol | Iterable[Symbol], *, why: str, clause: str = ""
) -> Ignore:
    """A deliberate no-op, with its reason."""
    return Ignore(_members(states), _members(events), why, clause)


class Compiled(dict[tuple[Symbol, Symbol], Cell]):
    """A table made for stepping: `compiled[state, event]` is the `Cell`.

    A plain dict look-up where the cell exists; `IllegalTransition` where it does not. Nested tables are
    flattened: the states are leaf states. Treat it as read-only.
    """

    __slots__ = ("initial", "name", "terminal")

    def __init__(
        self,
        name: str,
        initial: Symbol,
        terminal: tuple[Symbol, ...],
        cells: Mapping[tuple[Symbol, Symbol], Cell],
    ) -> None:
        super().__init__(cells)
        self.name = name
        self.initial = initial
        self.terminal = terminal

    def __missing__(self, key: tuple[Symbol, Symbol]) -> Cell:
        state, event = key
        legal = tuple(e for s, e in self if s is state)
        raise IllegalTransition(self.name, state, event, legal)


@dataclass(frozen=True, slots=True)
class Columns:
    """A table as integer columns, for NumPy, Arrow and Spark.

    `target[state * len(events) + event]` is the code of the next state, -1 where illegal; `kind` at the
    same place is a `Kind` value. Codes are positions in `states` and `events`. The arrays speak the buffer
    protocol: `numpy.frombuffer(columns.target, dtype="int16")` costs nothing.
    """

    states: tuple[str, ...]
    events: tuple[str, ...]
    target: array[int]
    kind: array[int]
    edges: tuple[tuple[int, int, tuple[int, ...]], ...]
    """Observable single hops `(from, to, events that cause it)`, sorted; a path of three states gives three hops."""


@dataclass(frozen=True, eq=False)
class Table:
    """A machine: its states and events, where it begins, where it ends, and its lines.

    `rows` takes rows and ignores in any order (lists from `each` may be unpacked into it). `terminal`
    states are never left. `exits` are states of the holder's table that a nested table may go to.
    `doc` is what a reader must know: sources, and what the source draws wrongly or leaves open.

    Raises `TableError` listing every defect: a line that names a foreign member, two cells for one pair, a
    way out of a terminal state, a state that is unreachable or cannot be left, an effect or event never used.
    """

    name: str
    initial: Symbol
    rows: tuple[Row | Ignore, ...]
    terminal: tuple[Symbol, ...] = ()
    nested: Mapping[Symbol, Table] = field(default_factory=dict)
    exits: tuple[Symbol, ...] = ()
    effects: type[Symbol] | None = None
    """The Effect enum; None for a table that orders nothing."""
    events: type[Symbol] | None = None
    """The Event enum; found from the rows when not given."""
    title: str = ""
    source: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        problems = tuple(_problems(self))
        if problems:
            raise TableError(self.name, problems)

    @property
    def states(self) -> tuple[Symbol, ...]:
        """States of this table in the order of their enum, without those of nested tables and without exits."""
        outside = set(self.exits)
        for table in self.nested.values():
            outside.update(table.all_states())
        mine = self._mentioned() - outside
        return tuple(s for s in type(self.initial) if s in mine)

    def _mentioned(self) -> set[Symbol]:
        enum = type(self.initial)
        named = {self.initial, *self.terminal, *self.nested}
        for line in self.rows:
            named.update(line.states)
            if isinstance(line, Row):
                named.update(s for s in line.steps if isinstance(s, enum))
        return named

    def all_states(self) -> tuple[Symbol, ...]:
        """Every state at every depth, holders before what they hold."""
        found: list[Symbol] = []
        for state in self.states:
            found.append(state)
            if state in self.nested:
                found.extend(self.nested[state].all_states())
        return tuple(found)

    def leaves(self) -> tuple[Symbol, ...]:
        """States a machine can be in: holders are replaced by what they hold."""
        found: list[Symbol] = []
        for state in self.states:
            found.extend(self.nested[state].leaves() if state in self.nested else (state,))
        return tuple(found)

    @property
    def event_type(self) -> type[Symbol]:
        """The Event enum."""
        return self.events or type(self.rows[0].events[0])

    @property
    def alphabet(self) -> tuple[Symbol, ...]:
        """Events the table knows at any depth, in the order of their enum."""
        return tuple(self.event_type)

    def lines(self) -> Iterator[tuple[Table, Row | Ignore]]:
        """Every line with the table it stands in, nested tables after the table that holds them."""
        for line in self.rows:
            yield self, line
        for table in self.nested.values():
            yield from table.lines()

    def enter(self, state: Symbol) -> Symbol:
        """The leaf a machine is in after going to `state`."""
        for holder, table in self.nested.items():
            if state is holder:
                return table.enter(table.initial)
            if state in table.all_states():
                return table.enter(state)
        return state

    @cached_property
    def compiled(self) -> Compiled:
        """The form to step on, built once."""
        cells: dict[tuple[Symbol, Symbol], Cell] = {}
        for state, event, line in _flat_lines(self):
            cells.setdefault((state, event), _cell(self, state, line))
        ordered = {
            (s, e): cells[s, e] for s in self.leaves() for e in self.alphabet if (s, e) in cells
        }
        return Compiled(self.name, self.enter(self.initial), self.terminal, ordered)

    @cached_property
    def columns(self) -> Columns:
        """The integer form, built once."""
        states, events = self.leaves(), self.alphabet
        position = {s: i for i, s in enumerate(states)}
        target = array("h", [-1]) * (len(states) * len(events))
        kind = array("b", [Kind.ILLEGAL.value]) * len(target)
        for (state, event), cell in self.compiled.items():
            at = position[state] * len(events) + events.index(event)
            target[at] = position[cell.target]
            kind[at] = (Kind.IGNORE if cell.ignored else Kind.ROW).value
        hops = _hops(self.compiled, position, events)
        edges = tuple((a, b, tuple(sorted(by))) for (a, b), by in sorted(hops.items()))
        return Columns(
            tuple(s.name for s in states), tuple(e.name for e in events), target, kind, edges
        )

    def kind(self, state: Symbol, event: Symbol) -> Kind:
        """Which of the three kinds of cell the pair is."""
        cell = self.compiled.get((state, event))
        if cell is None:
            return Kind.ILLEGAL
        return Kind.IGNORE if cell.ignored else Kind.ROW

    def counts(self) -> dict[str, int]:
        """Sizes: `states`, `events`, `effects`, `rows` and `ignores` as lines, and cells of each kind."""
        lines = [line for _, line in self.lines()]
        grid = len(self.leaves()) * len(self.alphabet)
        ignored = sum(cell.ignored for cell in self.compiled.values())
        return {
            "states": len(self.leaves()),
            "events": len(self.alphabet),
            "effects": len(tuple(self.effects or ())),
            "rows": sum(isinstance(line, Row) for line in lines),
            "ignores": sum(isinstance(line, Ignore) for line in lines),
            "row_cells": len(self.compiled) - ignored,
            "ignored_cells": ignored,
            "illegal_cells": grid - len(self.compiled),
        }


def _flat_lines(table: Table) -> Iterator[tuple[Symbol, Symbol, Row | Ignore]]:
    """(leaf, event, line) for every cell, the innermost table's lines first."""
    for nested in table.nested.values():
        yield from _flat_lines(nested)
    for line in table.rows:
        for state in line.states:
            held = table.nested.get(state)
            for leaf in held.leaves() if held else (state,):
                for event in line.events:
                    yield leaf, event, line


def _cell(table: Table, state: Symbol, line: Row | Ignore) -> Cell:
    if isinstance(line, Ignore):
        return Cell(state, (), (), (), line)
    enum = type(table.initial)
    steps = tuple(table.enter(s) if isinstance(s, enum) else s for s in line.steps)
    path = tuple(s for s in steps if isinstance(s, enum))
    effects = tuple(s for s in steps if not isinstance(s, enum))
    return Cell(path[-1] if path else state, effects, path, steps, line)


def _hops(
    cells: Mapping[tuple[Symbol, Symbol], Cell],
    position: Mapping[Symbol, int],
    events: Sequence[Symbol],
) -> dict[tuple[int, int], set[int]]:
    code = {e: i for i, e in enumerate(events)}
    hops: dict[tuple[int, int], set[int]] = {}
    for (state, event), cell in cells.items():
        at = state
        for entered in cell.path:
            hops.setdefault((position[at], position[entered]), set()).add(code[event])
            at = entered
    return hops


# What a table must not be. Each check yields one line per defect.


def _problems(table: Table) -> Iterator[str]:
    if not table.rows:
        yield "has no rows"
        return
    foreign = list(_foreign_members(table))
    yield from foreign
    if foreign:  # the other checks would only repeat it
        return
    for check in _CHECKS:
        yield from check(table)


def _foreign_members(table: Table) -> Iterator[str]:
    """Members of an enum this table does not use in that place, and lines without states or events."""
    state_type, event_type = type(table.initial), table.event_type
    for number, line in enumerate(table.rows, 1):
        where = f"line {number}"
        if not line.states or not line.events:
            yield f"{where} names no state or no event"
        for given, wanted, role in ((line.states, state_type, "state"), (line.events, event_type, "event")):
            for member in given:
                if not isinstance(member, wanted):
                    yield f"{where}: {member!r} is not a {role} of this table"
        for step in line.steps if isinstance(line, Row) else ():
            if not isinstance(step, (state_type, *((table.effects,) if table.effects else ()))):
                yield f"{where}: {step!r} is neither a state nor an effect of this table"
        if isinstance(line, Ignore) and not line.why.strip():
            yield f"{where}: an ignore needs a reason"


def _duplicate_cells(table: Table) -> Iterator[str]:
    seen: dict[tuple[Symbol, Symbol], int] = {}
    for number, line in enumerate(table.rows, 1):
        for pair in ((s, e) for s in line.states for e in line.events):
            if pair in seen:
                state, event = pair
                yield f"line {number}: {state.name} on {event.name} has a cell already in line {seen[pair]}"
            seen[pair] = number


def _foreign_exits(table: Table) -> Iterator[str]:
    """Nested rows must stay inside, or go to a declared exit that the holder's table has."""
    outside = {*table.states, *table.exits}
    for nested in table.nested.values():
        for state in nested.exits:
            if state not in outside:
                yield f"nested table {nested.name!r} exits to {state.name}, which is not a state here"
        if nested.event_type is not table.event_type:
            yield f"nested table {nested.name!r} uses another Event enum"
    inside = {s for nested in table.nested.values() for s in nested.all_states()}
    for state in sorted(inside & {s for line in table.rows for s in line.states}, key=_position):
        yield f"{state.name} belongs to a nested table; give its rows there"


def _ways_out_of_terminal(table: Table) -> Iterator[str]:
    for number, line in enumerate(table.rows, 1):
        if isinstance(line, Row):
            for state in line.states:
                entered = _entered(table, line)
                if state in table.terminal and any(s is not state for s in entered):
                    yield f"line {number}: leaves the terminal state {state.name}"
                if state in table.exits:
                    yield f"line {number}: {state.name} is an exit; its rows stand in the holder's table"


def _entered(table: Table, line: Row) -> tuple[Symbol, ...]:
    return tuple(s for s in line.steps if isinstance(s, type(table.initial)))


def _successors(table: Table) -> dict[Symbol, set[Symbol]]:
    """State -> states entered from it, at this depth; a nested table's exits count as its holder's."""
    after: dict[Symbol, set[Symbol]] = {s: set() for s in (*table.states, *table.exits)}
    for line in table.rows:
        if isinstance(line, Row):
            for state in line.states:
                after.setdefault(state, set()).update(_entered(table, line))
    for holder, nested in table.nested.items():
        after[holder].update(nested.exits)
    return after


def _unreachable(table: Table) -> Iterator[str]:
    after = _successors(table)
    holder_of = {s: h for h, nested in table.nested.items() for s in nested.all_states()}
    reached, frontier = {table.initial}, [table.initial]
    while frontier:
        for state in after.get(frontier.pop(), ()):
            state = holder_of.get(state, state)
            if state not in reached:
                reached.add(state)
                frontier.append(state)
    for state in (*table.states, *table.exits):
        if state not in reached:
            yield f"{state.name} cannot be reached from {table.initial.name}"


def _traps(table: Table) -> Iterator[str]:
    """A state that is not terminal and yet has no way out."""
    after = _successors(table)
    for state in table.states:
        if state not in table.terminal and not after[state] - {state}:
            yield f"{state.name} is not terminal, yet no row leaves it"


def _unused(table: Table) -> Iterator[str]:
    """Events and effects that no line uses; a nested table answers for its holder's enums only there."""
    lines = [line for _, line in table.lines()]
    events = {e for line in lines for e in line.events}
    effects = {s for line in lines if isinstance(line, Row) for s in line.steps}
    if not table.exits:
        for event in table.alphabet:
            if event not in events:
                yield f"event {event.name} is never used"
        for effect in table.effects or ():
            if effect not in effects:
                yield f"effect {effect.name} is never used"
        known = set(table.all_states())
        for state in type(table.initial):
            if state not in known:
                yield f"state {state.name} is never used"


def _position(member: Symbol) -> int:
    return member.code


_CHECKS: tuple[Callable[[Table], Iterator[str]], ...] = (
    _duplicate_cells,
    _foreign_exits,
    _ways_out_of_terminal,
    _unreachable,
    _traps,
    _unused,
)


