"""The times of the steps of a path with classic members, from the timers of live objects.

A path is replayed with real timeouts, first with a clock for each component, where a timer that expires in the path is
made due. The constraints of the timers give times, at which the path is replayed with one clock for all, until the
times no longer change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from fsm.check.kafka.application import BROKER, ENDED
from fsm.check.kafka.live.consumers import LiveClassic, LiveConsumer, LiveMember
from fsm.check.kafka.live.idle_steps import Models, find_room
from fsm.check.kafka.live.replay import Replay, trace_along
from fsm.check.model import Action, Path, Replayed
from fsm.check.timing import Timing
from fsm.coordinator.model.context import Context
from fsm.member.classic.state import ClassicConfig
from fsm.member.runtime.trace import TraceTo
from fsm.tables.consumer_member import State

PASSES = 5
"""The maximum number of passes."""
FIRED = {
    "heartbeat interval is over": "heartbeat",
    "poll timer runs out": "poll",
    "backoff of its commit is over": "commit",
    "auto-commit interval is over": "auto-commit",
}
"""The timer of a member that has expired when it takes the step of this name."""
SILENT = (State.UNSUBSCRIBED, State.FENCED, State.STALE, State.FATAL)
"""States in which a member's heartbeats are not due."""
T = TypeVar("T")


class Timeouts(NamedTuple):
    """The timeouts of all members and their sessions; some members have a shorter poll timeout."""

    short: frozenset[str] = frozenset()
    heartbeat_interval_ms: int = 3_000
    session_ms: int = 45_000

    def max_poll_interval_ms(self, name: str) -> int:
        """The poll timeout of a member, which is also its rebalance timeout."""
        return 10_000 if name in self.short else 300_000

    def settings(self, names: Iterable[str]) -> dict[str, int]:
        """The timeouts by Kafka's names."""
        own = {f"max.poll.interval.ms of {name}": self.max_poll_interval_ms(name) for name in names}
        return {"session.timeout.ms": self.session_ms, "heartbeat.interval.ms": self.heartbeat_interval_ms} | own

    def member(self, name: str, config: ClassicConfig) -> ClassicConfig:
        """The settings of a classic member with these timeouts."""
        return replace(
            config,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms(name),
        )

    def context(self, context: Context) -> Context:
        """The coordinator's context with the timeouts that it gives consumers."""
        config = replace(
            context.config,
            group_consumer_session_timeout_ms=self.session_ms,
            group_consumer_min_session_timeout_ms=self.session_ms,
            group_consumer_heartbeat_interval_ms=self.heartbeat_interval_ms,
            group_consumer_min_heartbeat_interval_ms=self.heartbeat_interval_ms,
        )
        return replace(context, config=config)


def _list_timeouts(path: Path, names: Iterable[str]) -> Iterator[Timeouts]:
    """Kafka's defaults, then others: the shortest path has no room for the heartbeats of 45 or 300 idle seconds."""
    actions = " ".join(f"{action.actor} {action.what}" for action, _ in path if not action.sender)
    is_over = {name for name in names if re.search(rf"{name} poll timer|(time for|timeout of) {name}\d* ", actions)}
    everybody = frozenset(names) if "phase is over" in actions else frozenset[str]()
    for short in sorted({frozenset[str](), frozenset(is_over), everybody}, key=lambda one: (len(one), sorted(one))):
        for heartbeat_interval_ms in (3_000, 9_000, 44_000):
            yield Timeouts(short, heartbeat_interval_ms)


def find_times(path: Path, make: Callable[[Timeouts | None, TraceTo | None], Replay], models: Models) -> Replayed:
    """Replays a path and finds its times; `make` creates live objects for timeouts, or with the model's for None."""
    if differs := make(None, None).along(path):
        return Replayed(differs)
    live = make(None, None)
    names, delay_ms = sorted(live.clients), live.broker.host.context.config.group_initial_rebalance_delay_ms

    def take(timeouts: Timeouts, path: Path) -> tuple[Timing, tuple[int, ...]] | None:
        return settle_times(lambda note, times_ms: make(timeouts, None).along(path, note, times_ms), _note)

    found = find_room(path, _list_timeouts(path, names), take, models)
    if found is None or not found.times_ms:
        return Replayed(untimed=found.timing.contradiction() if found else "")
    settings = found.timeouts.settings(names) | {"group.initial.rebalance.delay.ms": delay_ms}
    records = trace_along(found.woven.path, partial(make, found.timeouts), found.times_ms)
    return found.tell_run(settings, records)


def settle_times(
    along: Callable[[Callable[[T, Action | None], None], tuple[int, ...]], str],
    note: Callable[[Timing, T, Action | None], None],
    before: int = 0,
) -> tuple[Timing, tuple[int, ...]] | None:
    """Replays a path until its timers allow the given times; no times if they never do.

    The first `before` steps do not belong to the path. None if it is not taken even without times.
    """
    found: tuple[Timing, tuple[int, ...]] | None = None
    for _ in range(PASSES):
        timing, given = Timing(before), found[1] if found else ()
        if along(partial(note, timing), given):
            break
        found = timing, timing.solve()
        if not found[1] or found[1] == given:
            return found
    return (found[0], ()) if found else None


def _note(timing: Timing, live: Replay, action: Action | None) -> None:
    """Notes the constraints of the timers before a step, or after it."""
    if action is not None:
        what, who = action.what, action.actor if not action.sender else ""
        timing.step()
        timing.meets(BROKER, [what] if who == BROKER else [])
        for name in live.clients:
            fired = {"polls": "retry"}.get(what, FIRED.get(what, "")) if name == who else ""
            timing.meets(name, [fired], () if fired == "retry" else ("retry",), prompt=fired != "retry")
        return
    for name, member in live.clients.items():
        timing.leaves(name, member.now_ms, _timers(member))
    timing.leaves(BROKER, live.broker.host.now_ms, live.broker.timers())


def _timers(member: LiveMember) -> dict[str, int]:
    """The timers of a member that matter now."""
    if member.app in ENDED:
        return {}
    found, ignored = member.timers(), set[str]()
    if isinstance(member, LiveClassic):
        beats = member.shell.member.heartbeats
        found |= {"session": beats.session_due_ms}
        ignored = set() if beats.enabled else {"heartbeat", "poll", "session"}
        if member.poll_wanted_ms > member.now_ms:
            found["retry"] = member.poll_wanted_ms
    elif isinstance(member, LiveConsumer):
        of_table = member.shell.member
        ignored = {"heartbeat"} if of_table.heartbeat_in_flight or of_table.state in SILENT else set()
        ignored |= {"poll"} if of_table.state is State.UNSUBSCRIBED else set()
    return {name: due_ms for name, due_ms in found.items() if name not in ignored}
