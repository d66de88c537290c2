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
        self._apart: list[tuple[int, int, int]] = []
        """(earlier, later, ms): so much later at least; below 0, so much earlier at most."""

    def step(self) -> None:
        """The next step of the path."""
        if self._steps:
            self._apart.append((self._steps - 1, self._steps, APART_MS))
        self._steps += 1

    def meets(
        self, owner: Hashable, over: Collection[str] = (), idle: Collection[str] = (), *, prompt: bool = True
    ) -> None:
        """This step finds the owner's timers running, but for those that are `over`; `idle` ones mean nothing now.

        One that is over ran out just now, unless the step is not a `prompt` one: an application may take its time.
        """
        now = self._steps - 1
        for name, (_, since, ms) in self._armed.get(owner, {}).items():
            if name in over:
                self._apart.append((since, now, ms))
                if prompt and (owner, name) not in self._over:
                    self._apart.append((now, since, -ms - LATE_MS))
                self._over.add((owner, name))
            elif name not in idle and (owner, name) not in self._over:
                self._apart.append((now, since, 1 - ms))

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
        times = [0] * self._steps
        for _ in range(self._steps + 1):
            changed = False
            for earlier, later, ms in self._apart:
                if times[later] < times[earlier] + ms:
                    times[later], changed = times[earlier] + ms, True
            if not changed:
                return tuple(times)
        return ()
