"""The kernel: a state machine as a finite map from (state, event) to a state and effects.

A row holds enum members only. There are no guards: the deciding code expresses its decision as the event, so a step is
one look-up and a diagram of the table is complete. Every (state, event) pair is one of three kinds of cell:

* a **row**: the event is handled; the machine enters states and orders effects, in the order written;
* an **ignore**: the event is expected and does nothing, for a documented reason;
* **illegal**: there is no cell, and a step raises `IllegalTransition`.

A state may hold a nested `Table`: the machine is then in a state of the nested table, whose own cells take precedence
over the holder's. Nested rows may go to states of the holder's table, which the nested table lists as its `exits`.

A table is checked when it is built; `TableError` lists every defect. This module is independent of Kafka, does no IO
and has only light imports.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, cast

from fsm.columns import Columns
from fsm.errors import IllegalTransition, TableError

if TYPE_CHECKING:  # defaults make `Table` without parameters a table of any three enums
    from typing_extensions import TypeVar


class Symbol(Enum):
    """Base of the State, Event and Effect enums of a table.

    The text of a member is its meaning, shown in diagrams. Its value is its position, `member.code`, which represents
    it in columns of integers. Members hash by identity, which makes look-ups by member fast.
    """

    meaning: str

    def __new__(cls, meaning: str) -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls)
        member.meaning = meaning
        return member

    @property
    def code(self) -> int:
        """Position of the member in its enum, from 0."""
        return int(self._value_)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


if TYPE_CHECKING:
    S = TypeVar("S", bound=Symbol, default=Any)
    E = TypeVar("E", bound=Symbol, default=Any)
    F = TypeVar("F", bound=Symbol, default=Any)
    G = TypeVar("G", bound=Symbol)
    S_co = TypeVar("S_co", bound=Symbol, default=Any, covariant=True)
    E_co = TypeVar("E_co", bound=Symbol, default=Any, covariant=True)
    F_co = TypeVar("F_co", bound=Symbol, default=Any, covariant=True)
else:
    from typing import TypeVar

    S, E, F, G = (TypeVar(name) for name in "SEFG")
    S_co, E_co, F_co = (TypeVar(name, covariant=True) for name in ("S_co", "E_co", "F_co"))


class Kind(Enum):
    """The three kinds of cell, as coded in `Columns.kind`."""

    ILLEGAL = 0
    IGNORE = 1
    ROW = 2


@dataclass(frozen=True, slots=True)
class Row(Generic[S_co, E_co, F_co]):
    """One line of a table: in any of `states`, on any of `events`, perform `steps` in order.

    `steps` mixes states, which the machine enters before the following steps, and effects, which the code around the
    table carries out. Without a state in `steps` the machine keeps its state.
    """

    states: tuple[S_co, ...]
    events: tuple[E_co, ...]
    steps: tuple[S_co | F_co, ...]
    clause: str = ""
    """Source of the row: a number of the table's own, a KIP section, a Kafka class at a commit."""
    note: str = ""
    """A remark beside the clause."""

    @property
    def path(self) -> tuple[S_co, ...]:
        """States entered, in order."""
        enum = type(self.states[0])
        return tuple([step for step in self.steps if isinstance(step, enum)])

    @property
    def target(self) -> S_co | None:
        """The last state entered; None if the machine keeps its state."""
        path = self.path
        return path[-1] if path else None

    @property
    def effects(self) -> tuple[F_co, ...]:
        """Effects ordered, in order."""
        enum = type(self.states[0])
        return cast("tuple[F_co, ...]", tuple([step for step in self.steps if not isinstance(step, enum)]))

    def __str__(self) -> str:
        """The row on one line: states, events, target, and the steps if they contain more than the target.

        >>> class State(Symbol):
        ...     OUT, IN = "Outside.", "Inside."
        >>> class Event(Symbol):
        ...     JOINED = "Let in."
        >>> print(row(State.OUT, Event.JOINED, State.IN))
        OUT on JOINED -> IN
        """
        names = [" or ".join(member.name for member in members) for members in (self.states, self.events)]
        target = "stays" if self.target is None else self.target.name
        steps = f": {', '.join(step.name for step in self.steps)}" if self.effects or len(self.path) > 1 else ""
        return f"{names[0]} on {names[1]} -> {target}{steps}"


@dataclass(frozen=True, slots=True)
class Ignore(Generic[S_co, E_co]):
    """Any of `events` in any of `states` is expected and does nothing, because of `why`."""

    states: tuple[S_co, ...]
    events: tuple[E_co, ...]
    why: str
    clause: str = ""


class Cell(NamedTuple, Generic[S_co, F_co]):
    """The result of one event in one state."""

    target: S_co
    """The next state; the same one if the row enters none or the event is ignored."""
    effects: tuple[F_co, ...]
    """Effects, in order."""
    path: tuple[S_co, ...]
    """States entered, in order; `target` is the last one. Empty if none is entered."""
    steps: tuple[S_co | F_co, ...]
    """States and effects interleaved, as in the row."""
    source: Row[S_co, Any, F_co] | Ignore[S_co, Any]
    """The line of the table."""

    @property
    def ignored(self) -> bool:
        """Whether the event is deliberately ignored."""
        return isinstance(self.source, Ignore)


def _members(given: S | Iterable[S]) -> tuple[S, ...]:
    return (given,) if isinstance(given, Symbol) else tuple(given)


def row(
    states: S | Iterable[S],
    events: E | Iterable[E],
    *steps: G | S,
    clause: str = "",
    note: str = "",
) -> Row[S, E, G]:
    """A `Row` for one state or several, one event or several, and states and effects in order."""
    return Row(_members(states), _members(events), steps, clause, note)


def each(
    states: Iterable[S],
    events: E | Iterable[E],
    *steps: Symbol,
    clause: str = "",
    note: str = "",
) -> Iterator[Row[S, E, Any]]:
    """The same row as one `Row` per state."""
    for state in states:
        yield row(state, events, *steps, clause=clause, note=note)


def ignore(states: S | Iterable[S], events: E | Iterable[E], *, why: str, clause: str = "") -> Ignore[S, E]:
    """An `Ignore`: a deliberate no-op, with its reason."""
    return Ignore(_members(states), _members(events), why, clause)


class Compiled(dict[tuple[S, E], Cell[S, F]], Generic[S, E, F]):
    """A table compiled for stepping: `compiled[state, event]` is the `Cell`.

    It is a plain dict look-up that raises `IllegalTransition` for a missing cell. Nested tables are flattened: the
    states are leaf states. Treat it as read-only.

    `by_state[state][event]` is the same cell at about half the cost, because no pair is created and hashed. It raises
    the same error.
    """

    __slots__ = ("by_state", "initial", "name", "terminal")

    def __init__(
        self,
        name: str,
        initial: S,
        terminal: tuple[S, ...],
        cells: Mapping[tuple[S, E], Cell[S, F]],
    ) -> None:
        super().__init__(cells)
        self.name = name
        self.initial = initial
        self.terminal = terminal
        self.by_state: Mapping[S, Mapping[E, Cell[S, F]]] = _by_state(self)

    def __missing__(self, key: tuple[S, E]) -> Cell[S, F]:
        state, event = key
        raise IllegalTransition(self.name, state, event, tuple(self.by_state.get(state, ())))


class StateCells(dict[E, Cell[S, F]], Generic[S, E, F]):
    """The cells of one state by event: `compiled.by_state[state]`."""

    __slots__ = ("state", "table")

    def __init__(self, table: Compiled[S, E, F], state: S) -> None:
        super().__init__()
        self.table = table
        self.state = state

    def __missing__(self, event: E) -> Cell[S, F]:
        raise IllegalTransition(self.table.name, self.state, event, tuple(self))


@contextmanager
def watch_cells(note: Callable[[Compiled[Any, Any, Any], Symbol, Symbol], None]) -> Iterator[None]:
    """Calls `note` with the table, the state and the event of each cell that is looked up, in every compiled table.

    Other accesses (`get`, `items`) do not count. A step costs nothing while nobody watches: watching replaces the dict
    look-up by a Python method until the `with` ends.
    """
    before = Compiled.__getitem__, StateCells.__getitem__

    def cell_of_pair(cells: Compiled[Any, Any, Any], pair: tuple[Symbol, Symbol]) -> Cell[Any, Any]:
        cell = before[0](cells, pair)
        note(cells, *pair)
        return cell

    def cell_of_event(cells: StateCells[Any, Any, Any], event: Symbol) -> Cell[Any, Any]:
        cell = before[1](cells, event)
        note(cells.table, cells.state, event)
        return cell

    was_watched = "__getitem__" in vars(Compiled)
    Compiled.__getitem__, StateCells.__getitem__ = cell_of_pair, cell_of_event  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if was_watched:
            Compiled.__getitem__, StateCells.__getitem__ = before  # type: ignore[method-assign]
        else:
            del Compiled.__getitem__, StateCells.__getitem__


def _by_state(table: Compiled[S, E, F]) -> dict[S, StateCells[S, E, F]]:
    found: dict[S, StateCells[S, E, F]] = {}
    for (state, event), cell in table.items():
        found.setdefault(state, StateCells(table, state))[event] = cell
    for cell in table.values():  # a state without cells has an entry, too: every event is illegal there
        found.setdefault(cell.target, StateCells(table, cell.target))
    return found


@dataclass(frozen=True, eq=False)
class Table(Generic[S, E, F]):
    """A state machine: its states and events, initial and terminal states, and its lines.

    `rows` takes rows and ignores in any order (lists from `each` may be unpacked into it). `terminal` states are never
    left. `exits` are states of the holder's table that a nested table may go to. `doc` has the sources, and errors and
    omissions in them.

    A table with `exits` or marked `part` is meant to be nested: reachability, ways out and unused members are checked
    when the outermost table is built.

    Raises `TableError` listing every defect: a line that names a foreign member, two cells for one pair, a way out of a
    terminal state, a state that is unreachable or cannot be left, an effect or event never used.
    """

    name: str
    initial: S
    rows: tuple[Row[S, E, F] | Ignore[S, E], ...]
    terminal: tuple[S, ...] = ()
    nested: Mapping[S, Table[S, E, F]] = field(default_factory=dict)
    exits: tuple[S, ...] = ()
    part: bool = False
    """True for a table that exists only inside another one and is left only by its holder's rows."""
    effects: type[F] | None = None
    """The Effect enum; None for a table without effects."""
    events: type[E] | None = None
    """The Event enum; taken from the rows if None."""
    title: str = ""
    source: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        for name in ("terminal", "exits"):
            object.__setattr__(self, name, _members(getattr(self, name)))
        problems = tuple(_problems(self))
        if problems:
            raise TableError(self.name, problems)

    @cached_property
    def states(self) -> tuple[S, ...]:
        """States of this table in enum order, without those of nested tables and without exits."""
        outside = set(self.exits)
        for table in self.nested.values():
            outside.update(table.all_states())
        mine = self._list_states() - outside
        return tuple(s for s in type(self.initial) if s in mine)

    def _list_states(self) -> set[S]:
        enum = type(self.initial)
        named = {self.initial, *self.terminal, *self.nested}
        for line in self.rows:
            named.update(line.states)
            if isinstance(line, Row):
                named.update(s for s in line.steps if isinstance(s, enum))
        return named

    def all_states(self) -> tuple[S, ...]:
        """Every state at every depth, holders before their nested states."""
        found: list[S] = []
        for state in self.states:
            found.append(state)
            if state in self.nested:
                found.extend(self.nested[state].all_states())
        return tuple(found)

    def leaves(self) -> tuple[S, ...]:
        """States a machine can be in: holders are replaced by their nested states."""
        return _leaves(self, self.states)

    @property
    def event_type(self) -> type[E]:
        """The Event enum."""
        return self.events or next(type(e) for line in self.rows for e in line.events)

    @property
    def alphabet(self) -> tuple[E, ...]:
        """All events, in enum order."""
        return tuple(self.event_type)

    @property
    def all_effects(self) -> tuple[F, ...]:
        """All effects, in enum order; empty for a table without effects."""
        return () if self.effects is None else tuple(cast("Iterable[F]", self.effects))

    def lines(self) -> Iterator[tuple[Table[S, E, F], Row[S, E, F] | Ignore[S, E]]]:
        """(table, line) of every line, nested tables after their holder."""
        for line in self.rows:
            yield self, line
        for table in self.nested.values():
            yield from table.lines()

    def enter(self, state: S) -> S:
        """The leaf state of a machine that enters `state`."""
        for holder, table in self.nested.items():
            if state is holder:
                return table.enter(table.initial)
            if state in table.all_states():
                return table.enter(state)
        return state

    @cached_property
    def compiled(self) -> Compiled[S, E, F]:
        """The table compiled for stepping, built once."""
        cells: dict[tuple[S, E], Cell[S, F]] = {}
        for states, line in _flat_lines(self):
            for state, cell in _cells(self, states, line):
                for event in line.events:
                    cells.setdefault((state, event), cell)
        alphabet = self.alphabet
        ordered = {pair: cells[pair] for s in self.leaves() for e in alphabet if (pair := (s, e)) in cells}
        final = {s for part in _parts(self) for s in part.terminal}
        terminal = tuple(s for s in self.leaves() if s in final)
        return Compiled(self.name, self.enter(self.initial), terminal, ordered)

    @cached_property
    def columns(self) -> Columns:
        """The table as integer columns, built once."""
        states, events = (*self.leaves(), *self.exits), self.alphabet
        position = {s: i for i, s in enumerate(states)}
        target = array("h", [-1]) * (len(states) * len(events))
        kind = array("b", [Kind.ILLEGAL.value]) * len(target)
        ordered = array("h", [0]) * len(target)
        orders: dict[tuple[F, ...], int] = {(): 0}
        for (state, event), cell in self.compiled.items():
            at = position[state] * len(events) + events.index(event)
            target[at] = position[cell.target]
            kind[at] = (Kind.IGNORE if cell.ignored else Kind.ROW).value
            ordered[at] = orders.setdefault(cell.effects, len(orders))
        hops = _hops(self.compiled, position, events)
        return Columns(
            tuple(s.name for s in states),
            tuple(e.name for e in events),
            target,
            kind,
            tuple((a, b, tuple(sorted(by))) for (a, b), by in sorted(hops.items())),
            self.name,
            position[self.compiled.initial],
            tuple(tuple(effect.name for effect in effects) for effects in orders),
            ordered,
        )

    def kind(self, state: S, event: E) -> Kind:
        """The kind of the pair's cell."""
        cell = self.compiled.get((state, event))
        return Kind.ILLEGAL if cell is None else Kind.IGNORE if cell.ignored else Kind.ROW

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


def _flat_lines(table: Table[S, E, F]) -> Iterator[tuple[tuple[S, ...], Row[S, E, F] | Ignore[S, E]]]:
    """(leaf states, line) of every line, the innermost table's lines first."""
    for nested in table.nested.values():
        yield from _flat_lines(nested)
    for line in table.rows:
        yield _leaves(table, line.states) if table.nested else line.states, line


def _leaves(table: Table[S, E, F], states: Iterable[S]) -> tuple[S, ...]:
    return tuple(s for state in states for s in (table.nested[state].leaves() if state in table.nested else (state,)))


def _cells(
    table: Table[S, E, F], states: tuple[S, ...], line: Row[S, E, F] | Ignore[S, E]
) -> Iterator[tuple[S, Cell[S, F]]]:
    """(state, cell) for each of the states."""
    if isinstance(line, Ignore):
        yield from ((state, Cell(state, (), (), (), line)) for state in states)
        return
    enum = type(table.initial)
    steps = tuple([table.enter(s) if isinstance(s, enum) else s for s in line.steps])
    path, effects = tuple(map(table.enter, line.path)), line.effects
    for state in states:
        yield state, Cell(path[-1] if path else state, effects, path, steps, line)


def _hops(
    cells: Compiled[S, E, F],
    position: Mapping[S, int],
    events: Sequence[E],
) -> dict[tuple[int, int], set[int]]:
    hops: dict[tuple[int, int], set[int]] = {}
    for (state, event), cell in cells.items():
        for at, entered in pairwise((state, *cell.path)):
            hops.setdefault((position[at], position[entered]), set()).add(events.index(event))
    return hops


# Checks of a table. Each yields one line per defect.


def _problems(table: Table) -> Iterator[str]:
    foreign = list(_foreign_members(table))
    yield from foreign
    if foreign:  # the other checks would report the same defects again
        return
    found = False
    for check in _CHECKS:
        for problem in check(table):
            found = True
            yield problem
    if not found and not (table.exits or table.part):
        for check in _CHECKS_OF_A_WHOLE:
            yield from check(table)


def _foreign_members(table: Table) -> Iterator[str]:
    """Members of a wrong enum, and lines without states or events."""
    if not any(line.events for line in table.rows):
        yield "has no rows that name an event"
        return
    state_type, event_type = type(table.initial), table.event_type
    for role in ("terminal", "exits", "nested"):
        for member in getattr(table, role):
            if not isinstance(member, state_type):
                yield f"{role}: {member!r} is no state of this table"
    for number, line in enumerate(table.rows, 1):
        where = f"line {number}"
        if not line.states or not line.events:
            yield f"{where} names no state or no event"
        for given, wanted, role in ((line.states, state_type, "state"), (line.events, event_type, "event")):
            for member in given:
                if not isinstance(member, wanted):
                    yield f"{where}: {member!r} is no {role} of this table"
        yield from _foreign_steps(table, line, where)


def _foreign_steps(table: Table, line: Row | Ignore, where: str) -> Iterator[str]:
    if isinstance(line, Ignore):
        if not line.why.strip():
            yield f"{where}: an ignore needs a reason"
        return
    known = (type(table.initial), *((table.effects,) if table.effects else ()))
    for step in line.steps:
        if not isinstance(step, known):
            yield f"{where}: {step!r} is neither a state nor an effect of this table"


def _duplicate_cells(table: Table) -> Iterator[str]:
    seen: dict[tuple[Symbol, Symbol], int] = {}
    for number, line in enumerate(table.rows, 1):
        for pair in ((s, e) for s in line.states for e in line.events):
            if pair in seen:
                state, event = pair
                yield f"line {number}: {state.name} on {event.name} has a cell already in line {seen[pair]}"
            seen[pair] = number


def _misfits(table: Table) -> Iterator[str]:
    """Defects of nesting: other enums than the holder's, exits to foreign states, states in two nested tables."""
    outside = {*table.states, *table.exits}
    for nested in table.nested.values():
        for state in nested.exits:
            if state not in outside:
                yield f"nested table {nested.name!r} exits to {state!r}, which is not a state here"
        for role, theirs, ours in (
            ("State", type(nested.initial), type(table.initial)),
            ("Event", nested.event_type, table.event_type),
            ("Effect", nested.effects or table.effects, table.effects),
        ):
            if theirs is not ours:
                yield f"nested table {nested.name!r} uses another {role} enum"
    inside = [s for nested in table.nested.values() for s in nested.all_states()]
    for state in sorted({s for s in inside if inside.count(s) > 1}, key=lambda s: s.code):
        yield f"{state.name} belongs to more than one nested table"
    for state in sorted(set(inside) & {s for line in table.rows for s in line.states}, key=lambda s: s.code):
        yield f"{state.name} belongs to a nested table; give its rows there"
    for state in table.terminal:
        if state in table.nested:
            yield f"{state.name} is terminal and cannot hold a nested table"
    if table.initial in inside or table.initial in table.exits:
        yield f"initial: {table.initial.name} is no state of this table itself"


def _ways_out_of_terminal(table: Table) -> Iterator[str]:
    for number, line in enumerate(table.rows, 1):
        for state in line.states:
            if state in table.exits:
                yield f"line {number}: {state.name} is an exit; its rows stand in the holder's table"
            for before, after in _hops_of(state, line):
                if before in table.terminal and after is not before:
                    yield f"line {number}: leaves the terminal state {before.name}"


def _hops_of(state: Symbol, line: Row | Ignore) -> Iterable[tuple[Symbol, Symbol]]:
    return pairwise((state, *line.path)) if isinstance(line, Row) else ()


def _unreachable(table: Table) -> Iterator[str]:
    cells, initial = table.compiled, table.compiled.initial
    entered, rested, frontier = {initial}, {initial}, [initial]
    while frontier:
        for cell in cells.by_state.get(frontier.pop(), {}).values():
            entered.update(cell.path)
            if cell.target not in rested:
                rested.add(cell.target)
                frontier.append(cell.target)
    for state in table.leaves():
        if state not in entered:
            yield f"{state.name} cannot be reached from {table.initial.name}"


def _traps(table: Table) -> Iterator[str]:
    """Non-terminal states without a way out, and terminal states that a holder's row leaves."""
    resting = {table.compiled.initial, *(cell.target for cell in table.compiled.values())}
    left = {state for (state, _), cell in table.compiled.items() if cell.target is not state}
    final = set(table.compiled.terminal)
    for state in table.leaves():
        if state in resting - left - final:
            yield f"{state.name} is not terminal, yet no row leaves it"
        if state in final & left:
            yield f"{state.name} is terminal, yet a row of the table that holds it leaves it"


def _parts(table: Table) -> Iterator[Table]:
    yield table
    for nested in table.nested.values():
        yield from _parts(nested)


def _find_unused(table: Table) -> Iterator[str]:
    """Members of the three enums that no line uses, at any depth."""
    lines = [line for _, line in table.lines()]
    events = {e for line in lines for e in line.events}
    effects = {s for line in lines if isinstance(line, Row) for s in line.steps}
    states = set(table.all_states())
    for role, enum, used in (
        ("event", table.event_type, events),
        ("effect", table.effects or (), effects),
        ("state", type(table.initial), states),
    ):
        for member in enum:
            if member not in used:
                yield f"{role} {member.name} is never used"


_CHECKS: tuple[Callable[[Table], Iterator[str]], ...] = (_duplicate_cells, _misfits, _ways_out_of_terminal)
_CHECKS_OF_A_WHOLE: tuple[Callable[[Table], Iterator[str]], ...] = (_unreachable, _traps, _find_unused)
