"""Rebalances as one member goes through them.

A turn begins with the first sign of a rebalance (a new assignment to reconcile, a join, a revocation, a loss)
and ends when the member has its assignment, has left, or is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.rows import Place, Seen, Turn
from fsm.trace import Kind, TraceRecord


@dataclass(slots=True)
class _Open:
    start_ms: int
    place: Place
    cause: str
    added: int = 0
    removed: int = 0
    epoch: int | None = None


class Turns:
    """Follows the rebalances of one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.open: _Open | None = None
        self.answered: int | None = None
        """The epoch of the last answer of the coordinator."""

    def see(self, seen: Seen) -> Iterator[Turn]:
        """The turn that ends with this record, if one does."""
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)

    def end(self) -> Iterator[Turn]:
        """A turn that was under way ends with the life."""
        yield from self._finish(self.living.last_ms)

    def _begin(self, seen: Seen, cause: str) -> _Open:
        if self.open is None:
            self.open = _Open(seen.record.ts_ms, seen.place, cause)
            self.living.turn_ms = seen.record.ts_ms
        if seen.record.epoch is not None:
            self.open.epoch = seen.record.epoch
        return self.open

    def _reconcile(self, seen: Seen) -> Iterator[Turn]:
        turn = self._begin(seen, "")
        if self.living.client == LIBRDKAFKA:  # it prints the epoch with the answer that brought the assignment
            turn.epoch = self.answered
        return iter(())

    def _answer(self, seen: Seen) -> Iterator[Turn]:
        self.answered = seen.record.epoch
        return iter(())

    def _joined(self, seen: Seen) -> Iterator[Turn]:
        if self.open is not None:
            self.open.epoch = seen.record.epoch
        return iter(())

    def _join(self, seen: Seen) -> Iterator[Turn]:
        self._begin(seen, "joined")
        return iter(())

    def _revoke(self, seen: Seen) -> Iterator[Turn]:
        self._begin(seen, "left" if self.living.closing_ms is not None else "").removed += counted(seen.record)
        return iter(())

    def _lose(self, seen: Seen) -> Iterator[Turn]:
        self._begin(seen, "lost").removed += counted(seen.record)
        return iter(())

    def _assign(self, seen: Seen) -> Iterator[Turn]:
        self._begin(seen, "").added += counted(seen.record)
        yield from self._finish(seen.record.ts_ms)

    def _transition(self, seen: Seen) -> Iterator[Turn]:
        if seen.record.next_state == "RECONCILING":
            self._begin(seen, "")
        elif seen.record.next_state in ("STABLE", "FATAL", "UNSUBSCRIBED"):
            yield from self._finish(seen.record.ts_ms)

    def _stop(self, seen: Seen) -> Iterator[Turn]:
        yield from self._finish(seen.record.ts_ms)

    def _finish(self, end_ms: int) -> Iterator[Turn]:
        turn, self.open = self.open, None
        if turn is not None:
            yield Turn(
                group=self.living.group,
                member=self.living.member,
                start_ms=turn.start_ms,
                end_ms=max(end_ms, turn.start_ms),
                epoch=turn.epoch,
                added=turn.added,
                removed=turn.removed,
                cause=turn.cause,
                place=turn.place,
                timeout_ms=self.living.rebalance_timeout_ms,
            )


def counted(record: TraceRecord) -> int:
    """How many partitions a callback is about; librdkafka counts them and does not name them."""
    found = _COUNTED.match(record.detail)
    return int(found[1]) if found else len(record.partitions)


_COUNTED = re.compile(r"(\d{1,9}) partition\(s\)", re.ASCII)

_STEPS: dict[Kind, Callable[[Turns, Seen], Iterator[Turn]]] = {
    Kind.RECONCILING: Turns._reconcile,
    Kind.JOINING: Turns._join,
    Kind.JOINED: Turns._joined,
    Kind.HEARTBEAT_OK: Turns._answer,
    Kind.REVOKE_BEGIN: Turns._revoke,
    Kind.LOST_BEGIN: Turns._lose,
    Kind.ASSIGN_BEGIN: Turns._assign,
    Kind.TRANSITION: Turns._transition,
    Kind.LEFT: Turns._stop,
    Kind.CLOSE_END: Turns._stop,
}
