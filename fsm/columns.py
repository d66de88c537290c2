"""A table as columns of integers, for Arrow and Spark and for stepping many machines at once with NumPy.

    columns = TABLE.columns
    states = columns.start(1_000_000)                 # codes: positions in `columns.states`
    orders = columns.order(states, events)            # the effects of each machine: positions in `columns.orders`
    columns.step(states, events, out=states)          # in place; or states = columns.step(states, events)

`events` has one code per machine, a position in `columns.events`. If some events are illegal, `IllegalSteps` has the
positions of those machines; they keep their state and all others move. NumPy is imported by the first step.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsm.errors import FsmError, IllegalSteps

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    Codes = npt.NDArray[np.int16]

BLOCK = 1 << 16
"""Machines per block. Intermediate results of a block fit into the processor's cache."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A table as integer columns.

    `target[state * len(events) + event]` is the code of the next state, -1 where illegal; `kind` at the
    same index is a `Kind` value. Codes are positions in `states` and `events`. The arrays support the buffer
    protocol: `numpy.frombuffer(columns.target, dtype="int16")` copies nothing.
    """

    states: tuple[str, ...]
    events: tuple[str, ...]
    target: array[int]
    kind: array[int]
    edges: tuple[tuple[int, int, tuple[int, ...]], ...]
    """Single hops `(from, to, events that cause it)`, sorted; a path of three states gives three hops."""
    name: str
    """Name of the table."""
    initial: int
    """Code of the initial state."""
    orders: tuple[tuple[str, ...], ...]
    """Distinct sequences of effects, in table order; the first one is empty."""
    ordered: array[int]
    """Position in `orders` of the effects of each cell, indexed like `target`; 0 for an illegal cell."""

    def start(self, count: int) -> Codes:
        """Codes (int16) of `count` machines in the initial state."""
        import numpy as np  # noqa: PLC0415

        return np.full(count, self.initial, np.int16)

    def step(self, states: Codes, events: Codes, out: Codes | None = None) -> Codes:
        """The next state of each machine, written to `out` if given; `out` may be `states` itself.

        Arrays of int16 are used as they are, other integers are copied. Raises `IllegalSteps` if the table has no cell
        for some machines: in `out` those keep their state and all others are in their next state. Raises `FsmError`
        for unknown codes and for arrays of different lengths.
        """
        import numpy as np  # noqa: PLC0415

        table, after = np.frombuffer(self.target, np.int16), np.empty(len(states), np.int16) if out is None else out
        illegal: list[npt.NDArray[np.intp]] = []
        first = ("", "")
        for block, places in self._places(states, events):
            here = after[block]
            table.take(places, out=here, mode="clip")  # all indices are in range: nothing is clipped
            if here.min() < 0:
                bad = np.flatnonzero(here < 0)
                codes, causes = np.divmod(places[bad], len(self.events))
                here[bad] = codes
                first = first if illegal else (self.states[codes[0]], self.events[causes[0]])
                illegal.append(bad + block.start)
        if illegal:
            raise IllegalSteps(self.name, np.concatenate(illegal), len(after), *first)
        return after

    def order(self, states: Codes, events: Codes) -> Codes:
        """The effects of each machine's event, as positions in `orders`; 0 (none) for an illegal cell."""
        import numpy as np  # noqa: PLC0415

        table, found = np.frombuffer(self.ordered, np.int16), np.empty(len(states), np.int16)
        for block, places in self._places(states, events):
            table.take(places, out=found[block], mode="clip")
        return found

    def _places(self, states: Codes, events: Codes) -> Iterator[tuple[slice, npt.NDArray[np.signedinteger]]]:
        """Blocks of machines as slices, each with the cell indices of its machines.

        Indices of a small table are computed in 16 bits, which is faster.
        """
        import numpy as np  # noqa: PLC0415

        states, events = (self._as_codes(codes) for codes in (states, events))
        if len(states) != len(events):
            raise FsmError(f"{self.name}: {len(states)} states and {len(events)} events; give one for each machine")
        kind: type[np.signedinteger] = np.int16 if len(self.target) <= np.iinfo(np.int16).max else np.int64
        width, room = kind(len(self.events)), np.empty(min(BLOCK, len(states)), kind)
        for begin in range(0, len(states), BLOCK):
            block = slice(begin, min(begin + BLOCK, len(states)))
            state, event, places = states[block], events[block], room[: block.stop - begin]
            self._check("state", state, self.states)
            self._check("event", event, self.events)
            np.multiply(state, width, out=places)
            np.add(places, event, out=places)
            yield block, places

    def _as_codes(self, given: Codes) -> Codes:
        import numpy as np  # noqa: PLC0415

        codes = np.asarray(given)
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise FsmError(f"{self.name}: codes are one row of integers, not {codes.dtype} of shape {codes.shape}")
        return codes if codes.dtype == np.int16 else codes.clip(-1, np.iinfo(np.int16).max).astype(np.int16)

    def _check(self, role: str, codes: Codes, known: tuple[str, ...]) -> None:
        """Raises `FsmError` for unknown codes. Viewed as unsigned, negative codes are large ones."""
        unsigned = codes.view("u2")
        if unsigned.max() >= len(known):
            wrong = codes[(unsigned >= len(known)).argmax()]
            raise FsmError(f"{self.name}: no {role} has the code {wrong}; they go from 0 to {len(known) - 1}")
