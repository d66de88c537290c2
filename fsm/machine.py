"""`bind`: a `transitions` machine for any table, on a model of yours.

The machine is one of that library's: `Machine`, `HierarchicalMachine` for a table with nested tables, and the locked
and asynchronous kinds of both. Its usual interface works: `model.subscribed()`, `model.may_subscribed()`,
`model.trigger("subscribed")`, `on_enter_STABLE` methods (they get its `EventData`), `machine.get_triggers(state)`. Only
the table moves a model between states, so there are no automatic `to_STATE` triggers and no `model.to`.

All kinds add:

* **The table's semantics.** States and effects are those of `table.compiled`, cell by cell. An ignored event does
  nothing; an event without a cell raises `IllegalTransition`. Both leave the state unchanged. The error is also a
  `transitions.MachineError`, for code that catches the library's own.
* **Order.** The steps of a row run as written. An effect written between two states finds the model in the first of
  them, and `on_enter` methods of every state on the path run.
* **Atomic steps.** If an effect raises or is cancelled, the model's state is restored and the error reaches the caller.
  Effects that ran before are not undone, and the restore runs no `on_exit` and `on_enter` methods.
* **One event at a time.** An effect must not send its model another event: the step is still running, and `FsmError` is
  raised. Send the event after the step; `EventQueue` does that for effects that raise further events.
* **A record** for each transition, through structlog if it is configured or a logger is given, in the format of
  `fsm.trace`.

The library's own queue (`queued=True`) is not used. If two threads meet, each may find the other's event in the queue
and leave it to the other: neither runs it, and every later event is queued behind it and reported as done. An exception
also empties that queue. With `locked=True` one thread's event waits for the other's.
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
"""Between a state and its enclosing state in the library's state names."""
_TAKEN = frozenset({"state", "trigger", "may_trigger"})


class IllegalTrigger(IllegalTransition, MachineError):  # noqa: N818  # named as its base
    """The `IllegalTransition` of a bound machine."""

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
    """A `transitions` machine that runs `table` on `model`, which gets `state` and a method for each event.

    An effect calls the model's method of its lower-case name, or else `on_effect(effect)`; arguments of the event are
    passed on. With `asynchronous` events are awaited and effects may be coroutine functions; concurrent tasks wait for
    each other. With `locked` concurrent threads do.

    Type checkers know these methods of a model that inherits from its base in `fsm.tables.models`.

    `logger` is a structlog logger. Its default is `structlog.get_logger()` if structlog is configured at this moment;
    otherwise nothing is written. Records have level info. Their `ts_ms` is the result of `now_ms()`; without it they
    have none, and structlog's `TimeStamper` may add one. `group` and `member` are the record's `group` and `member_id`.

    One machine may run many models: `machine.add_model(other, member=...)` costs a small part of another `bind`.
    `machine.get_graph()` draws the table as `fsm.render.get_graph` does and highlights the model's state. So does
    `model.get_graph()`, unless the model defines one. A notebook displays the machine as that drawing.

    Raises `FsmError` if the model has no method for an effect, if an attribute of it has the name of an event, if it
    takes no attributes (slots, a frozen dataclass), and for an initial state that the table does not have. Warns of a
    method whose name is close to an effect's: `on_effect` would get the effect, and the method would never be called.
    """
    if locked and asynchronous:
        raise FsmError("a machine is either locked, for threads, or asynchronous, for tasks")
    machine: TableMachine[E] = _KINDS[bool(table.nested), locked, asynchronous](table, logger, group, now_ms)
    machine.add_model(model, initial, member=member)
    return machine


class TableMachine(Machine, Generic[E]):
    """The plain kind and base of all kinds. Created by `bind`."""

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
        """Runs the table on one more model. Raises as `bind` does."""
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
        """The drawing of the table with the model's state highlighted. The default model is the machine's only one.

        `options` are those of `fsm.render.get_graph`, which raises `InputError`.
        """
        from fsm.render import get_graph  # noqa: PLC0415  # loaded by drawing only

        shown = self.models[0] if model is None and len(self.models) == 1 else model
        return get_graph(self._table, **{"lit": "" if shown is None else _state_of(shown), **options})

    def _repr_svg_(self) -> str | None:
        return self.get_graph()._repr_svg_()

    def _repr_markdown_(self) -> str | None:
        return self.get_graph()._repr_markdown_()

    def _refuse(self, model: Any) -> None:
        """Raises `FsmError` for a model that cannot be bound, and warns of near misses in names."""
        where, events = f"{self._table.name}: {type(model).__name__}", self._steps.events
        taken = [name for name in events if hasattr(model, name)]
        if taken:
            raise FsmError(f"{where} has attributes with the names of events already: {', '.join(taken)}")
        if model in self.models:
            raise FsmError(f"{where} is bound already, or compares equal to a model that is")
        names = [effect.name.lower() for effect in _list_effects(self._table)]
        handlers = {name: None if name in events else getattr(model, name, None) for name in names}
        missing = [name for name, method in handlers.items() if method is None]
        if missing and not hasattr(model, "on_effect"):
            raise FsmError(f"{where} has no {', '.join(missing)}; add these methods, or on_effect(effect)")
        for method, _ in getmembers_static(type(model), isfunction):
            known = method in handlers or method in events
            near = [] if known else get_close_matches(method, missing, n=1, cutoff=0.85)
            if near:
                text = f"{where}.{method} obeys nothing; was {near[0]} meant? on_effect gets that effect"
                warnings.warn(text, stacklevel=4)
        coroutines = [name for name, method in handlers.items() if iscoroutinefunction(method or model.on_effect)]
        if coroutines and not isinstance(self, AsyncMachine):
            raise FsmError(f"{where}: coroutines need asynchronous=True: {', '.join(coroutines)}")

    def _add_line(self, source: str, trigger: str, line: Row | Ignore) -> None:
        """Adds one transition of the library. Its `after` runs the steps behind the first state entered."""
        if isinstance(line, Ignore):
            self.add_transition(trigger, source, None)
            return
        (_, before), *entered = _segments(self._table, line)
        if not entered:
            self.add_transition(trigger, source, None, before=self._list_callbacks(before))
            return
        after: list[Any] = []
        for (here, _), (there, effects) in reversed(list(pairwise(entered))):
            hop = self.transition_cls(here, there, after=[*self._list_callbacks(effects), *after])
            after = [hop.execute]
        target, effects = entered[0]
        after = [*self._list_callbacks(effects), *after]
        self.add_transition(trigger, source, target, before=self._list_callbacks(before), after=after)

    def _list_callbacks(self, effects: list[Symbol]) -> list[Any]:
        return [_make_callback(effect, effect.name.lower() not in self._steps.events) for effect in effects]


def _make_callback(effect: Symbol, may_be_method: bool) -> Callable[[EventData], Any]:
    """The callback that carries out an effect. A method named like an event sends that event and is not called."""
    name = effect.name.lower()

    def call(event: EventData) -> Any:
        model: Any = event.model
        method = getattr(model, name, None) if may_be_method else None
        if method is None:
            return model.on_effect(effect, *event.args, **event.kwargs)
        return method(*event.args, **event.kwargs)

    return call


class _Steps:
    """The running steps, at most one per model: hooks that the library calls around every event.

    They are not methods of the machine, because a locked machine takes its lock for every attribute that is read.
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
        """Stores the state. Hierarchical kinds call it once per level. Raises `FsmError` inside another step."""
        step = self._began.setdefault(id(event.model), (event, _state_of(event.model)))
        if step[0] is not event:
            self.refuse(event.model, event.event.name)

    def undo(self, event: EventData) -> None:
        """Restores the state from before the step and raises the step's error, or `IllegalTrigger`."""
        step = self._began.get(id(event.model))
        if step is not None and step[0] is event:
            event.machine.set_state(step[1], event.model)
        elif isinstance(event.error, MachineError):
            self._refuse_illegal(event)
        raise event.error or FsmError(f"{self._name}: the step failed")

    def end(self, event: EventData) -> None:
        """Ends a step, and writes its record if it succeeded."""
        step = self._began.get(id(event.model))
        if step is not None and step[0] is event:
            del self._began[id(event.model)]
            if event.error is None:
                name = self.events[event.event.name]
                self._record(event.model, step[1], name, self._cells[step[1], name])

    def refuse(self, model: object, name: str) -> None:
        """Raises `FsmError` for an event inside the step of another one."""
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
    """For several threads: one event at a time over all models of the machine."""


class _State(NestedState):
    separator = SEPARATOR


class HierarchicalTableMachine(TableMachine, HierarchicalMachine):
    """For tables with nested tables."""

    state_cls = _State


class LockedHierarchicalTableMachine(TableMachine, LockedHierarchicalMachine):  # type: ignore[misc]
    """Locked, with nested states."""

    state_cls = _State


class AsyncTableMachine(TableMachine, AsyncMachine):
    """For asyncio: `await model.subscribed()`. Effects may be coroutine functions and run sequentially.

    Two tasks that send events to one model wait for each other, so no transition runs inside another; the library would
    cancel the first. A cancelled event is a failed step, and the cancellation reaches the cancelled task.
    """

    def __init__(self, *args: Any) -> None:
        self._locks: dict[int, asyncio.Lock] = {}
        self._owners: dict[asyncio.Lock, asyncio.Task[Any] | None] = {}
        super().__init__(*args)

    @staticmethod
    async def await_all(callables: list[Callable[[], Any]]) -> list[Any]:
        """The library's hook for callbacks: runs them in order in the caller's task, not concurrently."""
        return [await call() for call in callables]

    async def process_context(self, func: Callable[[], Awaitable[Any]], model: object) -> bool:
        """The library's hook around each event: holds the model's lock."""
        lock = self._locks.setdefault(self._lock_key(model), asyncio.Lock())
        task = asyncio.current_task()
        if task is not None and self._owners.get(lock) is task:
            self._steps.refuse(model, "an event")
        async with lock:
            self._owners[lock] = task
            try:
                return bool(await func())
            finally:
                del self._owners[lock]

    def _lock_key(self, model: object) -> int:
        return id(model)


class _AsyncState(NestedAsyncState):
    separator = SEPARATOR


class HierarchicalAsyncTableMachine(AsyncTableMachine, HierarchicalAsyncMachine):  # type: ignore[misc]
    """Asynchronous, with nested states. All models share a lock: the library keeps the current scope on the machine."""

    state_cls = _AsyncState

    def _lock_key(self, model: object) -> int:  # noqa: ARG002
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
    """A FIFO queue of events for one bound model, for effects that raise further events.

    An effect puts its event into the queue; the outermost `send` processes all queued events in order:

        events = EventQueue(consumer)
        events.send(Event.SUBSCRIBED)               # from outside: takes it, and what its effects put
        events.put(Event.CALLBACK_DONE, error=None) # within an effect: waits for its turn

    It is not meant for models of locked or asynchronous machines, where each thread or task sends its own events.
    Raises `FsmError` for a model that is not bound; `send` and `run` raise it for a model of an asynchronous machine.
    """

    def __init__(self, model: Any) -> None:
        if not callable(getattr(model, "trigger", None)):
            raise FsmError(f"{type(model).__name__} is not bound; call bind(TABLE, model) first")
        self._model = model
        self._waiting: deque[tuple[Symbol | str, tuple[Any, ...], dict[str, Any]]] = deque()
        self._is_running = False

    def __len__(self) -> int:
        """The number of queued events."""
        return len(self._waiting)

    def put(self, event: Symbol | str, *args: Any, **kwargs: Any) -> None:
        """Appends an event."""
        self._waiting.append((event, args, kwargs))

    def send(self, event: Symbol | str, *args: Any, **kwargs: Any) -> None:
        """Appends an event and processes the queue; within a step of the queue it only appends.

        Raises what the step of an event raises. That event is removed; those behind it stay for the next `run`.
        """
        self.put(event, *args, **kwargs)
        self.run()

    def run(self) -> None:
        """Processes the queued events and those they raise."""
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
    """The library's `model.trigger` and `model.may_trigger`, which accept members of the Event enum here."""
    return trigger(_trigger_name(event), *args, **kwargs)


def _trigger_name(event: Symbol | str) -> str:
    return event.name.lower() if isinstance(event, Symbol) else event


def _state_of(model: Any) -> Symbol:
    state: Symbol = model.state
    return state


def _triggers(table: Table) -> dict[str, Symbol]:
    """Method name -> event. Raises `FsmError` for names that collide with each other or with the library's."""
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
    """The library's definition of a state, with callbacks for the models' `on_enter` and `on_exit` methods.

    The library finds these methods itself only in machines without nested states.
    """
    found: dict[str, Any] = {
        "name": state,
        "on_enter": [_make_state_callback("on_enter", state)],
        "on_exit": [_make_state_callback("on_exit", state)],
    }
    nested = table.nested.get(state)
    if nested is None:
        return {**found, "final": state in {*table.terminal, *table.exits}}
    children = [_describe_nested(nested, inner) for inner in nested.states]
    return {**found, "children": children, "initial": nested.initial}


def _make_state_callback(prefix: str, state: Symbol) -> Callable[[EventData], Any]:
    name = f"{prefix}_{state.name}"

    def call(event: EventData) -> Any:
        method = getattr(event.model, name, None)
        return None if method is None else method(event)

    return call


def _path(table: Table, state: Symbol) -> str:
    """The library's name of a state: the enclosing states' names, then its own."""
    for holder, nested in table.nested.items():
        if state in nested.all_states():
            return f"{holder.name}{SEPARATOR}{_path(nested, state)}"
    return state.name


def _segments(table: Table, line: Row) -> Iterator[tuple[str, list[Symbol]]]:
    """(state, effects to run there): first "" for the state of the event, then each state that the row enters."""
    state, effects = "", list[Symbol]()
    for step in line.steps:
        if isinstance(step, type(table.initial)):
            yield state, effects
            state, effects = _path(table, table.enter(step)), []
        else:
            effects.append(step)
    yield state, effects


def _list_effects(table: Table) -> list[Symbol]:
    """Effects used by some row, in enum order."""
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
    """Whether the logger writes level info; True if it has no `is_enabled_for`."""
    ask = getattr(logger, "is_enabled_for", None)
    return ask is None or ask(logging.INFO)
