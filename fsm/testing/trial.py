"""A comparison of an implementation with a table, which defines the effect of each event.

An `Adapter` of a few lines connects the implementation. `follow` takes it through a case of a tour,
`fsm.testing.stateful` through random ones. The first difference raises `Mismatch`, which shows the shortest sequence of
events that still has one, the row of the table with its clause, what was expected and what was got.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import closing
from enum import Enum
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from fsm.errors import FsmError
from fsm.table import Ignore, Symbol, Table
from fsm.testing.tours import Case, ways_from


class Adapter(ABC):
    """Creates a fresh implementation, without arguments, and connects it.

    States and effects are given as members of the table's enums or as their names in any case. Where a table names a
    decision as the event (`ACK_SENT_TARGET_MOVED`), `send` first brings about what the implementation decides on.
    """

    refuses: ClassVar[tuple[type[BaseException], ...]] = ()
    """The exceptions of the implementation for an illegal event; if empty, illegal events are not sent."""
    injects: ClassVar[tuple[type[BaseException], ...]] = ()
    """The exceptions that `send_failing` makes effects raise; if empty, no effect is made to fail."""
    fallible: ClassVar[Container[Symbol] | None] = None
    """Effects that can be made to fail; None for every one."""
    observes: ClassVar[Container[Symbol] | None] = None
    """Effects that can be observed; None for all. The others are ignored on both sides."""

    @abstractmethod
    def send(self, event: Any) -> Iterable[Any] | None:
        """Makes the implementation handle the event; returns the effects in order, None if they cannot be observed."""

    def send_failing(self, event: Any) -> object:
        """Does the same while the first `fallible` effect raises one of `injects`."""
        raise NotImplementedError(f"{type(self).__name__}: injects something, so it needs send_failing()")

    def state(self) -> Any:
        """The state of the implementation; None if unknown."""
        return None

    def close(self) -> object:
        """Releases the implementation."""
        return None


class Action(NamedTuple):
    """An event sent; or sent while its first effect fails."""

    event: Symbol
    failing: bool = False


class Observed(NamedTuple):
    """The observed result of an action, by names; None for what cannot be observed."""

    state: str | None
    effects: tuple[str, ...] | None
    raised: BaseException | None = None


class Mismatch(FsmError, AssertionError):  # noqa: N818  # what was found, no fault of the tool
    """The implementation differs from the table.

    `actions` is the sequence that shows it, from a fresh implementation on; they differ after the last one.
    """

    after: int = 0
    """Where `follow` found it: with so many events of its case."""

    def __init__(self, table: Table, actions: tuple[Action, ...], expected: str, got: str) -> None:
        self.table = table
        self.actions = actions
        self.expected = expected
        self.got = got
        super().__init__(_story(table, actions, expected, got))

    def __reduce__(self) -> tuple[type[Mismatch], tuple[Table, tuple[Action, ...], str, str]]:
        return type(self), (self.table, self.actions, self.expected, self.got)


class Trial:
    """One fresh implementation compared with the table. Raises `Mismatch` at once if its initial state differs."""

    def __init__(self, table: Table, adapter: Callable[[], Adapter]) -> None:
        self.table = table
        self.state = table.compiled.initial
        self.actions: list[Action] = []
        self.adapter = adapter()
        self._open = True
        try:
            self._judge(Observed(self.state.name, None), Observed(self._state(), None))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the adapter, once."""
        if self._open:
            self._open = False
            self.adapter.close()

    def do(self, action: Action) -> None:
        """Sends the event and compares. Raises `Mismatch`; `FsmError` for what this adapter has no way to do."""
        cell = self.table.compiled.get((self.state, action.event))
        self.actions.append(action)
        if cell is None:
            self._check_refused(action)
        elif action.failing:
            self._fail(action)
        else:
            effects = tuple(effect.name for effect in self._list_visible(cell.effects))
            self._judge(Observed(cell.target.name, effects), self._observe(action.event))
            self.state = self.table.compiled[self.state, action.event].target

    def may(self, action: Action, state: Symbol | None = None) -> bool:
        """Whether the adapter can do this in the given or current state."""
        cell = self.table.compiled.get((state or self.state, action.event))
        if cell is None:
            return bool(self.adapter.refuses) and not action.failing
        can, fallible = self.adapter.injects, self.adapter.fallible
        return not action.failing or bool(can and any(fallible is None or e in fallible for e in cell.effects))

    def _check_refused(self, action: Action) -> None:
        kinds = self.adapter.refuses
        if not kinds:
            where = f"{self.table.name}: {action.event.name} is illegal in {self.state.name}"
            raise FsmError(f"{where}; say in {type(self.adapter).__name__}.refuses what is raised then")
        self._judge_raised(kinds, self._observe(action.event), "refused")

    def _fail(self, action: Action) -> None:
        raised: BaseException | None = None
        try:
            self.adapter.send_failing(action.event)
        except self.adapter.injects as failure:
            raised = failure
        self._judge_raised(self.adapter.injects, Observed(self._state(), None, raised), "the failure, and nothing else")

    def _judge_raised(self, kinds: tuple[type[BaseException], ...], got: Observed, what: str) -> None:
        if not isinstance(got.raised, kinds) or got.state not in (None, self.state.name):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise self._mismatch(f"{what}: {names} raised, state {self.state.name} as before", _describe(got))

    def _observe(self, event: Symbol) -> Observed:
        try:
            effects = self.adapter.send(event)
            seen = None if effects is None else self._names(effects)
        except Exception as raised:  # any exception is the implementation's result
            return Observed(self._state(), None, raised)
        return Observed(self._state(), seen)

    def _judge(self, expected: Observed, got: Observed) -> None:
        same_state = got.state is None or got.state == expected.state
        same_effects = got.effects is None or expected.effects is None or got.effects == expected.effects
        if got.raised is not None or not (same_state and same_effects):
            raise self._mismatch(_describe(expected), _describe(got)) from got.raised

    def _mismatch(self, expected: str, got: str) -> Mismatch:
        return Mismatch(self.table, tuple(self.actions), expected, got)

    def _state(self) -> str | None:
        state = self.adapter.state()
        return None if state is None else _name(state)

    def _list_visible(self, effects: Iterable[Symbol]) -> list[Symbol]:
        observed = self.adapter.observes
        return [effect for effect in effects if observed is None or effect in observed]

    def _names(self, effects: Iterable[Any]) -> tuple[str, ...]:
        if self.adapter.observes is None:
            return tuple(_name(effect) for effect in effects)
        visible = {effect.name for effect in self._list_visible(self.table.all_effects)}
        return tuple(name for name in map(_name, effects) if name in visible)


def follow(case: Case, adapter: Callable[[], Adapter], *, failures: bool = False) -> int:
    """Takes a fresh implementation through the case; returns the number of events sent.

    With `failures` each event is sent once with its first effect failing before it is sent as the case says.

    Raises `Mismatch` with the shortest sequence that can be found, from a fresh implementation each time.
    """
    sent = 0
    try:
        with closing(Trial(case.table, adapter)) as trial:
            for event in case.events:
                for action in (Action(event, failing=True), Action(event))[not failures :]:
                    if not action.failing or trial.may(action):
                        sent += 1
                        trial.do(action)
    except Mismatch as found:
        shortest = shorten(found, adapter)
        shortest.after = sent
        shortest.add_note(f"found by the case {case.id} with event {sent} of it")
        raise shortest from found.__cause__
    return sent


def shorten(found: Mismatch, adapter: Callable[[], Adapter], *, tries: int = 2_000) -> Mismatch:
    """The mismatch with the fewest events that can be found with so many fresh implementations.

    Tried are shortcuts, from one state of the sequence to a later one by the shortest way through the table, then the
    shortest way to any other cell. So a difference that shows whenever a cell is taken is shown in the fewest events
    there are; for one that depends on more of the history, no shortcut is left.
    """
    best, left = found, tries
    shorter: Mismatch | None = found if found.actions else None
    while shorter is not None:
        best, shorter = shorter, None
        for candidate in chain(_shortcuts(best), _other_cells(best)):
            left -= 1
            shorter = _attempt(best.table, candidate, adapter) if left >= 0 else None
            if shorter is not None or left < 0:
                break
    return best


def _shortcuts(found: Mismatch) -> Iterable[tuple[Action, ...]]:
    """Shorter sequences, those that save most first."""
    actions, states = found.actions, _states(found.table, found.actions)
    ways = {state: ways_from(found.table, state) for state in dict.fromkeys(states)}
    for gap in range(len(actions) - 1, 0, -1):
        for first in range(len(actions) - gap):
            way = ways[states[first]].get(states[first + gap])
            if way is not None and len(way) < gap:
                yield (*actions[:first], *(Action(move.event) for move in way), *actions[first + gap :])


def _other_cells(found: Mismatch) -> Iterable[tuple[Action, ...]]:
    """The shortest way to each pair of the same kind, as long as it is shorter than what was found."""
    cells, last = found.table.compiled, found.actions[-1]
    legal = (_states(found.table, found.actions)[-2], last.event) in cells
    for state, way in ways_from(found.table, cells.initial).items():
        if len(way) + 1 < len(found.actions):
            for event in found.table.alphabet:
                if ((state, event) in cells) is legal:
                    yield (*(Action(move.event) for move in way), Action(event, last.failing))


def _states(table: Table, actions: Sequence[Action]) -> list[Symbol]:
    """Where the table is before each action."""
    states = [table.compiled.initial]
    for event, failing in actions:
        cell = table.compiled.get((states[-1], event))
        states.append(states[-1] if cell is None or failing else cell.target)
    return states


def _attempt(table: Table, actions: Sequence[Action], adapter: Callable[[], Adapter]) -> Mismatch | None:
    try:
        with closing(Trial(table, adapter)) as trial:
            for action in actions:
                if not trial.may(action):
                    return None
                trial.do(action)
    except Mismatch as mismatch:
        return mismatch
    return None


def _name(member: Any) -> str:
    return member.name if isinstance(member, Enum) else str(member).upper()


def _describe(seen: Observed) -> str:
    if seen.raised is not None:
        where = "" if seen.state is None else f", state {seen.state}"
        return f"{type(seen.raised).__name__}: {seen.raised}{where}"
    parts = [] if seen.state is None else [f"state {seen.state}"]
    if seen.effects is not None:
        parts.append("effects " + (", ".join(seen.effects) or "none"))
    return "; ".join(parts) or "nothing that can be seen"


def _story(table: Table, actions: Sequence[Action], expected: str, got: str) -> str:
    if not actions:
        lines = [f"{table.name}: a fresh implementation is not where the table begins"]
    else:
        plural = "s" if len(actions) > 1 else ""
        lines = [f"{table.name}: the implementation differs after {len(actions)} event{plural}"]
        states = _states(table, actions)
        wide = max(len(state.name) for state in states)
        for number, (state, action) in enumerate(zip(states, actions, strict=False), 1):
            failing = " (its first effect fails)" if action.failing else ""
            lines.append(f"  {number:>3}  in {state.name:{wide}}  {action.event.name}{failing}")
        lines.append(f"  table     {_cite(table, states[len(actions) - 1], actions[-1].event)}")
    return "\n".join([*lines, f"  expected  {expected}", f"  got       {got}"])


def _cite(table: Table, state: Symbol, event: Symbol) -> str:
    cell = table.compiled.get((state, event))
    if cell is None:
        return f"{event.name} is illegal in {state.name}"
    clause = f" [{cell.source.clause}]" if cell.source.clause else ""
    if isinstance(cell.source, Ignore):
        return f"{event.name} is ignored in {state.name}: {cell.source.why}{clause}"
    steps = ", ".join(step.name for step in cell.steps) or "nothing to do"
    return f"{state.name} on {event.name}: {steps}{clause}"
