"""Epochs, generations and ids of one life: which cannot follow which.

* Within one membership an epoch or generation does not go backwards, and a generation is joined before it is synced.
* A member that nothing took out of its group has a positive epoch, and keeps its id. A client of the consumer protocol
  chooses its id once, and the sign of the epoch that its steps tell goes with the state.
* Generations are joined one after the other. Where one is missing the member missed it, the group was upgraded on the
  way, or the lines of a whole rebalance are missing: that is for information.

What stands in two files that follow each other is not judged where one between them may be missing. Where a member's
lines were dealt out to several files, what contradicts itself over a longer time is for information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fsm.audit.conformance import initial
from fsm.audit.findings import Finding, FindingKind, Severity, finding
from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.rows import Place, Seen
from fsm.tables.consumer_member import TABLE as CONSUMER
from fsm.trace import Kind, TraceRecord

Found = Iterator[Finding]


class Epochs:
    """Follows one life."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.epoch: tuple[int, int, Place] | None = None
        """The greatest of this membership, since when, and where it stands."""
        self.joined: tuple[int, Place] | None = None
        """The generation that was joined last, and where."""
        self.identity = ""
        self.settled: Place | None = None
        """The last line that shows a member; None since something may have taken it out of its group."""

    def see(self, seen: Seen) -> Found:
        """The findings this record completes."""
        record, place = seen
        if self.settled is not None and not self.living.unbroken(self.settled.file, place.file):
            self.settled = None
        if leaves(record) or record.kind in _MAY_LEAVE:
            self.settled = None
        step = _STEPS.get(record.kind)
        if step is not None and (self.living.in_order or self.living.dealt):
            yield from self._named(seen)
            yield from step(self, seen)
        if shows_member(record):
            self.settled = place

    # -- ids --------------------------------------------------------------------------------------------

    def _named(self, seen: Seen) -> Found:
        """The id stays what it was, unless something took the member out of its group."""
        record, place = seen
        if not record.member_id:
            return
        chosen = record.machine == CONSUMER.name and bool(record.state)
        free = record.state == initial(record.machine) if chosen else self.settled is None or self.living.dealt
        if not self.identity or free or record.member_id == self.identity:
            self.identity = record.member_id
            return
        what = "a step" if chosen else "a line"
        summary = f"{self.living.member} is {self.identity}, but {what} of it names {record.member_id}"
        yield contradiction(self.living, record.ts_ms, record.ts_ms, summary, [place])

    # -- epochs -----------------------------------------------------------------------------------------

    def _strict(self, seen: Seen) -> Found:
        yield from self._epoch(seen, 0)

    def _lenient(self, seen: Seen) -> Found:
        """In Java another thread than that which joins may print it."""
        yield from self._epoch(seen, 0 if self.living.client == LIBRDKAFKA else REORDER_MS)

    def _epoch(self, seen: Seen, slack_ms: int) -> Found:
        record, place = seen
        if record.epoch is None:
            return
        if record.epoch <= 0:
            yield from self._out(seen)
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
            yield contradiction(
                self.living,
                before[1] if record.ts_ms - before[1] < SETTLED_MS else record.ts_ms,
                record.ts_ms,
                f"the epoch of {self.living.member} went back from {before[0]} to {record.epoch} without a new join",
                [before[2], place],
            )

    def _out(self, seen: Seen) -> Found:
        """An epoch that no member has: it joins, or leaves, for which there must be a reason."""
        record, place = seen
        member = record.kind in (Kind.JOINED, Kind.SYNCED) or (self.settled is not None and not self.living.dealt)
        if record.kind is Kind.TRANSITION or not member:
            self.epoch = None
            return
        summary = f"{self.living.member} tells epoch {record.epoch}, which no member has, and nothing took it out"
        places = [place] if self.settled is None else [self.settled, place]
        yield contradiction(self.living, record.ts_ms, record.ts_ms, f"{summary} of its group", places)

    def _transition(self, seen: Seen) -> Found:
        record, place = seen
        expected = _expected_sign(record)
        if expected is not None and record.epoch is not None and _sign(record.epoch) != expected:
            yield contradiction(
                self.living,
                record.ts_ms,
                record.ts_ms,
                f"{self.living.member} went from {record.state} to {record.next_state} with epoch {record.epoch}, "
                f"but its epoch is {_SIGNS[expected]} then",
                [place],
            )
        elif record.machine == CONSUMER.name:
            yield from self._strict(seen)

    # -- generations ------------------------------------------------------------------------------------

    def _joined(self, seen: Seen) -> Found:
        record, place = seen
        before, self.joined = self.joined, (record.epoch or 0, place)
        stayed = before is not None and self.settled is not None and self.living.unbroken(before[1].file, place.file)
        if before is not None and stayed and not self.living.dealt and (record.epoch or 0) > before[0] + 1:
            found = contradiction(
                self.living,
                record.ts_ms,
                record.ts_ms,
                f"{self.living.member} joined generation {before[0]}, and then {record.epoch}: it missed what was "
                "between them, the group was upgraded meanwhile, or lines are missing",
                [before[1], place],
            )
            yield replace(found, severity=Severity.INFO)
        yield from self._strict(seen)

    def _synced(self, seen: Seen) -> Found:
        record, place = seen
        joined = self.joined[0] if self.joined and self.living.unbroken(self.joined[1].file, place.file) else None
        if record.epoch is not None and joined is not None and record.epoch > joined:
            self.epoch = None
            yield contradiction(
                self.living,
                record.ts_ms,
                record.ts_ms,
                f"{self.living.member} synced generation {record.epoch}, but had joined generation {joined}",
                [place],
            )
        else:
            yield from self._strict(seen)

    def _reset(self, _seen: Seen) -> Found:
        self.epoch = self.joined = None
        return iter(())

    def _leave_sent(self, seen: Seen) -> Found:
        """librdkafka prints one line without and one with its epoch."""
        if (seen.record.epoch or 0) < 0:
            yield from self._out(seen)
        self.settled = None
        yield from self._reset(seen)


def contradiction(living: Living, start_ms: int, end_ms: int, summary: str, places: Iterable[Place]) -> Finding:
    """The finding for lines that cannot all be true; for information where they were dealt out to files."""
    found = finding(
        FindingKind.ILLEGAL_TRANSITION, living.group, living.member, start_ms, end_ms, summary=summary, places=places
    )
    return replace(found, severity=Severity.INFO) if living.dealt else found


_LEAVING = (
    Kind.GENERATION_RESET,
    Kind.LEAVE_BEGIN,
    Kind.LEFT,
    Kind.LOST_BEGIN,
    Kind.FENCED,
    Kind.FATAL,
    Kind.CLOSE_BEGIN,
    Kind.CLOSE_END,
)
_MAY_LEAVE = (
    Kind.STARTED,
    Kind.ERROR,
    Kind.POLL_EXPIRED,
    Kind.LOST_DECIDED,
    Kind.UNSUBSCRIBED,
    Kind.COORDINATOR_LOST,
)
"""After these nobody knows whether the member is one still."""


def leaves(record: TraceRecord) -> bool:
    """True for what a member says when it goes out of its group, or is sent out."""
    states = ("LEAVING", "STALE", "FENCED", "FATAL", "UNSUBSCRIBED")
    return record.kind in _LEAVING or record.next_state in states


def shows_member(record: TraceRecord) -> bool:
    """True for what only a member of the group prints."""
    positive = (record.epoch or 0) > 0
    stable = record.kind is Kind.TRANSITION and record.machine == CONSUMER.name and record.next_state in _IN_GROUP
    return positive and (stable or record.kind in (Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_OK))


# -- signs --------------------------------------------------------------------------------------------------

_IN_GROUP = ("RECONCILING", "ACKNOWLEDGING", "STABLE")
_SIGN = {"JOINING": 0, "LEAVING": -1} | dict.fromkeys(_IN_GROUP, 1)
"""The sign of the epoch in each state of a consumer member: 0 asks to join, and a negative one to leave."""
_SIGNS = {-1: "negative", 0: "0", 1: "positive"}


def _sign(epoch: int) -> int:
    return (epoch > 0) - (epoch < 0)


def _expected_sign(record: TraceRecord) -> int | None:
    """The sign that goes with the state that a step leads to, or ends; None where clients differ.

    Our own machines name the event, and tell the epoch of another moment.
    """
    if record.machine != CONSUMER.name or record.event:
        return None
    ends = record.next_state == "PREPARE_LEAVING" or record.state == "LEAVING"
    return _SIGN.get(record.state if ends else record.next_state)


_STEPS: dict[Kind, Callable[[Epochs, Seen], Found]] = {
    Kind.TRANSITION: Epochs._transition,
    Kind.JOINING: Epochs._strict,
    Kind.JOINED: Epochs._joined,
    Kind.SYNCED: Epochs._synced,
    Kind.HEARTBEAT_SENT: Epochs._lenient,
    Kind.HEARTBEAT_OK: Epochs._lenient,
    Kind.GENERATION_RESET: Epochs._reset,
    Kind.FENCED: Epochs._reset,
    Kind.MEMBER_ID: Epochs._reset,
    Kind.LEAVE_SENT: Epochs._leave_sent,
    Kind.LEFT: Epochs._reset,
}
