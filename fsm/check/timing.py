"""The times of the steps of a path: a search has no clock, but real timers have.

Each step happens some time after the previous one. A timer that a step starts has not expired at any later step that
finds it running, and has expired at the step that it causes. Such constraints on differences of times either contradict
each other, or have an earliest solution.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

APART_MS = 2
"""The minimum time between two steps."""
LATE_MS = 1_000
"""The maximum delay between a timer's expiry and its handling, since threads may be busy."""


class Constraint(NamedTuple):
    """A constraint of a timer on the times of two steps, which are numbered from 0."""

    earlier: int
    later: int
    ms: int
    """The minimum difference; if negative, the maximum by which the second step may be earlier."""
    text: str = ""
    owner: Hashable = None
    name: str = ""
    """The timer and its owner; empty if the steps only follow each other."""

    @property
    def span(self) -> range:
        """The steps after the first one that it is about, up to the last."""
        return range(min(self.earlier, self.later) + 1, max(self.earlier, self.later) + 1)


_Put = tuple[int, int, int, Constraint]
"""The two steps, the milliseconds, and the constraint."""


class Timing:
    """Collects the constraints of timers on the times of a path, step by step."""

    def __init__(self, before: int = 0) -> None:
        """`before` is the number of steps before the first one of the path; they are reported as step 0."""
        self._before = before
        self._steps = 0
        self._armed: dict[Hashable, dict[str, tuple[int, int, int]]] = {}
        """The timers of each owner: their expiry by its own clock, the step that started them, and the time
        after it.
        """
        self._over: set[tuple[Hashable, str]] = set()
        """The expired timers."""
        self._asked: list[Constraint] = []

    def step(self) -> None:
        """Begins the next step of the path."""
        if self._steps:
            self._asked.append(Constraint(self._steps - 1, self._steps, APART_MS))
        self._steps += 1

    def meets(
        self, owner: Hashable, over: Collection[str] = (), idle: Collection[str] = (), *, prompt: bool = True
    ) -> None:
        """This step finds the owner's timers running, except those that are `over`; `idle` ones are irrelevant now.

        A timer that is over has just expired, unless the step is not `prompt`, as an application may be late.
        """
        now = self._steps - 1
        for name, (_, since, ms) in self._armed.get(owner, {}).items():
            timer, at = f"{owner}: {name}, {ms} ms from step {self._number(since)} on", f"at step {self._number(now)}"
            if name in over:
                self._asked.append(Constraint(since, now, ms, f"{timer}, is over {at}", owner, name))
                if prompt and (owner, name) not in self._over:
                    text = f"{timer}, is over just then {at}"
                    self._asked.append(Constraint(now, since, -ms - LATE_MS, text, owner, name))
                self._over.add((owner, name))
            elif name not in idle and (owner, name) not in self._over:
                self._asked.append(Constraint(now, since, 1 - ms, f"{timer}, still runs {at}", owner, name))

    def _number(self, step: int) -> int:
        return max(0, step + 1 - self._before)

    def leaves(self, owner: Hashable, own_ms: int, due_ms: Mapping[str, int]) -> None:
        """After this step, at `own_ms` by the owner's clock, its timers have these expiries.

        An expired one is irrelevant until it is started again.
        """
        before = self._armed.get(owner, {})
        self._armed[owner] = {}
        for name, due in sorted(due_ms.items()):
            timer = before.get(name)
            if timer is None or timer[0] != due:
                timer = due, self._steps - 1, due - own_ms
                self._over.discard((owner, name))
            if due <= own_ms:
                self._over.add((owner, name))
            self._armed[owner][name] = timer

    def solve(self) -> tuple[int, ...]:
        """The earliest times of all steps in milliseconds; empty if timers contradict the path."""
        return tuple(self._settle(self._steps) or ())

    def room(self) -> int:
        """The number of steps, from the first on, that can happen."""
        enough, too_many = 0, self._steps + 1
        while too_many - enough > 1:
            half = (enough + too_many) // 2
            enough, too_many = (enough, half) if self._settle(half) is None else (half, too_many)
        return enough

    def circle(self, room: int | None = None) -> tuple[Constraint, ...]:
        """The first constraints that contradict each other, in the order of steps; empty if none do.

        They are at the first step for which there is no `room`, which may be given if known.
        """
        steps = min((self.room() if room is None else room) + 1, self._steps)
        times, why, last, asked = [0] * steps, dict[int, Constraint](), -1, self._list_asked(steps)
        for _ in range(steps + 1):  # a step that is still delayed then is delayed by itself
            last = _put_off(times, why, asked)
            if last < 0:
                return ()
        at = last
        for _ in range(steps):  # back into the circle
            at = why[at].earlier
        found = [why[at]]
        while found[-1].earlier != at:
            found.append(why[found[-1].earlier])
        return tuple(reversed(found))

    def contradiction(self) -> str:
        """The names of the first timers that contradict each other, sorted; empty if none do."""
        return "; ".join(sorted({one.text for one in self.circle()} - {""}))

    def _list_asked(self, steps: int) -> list[_Put]:
        """The constraints on the first steps."""
        return [(one.earlier, one.later, one.ms, one) for one in self._asked if one.earlier < steps > one.later]

    def _settle(self, steps: int) -> list[int] | None:
        """The times of the first steps; None if their constraints form a cycle."""
        times, why, asked = [0] * steps, dict[int, Constraint](), self._list_asked(steps)
        while _put_off(times, why, asked) >= 0:
            if _has_circle(why):
                return None
        return times


def _put_off(times: list[int], why: dict[int, Constraint], asked: Sequence[_Put]) -> int:
    """Delays each step as its constraints require, and notes why. Returns the last delayed step; -1 for none."""
    last = -1
    for earlier, later, ms, one in asked:
        at_ms = times[earlier] + ms
        if times[later] < at_ms:
            times[later], why[later], last = at_ms, one, later
    return last


def _has_circle(why: Mapping[int, Constraint]) -> bool:
    """Whether a step is delayed because of itself."""
    known: dict[int, int] = {}
    for begin in why:
        at = begin
        while at in why and at not in known:
            known[at] = begin
            at = why[at].earlier
        if known.get(at) == begin:
            return True
    return False
