"""The times of the steps of a path, from the timers of live objects.

A path is replayed with real timeouts, first with a clock for each component, where a timer that expires in the path is
made due. The constraints of the timers give times, at which the path is replayed with one clock for all, until the
times no longer change.

A search omits steps without effect. Live objects need them if a path takes longer than a poll timer, a heartbeat
interval or a session: a poll with nothing to do, or a heartbeat with its usual answer, restarts the timer. Such an idle
step is inserted where the timers contradict each other without it, and is valid if it changes nothing in live objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fsm.check.kafka.application import BROKER, ENDED, NOW
from fsm.check.kafka.classic.member import ClassicModel
from fsm.check.kafka.consumer.coordinator import CoordinatorModel
from fsm.check.kafka.consumer.member import ConsumerModel
from fsm.check.kafka.live.consumers import LONG_MS, LiveClassic, LiveConsumer, LiveMember
from fsm.check.kafka.live.replay import Replay, trace_along
from fsm.check.model import Action, Choice, Path, Replayed
from fsm.check.timing import Constraint, Timing
from fsm.coordinator.model.context import Context
from fsm.member.classic.state import ClassicConfig
from fsm.member.runtime.trace import TraceTo
from fsm.tables.consumer_member import State
from fsm.trace import TraceRecord

PASSES = 5
"""The maximum number of passes."""
FIRED = {
    "heartbeat interval is over": "heartbeat",
    "poll timer runs out": "poll",
    "backoff of its commit is over": "commit",
    "auto-commit interval is over": "auto-commit",
}
"""The timer of a member that has expired when it takes the step of this name."""
INTERVALS_MS, CLASSIC_INTERVALS_MS = (5_000, 15_000, 3_000, 25_000), (3_000, 9_000, 44_000)
"""The heartbeat intervals that are tried, Kafka's default first."""
SILENT = (State.UNSUBSCRIBED, State.FENCED, State.STALE, State.FATAL)
"""States in which a member's heartbeats are not due."""


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


def make_live(
    model: ConsumerModel | ClassicModel, now_ms: int, timeouts: Timeouts | None, trace: TraceTo | None, life: int = 0
) -> LiveMember:
    """A live consumer with these timeouts, or those of its model."""
    if isinstance(model, ClassicModel):
        config = timeouts and timeouts.member(model.name, model.config)
        return LiveClassic(model, now_ms, config, trace, life=life)
    longest_ms = timeouts.max_poll_interval_ms(model.name) if timeouts else LONG_MS
    return LiveConsumer(model, now_ms, longest_ms, trace, life=life)


def make_replay(
    models: Iterable[ConsumerModel | ClassicModel],
    hub: CoordinatorModel,
    timeouts: Timeouts | None,
    trace: TraceTo | None,
    convert: Callable[[LiveMember], LiveMember] | None = None,
) -> Replay:
    """Live consumers and their coordinator with these timeouts, or those of the models."""
    live = {one.name: make_live(one, NOW if trace else 1_000 * at, timeouts, trace) for at, one in enumerate(models, 1)}
    return Replay(live, timeouts.context(hub.context) if timeouts else hub.context, hub, convert)


def _list_timeouts(path: Path, names: Iterable[str], intervals_ms: Sequence[int]) -> Iterator[Timeouts]:
    """Kafka's defaults, then others: the shortest path has no room for the heartbeats of 45 or 300 idle seconds."""
    actions = " ".join(f"{action.actor} {action.what}" for action, _ in path if not action.sender)
    is_over = {name for name in names if re.search(rf"{name} poll timer|(time for|timeout of) {name}\d* ", actions)}
    everybody = frozenset(names) if "phase is over" in actions else frozenset[str]()
    for short in sorted({frozenset[str](), frozenset(is_over), everybody}, key=lambda one: (len(one), sorted(one))):
        for heartbeat_interval_ms in intervals_ms:
            yield Timeouts(short, heartbeat_interval_ms)


def find_times(
    path: Path,
    make: Callable[[Timeouts | None, TraceTo | None], Replay],
    models: Models,
    *,
    may_be_classic: bool = True,
) -> Replayed:
    """Replays a path and finds its times; `make` creates live objects for timeouts, or with the model's for None.

    The group `may_be_classic`: then there is an initial rebalance delay, and the heartbeat interval is a client's.
    """
    if differs := make(None, None).along(path):
        return Replayed(differs)
    live = make(None, None)
    names, config = sorted(live.clients), live.broker.host.context.config
    of_classic = {"group.initial.rebalance.delay.ms": config.group_initial_rebalance_delay_ms} if may_be_classic else {}
    timeouts = _list_timeouts(path, names, CLASSIC_INTERVALS_MS if may_be_classic else INTERVALS_MS)

    def take(timeouts: Timeouts, path: Path) -> tuple[Timing, tuple[int, ...]] | None:
        return settle_times(lambda note, times_ms: make(timeouts, None).along(path, note, times_ms), _note)

    found = find_room(path, timeouts, take, models)
    if found is None or not found.times_ms:
        return Replayed(untimed=found.timing.contradiction() if found else "")
    settings = found.timeouts.settings(names) | of_classic
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
            # The member polls for both timers.
            idle = () if fired == "retry" else ("retry",) if name == who else ("retry", "auto-commit")
            timing.meets(name, [fired], idle, prompt=fired != "retry")
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


# Idle steps

MOST = 12
"""The maximum number of idle steps."""
TRIES, OF_ALL = 120, 400
"""How often a path is replayed at most to try idle steps: with the same timeouts, and in all."""
KEPT = 3
"""How many placements of idle steps are pursued at once: those that get furthest."""
ANSWER: Any = (None, None)
"""A placeholder for a response: live objects have their own."""
BEATS = "heartbeat interval is over"
HEARTBEAT, POLL = "has a heartbeat answered", "polls"
T = TypeVar("T")
_Took = tuple[Timing, tuple[int, ...]]


class Idle(NamedTuple):
    """A step that changes nothing."""

    who: str
    what: str
    also: str = ""
    """The member whose heartbeat is sent meanwhile and handled before."""

    def __str__(self) -> str:
        return f"{self.also} and {self.who} have heartbeats answered" if self.also else f"{self.who} {self.what}"


class Chooses(Protocol):
    """A component's model: its choices in a state."""

    def choices(self, state: Any, /) -> Iterable[Choice]: ...


Models = Mapping[str, Chooses]
"""The components that can take idle steps."""


class PathWithIdle(NamedTuple):
    """A path with idle steps in it."""

    path: Path
    idle: tuple[Idle | None, ...]
    """The idle step to which each step belongs; None for the path's own steps."""

    def tell(self, times_ms: Sequence[int]) -> tuple[tuple[int, int, str], ...]:
        """For each idle step: the number of the step that follows it, its time, and its text."""
        return tuple(
            (number, at_ms, str(one))
            for number, at_ms, one, before in zip(
                self._numbers(), times_ms, self.idle, (None, *self.idle), strict=False
            )
            if one is not None and one is not before
        )

    def list_times(self, times_ms: Sequence[int]) -> tuple[int, ...]:
        """The times of the path's own steps."""
        return tuple(at_ms for at_ms, one in zip(times_ms, self.idle, strict=True) if one is None)

    def _numbers(self) -> Iterator[int]:
        number = 1
        for one in self.idle:
            yield number
            number += one is None

    def with_idle(self, at: int, one: Idle) -> PathWithIdle:
        """The path with an idle step inserted before this index, which is not the first."""
        actions = [Action(one.who, one.what)]
        if one.what == HEARTBEAT:
            both = [name for name in (one.also, one.who) if name]
            actions = [Action(name, BEATS) for name in reversed(both)]
            actions += [Action(BROKER, "receives", sender=name, receiver=BROKER) for name in both]
            actions += [Action(name, "receives", sender=BROKER, receiver=name, message=ANSWER) for name in both]
        steps: list[tuple[Action, Mapping[str, Any]]] = [(action, {}) for action in actions[:-1]]
        steps += [(actions[-1], self.path[at - 1][1])]
        return PathWithIdle(
            (*self.path[:at], *steps, *self.path[at:]), (*self.idle[:at], *[one] * len(steps), *self.idle[at:])
        )


class ReplayResult(NamedTuple, Generic[T]):
    """The result of a replay: the times at which the path can happen, and the constraints of its timers."""

    timing: Timing
    times_ms: tuple[int, ...]
    woven: PathWithIdle
    timeouts: T

    def tell_run(self, settings: Mapping[str, int], records: Iterable[TraceRecord]) -> Replayed:
        """The result as a verdict shows it."""
        trace = tuple(record.to_json() for record in records)
        woven = self.woven
        return Replayed("", woven.list_times(self.times_ms), settings, trace, idle=woven.tell(self.times_ms))


def find_room(
    path: Path,
    timeouts: Iterable[T],
    take: Callable[[T, Path], _Took | None],
    models: Models,
) -> ReplayResult[T] | None:
    """Finds the first timeouts that allow the path, with idle steps if needed; else those that get furthest.

    `take` returns None if live objects do not take a path. Returns None if they take this one with no timeouts.
    """
    tried: list[ReplayResult[T]] = []
    plain = PathWithIdle(path, (None,) * len(path))
    for one in timeouts:
        if (taken := take(one, path)) is not None:
            tried.append(ReplayResult(*taken, plain, one))
            if tried[-1].times_ms:
                return tried[-1]
    left = OF_ALL
    for begun in sorted(tried, key=_rank, reverse=True):  # sorted() is stable: the first ones are the most usual
        for found in islice(_add_idle_steps(begun, take, models), min(TRIES, left)):
            left -= 1
            if found is not None and found.times_ms:
                return found
    return max(tried, key=_rank, default=None)


def _add_idle_steps(
    begun: ReplayResult[T], take: Callable[[T, Path], _Took | None], models: Models
) -> Iterator[ReplayResult[T] | None]:
    """Paths with idle steps, the fewest first; None for one that live objects do not take."""
    kept = [begun]
    for _ in range(MOST):
        further: list[ReplayResult[T]] = []
        for one in kept:
            for woven in _candidates(one, models):
                taken = take(begun.timeouts, woven.path)
                found = ReplayResult(*taken, woven, begun.timeouts) if taken is not None else None
                further += [found] if found is not None else []
                yield found
        kept = sorted(further, key=_rank, reverse=True)[:KEPT]


def _rank(one: ReplayResult[Any]) -> tuple[int, int]:
    """How many of the path's own steps it gets to, and how little is missing for the next one."""
    room = one.timing.room()
    own = sum(1 for idle in one.woven.idle[:room] if idle is None)
    return own, -sum(each.ms for each in one.timing.circle(room))


def _candidates(one: ReplayResult[Any], models: Models) -> Iterator[PathWithIdle]:
    """Paths with one more idle step that restarts a timer which is too short, the later positions first."""
    woven = one.woven
    for asked in one.timing.circle():
        for idle in _idle_for(asked, list(models)) if asked.ms < 0 else ():
            for at in reversed(asked.span):
                is_within = woven.idle[at] is not None and woven.idle[at] is woven.idle[at - 1]
                if not is_within and _can(idle, models, woven.path[at - 1][1]):
                    yield woven.with_idle(at, idle)


def _can(one: Idle, models: Models, states: Mapping[str, Any]) -> bool:
    """Whether the idle step is possible in these states of the model."""
    label = POLL if one.what == POLL else BEATS
    return all(
        any(choice.label == label and not choice.disturbance for choice in models[name].choices(states[name]))
        for name in (one.who, one.also)
        if name
    )


def _idle_for(asked: Constraint, names: Sequence[str]) -> Iterator[Idle]:
    """Idle steps that restart a timer which must not have expired yet."""
    own = [str(asked.owner)] if asked.owner in names and asked.name in ("poll", "heartbeat", "session") else []
    for who in own or (name for name in names if asked.name.startswith(f"session of {name}")):
        if asked.name == "poll":
            yield Idle(who, POLL)
        yield Idle(who, HEARTBEAT)
        yield from (Idle(who, HEARTBEAT, also) for also in names if also != who)
