"""`bind`: a real `transitions` machine for any table, under a model of yours.

The machine is one of that library's own: `Machine`, `HierarchicalMachine` for a table that nests others, and the locked
and asynchronous kinds of both. Its usual interface works: `model.subscribed()`, `model.may_subscribed()`,
`model.trigger("subscribed")`, `on_enter_STABLE` methods (they get its `EventData`), `machine.get_triggers(state)`. The
table is the only way between states, so there are no automatic `to_STATE` triggers and no `model.to`.

All kinds add:

* **One meaning.** States and effects are those of `table.compiled`, cell by cell. An ignored event is accepted and does
  nothing; an event without a cell raises `IllegalTransition`. Both leave the state as it is. The error is a
  `transitions.MachineError` as well, for code that catches the library's own.
* **Order.** The steps of a row happen as written. A row that goes through states really does: an effect written between
  two states finds the model in the first of them, and `on_enter` methods of every state on the way run.
* **A failed step changes nothing.** If an effect raises, or is cancelled, the model's state is what it was before the
  event, and the error reaches the caller. Effects that ran before it have happened and cannot be undone, and `on_exit`
  and `on_enter` methods do not run for the way back.
* **One event at a time.** An effect must not send its model the next event; it is refused with `FsmError`, because the
  step it belongs to is not over. Send the event after the step. `EventQueue` does that for effects that raise further
  events.
* **A record** for each transition, through structlog if it is configured or a logger is given, in the format of
  `fsm.trace`.

The library's own queue (`queued=True`) is not used. If two threads meet, each may find the other's event in the queue
and leave it to the other: neither runs it, and every later event is queued behind it and reported as done. An exception
also empties that queue. `locked=True` is exact instead: one thread's event waits for the other's.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from difflib import get_close_matches
from functools import partial
from inspect import getmembers_static, iscoroutine, iscoroutinefunction, isfunction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic

from transitions import EventData, Machine, MachineError
from transitions.extensions import HierarchicalMachine, LockedHierarchicalMachine, LockedMachine
from transitions.extensions.asyncio import AsyncMachine, HierarchicalAsyncMachine, NestedAsyncState
from transitions.extensions.nesting import NestedState

from fsm.errors import FsmError, IllegalTransition
from fsm.table import Cell, E, F, Ignore, Row, S, Symbol, Table
from fsm.trace import Kind

if TYPE_CHECKING:
    from fsm.render import Graph

SEPARATOR = "."
"""Separates a state from its enclosing state in the library's names of states."""
_TAKEN = frozenset({"state", "trigger", "may_trigger"})


class IllegalTrigger(IllegalTransition, MachineError):  # noqa: N818  # named as its base
    """The table has no cell for the event: the `IllegalTransition` of a bound machine."""

    __str__ = IllegalTransition.__str__  # the library's shows the text as a literal


def bind(
    table: Table[S, E, F],
    model: object,
    *,
    initial: S | None = None,
    locked: bool = False,
    asynchronous: bool = False,
    logger: Any = None,
    group: str = "",
    member: str = "",
    now_ms: Callable[[], int] | None = None,
) -> TableMachine[E]:
    """A machine of `transitions` that runs `table` under `model`, which gets `state` and a method for each event.

    The model obeys an effect with the method of its lower-case name, or else with `on_effect(effect)`; arguments of
    the event are passed on. With `asynchronous` events are awaited and effects may be coroutine functions; two
    tasks wait for each other. With `locked` two threads do.

    Type checkers know these methods of a model that inherits from its base in `fsm.tables.models`.

    `logger` is a structlog logger (default: `structlog.get_logger()` where structlog is configured at this moment, else
    nothing is written); records are written at level info. Their `ts_ms` is what `now_ms()` answers; without it the
    record carries none, and it is for structlog's `TimeStamper` to stamp it. `group` and `member` are the record's
    `group` and `member_id`.

    One machine may run many models: `machine.add_model(other, member=...)` costs a small part of another `bind`.
    `machine.get_graph()` draws the table as `fsm.render.get_graph` does, with the model's state lit, and so does
    `model.get_graph()`, unless the model has such a method of its own; a notebook shows the machine by itself.

    Raises `FsmError` if the model does not obey an effect, if a name it has already is that of an event, if it takes no
    attributes (slots, a frozen dataclass), and for an initial state that the table does not have. Warns of a method
    that is nearly named like an effect: `on_effect` would get the effect, and the method would never be called.
    """
    if locked and asynchronous:
        raise FsmError("a machine is either locked, for threads, or asynchronous, for tasks")
    machine: TableMachine[E] = _KINDS[bool(table.nested), locked, asynchronous](table, logger, group, now_ms)
    machine.add_model(model, initial, member=member)
    return machine


class TableMachine(Machine, Generic[E]):
    """The plain kind, and the base of all kinds. Made by `bind`."""

    def __init__(self, table: Table, logger: Any, group: str, now_ms: Callable[[], int] | None) -> None:
        self._table = table
        self._steps = _Steps(table, _record_logger(logger, table.name, group), now_ms)
        super().__init__(
            model=None,
            states=_states(table),
            initial=table.initial.name,
            auto_transitions=False,
            send_event=True,
            prepare_event=self._steps.begin,
            on_exception=self._steps.undo,
            finalize_event=self._steps.end,
            name=table.name,
        )
        for _, line in table.lines():
            for state in line.states:
                for event in line.events:
                    self._add_line(_path(table, state), event.name.lower(), line)

    def add_model(self, model: Any, initial: Any = None, member: str = "") -> None:
        """Runs the table under one more model. Raises as `bind` does."""
        self._refuse(model)
        start = self._table.enter(initial or self._table.initial)
        if start not in self._table.leaves():
            raise FsmError(f"{self._table.name}: {start!r} is not a state of this table")
        had_to = hasattr(model, "to")
        try:
            super().add_model(model)
        except (AttributeError, TypeError):  # slots, frozen; TypeError of a dataclass with both
            where = f"{self._table.name}: {type(model).__name__}"
            raise FsmError(f"{where} takes no attributes; bind a class without slots that is not frozen") from None
        for name in ("trigger", "may_trigger"):
            setattr(model, name, partial(_with_name, getattr(model, name)))
        self.set_state(start, model)  # the library cannot add a model in a nested state
        if not had_to and hasattr(model, "to"):
            del model.to
        if not hasattr(model, "get_graph"):
            model.get_graph = partial(self.get_graph, model)
        self._steps.add(model, member)

    def remove_model(self, model: Any) -> None:
        """Removes the model, which keeps its state and its methods."""
        super().remove_model(model)
        self._steps.loggers.pop(id(model), None)

    def dispatch(self, trigger: E | str, *args: Any, **kwargs: Any) -> Any:
        """Sends the event, a member of the table's Event enum or its lower-case name, to every model."""
        return super().dispatch(_trigger_name(trigger), *args, **kwargs)

    def get_graph(self, model: Any = None, **options: Any) -> Graph:
        """The drawing of the table, with the state that the model is in; without a model, of the only one there is.

        `options` are those of `fsm.render.get_graph`, which raises `InputError`.
        """
        from fsm.render import get_graph  # noqa: PLC0415  # a machine that nobody draws loads no drawing

        shown = self.models[0] if model is None and len(self.models) == 1 else model
        return get_graph(self._table, **{"lit": "" if shown is None else _state_of(shown), **options})

    def _repr_svg_(self) -> str | None:
        return self.get_graph()._repr_svg_()

    def _repr_markdown_(self) -> str | None:
        return self.get_graph()._repr_markdown_()

    def _refuse(self, model: Any) -> None:
        """Raises for a model that would silently be bound wrongly."""
        where, events = f"{self._table.name}: {type(model).__name__}", self._steps.events
        taken = [name for name in events if hasattr(model, name)]
        if taken:
            raise FsmError(f"{where} has attributes with the names of events already: {', '.join(taken)}")
        if model in self.models:
            raise FsmError(f"{where} is bound already, or compares equal to a model that is")
        names = [effect.name.lower() for effect in _list_effects(self._table)]
        obeyed = {name: None if name in events else getattr(model, name, None) for name in names}
        deaf = [name for name, method in obeyed.items() if method is None]
        if deaf and not hasattr(model, "on_effect"):
            raise FsmError(f"{where} obeys no {', '.join(deaf)}; give it these methods, or on_effect(effect)")
        for method, _ in getmembers_static(type(model), isfunction):
            near = [] if method in obeyed or method in events else get_close_matches(method, deaf, n=1, cutoff=0.85)
            if near:
                text = f"{where}.{method} obeys nothing; was {near[0]} meant? on_effect gets that effect"
                warnings.warn(text, stacklevel=4)
        waiting = [name for name, method in obeyed.items() if iscoroutinefunction(method or model.on_effect)]
        if waiting and not isinstance(self, AsyncMachine):
            raise FsmError(f"{where}: coroutines need asynchronous=True: {', '.join(waiting)}")

    def _add_line(self, source: str, trigger: str, line: Row | Ignore) -> None:
        """Adds one transition of the library. Its `after` does the steps beyond the first state that it enters."""
        if isinstance(line, Ignore):
            self.add_transition(trigger, source, None)
            return
        (_, before), *entered = _segments(self._table, line)
        if not entered:
            self.add_transition(trigger, source, None, before=self._orders(before))
            return
        after: list[Any] = []
        for (here, _), (there, effects) in reversed(list(pairwise(entered))):
            hop = self.transition_cls(here, there, after=[*self._orders(effects), *after])
            after = [hop.execute]
        target, effects = entered[0]
        after = [*self._orders(effects), *after]
        self.add_transition(trigger, source, target, before=self._orders(before), after=after)

    def _orders(self, effects: list[Symbol]) -> list[Any]:
        return [_order(effect, effect.name.lower() not in self._steps.events) for effect in effects]


def _order(effect: Symbol, may_be_method: bool) -> Callable[[EventData], Any]:
    """The callback that has the model obey. A method with the name of an event sends that event and obeys nothing."""
    name = effect.name.lower()

    def order(event: EventData) -> Any:
        model: Any = event.model
        method = getattr(model, name, None) if may_be_method else None
        if method is None:
            return model.on_effect(effect, *event.args, **event.kwargs)
        return method(*event.args, **event.kwargs)

    return order


class _Steps:
    """The running steps, at most one per model: the library calls these hooks around every event.

    It is no part of the machine because a locked machine checks its lock whenever an attribute of its own is read.
    """

    def __init__(self, table: Table, logger: Any, now_ms: Callable[[], int] | None) -> None:
        self.events = _triggers(table)
        self.loggers: dict[int, Any] = {}
        self._name = table.name
        self._cells = table.compiled
        self._logger = logger
        self._now_ms = now_ms
        self._began: dict[int, tuple[EventData, Symbol]] = {}

    def add(self, model: object, member: str) -> None:
        self.loggers[id(model)] = self._logger.bind(member_id=member) if member and self._logger else self._logger

    def begin(self, event: EventData) -> None:
        """Notes the state; the hierarchical kinds begin once for each level. Raises inside another step."""
        step = self._began.setdefault(id(event.model), (event, _state_of(event.model)))
        if step[0] is not event:
            self.refuse(event.model, event.event.name)

    def undo(self, event: EventData) -> None:
        """Restores the previous state and raises the error of a step; or raises that there was no step."""
        step = self._began.get(id(event.model))
        if step is not None and step[0] is event:
            event.machine.set_state(step[1], event.model)
        elif isinstance(event.error, MachineError):
            self._refuse_illegal(event)
        raise event.error or FsmError(f"{self._name}: the step failed")

    def end(self, event: EventData) -> None:
        """Ends a step, and writes the record of a successful one."""
        step = self._began.get(id(event.model))
        if step is not None and step[0] is event:
            del self._began[id(event.model)]
            if event.error is None:
                name = self.events[event.event.name]
                self._record(event.model, step[1], name, self._cells[step[1], name])

    def refuse(self, model: object, name: str) -> None:
        """Raises for an event inside the step of another one."""
        raise FsmError(
            f"{self._name}: {name} arrived while {self._began[id(model)][0].event.name} is under way; an effect returns"
            " first and what follows from it is sent after the step (from another thread: bind with locked=True)"
        )

    def _refuse_illegal(self, event: EventData) -> None:
        try:
            self._cells[_state_of(event.model), self.events[event.event.name]]
        except IllegalTransition as illegal:
            raise IllegalTrigger(illegal.machine, illegal.state, illegal.event, illegal.legal) from None

    def _record(self, model: object, state: Symbol, event: Symbol, cell: Cell) -> None:
        logger = self.loggers[id(model)]
        if logger is None or cell.ignored or not _wants_info(logger):
            return
        entry: dict[str, Any] = {"state": state.name, "next_state": cell.target.name}
        if cell.effects:
            entry["effects"] = [effect.name for effect in cell.effects]
        if self._now_ms is not None:
            entry["ts_ms"] = self._now_ms()
        logger.info(event.name, **entry)


# The library's stubs do not agree with each other about the classes below, nor its variants about `add_model`.


class LockedTableMachine(TableMachine, LockedMachine):  # type: ignore[misc]
    """For models that several threads send events to: one event at a time over all models of the machine."""


class _State(NestedState):
    separator = SEPARATOR


class HierarchicalTableMachine(TableMachine, HierarchicalMachine):
    """For tables that nest others."""

    state_cls = _State


class LockedHierarchicalTableMachine(TableMachine, LockedHierarchicalMachine):  # type: ignore[misc]
    """A machine that is locked, with nested states."""

    state_cls = _State


class AsyncTableMachine(TableMachine, AsyncMachine):
    """For asyncio: `await model.subscribed()`. Effects may be coroutine functions and run one after the other.

    Two tasks that send events to one model wait for each other, so no transition runs inside another; the library
    would cancel the first. A cancelled event is a failed step, and the cancellation reaches the task that asked for it.
    """

    def __init__(self, *args: Any) -> None:
        self._locks: dict[int, asyncio.Lock] = {}
        self._owners: dict[asyncio.Lock, asyncio.Task[Any] | None] = {}
        super().__init__(*args)

    @staticmethod
    async def await_all(callables: list[Callable[[], Any]]) -> list[Any]:
        """The library's hook for running callbacks: here in their order and in the caller's task, not all at once."""
        return [await call() for call in callables]

    async def process_context(self, func: Callable[[], Awaitable[Any]], model: object) -> bool:
        """The library's hook around each event: here the model's lock."""
        lock = self._locks.setdefault(self._turn(model), asyncio.Lock())
        task = asyncio.current_task()
        if task is not None and self._owners.get(lock) is task:
            self._steps.refuse(model, "an event")
        async with lock:
            self._owners[lock] = task
            try:
                return bool(await func())
            finally:
                del self._owners[lock]

    def _turn(self, model: object) -> int:
        return id(model)


class _AsyncState(NestedAsyncState):
    separator = SEPARATOR


class HierarchicalAsyncTableMachine(AsyncTableMachine, HierarchicalAsyncMachine):  # type: ignore[misc]
    """Both. The library keeps its place in the tree of states on the machine, so all its models share one lock."""

    state_cls = _AsyncState

    def _turn(self, model: object) -> int:  # noqa: ARG002
        return 0


_KINDS: dict[tuple[bool, bool, bool], type[TableMachine]] = {
    # (nested, locked, asynchronous)
    (False, False, False): TableMachine,
    (False, True, False): LockedTableMachine,
    (False, False, True): AsyncTableMachine,
    (True, False, False): HierarchicalTableMachine,
    (True, True, False): LockedHierarchicalTableMachine,
    (True, False, True): HierarchicalAsyncTableMachine,
}


class EventQueue:
    """Events for one bound model, each taken after the step of the one before: for effects that raise further events.

    An effect only puts its event; whoever sends the first one takes them all, in the order in which they were put:

        events = EventQueue(consumer)
        events.send(Event.SUBSCRIBED)               # from outside: takes it, and what its effects put
        events.put(Event.CALLBACK_DONE, error=None) # within an effect: waits for its turn

    The models of a machine that is locked or asynchronous are not for it: another thread or task is its own sender.
    Raises `FsmError` for a model that is not bound; `send` and `run` do so for one of an asynchronous machine.
    """

    def __init__(self, model: Any) -> None:
        if not callable(getattr(model, "trigger", None)):
            raise FsmError(f"{type(model).__name__} is not bound; call bind(TABLE, model) first")
        self._model = model
        self._waiting: deque[tuple[Symbol | str, tuple[Any, ...], dict[str, Any]]] = deque()
        self._is_running = False

    def __len__(self) -> int:
        """The number of waiting events."""
        return len(self._waiting)

    def put(self, event: Symbol | str, *args: Any, **kwargs: Any) -> None:
        """Adds an event behind those that wait."""
        self._waiting.append((event, args, kwargs))

    def send(self, event: Symbol | str, *args: Any, **kwargs: Any) -> None:
        """Adds an event and takes all that wait; within a step that the queue sent, only adds it.

        Raises what the step of an event raises. That event is gone, the ones behind it wait for the next `run`.
        """
        self.put(event, *args, **kwargs)
        self.run()

    def run(self) -> None:
        """Takes the events that wait, and those that they raise."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._waiting:
                event, args, kwargs = self._waiting.popleft()
                taken = self._model.trigger(event, *args, **kwargs)
                if iscoroutine(taken):
                    taken.close()
                    name = type(self._model).__name__
                    raise FsmError(
                        f"{name} is bound with asynchronous=True, which EventQueue is not for; await its events"
                    )
        finally:
            self._is_running = False


def _with_name(trigger: Callable[..., Any], event: Symbol | str, *args: Any, **kwargs: Any) -> Any:
    """The library's `model.trigger` and `model.may_trigger`, for members of the Event enum, too."""
    return trigger(_trigger_name(event), *args, **kwargs)


def _trigger_name(event: Symbol | str) -> str:
    return event.name.lower() if isinstance(event, Symbol) else event


def _state_of(model: Any) -> Symbol:
    state: Symbol = model.state
    return state


def _triggers(table: Table) -> dict[str, Symbol]:
    """Method name -> event. Raises `FsmError` where names are not apart, or are names the library needs."""
    triggers = {event.name.lower(): event for event in table.alphabet}
    bad = sorted(_TAKEN & triggers.keys())
    if bad or len(triggers) < len(table.alphabet):
        raise FsmError(f"{table.name}: events need names of their own in lower case, other than {sorted(_TAKEN)}")
    return triggers


def _states(table: Table) -> list[dict[str, Any]]:
    states = (*table.states, *table.exits)
    if not table.nested:
        return [{"name": state, "final": state in {*table.terminal, *table.exits}} for state in states]
    return [_describe_nested(table, state) for state in states]


def _describe_nested(table: Table, state: Symbol) -> dict[str, Any]:
    """With the `on_enter` and `on_exit` methods of models, which the library finds only where nothing is nested."""
    found: dict[str, Any] = {
        "name": state,
        "on_enter": [_tell("on_enter", state)],
        "on_exit": [_tell("on_exit", state)],
    }
    nested = table.nested.get(state)
    if nested is None:
        return {**found, "final": state in {*table.terminal, *table.exits}}
    children = [_describe_nested(nested, inner) for inner in nested.states]
    return {**found, "children": children, "initial": nested.initial}


def _tell(what: str, state: Symbol) -> Callable[[EventData], Any]:
    name = f"{what}_{state.name}"

    def tell(event: EventData) -> Any:
        method = getattr(event.model, name, None)
        return None if method is None else method(event)

    return tell


def _path(table: Table, state: Symbol) -> str:
    """The library's name of a state: its own after those of the states that hold it."""
    for holder, nested in table.nested.items():
        if state in nested.all_states():
            return f"{holder.name}{SEPARATOR}{_path(nested, state)}"
    return state.name


def _segments(table: Table, line: Row) -> Iterator[tuple[str, list[Symbol]]]:
    """Effects in the state where the event comes; then each state entered, with the effects that are due there."""
    state, effects = "", list[Symbol]()
    for step in line.steps:
        if isinstance(step, type(table.initial)):
            yield state, effects
            state, effects = _path(table, table.enter(step)), []
        else:
            effects.append(step)
    yield state, effects


def _list_effects(table: Table) -> list[Symbol]:
    """Effects that some row orders, in the order of their enum."""
    used = {e for cell in table.compiled.values() for e in cell.effects}
    return sorted(used, key=lambda effect: effect.code)


def _record_logger(logger: Any, machine: str, group: str) -> Any:
    if logger is None:
        import structlog  # noqa: PLC0415

        if not structlog.is_configured():
            return None
        logger = structlog.get_logger()
    constant = {"kind": Kind.TRANSITION.value, "machine": machine, **({"group": group} if group else {})}
    return logger.bind(**constant)


def _wants_info(logger: Any) -> bool:
    """Asks the logger before a record is made; one that cannot be asked wants everything."""
    ask = getattr(logger, "is_enabled_for", None)
    return ask is None or ask(logging.INFO)
