"""Contradictions between the records of one consumer instance that do not violate a table.

* Within one membership an epoch or generation does not decrease, and a generation is joined before it is synced.
* A member has a positive epoch and keeps its id until it leaves or is removed. A client of the consumer protocol
  chooses its id once, and the state of a transition determines the sign of its epoch (KIP-848).
* Generations are joined one after the other. A missing one means that the member missed it, that the group was
  upgraded meanwhile, or that the lines of a whole rebalance are missing: for information.
* Assignments arrive, and callbacks begin, in certain states only. In another state, lines are missing.
* A poll timeout is followed by a leave: both are one action of one thread. librdkafka's members of the consumer
  protocol are the exception: they leave when the application polls again.

Two lines between which lines may be missing are not compared. If a member's lines are interleaved, contradictions are
for information.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fsm.audit.conformance import initial
from fsm.audit.findings import Finding, Severity
from fsm.audit.follower import Row, Rows, on
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.member.consumer_instance import InstanceFollower
from fsm.audit.rows import At, Known
from fsm.tables.classic_member import TABLE as CLASSIC
from fsm.tables.consumer_member import TABLE as CONSUMER
from fsm.trace import Kind, TraceRecord

Findings = Iterator[Finding]


# -- epochs, generations and ids ----------------------------------------------------------------------------


@dataclass
class Epochs(InstanceFollower):
    epoch: tuple[int, At] | None = None
    """The highest epoch of this membership, and its first line."""
    joined: tuple[int, At] | None = None
    """The generation that was joined last, and its line."""
    member_id: str = ""
    in_group: At | None = None
    """The last line that shows membership; None if it may have left or been removed since."""

    def see(self, known: Known) -> list[Row]:
        record, at = known.record, known.at
        found: list[Row] = []
        if self.in_group is not None and not at.joins(self.in_group):
            self.in_group = None
        if record.kind in _MAY_LEAVE or _leaves(record):
            self.in_group = None
        if record.kind in self.steps and self.consumer.ordered:
            found += self._check_id(known) if record.member_id else ()
            found += super().see(known)
        if _shows_member(record):
            self.in_group = at
        return found

    def _check_id(self, known: Known) -> Findings:
        """The id does not change while it is a member."""
        record, member = known.record, self.consumer.member
        chosen = record.machine == CONSUMER.name and bool(record.state)
        free = record.state == initial(record.machine) if chosen else self.in_group is None or self.consumer.interleaved
        if not self.member_id or free or record.member_id == self.member_id:
            self.member_id = record.member_id
            return
        what = "a step" if chosen else "a line"
        summary = f"{member} is {self.member_id}, but {what} of it names {record.member_id}"
        yield self.consumer.contradiction(summary, known.at)

    @on(Kind.JOINING)
    def _check(self, known: Known) -> Findings:
        return self._check_epoch(known, 0)

    @on(Kind.HEARTBEAT_SENT, Kind.HEARTBEAT_OK)
    def _check_heartbeat(self, known: Known) -> Findings:
        """A heartbeat line may come from another thread than the join."""
        return self._check_epoch(known, 0 if self.consumer.facts.one_thread else REORDER_MS)

    def _check_epoch(self, known: Known, slack_ms: int) -> Findings:
        epoch, at = known.record.epoch, known.at
        if epoch is None:
            return
        if epoch <= 0:
            yield from self._check_out_of_group(known)
            return
        interleaved = self.consumer.interleaved
        if self.epoch is None or epoch > self.epoch[0] or not (interleaved or at.joins(self.epoch[1])):
            self.epoch = epoch, at
            return
        before, line = self.epoch
        later_ms = at.ts_ms - line.ts_ms
        if epoch < before and later_ms >= (REORDER_MS if interleaved else slack_ms):
            self.epoch = epoch, at
            summary = f"the epoch of {self.consumer.member} went back from {before} to {epoch} without a new join"
            start_ms = line.ts_ms if later_ms < SETTLED_MS else at.ts_ms
            yield self.consumer.contradiction(summary, line, at, span_ms=(start_ms, at.ts_ms))

    def _check_out_of_group(self, known: Known) -> Findings:
        """The epoch is of a join or a leave: a contradiction while it is a member."""
        record = known.record
        settled = self.in_group is not None and not self.consumer.interleaved
        member = record.kind in (Kind.JOINED, Kind.SYNCED) or settled
        if record.kind is Kind.TRANSITION or not member:
            self.epoch = None
            return
        summary = f"{self.consumer.member} tells epoch {record.epoch}, which no member has, and nothing took it out"
        yield self.consumer.contradiction(f"{summary} of its group", *filter(None, [self.in_group]), known.at)

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> Findings:
        record = known.record
        expected = _expect_sign(record)
        if expected is not None and record.epoch is not None and _sign(record.epoch) != expected:
            step = f"went from {record.state} to {record.next_state} with epoch {record.epoch}"
            summary = f"{self.consumer.member} {step}, but its epoch is {_SIGNS[expected]} then"
            yield self.consumer.contradiction(summary, known.at)
        elif record.machine == CONSUMER.name:
            yield from self._check(known)

    @on(Kind.JOINED)
    def _on_join(self, known: Known) -> Findings:
        epoch, at = known.record.epoch, known.at
        if epoch is None:
            return
        before, self.joined = self.joined, (epoch, at)
        stayed = before is not None and self.in_group is not None and at.joins(before[1])
        if before is not None and stayed and not self.consumer.interleaved and epoch > before[0] + 1:
            summary = (
                f"{self.consumer.member} joined generation {before[0]}, and then {epoch}: it missed what was "
                "between them, the group was upgraded meanwhile, or lines are missing"
            )
            yield replace(self.consumer.contradiction(summary, before[1], at), severity=Severity.INFO)
        yield from self._check(known)

    @on(Kind.SYNCED)
    def _on_sync(self, known: Known) -> Findings:
        epoch, at = known.record.epoch, known.at
        joined = self.joined[0] if self.joined and at.joins(self.joined[1]) else None
        if epoch is not None and joined is not None and epoch > joined:
            self.epoch = None
            summary = f"{self.consumer.member} synced generation {epoch}, but had joined generation {joined}"
            yield self.consumer.contradiction(summary, at)
        else:
            yield from self._check(known)

    @on(Kind.GENERATION_RESET, Kind.FENCED, Kind.MEMBER_ID, Kind.LEFT)
    def _reset(self, _known: Known) -> None:
        self.epoch = self.joined = None

    @on(Kind.LEAVE_SENT)
    def _leave_sent(self, known: Known) -> Findings:
        """librdkafka prints one line without and one with the epoch."""
        if (known.record.epoch or 0) < 0:
            yield from self._check_out_of_group(known)
        self.epoch = self.joined = self.in_group = None


_LEAVING = frozenset({
    Kind.GENERATION_RESET, Kind.LEAVE_BEGIN, Kind.LEFT, Kind.LOST_BEGIN, Kind.FENCED, Kind.FATAL, Kind.CLOSE_BEGIN,
    Kind.CLOSE_END,
})  # fmt: skip
_MAY_LEAVE = frozenset({
    Kind.STARTED, Kind.ERROR, Kind.POLL_EXPIRED, Kind.LOST_DECIDED, Kind.UNSUBSCRIBED, Kind.COORDINATOR_LOST,
})  # fmt: skip
"""Kinds after which it may not be a member any more."""


def _leaves(record: TraceRecord) -> bool:
    """Whether the record shows that the member leaves or is removed."""
    return record.kind in _LEAVING or record.next_state in _OUT


_OUT = frozenset({"LEAVING", "STALE", "FENCED", "FATAL", "UNSUBSCRIBED"})


def _shows_member(record: TraceRecord) -> bool:
    positive = (record.epoch or 0) > 0
    stable = record.kind is Kind.TRANSITION and record.machine == CONSUMER.name and record.next_state in _IN_GROUP
    return positive and (stable or record.kind in (Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_OK))


_IN_GROUP = ("RECONCILING", "ACKNOWLEDGING", "STABLE")
_SIGN = {"JOINING": 0, "LEAVING": -1} | dict.fromkeys(_IN_GROUP, 1)
"""The sign of the epoch in each state of a consumer member: 0 is a join, negative a leave (KIP-848)."""
_SIGNS = {-1: "negative", 0: "0", 1: "positive"}


def _sign(epoch: int) -> int:
    return (epoch > 0) - (epoch < 0)


def _expect_sign(record: TraceRecord) -> int | None:
    """The sign of the epoch in the target state of a transition, or in its source state if it is a leave.

    None if clients differ, and for our own machines, which print the event and the epoch of another moment.
    """
    if record.machine != CONSUMER.name or record.event:
        return None
    ends = record.next_state == "PREPARE_LEAVING" or record.state == "LEAVING"
    return _SIGN.get(record.state if ends else record.next_state)


# -- states and poll timeouts -------------------------------------------------------------------------------


@dataclass
class Contradictions(InstanceFollower):
    """Checks the states of one instance, and its epochs (`Epochs`)."""

    every = True

    at: dict[str, tuple[str, At]] = field(default_factory=dict)
    """The state of each machine, and the line of its last transition."""
    prints_steps: bool = False
    assigned: At | None = None
    """The line of a classic member's assignment in the current generation, which has only one."""
    callback_failed: bool = False
    """A callback failed in this generation, so the assignment is repeated."""
    expired: At | None = None
    """The line of a poll timeout without a leave so far."""

    def __post_init__(self) -> None:
        self.epochs = Epochs(self.consumer, self.owned)

    def see(self, known: Known) -> Rows:
        judged = self.consumer.ordered
        found: list[Row] = []
        if judged and self.expired is not None:
            found += self._check_left(known, self.expired)
        found += self.epochs.see(known)
        if judged:
            found += super().see(known)
        return found

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> None:
        self.prints_steps = True
        self.at[known.record.machine] = known.record.next_state, known.at
        self.assigned, self.callback_failed = None, False

    @on(Kind.CALLBACK_FAILED)
    def _fails(self, _known: Known) -> None:
        self.callback_failed = True

    @on(Kind.ASSIGN_BEGIN)
    def _on_assignment(self, known: Known) -> Findings:
        yield from self._begins(known)
        if CLASSIC.name not in self.at or self.consumer.interleaved:
            return
        before, self.assigned = self.assigned, known.at
        if before is not None and not self.callback_failed and known.at.joins(before):
            summary = f"{self.consumer.member} got two assignments in one generation; lines are missing"
            yield self.consumer.contradiction(summary, before, known.at)

    @on(Kind.TARGET, Kind.RECONCILING, Kind.REVOKE_BEGIN, Kind.LOST_BEGIN)
    def _begins(self, known: Known) -> Findings:
        kind, at = known.record.kind, known.at
        if self.consumer.interleaved:
            return
        for machine, (state, since) in self.at.items():
            allowed = self.consumer.facts.begins_in.get((machine, kind))
            # Java runs callbacks in another thread than transitions.
            reordered = kind is Kind.ASSIGN_BEGIN and at.ts_ms - since.ts_ms < REORDER_MS
            if allowed is not None and state not in allowed and not reordered and at.joins(since):
                del self.at[machine]
                summary = f"{self.consumer.member} {_WHAT[kind]} while it was {state}; lines are missing"
                yield self.consumer.contradiction(summary, since, at)
                return

    @on(Kind.POLL_EXPIRED)
    def _expires(self, known: Known) -> None:
        away = not self.consumer.in_group or self.consumer.closing_ms is not None
        leaves_later = self.consumer.facts.leaves_at_poll and self.epochs.joined is None
        if self.prints_steps and not away and not leaves_later:
            self.expired = known.at

    def _check_left(self, known: Known, expired: At) -> Findings:
        """A finding if no leave follows a poll timeout within `SETTLED_MS`."""
        at = known.at
        late = at.ts_ms - expired.ts_ms > SETTLED_MS
        left = _leaves(known.record) or known.record.kind is Kind.LEAVE_SENT
        if late or (left and at.place != expired.place):
            self.expired = None
        if late:
            timeout = f"{self.consumer.member} said that its poll timeout had expired"
            summary = f"{timeout}, but did not leave; lines are missing"
            yield self.consumer.contradiction(summary, expired, at, span_ms=(expired.ts_ms, at.ts_ms))


_WHAT = dict.fromkeys((Kind.TARGET, Kind.RECONCILING, Kind.ASSIGN_BEGIN), "got an assignment") | {
    Kind.REVOKE_BEGIN: "gave an assignment up",
    Kind.LOST_BEGIN: "lost an assignment",
}
