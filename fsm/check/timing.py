"""When the steps of a path can happen: a search has no clock, real timers have.

Each step takes place some time after the one before it. A timer that a step starts has not run out at any later step
that finds it running, and has run out at the one that it causes. Such differences between times either contradict
each other, or have an earliest solution.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

APART_MS = 2
"""Between two steps at least."""
LATE_MS = 1_000
"""So much later, at most, a timer that runs out is acted on: threads are busy with something else."""


class Timing:
    """Collects, step by step, what the timers of a path ask of its times."""

    def __init__(self) -> None:
        self._steps = 0
        self._armed: dict[Hashable, dict[str, tuple[int, int, int]]] = {}
        """Of each owner its timers: when they run out, by its own clock; the step that started them; and how long
        after it."""
        self._over: set[tuple[Hashable, str]] = set()
        """Those that ran out."""
        self._apart: list[tuple[int, int, int, str]] = []
        """(earlier, later, ms, whose timer asks it): so much later at least; below 0, so much earlier at most."""

    def step(self) -> None:
        """The next step of the path."""
        if self._steps:
            self._apart.append((self._steps - 1, self._steps, APART_MS, ""))
        self._steps += 1

    def meets(
        self, owner: Hashable, over: Collection[str] = (), idle: Collection[str] = (), *, prompt: bool = True
    ) -> None:
        """This step finds the owner's timers running, but for those that are `over`; `idle` ones mean nothing now.

        One that is over ran out just now, unless the step is not a `prompt` one: an application may take its time.
        """
        now = self._steps - 1
        for name, (_, since, ms) in self._armed.get(owner, {}).items():
            timer = f"{owner}: {name}, {ms} ms from step {since + 1} on"
            if name in over:
                self._apart.append((since, now, ms, f"{timer}, is over at step {now + 1}"))
                if prompt and (owner, name) not in self._over:
                    self._apart.append((now, since, -ms - LATE_MS, f"{timer}, is over just then at step {now + 1}"))
                self._over.add((owner, name))
            elif name not in idle and (owner, name) not in self._over:
                self._apart.append((now, since, 1 - ms, f"{timer}, still runs at step {now + 1}"))

    def leaves(self, owner: Hashable, own_ms: int, due_ms: Mapping[str, int]) -> None:
        """After this step, which is at `own_ms` by the owner's clock, its timers run out then."""
        before = self._armed.get(owner, {})
        self._armed[owner] = {}
        for name, due in sorted(due_ms.items()):
            timer = before.get(name)
            if timer is None or timer[0] != due:
                timer = due, self._steps - 1, due - own_ms
                self._over.discard((owner, name))
            self._armed[owner][name] = timer

    def solve(self) -> tuple[int, ...]:
        """The earliest milliseconds of all steps; empty where timers contradict the path."""
        times, _, last = self._settle()
        return times if last is None else ()

    def contradiction(self) -> str:
        """Which timers contradict each other, in the order of the steps that they ask for; empty where none do."""
        _, why, at = self._settle()
        if at is None:
            return ""
        for _ in range(self._steps):  # back into the circle
            at = why[at][0]
        told, begun = set[str](), at
        while True:
            at, asked = why[at]
            told.add(asked)
            if at == begun:
                return "; ".join(sorted(told - {""}))

    def _settle(self) -> tuple[tuple[int, ...], dict[int, tuple[int, str]], int | None]:
        """Times, which step sets each and why, and a step that is still put off after as many rounds as there are."""
        times, why, last = [0] * self._steps, dict[int, tuple[int, str]](), None
        for _ in range(self._steps + 1):
            last = None
            for earlier, later, ms, asked in self._apart:
                if times[later] < times[earlier] + ms:
                    times[later], why[later], last = times[earlier] + ms, (earlier, asked), later
            if last is None:
                break
        return tuple(times), why, last
