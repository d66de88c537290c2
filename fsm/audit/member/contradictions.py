"""What the records of one consumer instance say that cannot all be true, though no step of its table is wrong.

* Within one membership an epoch or generation does not go backwards, and a generation is joined before it is synced.
* A member that nothing took out of its group has a positive epoch, and keeps its id. A client of the consumer protocol
  chooses its id once, and the sign of the epoch in its transitions goes with the state (KIP-848).
* Generations are joined one after the other. A missing one means that the member missed it, that the group was
  upgraded meanwhile, or that the lines of a whole rebalance are missing: that is for information.
* Assignments come, and callbacks begin, in certain states only. In another state, lines are missing.
* A poll timeout is followed by a leave: both are one action of one thread. librdkafka's members of the consumer
  protocol are the exception: they leave when the application polls again.

What stands in two files that follow each other is not judged where one between them may be missing. Where a member's
lines are spread over several files, contradictions are for information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fsm.audit.conformance import initial
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.rows import Place, Seen
from fsm.tables.classic_member import TABLE as CLASSIC
from fsm.tables.consumer_member import TABLE as CONSUMER
from fsm.trace import Kind, TraceRecord

Findings = Iterator[Finding]
Step = Findings | None


def _contradiction(
    consumer: ConsumerInstance, start_ms: int, end_ms: int, summary: str, places: Sequence[Place]
) -> Finding:
    found = consumer.finding(FindingKind.ILLEGAL_TRANSITION, start_ms, end_ms, summary, places)
    return replace(found, severity=Severity.INFO) if consumer.interleaved else found


# -- epochs, generations and ids ----------------------------------------------------------------------------


class EpochTracker:
    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.epoch: tuple[int, int, Place] | None = None
        """The greatest of this membership, since when, and where it stands."""
        self.joined: tuple[int, Place] | None = None
        """The generation that was joined last, and where."""
        self.member_id = ""
        self.in_group: Place | None = None
        """The last line that shows a member; None since something may have taken it out of its group."""

    def see(self, seen: Seen) -> Findings:
        record, place = seen
        if self.in_group is not None and not self.consumer.unbroken(self.in_group.file, place.file):
            self.in_group = None
        if _leaves(record) or record.kind in _MAY_LEAVE:
            self.in_group = None
        step = _EPOCH_STEPS.get(record.kind)
        if step is not None and (self.consumer.in_order or self.consumer.interleaved):
            yield from self._check_id(seen)
            yield from step(self, seen) or ()
        if _shows_member(record):
            self.in_group = place

    def _at(self, seen: Seen, summary: str, *before: Place, start_ms: int | None = None) -> Finding:
        """The contradiction that shows at this record."""
        ts_ms = seen.record.ts_ms
        start_ms = ts_ms if start_ms is None else start_ms
        return _contradiction(self.consumer, start_ms, ts_ms, summary, [*before, seen.place])

    def _check_id(self, seen: Seen) -> Findings:
        """The id stays what it was, unless something took the member out of its group."""
        record = seen.record
        if not record.member_id:
            return
        chosen = record.machine == CONSUMER.name and bool(record.state)
        free = record.state == initial(record.machine) if chosen else self.in_group is None or self.consumer.interleaved
        if not self.member_id or free or record.member_id == self.member_id:
            self.member_id = record.member_id
            return
        what = "a step" if chosen else "a line"
        yield self._at(seen, f"{self.consumer.member} is {self.member_id}, but {what} of it names {record.member_id}")

    def _check(self, seen: Seen) -> Findings:
        yield from self._check_epoch(seen, 0)

    def _check_heartbeat(self, seen: Seen) -> Findings:
        """Another thread than that which joins may print it."""
        yield from self._check_epoch(seen, 0 if self.consumer.facts.one_thread else REORDER_MS)

    def _check_epoch(self, seen: Seen, slack_ms: int) -> Findings:
        record, place = seen
        if record.epoch is None:
            return
        if record.epoch <= 0:
            yield from self._check_out_of_group(seen)
            return
        interleaved = self.consumer.interleaved
        slack_ms = REORDER_MS if interleaved else slack_ms
        before = self.epoch
        if before is not None and not (interleaved or self.consumer.unbroken(before[2].file, place.file)):
            before = None
        if before is not None and record.epoch < before[0] and record.ts_ms - before[1] < slack_ms:
            return
        if before is None or record.epoch != before[0]:
            self.epoch = (record.epoch, record.ts_ms, place)
        if before is not None and record.epoch < before[0]:
            member = self.consumer.member
            summary = f"the epoch of {member} went back from {before[0]} to {record.epoch} without a new join"
            start_ms = before[1] if record.ts_ms - before[1] < SETTLED_MS else record.ts_ms
            yield self._at(seen, summary, before[2], start_ms=start_ms)

    def _check_out_of_group(self, seen: Seen) -> Findings:
        """An epoch that no member has: it joins, or leaves, for which there must be a reason."""
        record = seen.record
        settled = self.in_group is not None and not self.consumer.interleaved
        member = record.kind in (Kind.JOINED, Kind.SYNCED) or settled
        if record.kind is Kind.TRANSITION or not member:
            self.epoch = None
            return
        summary = f"{self.consumer.member} tells epoch {record.epoch}, which no member has, and nothing took it out"
        yield self._at(seen, f"{summary} of its group", *filter(None, [self.in_group]))

    def _transition(self, seen: Seen) -> Findings:
        record = seen.record
        expected = _expected_sign(record)
        if expected is not None and record.epoch is not None and _sign(record.epoch) != expected:
            step = f"went from {record.state} to {record.next_state} with epoch {record.epoch}"
            yield self._at(seen, f"{self.consumer.member} {step}, but its epoch is {_SIGNS[expected]} then")
        elif record.machine == CONSUMER.name:
            yield from self._check(seen)

    def _joined(self, seen: Seen) -> Findings:
        record, place = seen
        if record.epoch is None:
            return
        before, self.joined = self.joined, (record.epoch, place)
        stayed = before is not None and self.in_group is not None and self.consumer.unbroken(before[1].file, place.file)
        if before is not None and stayed and not self.consumer.interleaved and record.epoch > before[0] + 1:
            summary = (
                f"{self.consumer.member} joined generation {before[0]}, and then {record.epoch}: it missed what was "
                "between them, the group was upgraded meanwhile, or lines are missing"
            )
            yield replace(self._at(seen, summary, before[1]), severity=Severity.INFO)
        yield from self._check(seen)

    def _synced(self, seen: Seen) -> Findings:
        record, place = seen
        joined = self.joined[0] if self.joined and self.consumer.unbroken(self.joined[1].file, place.file) else None
        if record.epoch is not None and joined is not None and record.epoch > joined:
            self.epoch = None
            synced = f"{self.consumer.member} synced generation {record.epoch}"
            yield self._at(seen, f"{synced}, but had joined generation {joined}")
        else:
            yield from self._check(seen)

    def _reset(self, _seen: Seen) -> None:
        self.epoch = self.joined = None

    def _leave_sent(self, seen: Seen) -> Findings:
        """librdkafka prints one line without and one with its epoch."""
        if (seen.record.epoch or 0) < 0:
            yield from self._check_out_of_group(seen)
        self.epoch = self.joined = self.in_group = None


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
"""After these it is not known whether it is still a member."""


def _leaves(record: TraceRecord) -> bool:
    """Whether a member prints this when it goes out of its group, or is sent out."""
    states = ("LEAVING", "STALE", "FENCED", "FATAL", "UNSUBSCRIBED")
    return record.kind in _LEAVING or record.next_state in states


def _shows_member(record: TraceRecord) -> bool:
    """Whether only a member of the group prints this."""
    positive = (record.epoch or 0) > 0
    stable = record.kind is Kind.TRANSITION and record.machine == CONSUMER.name and record.next_state in _IN_GROUP
    return positive and (stable or record.kind in (Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_OK))


_IN_GROUP = ("RECONCILING", "ACKNOWLEDGING", "STABLE")
_SIGN = {"JOINING": 0, "LEAVING": -1} | dict.fromkeys(_IN_GROUP, 1)
"""The sign of the epoch in each state of a consumer member: 0 asks to join, and a negative one to leave (KIP-848)."""
_SIGNS = {-1: "negative", 0: "0", 1: "positive"}


def _sign(epoch: int) -> int:
    return (epoch > 0) - (epoch < 0)


def _expected_sign(record: TraceRecord) -> int | None:
    """The sign that goes with the state that a transition leads to, or ends; None where clients differ.

    Our own machines name the event, and tell the epoch of another moment.
    """
    if record.machine != CONSUMER.name or record.event:
        return None
    ends = record.next_state == "PREPARE_LEAVING" or record.state == "LEAVING"
    return _SIGN.get(record.state if ends else record.next_state)


_EPOCH_STEPS: dict[Kind, Callable[[EpochTracker, Seen], Step]] = {
    Kind.TRANSITION: EpochTracker._transition,
    Kind.JOINING: EpochTracker._check,
    Kind.JOINED: EpochTracker._joined,
    Kind.SYNCED: EpochTracker._synced,
    Kind.HEARTBEAT_SENT: EpochTracker._check_heartbeat,
    Kind.HEARTBEAT_OK: EpochTracker._check_heartbeat,
    Kind.GENERATION_RESET: EpochTracker._reset,
    Kind.FENCED: EpochTracker._reset,
    Kind.MEMBER_ID: EpochTracker._reset,
    Kind.LEAVE_SENT: EpochTracker._leave_sent,
    Kind.LEFT: EpochTracker._reset,
}


# -- states and poll timeouts -------------------------------------------------------------------------------


class ContradictionTracker:
    """Follows the states of one instance, and with them its epochs."""

    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.epochs = EpochTracker(consumer)
        self.prints_steps = False
        self.at: dict[str, tuple[str, int, Place]] = {}
        """The state of each machine, since when, and the line of its last transition."""
        self.assigned: Place | None = None
        """Where a classic member got the assignment of its generation; it gets one in each."""
        self.callback_failed = False
        """A callback failed in this generation; the assignment then comes again."""
        self.expired: tuple[int, Place] | None = None
        """A poll timeout that nothing followed yet."""

    def see(self, seen: Seen) -> Findings:
        judged = self.consumer.in_order or self.consumer.interleaved
        if judged and self.expired is not None:
            yield from self._check_left(seen, *self.expired)
        yield from self.epochs.see(seen)
        step = _STEPS.get(seen.record.kind)
        if step is not None and judged:
            yield from step(self, seen) or ()

    def _transition(self, seen: Seen) -> None:
        record, place = seen
        self.prints_steps = True
        self.at[record.machine] = (record.next_state, record.ts_ms, place)
        self.assigned, self.callback_failed = None, False

    def _fails(self, _seen: Seen) -> None:
        self.callback_failed = True

    def _assigned(self, seen: Seen) -> Findings:
        yield from self._begins(seen)
        if CLASSIC.name not in self.at or self.consumer.interleaved:
            return
        before, self.assigned = self.assigned, seen.place
        if before is not None and not self.callback_failed and self.consumer.unbroken(before.file, seen.place.file):
            ts_ms = seen.record.ts_ms
            summary = f"{self.consumer.member} got two assignments in one generation; lines are missing"
            yield _contradiction(self.consumer, ts_ms, ts_ms, summary, [before, seen.place])

    def _begins(self, seen: Seen) -> Findings:
        record, place = seen
        if self.consumer.interleaved:
            return
        for machine, (state, since_ms, since) in self.at.items():
            allowed = self.consumer.facts.begins_in.get((machine, record.kind))
            # Java calls back on another thread than that of its transitions.
            reordered = record.kind is Kind.ASSIGN_BEGIN and record.ts_ms - since_ms < REORDER_MS
            if allowed is None or state in allowed or reordered or not self.consumer.unbroken(since.file, place.file):
                continue
            del self.at[machine]
            summary = f"{self.consumer.member} {_WHAT[record.kind]} while it was {state}; lines are missing"
            yield _contradiction(self.consumer, record.ts_ms, record.ts_ms, summary, [since, place])
            return

    def _expires(self, seen: Seen) -> None:
        away = not self.consumer.in_group or self.consumer.closing_ms is not None
        leaves_later = self.consumer.facts.leaves_at_poll and self.epochs.joined is None
        if self.prints_steps and not away and not leaves_later:
            self.expired = (seen.record.ts_ms, seen.place)

    def _check_left(self, seen: Seen, ts_ms: int, place: Place) -> Findings:
        """Whether anything says in time after a poll timeout that the member leaves."""
        late = seen.record.ts_ms - ts_ms > SETTLED_MS
        left = _leaves(seen.record) or seen.record.kind is Kind.LEAVE_SENT
        if late or (left and seen.place != place):
            self.expired = None
        if late:
            timeout = f"{self.consumer.member} said that its poll timeout had expired"
            summary = f"{timeout}, but did not leave; lines are missing"
            yield _contradiction(self.consumer, ts_ms, seen.record.ts_ms, summary, [place, seen.place])


_WHAT = {
    Kind.TARGET: "got an assignment",
    Kind.RECONCILING: "got an assignment",
    Kind.ASSIGN_BEGIN: "got an assignment",
    Kind.REVOKE_BEGIN: "gave an assignment up",
    Kind.LOST_BEGIN: "lost an assignment",
}

_STEPS: dict[Kind, Callable[[ContradictionTracker, Seen], Step]] = {
    Kind.TRANSITION: ContradictionTracker._transition,
    Kind.TARGET: ContradictionTracker._begins,
    Kind.RECONCILING: ContradictionTracker._begins,
    Kind.ASSIGN_BEGIN: ContradictionTracker._assigned,
    Kind.CALLBACK_FAILED: ContradictionTracker._fails,
    Kind.REVOKE_BEGIN: ContradictionTracker._begins,
    Kind.LOST_BEGIN: ContradictionTracker._begins,
    Kind.POLL_EXPIRED: ContradictionTracker._expires,
}
