"""Idle steps in a path: polls with nothing to do, heartbeats with their usual answer.

A search omits steps without effect. Live objects need them if a path takes longer than a poll timer, a heartbeat
interval or a session: an idle step restarts the timer. One is inserted where the timers contradict each other without
it, and is valid if it changes nothing in the live objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fsm.check.kafka.application import BROKER
from fsm.check.model import Action, Choice, Path, Replayed
from fsm.check.timing import Constraint, Timing
from fsm.trace import TraceRecord

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
        for found in islice(_idling(begun, take, models), min(TRIES, left)):
            left -= 1
            if found is not None and found.times_ms:
                return found
    return max(tried, key=_rank, default=None)


def _idling(
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
