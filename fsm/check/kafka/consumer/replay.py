"""The replay of a path of consumers of KIP-848: first to compare states, then at times that its timers allow.

With its own clock each member has a poll timeout that it never reaches, and the constraints are those of the timeouts
that it has when all share one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from fsm.check.kafka.application import BROKER, ENDED, GROUP, NOW, TIMERS
from fsm.check.kafka.consumer.coordinator import CoordinatorModel
from fsm.check.kafka.consumer.member import ConsumerModel
from fsm.check.kafka.live.consumers import AUTO_COMMIT_MS, LONG_MS, LiveConsumer, LiveMember
from fsm.check.kafka.live.replay import Replay, trace_along
from fsm.check.kafka.live.timed_replay import FIRED, SILENT, Timeouts, find_room
from fsm.check.model import Action, Path, Replayed
from fsm.check.timing import Timing
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.timers import TimerKind
from fsm.member.runtime.trace import TraceTo
from fsm.tables.consumer_member import State


def replay(consumers: Sequence[ConsumerModel], coordinator: CoordinatorModel, path: Path) -> Replayed:
    """Replays a path twice: with a clock for each member, to compare states; and with one clock, if timers allow it."""
    names = [one.name for one in consumers]

    def make(timeouts: Timeouts, trace: TraceTo | None = None, *, timed: bool = False) -> Replay:
        live: dict[str, LiveMember] = {
            one.name: LiveConsumer(one, NOW, timeouts.max_poll_interval_ms(one.name), trace)
            if timed
            else LiveConsumer(one, 1_000 * at, LONG_MS, None)
            for at, one in enumerate(consumers, 1)
        }
        return Replay(live, timeouts.context(coordinator.context(())), model=coordinator, is_strict=False)

    def take(timeouts: Timeouts, path: Path) -> tuple[Timing, tuple[int, ...]] | None:
        timing = Timing()
        if make(timeouts).along(path, partial(_note, timing, timeouts)):
            return None
        times_ms = timing.solve()
        fits = times_ms and not make(timeouts, timed=True).along(path, None, times_ms)
        return timing, times_ms if fits else ()

    timeouts = list(_list_timeouts(path, names))
    if differs := make(timeouts[0]).along(path):
        return Replayed(differs)
    found = find_room(path, timeouts, take, {one.name: one for one in consumers})
    if found is None or not found.times_ms:
        return Replayed(untimed=found.timing.contradiction() if found else "")
    records = trace_along(found.woven.path, partial(make, found.timeouts, timed=True), found.times_ms)
    return found.tell_run(found.timeouts.settings(names), records)


def _list_timeouts(path: Path, names: Sequence[str]) -> Iterator[Timeouts]:
    """Kafka's defaults, then others: the shortest path has no room for the heartbeats of 300 idle seconds."""
    over = {name: ("poll timer runs out", TIMERS[TimerKind.REBALANCE][1].format(name)) for name in names}
    actions = {(action.actor, action.what) for action, _ in path}
    short = frozenset(
        name for name, (own, theirs) in over.items() if (name, own) in actions or (BROKER, theirs) in actions
    )
    for those in (frozenset[str](), *([short] if short else [])):
        for heartbeat_interval_ms in (5_000, 15_000, 3_000, 25_000):
            yield Timeouts(those, heartbeat_interval_ms)


def _note(timing: Timing, timeouts: Timeouts, live: Replay, action: Action | None) -> None:
    """Notes the constraints of the timers before a step, or after it."""
    if action is None:
        _note_timers_left(timing, timeouts, live)
        return
    timing.step()
    by_itself = not action.sender
    timing.meets(BROKER, [action.what] if by_itself and action.actor == BROKER else [])
    consumer = live.clients.get(action.actor)
    if isinstance(consumer, LiveConsumer) and consumer.app not in ENDED:
        member, fired = consumer.shell.member, FIRED.get(action.what, "") if by_itself else ""
        idle = {"heartbeat"} if member.heartbeat_in_flight or member.state in SILENT else set()
        timing.meets(action.actor, [fired], idle | ({"poll"} if member.state is State.UNSUBSCRIBED else set()))


def _note_timers_left(timing: Timing, timeouts: Timeouts, live: Replay) -> None:
    shorter_ms = {name: LONG_MS - timeouts.max_poll_interval_ms(name) for name in live.clients}
    for name, consumer in live.clients.items():
        due_ms, sooner_ms = consumer.timers(), {"poll": shorter_ms[name], "auto-commit": LONG_MS - AUTO_COMMIT_MS}
        due_ms |= {timer: due_ms[timer] - ms for timer, ms in sooner_ms.items() if timer in due_ms}
        timing.leaves(name, consumer.now_ms, due_ms)
    host, due_ms = live.broker.host, {}
    group = host.state.groups.get(GROUP)
    for (kind, who), at_ms, _ in group.timers.in_order() if isinstance(group, ConsumerGroup) else ():
        if kind in TIMERS:
            by_ms = shorter_ms[who.partition("-")[0]] if kind is TimerKind.REBALANCE else 0
            due_ms[TIMERS[kind][1].format(who.removesuffix("-0"))] = at_ms - by_ms
    timing.leaves(BROKER, host.now_ms, due_ms)
