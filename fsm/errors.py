"""The exceptions of this package. `FsmError` is their root. This module is independent of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class FsmError(Exception):
    """Root of the errors raised by `fsm`."""


class TableError(FsmError):
    """A table is inconsistent; raised while it is built or imported.

    `problems` holds every defect found, one line each, in a fixed order.
    """

    def __init__(self, table: str, problems: tuple[str, ...]) -> None:
        self.table = table
        self.problems = problems
        super().__init__(f"table {table!r}: " + "; ".join(problems))

    def __reduce__(self) -> tuple[type[TableError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.table, self.problems)


class IllegalTransition(FsmError):  # noqa: N818  # named as in the design
    """The table has no cell for this event in this state. The machine's state is unchanged.

    `legal` names the events the state does handle, in table order.
    """

    def __init__(self, machine: str, state: Enum, event: Enum, legal: tuple[Enum, ...]) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        self.legal = legal
        names = ", ".join(e.name for e in legal) or "no event at all"
        super().__init__(f"{machine}: {event.name} is illegal in {state.name}; legal there: {names}")

    def __reduce__(self) -> tuple[type[IllegalTransition], tuple[str, Enum, Enum, tuple[Enum, ...]]]:
        return type(self), (self.machine, self.state, self.event, self.legal)


class IllegalSteps(FsmError):  # noqa: N818  # as the one above
    """Some machines of a population have no cell for their event. Their states are unchanged.

    `positions` is the ascending array of their positions; the text names the first one.
    """

    def __init__(self, machine: str, positions: npt.NDArray[np.intp], count: int, state: str, event: str) -> None:
        self.machine = machine
        self.positions = positions
        super().__init__(
            f"{machine}: {len(positions)} of {count} machines have no cell for their event;"
            f" the first one is number {positions[0]}: {event} is illegal in {state}"
        )
        self._given = (machine, positions, count, state, event)

    def __reduce__(self) -> tuple[type[IllegalSteps], tuple[str, npt.NDArray[np.intp], int, str, str]]:
        return type(self), self._given


class ProtocolError(FsmError):
    """A protocol was violated, by the side that the subclass names; the machine is unchanged."""


class LocalProtocolError(ProtocolError):
    """The embedding application made a call that its own machine does not allow now."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what its protocol does not allow; `hint` is the error code to answer with, 0 where none fits."""

    def __init__(self, what: str, hint: int = 0) -> None:
        self.hint = hint
        super().__init__(what)

    def __reduce__(self) -> tuple[type[RemoteProtocolError], tuple[str, int]]:
        return type(self), (str(self), self.hint)


class InputError(FsmError):
    """Unusable input of a user: what, where (`file:line` or field) and the remedy, on one line.

    The command line prints it to stderr and exits with status 2.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        place = f"{where}: " if where else ""
        advice = f"; {remedy}" if remedy else ""
        super().__init__(f"{place}{what}{advice}")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        return type(self), (self.what, self.where, self.remedy)


@contextmanager
def refuse_os_errors(what: str, where: object, remedy: str) -> Iterator[None]:
    """Turns errors of the system in the block into an `InputError` that says why."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{what}: {problem.strerror or problem}", str(where), remedy) from None
