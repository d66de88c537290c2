"""One consumer instance: what the trackers of its records need to know about it, and when another takes its place.

An instance begins with `STARTED`, or with the first line where the log begins later, and ends with a close, with the
next `STARTED`, or with the last line. The lines of a start may be missing. Then a member id shows a new instance: a
classic member gets a new id only after it gave up the old one, and says so; a member of the consumer protocol chooses
one when it is created and keeps it (KIP-848). An instance subscribes before it has its id, so the lines since the last
subscription are its own as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fsm.audit.attribution.rotation import adjoin
from fsm.audit.conformance import initial
from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.limits import (
    BURST_MS,
    CLASSIC_HEARTBEAT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    REORDER_MS,
)
from fsm.audit.rows import DOUBT, NOWHERE, Ended, Life, Place, Seen
from fsm.logs import ClientFacts, facts_of
from fsm.trace import Kind, Partition, TraceRecord

LEAVES_ON_CLOSE = "internal.leave.group.on.close"
"""Kafka Streams sets it to false: its classic consumers close without leaving, and without a callback."""
_SETTINGS = ("group.protocol", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", LEAVES_ON_CLOSE)
_LEAVES_OR_STAYS = frozenset(
    {
        Kind.LEFT,
        Kind.POLL_EXPIRED,
        Kind.SUBSCRIBED,
        Kind.JOINING,
        Kind.JOINED,
        Kind.ASSIGN_BEGIN,
        Kind.REVOKE_BEGIN,
        Kind.LOST_BEGIN,
        Kind.ADDED,
    }
)
"""After the last of these, a consumer whose log ends has left, or it was a member."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
CONSUMER = "consumer"
"""The protocol of KIP-848."""


@dataclass(slots=True)
class ConsumerInstance:
    """The instance that the fold is following; all trackers share the object."""

    group: str
    member: str
    number: int
    start_ms: int
    start: Place
    whole_start: bool
    """The log shows its start."""
    last_ms: int
    last: Place
    client_id: str = ""
    instance_id: str = ""
    member_id: str = ""
    id_files: set[str] = field(default_factory=set)
    """Files that name its member id."""
    left_files: set[str] = field(default_factory=set)
    """Files after which the log went on in another one."""
    file_changed_ms: int | None = None
    """When the last file began, where it is not a rotation of the one before."""
    scattered: bool = False
    """Its lines are spread over several files: a file continued after another one had followed it."""
    shuffled: bool = False
    """The lines of the current file have no order."""
    contiguous: set[str] = field(default_factory=set)
    """Files before the current one between which, and it, nothing is missing: rotations of one name."""
    protocol: str = ""
    version: str = ""
    closing_ms: int | None = None
    """Since when the application has been closing the consumer."""
    closed_ms: int | None = None
    expired: bool = False
    """Its poll timeout has expired, and it has not come back yet."""
    left_ms: int | None = None
    """When it left the group, if that is the last that its lines tell, and no poll timeout was the reason."""
    in_group: bool = False
    facts: ClientFacts = field(default_factory=lambda: facts_of(""))
    """How its client tells what happens."""
    doubtful_ms: int | None = None
    """Since when its lines may include those of another process."""
    settings: dict[str, str] = field(default_factory=dict)
    turn_ms: int | None = None
    """When its last rebalance began."""
    burst_ms: int = 0
    """When the current burst of lines began, which follow each other closely."""
    before_burst: tuple[int, Place] = (0, NOWHERE)
    """The last line before that burst."""

    def update(self, record: TraceRecord, place: Place) -> None:
        """Takes over what the record says about the instance itself."""
        if record.ts_ms - self.last_ms > BURST_MS:
            self.before_burst, self.burst_ms = (self.last_ms, self.last), record.ts_ms
        if place.file != self.last.file:
            self._change_file(record.ts_ms, place.file)
        self.last_ms, self.last = max(self.last_ms, record.ts_ms), place
        if record.detail == DOUBT:
            self.doubtful_ms = self.doubtful_ms or record.ts_ms
        if record.client_id not in ("", self.client_id):
            self.client_id, self.facts = record.client_id, facts_of(record.client_id)
        self.instance_id = record.instance_id or self.instance_id
        if record.member_id:
            self.member_id = record.member_id
            self.id_files.add(place.file)
        self.version = record.settings.get("version", self.version)
        self.settings.update({name: record.settings[name] for name in _SETTINGS if name in record.settings})
        if record.kind in _LEAVES_OR_STAYS:
            left = record.kind is Kind.LEFT and not self.expired
            self.left_ms = record.ts_ms if left else None
            self.expired = record.kind is Kind.POLL_EXPIRED or (self.expired and record.kind is Kind.LEFT)
        protocols = self.facts.protocols
        protocol = protocols.get(record.machine) or protocols.get(record.kind)
        self.protocol = protocol or self.protocol or self.settings.get("group.protocol", "")

    def _change_file(self, ts_ms: int, file: str) -> None:
        self.scattered = self.scattered or file in self.left_files
        self.left_files.add(self.last.file)
        if adjoin(self.last.file, file) and not self.scattered:
            self.contiguous.add(self.last.file)
        else:
            self.contiguous = set()
            self.file_changed_ms = ts_ms

    def unbroken(self, earlier: str, later: str) -> bool:
        """Whether nothing is missing between two files, of which the later one is the current one."""
        contiguous = self.contiguous
        return earlier == later or (earlier in contiguous and (later in contiguous or later == self.last.file))

    @property
    def closed_quietly(self) -> bool:
        """Whether a log that ends here shows a close, though no line says so."""
        leaves = self.closing_ms is not None or self.left_ms is not None
        return leaves and self.closed_ms is None and self.facts.closes_quietly

    @property
    def tells_last_step(self) -> bool:
        """Whether its client, of that release, prints the step that a close ends with at every level."""
        release = _RELEASE.match(self.version)
        return release is None or (int(release[1]), int(release[2])) >= self.facts.last_step_since

    @property
    def stays_in_group(self) -> bool:
        return self.settings.get(LEAVES_ON_CLOSE) == "false"

    @property
    def in_order(self) -> bool:
        """Whether its lines come in the order in which they were printed.

        Where a file begins, the one before it may not be complete yet.
        """
        settled = self.file_changed_ms is None or self.last_ms - self.file_changed_ms > REORDER_MS
        return settled and not (self.scattered or self.shuffled)

    @property
    def interleaved(self) -> bool:
        """Whether its lines are spread over several files, each in order: time orders all but those of one moment."""
        return self.scattered and not self.shuffled

    def end_before_burst(self) -> None:
        """Leaves the last burst to the next instance: its first lines precede the one that says `STARTED`."""
        if self.before_burst[0] >= self.start_ms:
            self.last_ms, self.last = self.before_burst

    def setting_ms(self, name: str) -> int | None:
        """A setting in milliseconds; None where it was not printed or is not a number."""
        text = self.settings.get(name, "")
        return int(text) if text.isdecimal() else None

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.setting_ms("max.poll.interval.ms") or DEFAULT_MAX_POLL_INTERVAL_MS

    @property
    def session_timeout_ms(self) -> int | None:
        """The client's session timeout; None in consumer groups, where the broker decides."""
        return None if self.protocol == CONSUMER else self.setting_ms("session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """How long it may take until this member learns of a rebalance."""
        if self.protocol == CONSUMER:
            return CONSUMER_HEARTBEAT_INTERVAL_MS
        return self.setting_ms("heartbeat.interval.ms") or CLASSIC_HEARTBEAT_INTERVAL_MS

    @property
    def silence_ms(self) -> int:
        """Longest silence towards the coordinator that is certainly within its session."""
        return self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS

    def finding(
        self,
        kind: FindingKind,
        start_ms: int,
        end_ms: int,
        summary: str,
        places: Iterable[Place],
        *,
        partitions: Iterable[Partition] = (),
        cause: Cause = Cause.NONE,
    ) -> Finding:
        """A finding about this member."""
        about = self.group, self.member, start_ms, end_ms
        return finding(kind, *about, summary=summary, partitions=partitions, cause=cause, places=places)

    def row(self, ended: Ended) -> Life:
        return Life(
            group=self.group,
            member=self.member,
            number=self.number,
            client_id=self.client_id,
            instance_id=self.instance_id,
            member_id=self.member_id,
            protocol=self.protocol,
            version=self.version,
            start_ms=self.start_ms,
            end_ms=self.last_ms,
            whole_start=self.whole_start,
            ended=ended,
            in_group=self.in_group,
            doubtful_ms=self.doubtful_ms,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.setting_ms("max.poll.interval.ms"),
            start=self.start,
            end=self.last,
        )


def not_started(group: str, member: str) -> ConsumerInstance:
    return ConsumerInstance(group, member, -1, 0, NOWHERE, False, 0, NOWHERE)


# -- another instance in its place --------------------------------------------------------------------------

_EARLY_LIMIT = 64
"""Lines between a subscription and the id that are held; an instance that prints more is not new."""
_GIVES_UP_ID = frozenset(
    {
        Kind.GENERATION_RESET,
        Kind.FENCED,
        Kind.ERROR,
        Kind.LOST_BEGIN,
        Kind.POLL_EXPIRED,
        Kind.LEAVE_BEGIN,
        Kind.LEAVE_SENT,
        Kind.LEFT,
        Kind.FATAL,
        Kind.UNSUBSCRIBED,
        Kind.CLOSE_BEGIN,
    }
)
"""After these a classic member may get another id."""
_GETS_ID = frozenset({Kind.JOINED, Kind.MEMBER_ID})
_NEEDS_ID = frozenset({Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN, Kind.LOST_BEGIN, Kind.SYNCED})
"""No instance without an id prints these."""


class SuccessorDetector:
    """Notices that another instance took over though no line says that it started."""

    def __init__(self) -> None:
        self.gave_up_id = False
        """A classic member may get another id."""
        self.early: list[Seen] = []
        """Lines since the last subscription, or since the coordinator was found, while none needs an id."""
        self.before: tuple[int, Place] = (0, NOWHERE)
        """The last line before those."""

    def update(self, seen: Seen, consumer: ConsumerInstance) -> None:
        """Takes a line of this instance; `consumer` does not know it yet."""
        record = seen.record
        if record.kind is Kind.SUBSCRIBED or (record.kind is Kind.COORDINATOR_FOUND and not self.early):
            self.early, self.before = [seen], (consumer.last_ms, consumer.last)
        elif record.member_id or record.kind in _NEEDS_ID or len(self.early) == _EARLY_LIMIT:
            self.early = []
        elif self.early:
            self.early.append(seen)
        if record.kind in _GIVES_UP_ID:
            self.gave_up_id = True
        elif record.kind is Kind.JOINED and record.member_id == consumer.member_id:
            self.gave_up_id = False

    def is_successor(self, seen: Seen, consumer: ConsumerInstance) -> bool:
        """Whether another instance printed the line."""
        old, record = consumer.member_id, seen.record
        if not old or record.member_id in ("", old) or consumer.scattered or consumer.facts.id_names_instance:
            return False
        if len(record.member_id) == consumer.facts.chosen_id_length:
            return bool(record.state) and record.state == initial(record.machine)
        joins = record.kind in _GETS_ID or record.next_state == "COMPLETING_REBALANCE"
        return joins and not self.gave_up_id
