"""A limit on the time of a step: a step that takes longer is a counterexample.

The limit counts the user CPU time of this process, so a busy machine does not matter. A step that sleeps, or waits for
something outside, takes hardly any: for it there is a much longer limit on real time, which does not hold for a step
that has used a tenth of its CPU time. Python handles signals only in its main thread and between bytecodes: in another
thread, or inside one call of a C function that signals do not interrupt, there is no limit; nor is there one on real
time where SIGALRM has another use.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

ENDLESS = "takes more than"
"""The begin of the message about such a step."""
PATIENCE = 30
"""The limit on real time, as a multiple of that on CPU time."""
_left_s: dict[int, float] = {}
"""The CPU time that a call had left when its last limit on real time was reached, by timer."""
_TIMERS = {signal.SIGVTALRM: (signal.ITIMER_VIRTUAL, 1), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
"""The timer of each signal, and its limit as a multiple of that on CPU time."""
P = ParamSpec("P")
T = TypeVar("T")


class EndlessError(BaseException):
    """A call reached a limit. Not an `Exception`, which the call itself might catch."""


@contextmanager
def watching() -> Iterator[None]:
    """Enables the limits of `within`."""
    before: dict[int, Any] = {}
    try:
        before[signal.SIGVTALRM] = signal.signal(signal.SIGVTALRM, _give_up)
    except ValueError:  # not in the main thread
        yield
        return
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _give_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def within(limit_s: float, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Calls a function. Raises `EndlessError` if it takes this CPU time twice, or much more real time, and `watching`
    is on.

    It is called a second time because a virtual machine that was suspended may count more time than there was.
    """
    timers = [timer for number, timer in _TIMERS.items() if signal.getsignal(number) is _give_up]
    if limit_s == math.inf or not timers:
        return call(*given, **named)
    reached = EndlessError()
    for _ in range(2):
        _left_s[signal.ITIMER_VIRTUAL] = limit_s
        for timer, times in timers:
            signal.setitimer(timer, limit_s * times, limit_s * times)
        try:
            return call(*given, **named)
        except EndlessError as problem:
            reached = problem
        finally:
            for timer, _ in timers:
                signal.setitimer(timer, 0)
    raise reached


def _give_up(number: int, _frame: Any) -> None:
    timer, _ = _TIMERS[signal.Signals(number)]
    _, limit_s = signal.getitimer(timer)
    left_s, computing_s = signal.getitimer(signal.ITIMER_VIRTUAL)
    if not limit_s:  # the call has ended
        return
    signal.setitimer(timer, limit_s, limit_s)  # from now: time that is counted late may be more than one limit
    before_s, _left_s[signal.ITIMER_VIRTUAL] = _left_s[signal.ITIMER_VIRTUAL], left_s
    if number == signal.SIGVTALRM or before_s - left_s < 0.1 * computing_s:
        raise EndlessError(f"{ENDLESS} {limit_s:g} s{' of CPU time' * (number == signal.SIGVTALRM)}: it may never end")
