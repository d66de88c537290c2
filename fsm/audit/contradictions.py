"""What the records of one member say that cannot all be true, though no step of its table is wrong.

* An epoch or generation that goes backwards within one membership, or a generation that was agreed on and not joined.
* A classic member of Java that learns, or is given, an assignment without having synced: one thread does both.
* A member of the consumer protocol that has another id for a while: clients choose it once.
* A poll timeout after which the member did not leave: both are one action of one thread. Members of librdkafka are
  the exception in the consumer protocol: they leave when the application polls again.

Where a member's lines were dealt out to several files, the order of one moment is not known, and a file may be missing:
what contradicts itself over a longer time is for information. What stands in two files that follow each other is not
judged where one between them may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fsm.audit.conformance import initial
from fsm.audit.findings import Finding, FindingKind, Severity, finding
from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.rows import Place, Seen
from fsm.tables.classic_member import TABLE as CLASSIC
from fsm.trace import Kind, TraceRecord


class Contradictions:
    """Follows one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.epoch: tuple[int, int, Place] | None = None
        """The greatest of this membership, since when, and where it stands."""
        self.joined: tuple[int, str] | None = None
        """The generation that was joined last, and the file that says so."""
        self.identity = ""
        self.steps = False
        """The log prints steps."""
        self.at: tuple[str, Place] | None = None
        """The state of a classic member, and the step that led there."""
        self.expired: tuple[int, Place] | None = None
        """A poll timeout that nothing followed yet."""

    def see(self, seen: Seen) -> Iterator[Finding]:
        """The findings this record completes."""
        yield from self._stays(seen)
        step = _STEPS.get(seen.record.kind)
        if step is not None and self._is_judged:
            yield from step(self, seen)

    @property
    def _is_judged(self) -> bool:
        return self.living.in_order or self.living.dealt

    # -- epochs and ids ---------------------------------------------------------------------------------

    def _strict(self, seen: Seen) -> Iterator[Finding]:
        yield from self._epoch(seen, 0)

    def _lenient(self, seen: Seen) -> Iterator[Finding]:
        """In Java another thread than that which joins may print it."""
        yield from self._epoch(seen, 0 if self.living.client == LIBRDKAFKA else REORDER_MS)

    def _epoch(self, seen: Seen, slack_ms: int) -> Iterator[Finding]:
        record, place = seen
        if record.epoch is None:
            return
        if record.epoch <= 0:
            self.epoch = None
            return
        dealt = self.living.dealt
        slack_ms = REORDER_MS if dealt else slack_ms
        follows = self.epoch is not None and (dealt or self.living.unbroken(self.epoch[2].file, place.file))
        before = self.epoch if follows else None
        if before is not None and record.epoch < before[0] and record.ts_ms - before[1] < slack_ms:
            return
        if before is None or record.epoch > before[0]:
            self.epoch = (record.epoch, record.ts_ms, place)
        elif record.epoch < before[0]:
            self.epoch = (record.epoch, record.ts_ms, place)
            yield self._finding(
                before[1] if record.ts_ms - before[1] < SETTLED_MS else record.ts_ms,
                record.ts_ms,
                f"the epoch of {self.living.member} went back from {before[0]} to {record.epoch} without a new join",
                [before[2], place],
            )

    def _joined(self, seen: Seen) -> Iterator[Finding]:
        self.joined = (seen.record.epoch or 0, seen.place.file)
        yield from self._strict(seen)

    def _synced(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        joined = self.joined[0] if self.joined and self.living.unbroken(self.joined[1], place.file) else None
        if record.epoch is not None and joined is not None and record.epoch > joined:
            self.epoch = None
            yield self._finding(
                record.ts_ms,
                record.ts_ms,
                f"{self.living.member} synced generation {record.epoch}, but had joined generation {joined}",
                [place],
            )
        else:
            yield from self._strict(seen)

    def _reset(self, _seen: Seen) -> Iterator[Finding]:
        self.epoch = self.joined = None
        return iter(())

    def _transition(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        self.steps = True
        self.at = (record.next_state, place) if record.machine == CLASSIC.name else None
        yield from self._strict(seen)
        if not record.member_id or not record.state:
            return
        if not self.identity or record.state == initial(record.machine):
            self.identity = record.member_id
        elif record.member_id != self.identity:
            yield self._finding(
                record.ts_ms,
                record.ts_ms,
                f"{self.living.member} is {self.identity}, but a step of it names {record.member_id}",
                [place],
            )

    def _assigned(self, seen: Seen) -> Iterator[Finding]:
        record, place = seen
        if self.at is None or self.at[0] == "STABLE" or self.living.dealt:
            return
        if not self.living.unbroken(self.at[1].file, place.file):
            return
        (state, since), self.at = self.at, None
        yield self._finding(
            record.ts_ms,
            record.ts_ms,
            f"{self.living.member} got an assignment while it was {state}; lines are missing",
            [since, place],
        )

    # -- poll timeouts ----------------------------------------------------------------------------------

    def _expires(self, seen: Seen) -> Iterator[Finding]:
        away = not self.living.in_group or self.living.closing_ms is not None
        sends_later = self.living.client == LIBRDKAFKA and self.joined is None
        if self.steps and not away and not sends_later:
            self.expired = (seen.record.ts_ms, seen.place)
        return iter(())

    def _stays(self, seen: Seen) -> Iterator[Finding]:
        """Nothing in time says that the member leaves."""
        if self.expired is None or not self._is_judged:
            return
        ts_ms, place = self.expired
        late = seen.record.ts_ms - ts_ms > SETTLED_MS
        if late or (_leaves(seen.record) and seen.place != place):
            self.expired = None
        if late:
            yield self._finding(
                ts_ms,
                seen.record.ts_ms,
                f"{self.living.member} said that its poll timeout had expired, but did not leave; lines are missing",
                [place, seen.place],
            )

    def _finding(self, start_ms: int, end_ms: int, summary: str, places: Iterable[Place]) -> Finding:
        found = finding(
            FindingKind.ILLEGAL_TRANSITION,
            self.living.group,
            self.living.member,
            start_ms,
            end_ms,
            summary=summary,
            places=places,
        )
        return replace(found, severity=Severity.INFO) if self.living.dealt else found


_LEAVING = (
    Kind.GENERATION_RESET,
    Kind.LEAVE_BEGIN,
    Kind.LEAVE_SENT,
    Kind.LEFT,
    Kind.LOST_BEGIN,
    Kind.FENCED,
    Kind.FATAL,
    Kind.CLOSE_BEGIN,
    Kind.CLOSE_END,
)


def _leaves(record: TraceRecord) -> bool:
    return record.kind in _LEAVING or record.next_state in ("LEAVING", "STALE", "FENCED", "FATAL", "UNSUBSCRIBED")


_STEPS: dict[Kind, Callable[[Contradictions, Seen], Iterator[Finding]]] = {
    Kind.TRANSITION: Contradictions._transition,
    Kind.JOINED: Contradictions._joined,
    Kind.SYNCED: Contradictions._synced,
    Kind.HEARTBEAT_SENT: Contradictions._lenient,
    Kind.HEARTBEAT_OK: Contradictions._lenient,
    Kind.GENERATION_RESET: Contradictions._reset,
    Kind.FENCED: Contradictions._reset,
    Kind.MEMBER_ID: Contradictions._reset,
    Kind.LEAVE_SENT: Contradictions._reset,
    Kind.LEFT: Contradictions._reset,
    Kind.TARGET: Contradictions._assigned,
    Kind.RECONCILING: Contradictions._assigned,
    Kind.ASSIGN_BEGIN: Contradictions._assigned,
    Kind.POLL_EXPIRED: Contradictions._expires,
}
