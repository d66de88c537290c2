"""A limit on the user CPU time of a step: a step that takes longer is a counterexample.

The limit counts what this process computes, so neither a busy machine nor waiting matters. Python handles signals only
in its main thread and between bytecodes: in another thread, or inside one call of a C function, there is no limit.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, ParamSpec, TypeVar

ENDLESS = "takes more than"
"""The begin of the message about such a step."""
P = ParamSpec("P")
T = TypeVar("T")


class EndlessError(BaseException):
    """A call reached the limit. Not an `Exception`, which the call itself might catch."""


@contextmanager
def watching() -> Iterator[None]:
    """Enables the limits of `within`."""
    try:
        before: Any = signal.signal(signal.SIGVTALRM, _give_up)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)


def within(limit_s: float, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Calls a function. Raises `EndlessError` if it takes this CPU time twice, and `watching` is on.

    It is called a second time because a virtual machine that was suspended may count more CPU time than there was.
    """
    if limit_s == math.inf or signal.getsignal(signal.SIGVTALRM) is not _give_up:
        return call(*given, **named)
    for _ in range(2):
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_s, limit_s)
        try:
            return call(*given, **named)
        except EndlessError:
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    raise EndlessError(f"{ENDLESS} {limit_s:g} s of CPU time: it may never end")


def _give_up(_signal: int, _frame: Any) -> NoReturn:
    raise EndlessError
