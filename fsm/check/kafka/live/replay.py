"""The replay of a path of a model by production objects: members with clocks, call numbers and generators, and a host.

The host has the real log, real tokens and a clock; a timer that expires in the path is made due. The states of model
and live objects are compared after each step: states, epochs, targets, owned and used partitions, the coordinator's
state. A difference is an error of the model, and no counterexample.

A path ends at the instant of a violation, or when the goal is out of reach. An audit of the trace sees only what lasts
for some time after it, so live objects continue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from fsm.check.kafka.application import BROKER, ENDED, GROUP, NOW, App
from fsm.check.kafka.classic.shell import ClassicConsumer
from fsm.check.kafka.classic.shell import observe as observe_classic
from fsm.check.kafka.consumer.coordinator import CoordinatorModel
from fsm.check.kafka.consumer.member import FIND
from fsm.check.kafka.consumer.shell import observe
from fsm.check.kafka.descriptions import Seen, tell_difference
from fsm.check.kafka.live.broker import LiveBroker
from fsm.check.kafka.live.consumers import LiveMember
from fsm.check.kafka.mixed.member import CONVERTED
from fsm.check.kafka.topics import CLUSTER
from fsm.check.model import Action, Path
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Step
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.messages import TIMED_OUT, JoinGroupRequest
from fsm.protocol.records import Record, to_json
from fsm.trace import Kind, TraceRecord

GONE = (App.DEAD, App.CRASHED)
"""States of an application that receives no more responses; one that has closed ended its connection in order."""
LATER_MS = 2
"""How much later than its scheduled time a step may be."""
HELD_MS, WATCHED_MS = 1_000, 40_000
"""The pause after the last step, and the length of the traced continuation."""
TURN_MS = 500
"""The interval of polls in the continuation."""
ROUND_TRIPS = 4
"""The maximum number of consecutive round trips within one turn."""
Convert = Callable[[LiveMember], LiveMember]


class PathReplay(ABC):
    """Live clients and a live coordinator, driven along a path of a model."""

    clients: Mapping[str, Any]
    broker: LiveBroker

    def along(
        self, path: Path, note: Callable[[Self, Action | None], None] | None = None, times_ms: Sequence[int] = ()
    ) -> str:
        """Takes the path; its states are those of the model after each step.

        Returns the first difference; empty if there is none. `note` is called before each step with its action, and
        after it with None. With times all components share one clock.
        """
        is_untimed = note is None and not times_ms
        for number, (action, after) in enumerate(path, 1):
            if times_ms:
                self.set_clocks(NOW + times_ms[number - 1])
            if note is not None:
                note(self, action)
            self.broker.pass_time()
            self.take(action)
            if times_ms and self._is_ahead(NOW + times_ms[number - 1]):
                return f"step {number}, {action.actor} {action.what}: its timer still runs"
            if note is not None:
                note(self, None)
            for name, state in after.items():
                if differs := self.compare(name, state, lengths=is_untimed):
                    return f"step {number}, {action.actor} {action.what}: {differs}"
        return ""

    def _is_ahead(self, now_ms: int) -> bool:
        """Whether a clock runs ahead of the given time: its step waits for a timer that still runs."""
        return any(one.now_ms > now_ms + LATER_MS for one in self.clients.values())

    def set_clocks(self, now_ms: int) -> None:
        """Sets all clocks to the same time; each component advances its own by a millisecond when it acts."""
        self.broker.host.context = self.broker.host.context.at(now_ms - 1)
        for one in self.clients.values():
            one.now_ms = now_ms - 1

    @abstractmethod
    def take(self, action: Action) -> None:
        """Takes a step."""

    @abstractmethod
    def compare(self, name: str, state: Any, *, lengths: bool) -> str:
        """How a live component differs from the model's state, with or without phase lengths; empty if it does not."""

    def deliver(self, action: Action) -> None:
        """Delivers or loses a request or a response; nothing happens if the live client has none in flight."""
        if action.sender == BROKER:
            client = self.clients[action.receiver]
            if client.back:
                order, answer = client.back.pop(0)
                client.end(order, answer if action.what == "receives" else TIMED_OUT)
        elif action.actor == BROKER:
            self.broker.request(action.sender, action)
        elif (client := self.clients[action.sender]).out:
            order = client.out.pop(0)
            client.late.add([order] if action.what == "late" else [])
            client.end(order, TIMED_OUT)

    def serve(self, name: str) -> None:
        """Handles the first request of a client."""
        self.broker.request(name, Action(BROKER, "receives", message=self.clients[name].out[0]))

    def exchange(self, name: str) -> None:
        """Handles the requests that a client has sent, and passes it the responses."""
        client = self.clients[name]
        for _ in range(ROUND_TRIPS):
            for _ in range(len(client.out)):
                self.serve(name)
            for _ in range(len(client.back)):
                client.end(*client.back.pop(0))


class Replay(PathReplay):
    """Live members of either protocol and their coordinator."""

    def __init__(
        self,
        members: dict[str, LiveMember],
        context: Context,
        model: CoordinatorModel,
        convert: Convert | None = None,
    ) -> None:
        """`model` is that of the path's coordinator.

        `convert` returns the next process of a consumer if it uses the other protocol.
        """
        self.clients: dict[str, LiveMember] = members
        self.convert = convert
        self.broker = LiveBroker(
            members,
            context,
            model,
            lambda one, asked: bool(_describe(one) == _describe(asked)),
            lambda name: members[name].app in GONE,
            converts=convert is not None,
        )

    def compare(self, name: str, state: Any, *, lengths: bool) -> str:
        """The first difference of a member or the coordinator."""
        if name == CLUSTER:
            return ""
        if name == BROKER:
            live, wanted = (book(one, lengths=lengths) for one in (self.broker.host.state, state.state))
        else:
            live, wanted = self.clients[name].seen, _see(state)
        return tell_difference(name, live, wanted)

    def take(self, action: Action) -> None:
        """Takes a step of a member, the coordinator or the topics."""
        match action:
            case Action(actor="cluster") | Action(receiver="cluster"):
                return
            case Action(sender="cluster", receiver="broker"):
                self.broker.learn(action.message)
            case Action(sender="cluster"):
                self.clients[action.receiver].learn(action.message)
            case Action(sender=sender) if sender:
                self.deliver(action)
            case Action(actor="broker"):
                self.broker.act(action.what)
            case Action(actor=name, what=what) if "starts again" in what:
                self._begin_life(name, what)
            case _:
                self.clients[action.actor].act(action.what)

    def _begin_life(self, name: str, what: str) -> None:
        """Starts another process of a consumer; requests of the previous one become late."""
        before = self.clients[name]
        converts = self.convert is not None and what.endswith(CONVERTED)
        after = self.convert(before) if self.convert is not None and converts else before.next_life()
        self.clients[name] = before.hand_over(after)

    def trace_coordinator(self, to: Callable[[TraceRecord], None]) -> None:
        """Traces what the coordinator stores from here on, after the topic names by id that its log uses."""
        host = self.broker.host
        names = dict(host.context.image.names)
        to(TraceRecord(host.now_ms, Kind.TOPIC_NAMES, GROUP, thread="coordinator", settings=names))

        def note(step: Step[Coordinator]) -> None:
            for record in _tell_stored(step.records, host.now_ms):
                to(record)

        host.on_step = note

    def go_on(self, now_ms: int) -> None:
        """Continues without disturbances: first a pause, then everything that is due.

        A violation of the path may raise an error later, which ends the continuation.
        """
        turns_ms = turns(now_ms)
        self._note_users(turns_ms.start)
        with suppress(Exception):
            for turn_ms in turns_ms:
                self.set_clocks(turn_ms)
                self.broker.expire()
                for name in self.clients:
                    self._take_turn(name, turn_ms)
            self._note_users(turns_ms.stop)

    def serve(self, name: str) -> None:
        self.broker.pass_time()
        super().serve(name)

    def _take_turn(self, name: str, now_ms: int) -> None:
        self.exchange(name)
        one = self.clients[name]
        if one.asked is not None and one.app is not App.HUNG:
            one.act("returns from its callback")
        if one.app is App.RUNNING and one.heartbeat_due_ms <= now_ms:
            one.act("heartbeat interval is over")
        if one.app is App.RUNNING:
            one.act("polls")
        self.exchange(name)

    def _note_users(self, now_ms: int) -> None:
        """Notes in the trace what each application uses at that time."""
        for one in self.clients.values():
            if one.app not in ENDED and one.shell.trace is not None:
                one.shell.trace.write(now_ms, Kind.OWNED, full=one.using, thread="app")


def trace_along(path: Path, make: Callable[[TraceTo], Replay], times_ms: Sequence[int]) -> list[TraceRecord]:
    """The trace of members and coordinator as they replay the path at these times, and continue."""
    records: list[TraceRecord] = []
    live = make(records.append)
    live.trace_coordinator(records.append)
    if live.along(path, None, times_ms):
        return []
    live.go_on(NOW + times_ms[-1])
    return records


def _see(state: Any) -> Seen:
    of_kind = observe_classic if isinstance(state, ClassicConsumer) else observe
    return of_kind(state.app, state.member, state.using)


def _describe(order: Any) -> Any:
    """A request without its purpose and its rebalance timeout, which differs for live consumers."""
    if order == FIND:
        return order
    body = order.body
    if isinstance(body, JoinGroupRequest):
        return replace(body, reason="", session_timeout_ms=1, rebalance_timeout_ms=1)
    return replace(body, rebalance_timeout_ms=1) if getattr(body, "rebalance_timeout_ms", -1) > 0 else body


def book(state: Coordinator, *, lengths: bool = True) -> Seen:
    """The parts of a coordinator's state that the model and a live one share, with or without phase lengths."""
    group = state.groups.get(GROUP)
    if not isinstance(group, ClassicGroup):
        return _book_of_consumer_group(group)
    join = group.join_phase and (group.join_phase[1:] if lengths else group.join_phase.is_initial)
    return {
        "group": group.state,
        "generation": group.generation,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "assignments": {member_id: member.assignment for member_id, member in sorted(group.members.items())},
        "waiting joins": sorted(group.delayed_joins),
        "waiting syncs": sorted(group.delayed_syncs),
        "ids given out": sorted(group.pending_join_members),
        "missing syncs": sorted(group.pending_sync_members),
        "new members": sorted(group.new_members),
        "sessions": sorted(group.heartbeat_deadlines_ms),
        "join phase": join,
        "sync phase": group.sync_phase and group.sync_phase.generation,
    }


def _book_of_consumer_group(group: Group | None) -> Seen:
    """The parts of a consumer group's state that the model and a live group share."""
    if not isinstance(group, ConsumerGroup):
        return {}
    return {
        "epoch": group.epoch,
        "target epoch": group.target_epoch,
        "group": group.state,
        "members": {member_id: member.current for member_id, member in sorted(group.members.items())},
        "targets": dict(sorted(group.targets.items())),
        "timers": sorted((kind.value, who) for (kind, who), _, _ in group.timers.in_order()),
    }


def _tell_stored(records: Iterable[Record], now_ms: int) -> Iterator[TraceRecord]:
    """The trace records of a coordinator's log, as its parser returns them."""
    from fsm.logs.programs.consumer_offsets import interpret  # noqa: PLC0415  only a counterexample needs it

    for record in records:
        printed = to_json(record)
        yield from interpret(now_ms, int(printed["key"]["type"]), printed["key"], printed["value"]) or ()


def turns(now_ms: int) -> range:
    """The instants of the turns, after the pause."""
    held_ms = now_ms + HELD_MS
    return range(held_ms, held_ms + WATCHED_MS, TURN_MS)
