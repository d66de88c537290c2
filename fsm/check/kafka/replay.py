"""A path of the model taken once more by production objects that live on: running clocks, call numbers, generators.

After each step what both have is compared: states, epochs, targets, what is owned and used, the coordinator's book. A
path that differs is a fault of the model, and no counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fsm.check.kafka.application import BROKER, GOES_ON_AFTER, GROUP, PASSES, TURNS, App, used_after
from fsm.check.kafka.consumer import seen
from fsm.check.model import Action, State
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
from fsm.protocol.assignment import Partitions, TopicNames
from fsm.protocol.codec import API_OF
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import TIMED_OUT

LONG_MS = 1_000_000_000
"""A poll timer that runs out only where the path says so."""


class _LiveConsumer:
    """A consumer with its own clock, its application and its connection."""

    def __init__(self, name: str, topics: tuple[str, ...], dialect: Dialect, names: TopicNames, now_ms: int) -> None:
        config = ConsumerConfig(GROUP, enable_auto_commit=False, request_timeout_ms=1_000, max_poll_interval_ms=LONG_MS)
        self.now_ms, self.topics = now_ms, topics
        self.shell = ConsumerMember(config, member_id=f"{name}-0", now_ms=now_ms, dialect=dialect)
        self.shell.find_coordinator(now_ms)
        self.shell.learn(names, now_ms)
        self.app, self.call = App.IDLE, 0
        self.running: Pass | None = None
        self.asked: InvokeListener | None = None
        self.using: Partitions = ()
        self.out: list[Any] = []
        self.late: list[Any] = []
        self.back: list[tuple[Any, Any]] = []

    def act(self, what: str) -> None:
        """A choice, or the end of a request."""
        self.now_ms += 1
        member = self.shell.member
        match what:
            case "subscribes":
                self.app = App.RUNNING
                self.shell.submit(TopicSubscriptionChangeEvent(self.topics, listener=True))
            case "polls":
                self.shell.submit(AsyncPollEvent())
            case "unsubscribes":
                self.app = App.LEAVING
                self.call = self.shell.submit(UnsubscribeEvent())
            case "heartbeat interval is over":
                self.now_ms = max(self.now_ms, member.heartbeat_due_ms, member.heartbeat_ready_ms)
            case "poll timer runs out":
                self.now_ms = max(self.now_ms, member.poll_due_ms)
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
            if not self.shell.member.client.coordinator_known:
                self.shell.find_coordinator(self.now_ms)
            elif result.time_until_next_poll_ms > 0:
                return

    def _end_callback(self) -> None:
        if self.asked is None:
            return
        over, self.asked = self.asked, None
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
                return
            call = self.shell.report(asked, self.now_ms)
            answer = None
            if call:
                result = self.shell.poll(self.now_ms)
                self.out += result.unsent_requests
                answer = next((one.error for one in result.completed_calls if one.call == call), None)


def _book(state: Coordinator) -> Any:
    group = state.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return None
    members = tuple((member_id, member.current) for member_id, member in sorted(group.members.items()))
    timers = sorted((kind.value, who) for (kind, who), _, _ in group.timers.in_order())
    return group.epoch, group.target_epoch, group.state, members, tuple(sorted(group.targets.items())), tuple(timers)


class Replay:
    """Live consumers and a live coordinator, driven along a path."""

    def __init__(
        self, names: Sequence[str], topics: tuple[str, ...], dialect: Dialect, image: TopicNames, context: Context
    ) -> None:
        self.consumers = {
            name: _LiveConsumer(name, topics, dialect, image, 1_000 * at) for at, name in enumerate(names, 1)
        }
        self.state, self.context, self.token = Coordinator(), context, 0

    def along(self, path: Sequence[tuple[Action, Mapping[str, State]]]) -> str:
        """Takes the path; `State`s are those of the model after each step. What differs first; empty where nothing."""
        for number, (action, after) in enumerate(path, 1):
            self._take(action)
            for name, state in after.items():
                if name == BROKER:
                    live, wanted = _book(self.state), _book(state)
                else:
                    one = self.consumers[name]
                    live, wanted = (
                        seen(one.app, one.shell.member, one.using),
                        seen(state.app, state.member, state.using),
                    )
                if live != wanted:
                    return f"step {number}, {action.actor} {action.what}: {name} is {live}, and was to be {wanted}"
        return ""

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
        for kind, begins in ((TimerKind.SESSION, "session of "), (TimerKind.REBALANCE, "rebalance timeout of ")):
            if what.startswith(begins):
                key = kind, f"{what.removeprefix(begins).split()[0]}-0"
                due = replace(group, timers=group.timers.set(key, self.context.now_ms, group.timers.epoch(key)))
                self.state = broker.handle_timer(self.state.with_group(due), self.context).state


def _same(one: Any, other: Any) -> bool:
    """Whether two requests say the same; where live consumers name a rebalance timeout, it is another."""
    first, second = (replace(body, rebalance_timeout_ms=min(body.rebalance_timeout_ms, 1)) for body in (one, other))
    return bool(first == second)
