"""Replays a path of the model with live production objects: running clocks, call numbers, generators.

After each step model and live objects are compared: states, epochs, targets, owned and used partitions, the
coordinator's state. A difference is an error of the model, and no counterexample. If the timers allow it, the path is
then replayed with one clock for all, and the members write their trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.check.kafka.application import BROKER, ENDED, GROUP, NOW, TIMERS, App
from fsm.check.kafka.consumer.compaction import FROM_CLEANED, FROM_COMPACTED, Log, append, load_from
from fsm.check.kafka.consumer.coordinator import MOVES, CoordinatorModel, let_pass, refuse, version_of
from fsm.check.kafka.consumer.member import FIND, FOUND, ConsumerModel, id_of
from fsm.check.kafka.consumer.shell import observe
from fsm.check.kafka.descriptions import Seen, tell_difference
from fsm.check.kafka.live.consumers import AUTO_COMMIT_MS, LONG_MS, LiveConsumer, take_request
from fsm.check.kafka.live.idle_steps import find_room
from fsm.check.kafka.live.tracing import go_on, tell_stored, topics_of
from fsm.check.kafka.topics import CLUSTER
from fsm.check.model import Action, Path, Replayed
from fsm.check.timing import Timing
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.host import Host
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Step as CoordinatorStep
from fsm.coordinator.model.timers import TimerKind
from fsm.coordinator.storage.load import load
from fsm.member.effects import UnsentRequest
from fsm.protocol.messages import TIMED_OUT, ConsumerGroupHeartbeatRequest
from fsm.tables.consumer_member import State
from fsm.trace import TraceRecord


class Timeouts(NamedTuple):
    """The timeouts of the group, and the poll timeout of each member."""

    max_poll_interval_ms: dict[str, int]
    session_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000

    def settings(self) -> dict[str, int]:
        """The timeouts by Kafka's names."""
        group = {"session.timeout.ms": self.session_ms, "heartbeat.interval.ms": self.heartbeat_interval_ms}
        return group | {f"max.poll.interval.ms of {name}": ms for name, ms in self.max_poll_interval_ms.items()}


FIRED = {
    "heartbeat interval is over": "heartbeat",
    "poll timer runs out": "poll",
    "backoff of its commit is over": "commit",
    "auto-commit interval is over": "auto-commit",
}
SILENT = (State.UNSUBSCRIBED, State.FENCED, State.STALE, State.FATAL)
"""States in which a member's heartbeats are not due."""


class Cast(NamedTuple):
    """The models of the components that take a path."""

    consumers: Sequence[ConsumerModel]
    hub: CoordinatorModel

    @property
    def names(self) -> list[str]:
        """The names of the consumers."""
        return [one.name for one in self.consumers]


def book_of_consumer_group(group: Group | None) -> Seen:
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


def replay(cast: Cast, path: Path) -> Replayed:
    """Replays a path twice: with a clock for each member, to compare states; and with one clock, if timers allow it."""
    if differs := _Replay(cast, next(_timeouts(cast, path))).along(path):
        return Replayed(differs)

    def take(timeouts: Timeouts, path: Path) -> tuple[Timing, tuple[int, ...]] | None:
        timing = Timing()
        if _Replay(cast, timeouts).along(path, timing):
            return None
        times_ms = timing.solve()
        fits = times_ms and not _Replay(cast, timeouts, times_ms).along(path)
        return timing, times_ms if fits else ()

    found = find_room(path, _timeouts(cast, path), take, {one.name: one for one in cast.consumers}, alternate=True)
    if found is None or not found.times_ms:
        return Replayed(untimed=found.timing.contradiction() if found else "")
    records = list[TraceRecord]()
    timed = _Replay(cast, found.timeouts, found.times_ms, records.append)
    timed.along(found.woven.path)
    timed.go_on(NOW + found.times_ms[-1])
    return found.tell_run(found.timeouts.settings(), records)


def _timeouts(cast: Cast, path: Path) -> Iterator[Timeouts]:
    """Kafka's defaults, then others: the shortest path has no room for the heartbeats of 300 idle seconds."""
    tells = {name: ("poll timer runs out", TIMERS[TimerKind.REBALANCE][1].format(name)) for name in cast.names}
    actions = {(action.actor, action.what) for action, _ in path}
    short = {
        name: 10_000 for name, (own, theirs) in tells.items() if (name, own) in actions or (BROKER, theirs) in actions
    }
    usual = Timeouts(dict.fromkeys(cast.names, 300_000))
    for polls in (usual, *([usual._replace(max_poll_interval_ms=usual.max_poll_interval_ms | short)] if short else [])):
        for heartbeat_interval_ms in (5_000, 15_000, 3_000, 25_000):
            yield polls._replace(heartbeat_interval_ms=heartbeat_interval_ms)


class _Replay:
    """Live consumers and a live coordinator, driven along a path."""

    def __init__(
        self,
        cast: Cast,
        timeouts: Timeouts,
        times_ms: Sequence[int] = (),
        trace: Callable[[TraceRecord], None] | None = None,
    ) -> None:
        self.times_ms, self.timeouts, self.trace = times_ms, timeouts, trace
        self.hub = cast.hub
        self.consumers = {
            one.name: LiveConsumer(one, NOW, timeouts.max_poll_interval_ms[one.name], trace)
            if times_ms
            else LiveConsumer(one, 1_000 * at, LONG_MS, None)
            for at, one in enumerate(cast.consumers, 1)
        }
        context = self.hub.context(())
        config = replace(
            context.config,
            group_consumer_session_timeout_ms=timeouts.session_ms,
            group_consumer_min_session_timeout_ms=timeouts.session_ms,
            group_consumer_heartbeat_interval_ms=timeouts.heartbeat_interval_ms,
            group_consumer_min_heartbeat_interval_ms=timeouts.heartbeat_interval_ms,
        )
        context = replace(context, config=config, now_ms=NOW)
        self.host = Host(context, resolves=False, keeps_log=False, on_step=self._note)
        self.log: Log = ()
        self.elsewhere: frozenset[str] = frozenset()
        if trace is not None:
            trace(topics_of(context.image, NOW))

    def along(self, path: Path, timing: Timing | None = None) -> str:
        """Takes the path. Returns the first difference from the model; empty if there is none."""
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
                    live, wanted = (book_of_consumer_group(s.groups.get(GROUP)) for s in (self.host.state, state.state))
                elif name in self.consumers:
                    live, wanted = self.consumers[name].seen, observe(state.app, state.member, state.using)
                else:
                    continue
                if differs := tell_difference(name, live, wanted):
                    return f"step {number}, {action.actor} {action.what}: {differs}"
        return ""

    def go_on(self, now_ms: int) -> None:
        """Continues without disturbances."""
        go_on(self.consumers, self._serve, self._pass_time, now_ms)

    def _pass_time(self, now_ms: int) -> None:
        self._set_clocks(now_ms)
        self.host.expire(self.host.now_ms)

    def _serve(self, name: str) -> None:
        consumer = self.consumers[name]
        self._request(Action(BROKER, "receives", message=consumer.out[0]), consumer)

    def _set_clocks(self, now_ms: int) -> None:
        """Sets all clocks to the same time; each component advances its own by a millisecond when it acts."""
        self.host.context = self.host.context.at(now_ms - 1)
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
            due_ms, sooner_ms = consumer.timers(), {"poll": shorter_ms[name], "auto-commit": LONG_MS - AUTO_COMMIT_MS}
            due_ms |= {timer: due_ms[timer] - ms for timer, ms in sooner_ms.items() if timer in due_ms}
            timing.leaves(name, consumer.now_ms, due_ms)
        group = self.host.state.groups.get(GROUP)
        due_ms = {}
        for (kind, who), at_ms, _ in group.timers.in_order() if isinstance(group, ConsumerGroup) else ():
            if kind in TIMERS:
                name = who.partition("-")[0]
                by_ms = shorter_ms[name] if kind is TimerKind.REBALANCE else 0
                due_ms[TIMERS[kind][1].format(who.removesuffix("-0"))] = at_ms - by_ms
        timing.leaves(BROKER, self.host.now_ms, due_ms)

    def _take(self, action: Action) -> None:
        self.host.context = self.host.context.at(self.host.now_ms + 1)
        name, what = action.actor, action.what
        if action.wire >= 2 * len(self.consumers):
            if name != CLUSTER:
                self._learn(name, action.message)
        elif action.wire >= 0:
            self._deliver(action, self.consumers[list(self.consumers)[action.wire // 2]])
        elif name == BROKER:
            self._let_pass(what)
        elif "starts again" in what:
            self.consumers[name] = self.consumers[name].hand_over(self.consumers[name].next_life())
        elif name != CLUSTER:
            self.consumers[name].act(what)

    def _deliver(self, action: Action, consumer: LiveConsumer) -> None:
        """Delivers or loses a request or response of a consumer; nothing happens if the live consumer has none."""
        late = action.what == "receives late"
        if not (consumer.back if action.wire % 2 else consumer.late if late else consumer.out):
            return
        if action.wire % 2:  # an answer
            order, answer = consumer.back.pop(0)
            consumer.end(order, answer if action.what == "receives" else TIMED_OUT)
        elif action.actor == BROKER:
            self._request(action, consumer)
        else:
            order = consumer.out.pop(0)
            consumer.late.add([order] if action.what == "late" else [])
            consumer.end(order, TIMED_OUT)

    def _learn(self, name: str, topics: tuple[str, ...]) -> None:
        """Updates the metadata of a broker or a client."""
        if name == BROKER:
            self.host.update(self.hub.context(topics).image)
            return
        self.consumers[name].learn(topics)

    def _request(self, action: Action, consumer: LiveConsumer) -> None:
        """Handles a request, or loses it together with the broker that handled it."""
        name, late = consumer.model.name, action.what == "receives late"
        is_it = partial(_same, action.message) if late else None
        connection, order = take_request(consumer.out, consumer.late, is_it)
        bodies: list[Any]
        if action.what == "lost":
            self.host.take(load(self.host.state, self.host.context))
            bodies = [FOUND if order == FIND else TIMED_OUT]
        elif order == FIND:
            self.elsewhere -= set() if late else {name}
            bodies = [FOUND]
        elif name in self.elsewhere:
            bodies = [refuse(order, self.host.context)]
        else:
            version = version_of(order.body, self.host.context)
            sent = self.host.send(name, order.body, version, connection=connection)
            bodies = [one.body for one in sent.answers]
        if not late and consumer.app not in (App.DEAD, App.CRASHED):
            consumer.back += [(order, body) for body in bodies]

    def _let_pass(self, what: str) -> None:
        """Takes a step of the coordinator without a request."""
        for kind, (_, text) in TIMERS.items():
            begins, ends = text.split("{}")
            if what.startswith(begins) and what.endswith(ends):
                who = what.removeprefix(begins).removesuffix(ends)
                given = kind, who if "-" in who else id_of(who, 0)
                self.host.take(let_pass(self.host.state, given, self.host.context))
                return
        if what == MOVES:
            self.elsewhere = frozenset(self.consumers)
        if what in (FROM_COMPACTED, FROM_CLEANED):
            self.host.state = load_from(self.log, what, self.host.context)
            return
        self.host.take(let_pass(self.host.state, what, self.host.context))

    def _note(self, done: CoordinatorStep[Coordinator]) -> None:
        """Compacts the coordinator's log after a step."""
        self.log = append(self.log, done.records)
        if self.trace is not None:
            for record in tell_stored(done.records, self.host.now_ms):
                self.trace(record)


def _same(one: Any, other: Any) -> bool:
    """Whether two requests are equal apart from rebalance timeouts, which differ for live consumers."""
    return bool(_describe(one) == _describe(other))


def _describe(order: Any) -> Any:
    body = order.body if isinstance(order, UnsentRequest) else order
    if not isinstance(body, ConsumerGroupHeartbeatRequest):
        return body
    return replace(body, rebalance_timeout_ms=min(body.rebalance_timeout_ms, 1))
