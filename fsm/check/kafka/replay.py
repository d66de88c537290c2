"""A path of the model taken once more by production objects that live on: running clocks, call numbers, generators.

After each step what both have is compared: states, epochs, targets, what is owned and used, the coordinator's book. A
path that differs is a fault of the model, and no counterexample. Where the timers allow it, the path is then taken once
more by one clock for all, and the members write their trace.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, ENDED, GOES_ON_AFTER, GROUP, NOW, PASSES, TIMERS, TURNS, App, used_after
from fsm.check.kafka.consumer import seen
from fsm.check.model import Action, Path, Replayed
from fsm.check.timing import Timing
from fsm.coordinator import coordinator as broker
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.step import Request
from fsm.coordinator.model.timers import TimerKind
from fsm.coordinator.storage.load import load
from fsm.member.dialect.dialect import Dialect
from fsm.member.events import AsyncPollEvent, TopicSubscriptionChangeEvent, UnsubscribeEvent
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import InvokeListener, Pass, process
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import TIMED_OUT
from fsm.tables.consumer_member import State
from fsm.trace import Kind, TraceRecord

REQUEST_TIMEOUT_MS = 30_000
AFTER_MS = 1_000
"""So long after the last step a trace says what is used: a path ends at the instant at which something breaks."""
LONG_MS = 1_000_000_000
"""A poll timer that runs out only where the path says so."""


class Timeouts(NamedTuple):
    """Of the group, and of each member its poll timer's."""

    max_poll_interval_ms: Mapping[str, int]
    session_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000

    def settings(self) -> dict[str, int]:
        """As Kafka calls them."""
        group = {"session.timeout.ms": self.session_ms, "heartbeat.interval.ms": self.heartbeat_interval_ms}
        return group | {f"max.poll.interval.ms of {name}": ms for name, ms in self.max_poll_interval_ms.items()}


FIRED = {"heartbeat interval is over": "heartbeat", "poll timer runs out": "poll"}
SILENT = (State.UNSUBSCRIBED, State.FENCED, State.STALE, State.FATAL)
"""States in which a member's heartbeats are not due."""


class Cast(NamedTuple):
    """Who takes a path, and what they know."""

    names: Sequence[str]
    topics: tuple[str, ...]
    dialect: Dialect
    image: TopicNames
    context: Context


class LiveMember:
    """A consumer with its own clock, its application and its connection; `metadata` is what its client knows."""

    def __init__(self, shell: MemberShell[Any, Any], topics: tuple[str, ...], metadata: Any, now_ms: int) -> None:
        self.shell, self.topics, self.now_ms = shell, topics, now_ms
        self.shell.find_coordinator(now_ms)
        self.shell.learn(metadata, now_ms)
        self.app, self.call = App.IDLE, 0
        self.running: Pass | None = None
        self.asked: InvokeListener | None = None
        self.using: Partitions = ()
        self.out: list[Any] = []
        self.late: list[Any] = []
        self.back: list[tuple[Any, Any]] = []
        self.sent_ms: dict[int, int] = {}

    @property
    @abstractmethod
    def seen(self) -> tuple[Any, ...]:
        """What it has in common with one of the model."""

    @property
    @abstractmethod
    def heartbeat_due_ms(self) -> int:
        """When it sends its next heartbeat."""

    @property
    @abstractmethod
    def poll_due_ms(self) -> int:
        """Until when its application has to poll."""

    @property
    def poll_wanted_ms(self) -> int:
        """From when on a poll does what waits for one."""
        return 0

    def timers(self) -> dict[str, int]:
        """When each of its timers runs out, by its own clock; requests wait for their answers so long."""
        under_way = [id(order) for order in (*self.out, *(order for order, _ in self.back))]
        self.sent_ms = {one: self.sent_ms.get(one, self.now_ms) for one in under_way}
        waits = {f"request {one}": at_ms + REQUEST_TIMEOUT_MS for one, at_ms in self.sent_ms.items()}
        return {"heartbeat": self.heartbeat_due_ms, "poll": self.poll_due_ms, **waits}

    def act(self, what: str) -> None:
        """A choice, or the end of a request."""
        self.now_ms += 1
        match what:
            case "subscribes":
                self.app = App.RUNNING
                self.shell.submit(TopicSubscriptionChangeEvent(self.topics, listener=True))
            case "polls":
                self.now_ms = max(self.now_ms, self.poll_wanted_ms)
                self.shell.submit(AsyncPollEvent())
            case "unsubscribes":
                self.app = App.LEAVING
                self.call = self.shell.submit(UnsubscribeEvent())
            case "heartbeat interval is over":
                self.now_ms = max(self.now_ms, self.heartbeat_due_ms)
            case "poll timer runs out":
                self.now_ms = max(self.now_ms, self.poll_due_ms)
            case "returns from its callback":
                self._end_callback()
            case "is killed":
                self.late += self.out
                self.out, self.back, self.app, self.using = [], [], App.DEAD, ()
                return
        self._turn()
        if what in PASSES:
            self._pass()
        if self.app is App.LEAVING and not self.call and self.asked is None:
            self.app = App.LEFT

    def end(self, order: Any, answer: Any) -> None:
        """A request is answered, or given up."""
        self.shell.receive_answer(order, answer, 0.0, self.now_ms + 1)
        self.act("")

    def _turn(self) -> None:
        for _ in range(TURNS):
            result = self.shell.poll(self.now_ms)
            self.out += result.unsent_requests
            if self.call in {done.call for done in result.completed_calls}:
                self.call = 0
            if self.shell.seeks_coordinator:
                self.shell.find_coordinator(self.now_ms)
            elif result.time_until_next_poll_ms > 0:
                return

    def _end_callback(self) -> None:
        if self.asked is None:
            return
        over, self.asked = self.asked, None
        if self.shell.trace is not None:
            self.shell.trace.end_callback(over, None, self.now_ms)
        self.using = used_after(over, self.using)
        self._process()

    def _pass(self) -> None:
        """Goes on with the pass under way, or begins one."""
        if self.running is None:
            events = iter(self.shell.next_background_event, None)
            self.running = process(events, listener=True, unsubscribing=self.app is App.LEAVING)
            self._process()
        self._turn()

    def _process(self) -> None:
        answer = None
        while self.running is not None and self.asked is None:
            try:
                asked = self.running.send(answer)
            except StopIteration as done:
                self.running, first = None, done.value.first
                if first is not None and first.name not in GOES_ON_AFTER:
                    self.app, self.using = App.CRASHED, ()
                    self.late += self.out
                    self.out, self.back = [], []
                return
            if isinstance(asked, InvokeListener):
                self.asked = asked
                if self.shell.trace is not None:
                    self.shell.trace.begin_callback(asked, self.now_ms)
                return
            call = self.shell.report(asked, self.now_ms)
            answer = None
            if call:
                result = self.shell.poll(self.now_ms)
                self.out += result.unsent_requests
                answer = next((one.error for one in result.completed_calls if one.call == call), None)


class LiveConsumer(LiveMember):
    """A consumer of KIP-848."""

    shell: ConsumerMember

    def __init__(self, name: str, cast: Cast, now_ms: int, max_poll_interval_ms: int, trace: TraceTo | None) -> None:
        config = ConsumerConfig(
            GROUP, client_id=name, enable_auto_commit=False, max_poll_interval_ms=max_poll_interval_ms
        )
        shell = ConsumerMember(config, member_id=f"{name}-0", now_ms=now_ms, dialect=cast.dialect, trace=trace)
        super().__init__(shell, cast.topics, cast.image, now_ms)

    @property
    def seen(self) -> tuple[Any, ...]:
        return seen(self.app, self.shell.member, self.using)

    @property
    def heartbeat_due_ms(self) -> int:
        return max(self.shell.member.heartbeat_due_ms, self.shell.member.heartbeat_ready_ms)

    @property
    def poll_due_ms(self) -> int:
        return self.shell.member.poll_due_ms


def _book(state: Coordinator) -> Any:
    group = state.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return None
    members = tuple((member_id, member.current) for member_id, member in sorted(group.members.items()))
    timers = sorted((kind.value, who) for (kind, who), _, _ in group.timers.in_order())
    return group.epoch, group.target_epoch, group.state, members, tuple(sorted(group.targets.items())), tuple(timers)


def replay(cast: Cast, path: Path) -> Replayed:
    """Takes a path twice: each member by its own clock, to compare; and all by one clock, where timers allow it."""
    for timeouts in _timeouts(cast, path):
        timing = Timing()
        if differs := _Replay(cast, timeouts).along(path, timing):
            return Replayed(differs)
        times_ms, records = timing.solve(), list[TraceRecord]()
        timed = _Replay(cast, timeouts, times_ms, records.append)
        if times_ms and not timed.along(path):
            timed.note_users(NOW + times_ms[-1] + AFTER_MS)
            return Replayed("", times_ms, timeouts.settings(), tuple(record.to_json() for record in records))
    return Replayed()


def _timeouts(cast: Cast, path: Path) -> Iterator[Timeouts]:
    """Kafka's defaults, then others: the shortest path has no room for the heartbeats of 300 idle seconds."""
    usual = Timeouts(dict.fromkeys(cast.names, 300_000))
    yield usual
    tells = {name: ("poll timer runs out", TIMERS[TimerKind.REBALANCE][1].format(name)) for name in cast.names}
    told = {(action.actor, action.what) for action, _ in path}
    short = {name: 10_000 for name, (own, theirs) in tells.items() if (name, own) in told or (BROKER, theirs) in told}
    if short:
        timeouts = Timeouts({**usual.max_poll_interval_ms, **short})
        yield timeouts
        yield timeouts._replace(heartbeat_interval_ms=15_000)


class _Replay:
    """Live consumers and a live coordinator, driven along a path."""

    def __init__(
        self, cast: Cast, timeouts: Timeouts, times_ms: Sequence[int] = (), trace: TraceTo | None = None
    ) -> None:
        self.times_ms, self.timeouts = times_ms, timeouts
        self.consumers = {
            name: LiveConsumer(name, cast, NOW, timeouts.max_poll_interval_ms[name], trace)
            if times_ms
            else LiveConsumer(name, cast, 1_000 * at, LONG_MS, None)
            for at, name in enumerate(cast.names, 1)
        }
        self.state, self.token = Coordinator(), 0
        config = replace(
            cast.context.config,
            group_consumer_session_timeout_ms=timeouts.session_ms,
            group_consumer_min_session_timeout_ms=timeouts.session_ms,
            group_consumer_heartbeat_interval_ms=timeouts.heartbeat_interval_ms,
            group_consumer_min_heartbeat_interval_ms=timeouts.heartbeat_interval_ms,
        )
        self.context = replace(cast.context, config=config)

    def along(self, path: Path, timing: Timing | None = None) -> str:
        """Takes the path. Gives what differs first from the model; empty where nothing does."""
        for number, (action, after) in enumerate(path, 1):
            if self.times_ms:
                self._set_clocks(NOW + self.times_ms[number - 1])
            if timing is not None:
                self._note_timers_met(timing, action)
            self._take(action)
            if timing is not None:
                self._note_timers_left(timing)
            for name, state in after.items():
                if name == BROKER:
                    live, wanted = _book(self.state), _book(state)
                else:
                    one = self.consumers[name]
                    live, wanted = one.seen, seen(state.app, state.member, state.using)
                if live != wanted:
                    return f"step {number}, {action.actor} {action.what}: {name} is {live}, and was to be {wanted}"
        return ""

    def note_users(self, now_ms: int) -> None:
        """Notes in the trace what each application uses at that time."""
        for one in self.consumers.values():
            if one.app not in ENDED and one.shell.trace is not None:
                one.shell.trace.write(now_ms, Kind.OWNED, full=one.using, thread="app")

    def _set_clocks(self, now_ms: int) -> None:
        """It is the same time for everybody; each adds a millisecond as it acts."""
        self.context = self.context.at(now_ms - 1)
        for one in self.consumers.values():
            one.now_ms = now_ms - 1

    def _note_timers_met(self, timing: Timing, action: Action) -> None:
        timing.step()
        by_itself = action.wire < 0
        timing.meets(BROKER, [action.what] if by_itself and action.actor == BROKER else [])
        consumer = self.consumers.get(action.actor)
        if consumer is not None and consumer.app not in ENDED:
            member, fired = consumer.shell.member, FIRED.get(action.what, "") if by_itself else ""
            idle = {"heartbeat"} if member.heartbeat_in_flight or member.state in SILENT else set()
            timing.meets(action.actor, [fired], idle | ({"poll"} if member.state is State.UNSUBSCRIBED else set()))

    def _note_timers_left(self, timing: Timing) -> None:
        shorter_ms = {name: LONG_MS - ms for name, ms in self.timeouts.max_poll_interval_ms.items()}
        for name, consumer in self.consumers.items():
            due_ms = consumer.timers()
            timing.leaves(name, consumer.now_ms, due_ms | {"poll": due_ms["poll"] - shorter_ms[name]})
        group = self.state.groups.get(GROUP)
        due_ms = {}
        for (kind, who), at_ms, _ in group.timers.in_order() if isinstance(group, ConsumerGroup) else ():
            if kind in TIMERS:
                name = who.partition("-")[0]
                sooner_ms = shorter_ms[name] if kind is TimerKind.REBALANCE else 0
                due_ms[TIMERS[kind][1].format(name)] = at_ms - sooner_ms
        timing.leaves(BROKER, self.context.now_ms, due_ms)

    def _take(self, action: Action) -> None:
        self.token += 1
        self.context = self.context.at(self.context.now_ms + 1)
        match action:
            case Action(actor=name, wire=wire) if wire < 0 and name == BROKER:
                self._broker(action.what)
            case Action(actor=name, wire=wire) if wire < 0:
                self.consumers[name].act(action.what)
            case Action(actor=name, what="receives") if name != BROKER:
                self.consumers[name].end(*self.consumers[name].back.pop(0))
            case Action(actor=name, message=(_, _)):  # the answer is lost
                order, _ = self.consumers[name].back.pop(0)
                self.consumers[name].end(order, TIMED_OUT)
            case Action(what="receives" | "receives late"):
                self._request(action)
            case _:
                consumer = self.consumers[action.actor]
                order = consumer.out.pop(0)
                consumer.late += [order] if action.what == "late" else []
                consumer.end(order, TIMED_OUT)

    def _request(self, action: Action) -> None:
        body = action.message.body
        consumer = self.consumers[body.member_id.partition("-")[0]]
        late = action.what == "receives late"
        waiting = consumer.late if late else consumer.out
        order = waiting.pop(next(i for i, one in enumerate(waiting) if _same(one.body, body)) if late else 0)
        request = Request(self.token, body.member_id[:1], "/127.0.0.1", API_OF[type(body)].newest, order.body, "")
        step = broker.handle(self.state, request, self.context)
        self.state = step.state
        if not late and consumer.app not in (App.DEAD, App.CRASHED):
            consumer.back += [(order, answer.body) for answer in step.answers]

    def _broker(self, what: str) -> None:
        if what == "fails over":
            self.state = load(self.state, self.context).state
            return
        group = self.state.groups[GROUP]
        if not isinstance(group, ConsumerGroup):
            return
        for (kind, who), _, _ in group.timers.in_order():
            if kind in TIMERS and what == TIMERS[kind][1].format(who.partition("-")[0]):
                key = kind, who
                due = replace(group, timers=group.timers.set(key, self.context.now_ms, group.timers.epoch(key)))
                self.state = broker.handle_timer(self.state.with_group(due), self.context).state


def _same(one: Any, other: Any) -> bool:
    """Whether two requests say the same; where live consumers name a rebalance timeout, it is another."""
    first, second = (replace(body, rebalance_timeout_ms=min(body.rebalance_timeout_ms, 1)) for body in (one, other))
    return bool(first == second)
