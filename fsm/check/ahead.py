"""Component steps that forked workers execute before the search needs them.

The steps that the states of a level need are known when the level begins. The process of the search executes them in
order; workers execute the last ones at the same time and return the results as numbers. A number that existed before
the fork has the same meaning in both processes. For a number that a worker assigned itself, the search executes the
step again, and knows the meaning of the number from then on. Numbers are therefore assigned in the same order as
without workers, no object passes between processes, and a worker that fails costs only time.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.check.space import Space

WORTH = 50
"""The fewest steps for one worker. A fork costs 5 to 20 ms: both processes copy the memory that they write."""
AGAIN = 0.25
"""The approximate share of a worker's steps that the search executes again, as their results are new."""
ENDS = (signal.SIGINT, signal.SIGTERM)
BROKEN, ORDER = -1, -2
"""Kinds of numbers besides the states of each component."""

StepInput = tuple[int, int, int]
"""(component, state, input)"""


class Done(NamedTuple):
    """The result of a component's step, in numbers."""

    state: int
    broken: int
    orders: tuple[tuple[int, int], ...]
    """(wire, order), for each wire that the step changes."""


class Ahead:
    """The workers of one level."""

    def __init__(self, space: Space, wanted: Sequence[StepInput]) -> None:
        """Forks workers if there are enough steps."""
        self._workers: list[_Worker] = []
        self._of: dict[StepInput, _Worker] = {}
        helpers = min(space.jobs - 1, len(wanted) // WORTH)
        if helpers > 0:
            each = min(
                len(wanted) // helpers, int(len(wanted) / (1 + helpers * (1 - AGAIN)))
            )  # all end at the same time
            for first in range(len(wanted) - helpers * each, len(wanted), each):
                self._start(space, wanted[first : first + each])

    def _start(self, space: Space, wanted: Sequence[StepInput]) -> None:
        try:
            worker = _Worker(space, wanted)
        except OSError:  # no more processes, or no memory for one
            return
        self._workers.append(worker)
        self._of |= dict.fromkeys(wanted, worker)

    def step(self, wanted: StepInput, take: Callable[[], Done]) -> Done:
        """The result of a step, from a worker where possible."""
        worker = self._of.get(wanted)
        return take() if worker is None else worker.step(wanted, take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        for worker in self._workers:
            worker.end()


class _Worker:
    """A forked process that executes some steps."""

    def __init__(self, space: Space, wanted: Sequence[StepInput]) -> None:
        counts = {who: len(part.states) for who, part in enumerate(space.parts)}
        self._counts = counts | {BROKEN: len(space.broken), ORDER: len(space.orders)}
        self._means: dict[tuple[int, int], int] = {}
        self._results: dict[StepInput, Done] | None = None
        self._pipe, write = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # or the child would handle them as its parent does
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the idle threads of NumPy
                self._process = os.fork()
            if not self._process:
                _work(space, wanted, write)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(write)

    def step(self, wanted: StepInput, take: Callable[[], Done]) -> Done:
        if self._results is None:
            self._results = self._read()
        result = self._results.get(wanted)
        if result is None:
            return take()
        known = [number for one in _numbers(wanted, result) if (number := self._understand(*one)) is not None]
        if len(known) == 2 + len(result.orders):
            state, broken, *orders = known
            return Done(state, broken, tuple((wire, now) for (wire, _), now in zip(result.orders, orders, strict=True)))
        done = take()
        for theirs, (_, number) in zip(_numbers(wanted, result), _numbers(wanted, done), strict=False):
            self._means.setdefault(theirs, number)
        return done

    def _understand(self, kind: int, number: int) -> int | None:
        return number if number < self._counts[kind] else self._means.get((kind, number))

    def _read(self) -> dict[StepInput, Done]:
        with open(self._pipe, "rb", closefd=False) as pipe:
            text = pipe.read()
        self.end()
        try:
            return {wanted: Done(*done) for wanted, done in marshal.loads(text)}  # noqa: S302  # of a fork of this process
        except (EOFError, ValueError, TypeError):
            return {}

    def end(self) -> None:
        """Kills the process, if it still runs."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            os.close(self._pipe)
            self._process = 0


def _numbers(wanted: StepInput, done: Done) -> Iterator[tuple[int, int]]:
    """The numbers of a result, each with its kind."""
    yield wanted[0], done.state
    yield BROKEN, done.broken
    for _, order in done.orders:
        yield ORDER, order


def _work(space: Space, wanted: Sequence[StepInput], pipe: int) -> NoReturn:
    """Executes the steps and writes their results; stops at a step for which the model is refused."""
    status, parent = 1, os.getppid()
    try:
        gc.disable()
        for ends in ENDS:
            signal.signal(ends, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        found = []
        for one in wanted:
            if os.getppid() != parent:  # nobody reads it any more
                break
            try:
                found.append((one, tuple(space.take(*one))))
            except InputError:
                break
        with open(pipe, "wb") as file:
            file.write(marshal.dumps(found))
        status = 0
    finally:
        os._exit(status)
