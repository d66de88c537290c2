"""`bind` gives machines of `transitions` that mean what the compiled table means, in every kind."""

import asyncio
import io
import json
import logging
import sys
import threading
from dataclasses import dataclass
from functools import cache
from itertools import product
from types import SimpleNamespace

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from transitions import Machine, MachineError
from transitions.extensions import HierarchicalMachine, LockedMachine
from transitions.extensions.asyncio import AsyncMachine

from fsm.errors import FsmError, IllegalTransition
from fsm.machine import EventQueue, bind
from fsm.table import Symbol, Table, ignore, row
from fsm.tables import ALL
from fsm.trace import Kind, TraceRecord, as_trace, from_json


class State(Symbol):
    OUT = "Not in the group."
    JOINING = "Asks to join."
    IN = "In the group; holds two states."
    IDLE = "Nothing to do."
    BUSY = "Reconciles."
    LEAVING = "Says goodbye."
    DEAD = "Over."


class Event(Symbol):
    JOIN = "The application subscribes."
    JOINED = "The coordinator accepts."
    WORK = "There is something to do."
    DONE = "It is done."
    LEAVE = "The application leaves."
    FENCED = "The coordinator throws the member out."
    KILL = "The process ends."


class Effect(Symbol):
    SEND = "Send a heartbeat."
    RELEASE = "Give the partitions back."
    LOSE = "Lose the partitions."


S, E, F = State, Event, Effect

INSIDE = Table(
    name="inside",
    initial=S.IDLE,
    exits=(S.JOINING,),
    events=Event,
    effects=Effect,
    rows=(
        row(S.IDLE, E.WORK, S.BUSY, F.SEND),
        row(S.BUSY, E.DONE, F.SEND, S.IDLE),
        row(S.BUSY, E.WORK, S.BUSY),
        row(S.BUSY, E.FENCED, F.LOSE, S.JOINING),
        ignore(S.IDLE, E.DONE, why="done twice"),
        ignore(S.BUSY, E.JOINED, why="late answer"),
    ),
)
MEMBER = Table(
    name="member",
    initial=S.OUT,
    terminal=(S.DEAD,),
    nested={S.IN: INSIDE},
    effects=Effect,
    rows=(
        row(S.OUT, E.JOIN, F.SEND, S.JOINING),
        row(S.JOINING, E.JOINED, S.IN),
        row(S.IN, (E.LEAVE, E.KILL), F.RELEASE, S.LEAVING, F.SEND, S.OUT, F.LOSE),
        row((S.IN, S.JOINING), E.FENCED, F.LOSE, S.OUT, S.JOINING, F.SEND),
        row(S.IN, E.JOINED, F.SEND),
        row(S.IN, E.JOIN, S.IN),
        row((S.OUT, S.JOINING), E.KILL, S.LEAVING, S.DEAD),
        ignore(S.OUT, (E.LEAVE, E.FENCED), why="already out"),
    ),
)
"""Nested, with paths, a row that stays, effects before, between and after states, and a holder overruled inside."""

FLAT = Table(
    name="flat",
    initial=S.OUT,
    terminal=(S.DEAD,),
    effects=Effect,
    rows=(
        row(S.OUT, E.JOIN, F.SEND, S.JOINING, F.LOSE, S.IN, F.RELEASE, F.SEND),
        row(S.IN, E.LEAVE, S.LEAVING, S.IDLE, S.OUT),
        row(S.IN, E.WORK, F.SEND, F.RELEASE),
        row(S.IN, E.JOIN, S.IN, F.SEND),
        row((S.OUT, S.IN), E.KILL, S.BUSY, F.RELEASE, S.DEAD),
        ignore(S.OUT, (E.LEAVE, E.DONE), why="already out"),
        ignore(S.DEAD, (E.FENCED, E.JOINED), why="over"),
    ),
)

QUIET = structlog.wrap_logger(
    structlog.PrintLogger(io.StringIO()), wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
)
KINDS = ({}, {"locked": True}, {"asynchronous": True})
TABLES = (*ALL, MEMBER, FLAT)


class Model:
    """Notes every effect with the state it finds the model in; may fail at one of them."""

    def __init__(self, fail_at=None):
        self.seen = []
        self.fail_at = fail_at

    def on_effect(self, effect, *args):
        self.seen.append((self.state, effect, *args))
        if len(self.seen) == self.fail_at:
            raise ValueError("the effect failed")


class Waiting(Model):
    """The same with coroutines that let other tasks run."""

    async def on_effect(self, effect, *args):
        await asyncio.sleep(0)
        super().on_effect(effect, *args)


@cache
def machine_for(table, kind):
    """One machine per table and kind; each example adds a model of its own."""
    options = KINDS[kind]
    machine = bind(table, Waiting() if "asynchronous" in options else Model(), logger=QUIET, **options)
    machine.remove_model(machine.models[0])
    return machine


def new_model(table, kind, initial=None, **options):
    machine = machine_for(table, kind)
    model = (Waiting if "asynchronous" in KINDS[kind] else Model)(**options)
    machine.add_model(model, initial)
    return machine, model


def send(model, event):
    """The answer of the machine, or `IllegalTransition`."""
    answer = getattr(model, event.name.lower())()
    return asyncio.run(asyncio.wait_for(answer, PATIENCE_S)) if asyncio.iscoroutine(answer) else answer


def seen_by(cell, state):
    """What effects see along the steps of a cell."""
    seen = []
    for step in cell.steps:
        if isinstance(step, type(state)):
            state = step
        else:
            seen.append((state, step))
    return seen


def names(table):
    return table.name


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["plain", "locked", "async"])
@pytest.mark.parametrize("table", TABLES, ids=names)
def test_every_cell_of_every_table_does_what_the_compiled_table_says(table, kind):
    """From each state each event gives the same state and effects, with the states between them; or it is illegal."""
    machine, model = new_model(table, kind)
    for state, event in product(table.leaves(), table.alphabet):
        machine.set_state(state, model)
        model.seen.clear()
        cell = table.compiled.get((state, event))
        if cell is None:
            with pytest.raises(IllegalTransition) as caught:
                send(model, event)
            assert (caught.value.state, caught.value.event) == (state, event)
            assert (model.state, model.seen) == (state, [])
        else:
            assert send(model, event) is True
            assert (model.state, model.seen) == (cell.target, seen_by(cell, state))
    machine.remove_model(model)


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["plain", "locked", "async"])
@pytest.mark.parametrize("table", TABLES, ids=names)
@settings(max_examples=10)
@given(choices=st.lists(st.integers(0, 10_000), max_size=40))
def test_random_walks_agree_with_the_compiled_table(table, kind, choices):
    """A walk of handled, ignored and illegal events passes the same states and orders the same effects."""
    machine, model = new_model(table, kind)
    state, effects = table.compiled.initial, []
    for choice in choices:
        legal = tuple(table.compiled.by_state.get(state, ()))
        pool = legal if choice % 4 and legal else table.alphabet
        event = pool[choice // 4 % len(pool)]
        try:
            send(model, event)
        except IllegalTransition:
            assert event not in legal
        else:
            cell = table.compiled[state, event]
            effects += seen_by(cell, state)
            state = cell.target
        assert (model.state, model.seen) == (state, effects)
    machine.remove_model(model)


def test_the_machines_are_those_of_the_library():
    """People who know `transitions` find its classes, its triggers and nothing that bypasses the table."""
    model = Model()
    machine = bind(MEMBER, model, logger=QUIET)
    assert isinstance(machine, HierarchicalMachine)
    for table in (FLAT, MEMBER):
        assert isinstance(bind(table, Model(), logger=QUIET, locked=True), LockedMachine)
        assert isinstance(bind(table, Model(), logger=QUIET, asynchronous=True), AsyncMachine)
    assert isinstance(bind(FLAT, Model(), logger=QUIET), Machine)
    assert sorted(machine.get_triggers("OUT")) == ["fenced", "join", "kill", "leave"]
    assert [t.dest for t in machine.get_transitions("work", "IN.IDLE")] == ["IN.BUSY"]
    assert model.may_join()
    assert not model.may_done()
    assert not [name for name in vars(model) if name == "to" or name.startswith("to_")]


def test_a_model_obeys_with_methods_and_gets_the_arguments_of_the_event():
    """An effect calls the method of its name, any other `on_effect`; `dispatch` takes the event's member."""

    class Member(Model):
        def send(self, *args):
            self.seen.append((self.state, "method", *args))

    model = Member()
    machine = bind(FLAT, model, logger=QUIET)
    machine.dispatch(E.JOIN, 7)
    assert model.seen == [
        (S.OUT, "method", 7),
        (S.JOINING, F.LOSE, 7),
        (S.IN, F.RELEASE, 7),
        (S.IN, "method", 7),
    ]


def test_entering_and_leaving_run_for_every_state_on_the_way():
    """A path calls `on_enter` and `on_exit` of the states between, as the library does for single steps."""

    class Member(Model):
        def on_exit_IN(self, event):
            self.seen.append(("exit", event.event.name))

        def on_enter_LEAVING(self, _event):
            self.seen.append("enter LEAVING")

        def on_enter_OUT(self, _event):
            self.seen.append("enter OUT")

    model = Member()
    bind(FLAT, model, initial=S.IN, logger=QUIET)
    model.leave()
    assert (model.state, model.seen) == (S.OUT, [("exit", "leave"), "enter LEAVING", "enter OUT"])


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["plain", "locked", "async"])
@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
@pytest.mark.parametrize("fail_at", [1, 2, 3])
def test_a_failed_effect_leaves_the_state_of_before(table, kind, fail_at):
    """Whichever effect of a path fails, the caller gets its error, the state is restored and the machine works on."""
    state, event = (S.OUT, E.JOIN) if table is FLAT else (S.BUSY, E.LEAVE)
    machine, model = new_model(table, kind, state, fail_at=fail_at)
    with pytest.raises(ValueError, match="the effect failed"):
        send(model, event)
    assert model.state is state
    assert len(model.seen) == fail_at
    model.seen.clear()
    model.fail_at = None
    send(model, event)
    assert model.state is table.compiled[state, event].target
    machine.remove_model(model)


@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["plain", "locked", "async"])
def test_an_effect_cannot_send_the_next_event(table, kind):
    """An event inside a step is refused with the remedy, the step fails, and both leave the state of before."""
    machine, model = new_model(table, kind)
    model.on_effect = lambda _effect: model.kill()
    with pytest.raises(FsmError, match=r"arrived while join is under way; an effect returns first"):
        send(model, E.JOIN)
    assert model.state is S.OUT
    del model.on_effect
    send(model, E.KILL)
    assert model.state is S.DEAD
    machine.remove_model(model)


def test_entering_and_leaving_run_in_nested_tables_too():
    """Holders are told as well as the states inside them, and the library's name of a state is its whole path."""

    class Member(Model):
        def on_enter_IN(self, _event):
            self.seen.append("enter IN")

        def on_enter_IDLE(self, event):
            self.seen.append(("enter", event.state.name, self.state))

        def on_exit_IN(self, _event):
            self.seen.append("exit IN")

    model = Member()
    bind(MEMBER, model, initial=S.JOINING, logger=QUIET)
    model.joined()
    model.kill()
    assert model.seen == [
        "enter IN",
        ("enter", "IN.IDLE", S.IDLE),
        (S.IDLE, F.RELEASE),
        "exit IN",
        (S.LEAVING, F.SEND),
        (S.OUT, F.LOSE),
    ]


def test_models_of_a_nested_asynchronous_machine_keep_their_place_in_the_tree():
    """The library's place is the machine's, so models take turns and each sees the whole path of its state."""

    class Entering(Waiting):
        async def on_enter_BUSY(self, event):
            await asyncio.sleep(0)
            self.seen.append(event.state.name)

    async def run():
        first, second = Entering(), Entering()
        machine = bind(MEMBER, first, initial=S.IN, asynchronous=True, logger=QUIET)
        machine.add_model(second, S.IN)
        await asyncio.gather(first.work(), second.work())
        return first.seen[0], second.seen[0]

    assert asyncio.run(run()) == ("IN.BUSY", "IN.BUSY")


def test_binding_names_every_effect_the_model_does_not_obey():
    """A model without `on_effect` must have a method for each effect; the error lists those it lacks."""
    model = SimpleNamespace(release=print)
    with pytest.raises(FsmError, match=r"^flat: SimpleNamespace has no send, lose; add these methods, or on_eff"):
        bind(FLAT, model, logger=QUIET)
    assert vars(model) == {"release": print}


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (SimpleNamespace(on_effect=print, join=1, kill=2), {}, "SimpleNamespace has attributes with the names of"),
        (SimpleNamespace(on_effect=print), {"initial": S.IDLE, "locked": True, "asynchronous": True}, "either locked"),
        (Waiting(), {}, "Waiting: coroutines need asynchronous=True: send, release, lose"),
    ],
)
def test_binding_refuses_what_would_go_wrong_without_a_word(model, options, message):
    """Names taken already, two kinds at once and coroutines nobody awaits are refused."""
    with pytest.raises(FsmError, match=message):
        bind(FLAT, model, logger=QUIET, **options)


def test_binding_starts_in_the_state_asked_for():
    """`initial` may be any state of the table, a holder meaning its first; a state of another table is refused."""

    class Other(Symbol):
        OUT = "A state of another table."

    model = Model()
    bind(MEMBER, model, initial=S.IN, logger=QUIET)
    assert model.state is S.IDLE
    with pytest.raises(FsmError, match=r"member: Other\.OUT is not a state of this table"):
        bind(MEMBER, Model(), initial=Other.OUT, logger=QUIET)


def test_a_model_is_bound_once():
    """A second `bind` of one model is refused, since the methods of the first would stay."""
    model = Model()
    machine = bind(FLAT, model, logger=QUIET)
    with pytest.raises(FsmError, match="Model has attributes with the names of events already: join, joined, work"):
        bind(FLAT, model, logger=QUIET)
    assert machine.models == [model]


def test_events_whose_names_the_library_needs_are_refused():
    """An event STATE would hide the model's state."""

    class Hiding(Symbol):
        STATE = "Hides the state."
        BACK = "Returns."

    table = Table(name="hiding", initial=S.OUT, part=True, rows=(row(S.OUT, tuple(Hiding), S.IN),))
    with pytest.raises(FsmError, match="hiding: events need names of their own in lower case, other than"):
        bind(table, Model(), logger=QUIET)


def test_an_effect_that_shares_its_name_with_an_event_goes_to_on_effect():
    """The method of that name sends the event, so it cannot be the one that obeys the effect."""

    class Order(Symbol):
        JOIN = "Ask the coordinator."

    table = Table(name="shared", initial=S.OUT, part=True, effects=Order, rows=(row(S.OUT, E.JOIN, S.IN, Order.JOIN),))
    model = Model()
    bind(table, model, logger=QUIET)
    model.join()
    assert model.seen == [(S.IN, Order.JOIN)]


@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
def test_two_threads_lose_no_event_of_a_locked_machine(table):
    """Two threads that are switched all the time send 1,000 events each; every one is a whole step."""
    model = Model()
    bind(table, model, initial=S.IN, locked=True, logger=QUIET)
    event = model.work if table is FLAT else model.joined
    start, failures = threading.Barrier(2), []

    def work():
        start.wait()
        try:
            for _ in range(1_000):
                event()
        except FsmError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert [effect for _, effect in model.seen] == ([F.SEND, F.RELEASE] if table is FLAT else [F.SEND]) * 2_000


@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
def test_two_tasks_never_run_a_step_inside_another(table):
    """Effects that wait in the middle of a step find no event of another task in between."""

    async def run():
        model = Waiting()
        bind(table, model, initial=S.IN, asynchronous=True, logger=QUIET)
        event = model.work if table is FLAT else model.joined
        await asyncio.gather(*(event() for _ in range(5)))
        return [effect for _, effect in model.seen]

    assert asyncio.run(run()) == ([F.SEND, F.RELEASE] if table is FLAT else [F.SEND]) * 5


def test_models_of_one_machine_do_not_wait_for_each_other():
    """A model whose effect hangs does not keep another model of the same asynchronous machine from its events."""

    class Hanging(Model):
        async def on_effect(self, _effect):
            await self.gate.wait()

    async def run():
        slow, quick = Hanging(), Waiting()
        slow.gate = asyncio.Event()
        machine = bind(FLAT, slow, asynchronous=True, logger=QUIET)
        machine.add_model(quick)
        hanging = asyncio.create_task(slow.join())
        await asyncio.wait_for(quick.join(), PATIENCE_S)
        assert (quick.state, slow.state) == (S.IN, S.OUT)
        slow.gate.set()
        await hanging
        return slow.state

    assert asyncio.run(run()) is S.IN


@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
def test_a_cancelled_step_leaves_the_state_of_before_and_a_machine_that_works(table):
    """Cancellation reaches the task, undoes the state, and the next event does not wait for ever."""

    class Hanging(Model):
        async def on_effect(self, _effect):
            await self.gate.wait()

    async def run():
        model = Hanging()
        model.gate = asyncio.Event()
        bind(table, model, asynchronous=True, logger=QUIET)
        first, second = asyncio.create_task(model.join()), asyncio.create_task(model.join())
        await asyncio.sleep(0.01)
        first.cancel()
        second.cancel()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
        assert model.state is S.OUT
        model.gate.set()
        await asyncio.wait_for(model.join(), PATIENCE_S)
        return model.state

    assert asyncio.run(run()) is table.compiled[S.OUT, E.JOIN].target


def test_a_background_task_of_an_effect_may_send_events_later():
    """A task that an effect starts waits for the step to end; only the step's own task is refused."""

    class Starting(Model):
        task = None

        async def on_effect(self, effect):
            if effect is F.RELEASE and self.task is None:
                self.task = asyncio.create_task(self.kill())
            await asyncio.sleep(0)

    async def run():
        model = Starting()
        bind(FLAT, model, asynchronous=True, logger=QUIET)
        await model.join()
        assert model.state is S.IN
        await asyncio.wait_for(model.task, PATIENCE_S)
        return model.state

    assert asyncio.run(run()) is S.DEAD


def traced(**options):
    """A logger that writes records, and where it writes them."""
    out = io.StringIO()
    return out, structlog.wrap_logger(structlog.WriteLogger(out), processors=[as_trace], **options)


@pytest.mark.parametrize("options", KINDS, ids=["plain", "locked", "async"])
def test_each_transition_writes_the_record_that_trace_reads(options):
    """One line per row taken, none for what is ignored, illegal or failed; the line is that of `to_json`."""
    out, logger = traced()
    model = Model()
    clock = iter([1_000, 1_250])
    bind(MEMBER, model, logger=logger, group="g1", member="m1", now_ms=clock.__next__, **options)
    send(model, E.LEAVE)
    send(model, E.JOIN)
    with pytest.raises(IllegalTransition):
        send(model, E.LEAVE)
    model.fail_at = len(model.seen) + 1
    with pytest.raises(ValueError, match="the effect failed"):
        send(model, E.FENCED)
    send(model, E.JOINED)
    lines = out.getvalue().splitlines()
    expected = [
        TraceRecord(
            1_000, Kind.TRANSITION, "g1", member_id="m1", machine="member",
            state="OUT", event="JOIN", next_state="JOINING", effects=("SEND",),
        ),
        TraceRecord(
            1_250, Kind.TRANSITION, "g1", member_id="m1", machine="member",
            state="JOINING", event="JOINED", next_state="IDLE",
        ),
    ]  # fmt: skip
    assert [from_json(line) for line in lines] == expected
    assert lines == [record.to_json() for record in expected]


def test_a_logger_that_filters_info_is_asked_first():
    """Below its level no record is made: the clock is not even read."""
    out, logger = traced(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    model = Model()
    bind(FLAT, model, logger=logger, now_ms=iter(()).__next__)
    model.join()
    assert (model.state, out.getvalue()) == (S.IN, "")


def test_structlog_stamps_a_record_that_has_no_clock():
    """Without `now_ms` the time is the one of structlog's TimeStamper, in seconds or as a text."""
    for fmt in (None, "iso"):
        out = io.StringIO()
        chain = [structlog.processors.TimeStamper(fmt=fmt), as_trace]
        model = Model()
        bind(FLAT, model, logger=structlog.wrap_logger(structlog.WriteLogger(out), processors=chain))
        model.join()
        assert from_json(out.getvalue()).ts_ms > 1_700_000_000_000


def test_a_failing_logger_does_not_fail_the_step(caplog):
    """The step is over when its record is written; the library logs what went wrong with it."""

    def broken(_logger, _name, _entry):
        raise OSError("disk full")

    model = Model()
    bind(FLAT, model, logger=structlog.wrap_logger(structlog.PrintLogger(io.StringIO()), processors=[broken]))
    with caplog.at_level(logging.ERROR):
        model.join()
    assert model.state is S.IN
    assert "disk full" in caplog.text


def test_what_a_logger_is_bound_to_goes_into_the_settings():
    """Fields a record does not have are kept as texts; an entry that is no record stays plain JSON."""
    assert json.loads(as_trace(None, "info", {"kind": "transition", "ts_ms": 5, "host": "a", "level": "info"})) == {
        "v": 1,
        "ts_ms": 5,
        "kind": "transition",
        "settings": {"host": "a", "level": "info"},
    }
    assert as_trace(None, "info", {"event": "hello", "n": 1}) == '{"event":"hello","n":1}'


def test_an_illegal_event_is_an_error_of_the_library_too():
    """Code that catches `transitions.MachineError` goes on working, and the text is the table's."""
    model = Model()
    bind(FLAT, model, logger=QUIET)
    with pytest.raises(MachineError) as caught:
        model.work()
    assert isinstance(caught.value, IllegalTransition)
    assert str(caught.value) == "flat: WORK is illegal in OUT; legal there: JOIN, DONE, LEAVE, KILL"


@pytest.mark.parametrize("options", KINDS, ids=["plain", "locked", "async"])
@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
def test_trigger_and_may_trigger_take_members_of_the_enum(table, options):
    """`model.trigger(Event.X)` is `model.x()`; names work as in the library."""
    model = Model()
    bind(table, model, logger=QUIET, **options)
    for event in (E.JOIN, "kill"):
        answer = model.trigger(event)
        assert asyncio.run(answer) if asyncio.iscoroutine(answer) else answer
    assert model.state is (S.DEAD if table is FLAT else table.compiled[S.JOINING, E.KILL].target)
    may = model.may_trigger(E.JOIN)
    assert not (asyncio.run(may) if asyncio.iscoroutine(may) else may)


class Slotted:
    __slots__ = ("seen",)

    def on_effect(self, effect):
        """Never called."""


@dataclass(frozen=True)
class Frozen:
    name: str = "a"

    def on_effect(self, effect):
        """Never called."""


@dataclass(slots=True)
class SlottedData:
    name: str = "a"

    def on_effect(self, effect):
        """Never called."""


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    name: str = "a"

    def on_effect(self, effect):
        """Never called."""


@pytest.mark.parametrize("kind", [Slotted, Frozen, SlottedData, FrozenSlots])
@pytest.mark.parametrize("table", [FLAT, MEMBER], ids=names)
def test_a_model_that_takes_no_attributes_is_refused(table, kind):
    """Slots and frozen dataclasses cannot hold the state: one clear error, whatever Python raises."""
    with pytest.raises(FsmError, match=rf"^{table.name}: {kind.__name__} takes no attributes; bind a class without"):
        bind(table, kind(), logger=QUIET)


def test_a_misspelt_effect_is_said_at_bind():
    """With `on_effect` nothing would be missing: a method nearly named like an effect is warned about, others not."""

    class Misspelt(Model):
        def relaese(self):
            """Was to be RELEASE."""

        def send(self):
            """Is an effect."""

        def unrelated(self):
            """Anything else."""

    with pytest.warns(UserWarning, match=r"^flat: Misspelt.relaese obeys nothing; was release meant\?") as caught:
        bind(FLAT, Misspelt(), logger=QUIET)
    assert [str(one.filename) for one in caught] == [__file__]


def test_nothing_is_printed_where_structlog_is_not_configured(capsys):
    """The default of structlog prints; a machine that nobody gave a logger is silent until structlog is configured."""
    structlog.reset_defaults()
    model = Model()
    bind(FLAT, model, member="m")
    model.join()
    assert capsys.readouterr() == ("", "")
    out = io.StringIO()
    structlog.configure(processors=[as_trace], logger_factory=structlog.WriteLoggerFactory(out))
    try:
        model = Model()
        bind(FLAT, model, now_ms=lambda: 7)
        model.join()
    finally:
        structlog.reset_defaults()
    assert from_json(out.getvalue()).event == "JOIN"


def test_a_queue_takes_events_that_effects_raise_after_the_step():
    """Each event is a step of its own, in the order in which they were put; a failed one leaves those behind it."""

    class Busy(Model):
        def on_effect(self, effect):
            super().on_effect(effect)
            if len(self.seen) == 1:
                events.send(E.LEAVE)
                events.put(E.JOIN)
                assert self.state is S.OUT
                assert len(events) == 2

    model = Busy()
    bind(FLAT, model, logger=QUIET)
    events = EventQueue(model)
    events.send(E.JOIN)
    state, effects = S.OUT, []
    for event in (E.JOIN, E.LEAVE, E.JOIN):
        cell = FLAT.compiled[state, event]
        effects += seen_by(cell, state)
        state = cell.target
    assert (model.state, model.seen, len(events)) == (state, effects, 0)


def test_a_queue_is_for_bound_models_that_are_not_asynchronous():
    """Otherwise no event would ever be taken."""
    with pytest.raises(FsmError, match="Model is not bound"):
        EventQueue(Model())
    model = Model()
    bind(FLAT, model, asynchronous=True, logger=QUIET)
    with pytest.raises(FsmError, match="Model is bound with asynchronous=True"):
        EventQueue(model).send(E.JOIN)
    assert model.state is S.OUT


def test_a_queue_whose_event_fails_keeps_the_others():
    """The error reaches the sender; what waited behind the event is taken by the next run."""
    model = Model()
    bind(FLAT, model, logger=QUIET)
    events = EventQueue(model)
    events.put(E.WORK)
    events.put(E.JOIN)
    with pytest.raises(IllegalTransition):
        events.run()
    assert (model.state, len(events)) == (S.OUT, 1)
    events.run()
    assert model.state is S.IN
