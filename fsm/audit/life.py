"""One incarnation of a member, and what of it the parts of the fold need to know.

A life begins with `STARTED`, or with the first line where the log begins in mid-life, and ends with a close,
with the next `STARTED`, or with the last line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fsm.audit.limits import (
    BURST_MS,
    CLASSIC_HEARTBEAT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    REORDER_MS,
)
from fsm.audit.rotation import adjoin
from fsm.audit.rows import DOUBT, NOWHERE, Ended, Life, Place
from fsm.trace import Kind, TraceRecord

LIBRDKAFKA = "librdkafka"
_INSTANCE = "#consumer-"
"""librdkafka appends this and a number to the client id."""
STAYS = "internal.leave.group.on.close"
"""Kafka Streams sets it to false: its classic consumers close without leaving, and without a callback."""
_KEPT = ("group.protocol", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", STAYS)
CONSUMER = "consumer"
"""The protocol of KIP-848."""
_SPOKEN = {"consumer-member": CONSUMER, "classic-member": "classic"}
"""The protocol of a member whose machine is printed."""
_SPOKEN_BY_LIBRDKAFKA = {Kind.OWNED: CONSUMER, Kind.TARGET: CONSUMER, Kind.SYNCED: "classic"}
"""The protocol that it speaks, by what it says; one machine serves both."""


@dataclass(slots=True)
class Living:
    """The life the fold is in; one object that all parts of the fold look at."""

    group: str
    member: str
    number: int
    start_ms: int
    start: Place
    whole_start: bool
    """The log shows the beginning of this life."""
    last_ms: int
    last: Place
    client_id: str = ""
    instance_id: str = ""
    member_id: str = ""
    id_files: set[str] = field(default_factory=set)
    """Files that named its id."""
    left: set[str] = field(default_factory=set)
    """Files after which another one went on."""
    turned_ms: int | None = None
    """When the last file began, where it is not the first."""
    scattered: bool = False
    """Its lines were dealt out to several files: a file that another one had followed went on."""
    shuffled: bool = False
    """The lines of the file that is read have no order."""
    whole: set[str] = field(default_factory=set)
    """Files before the last one between which, and it, nothing is missing: rotations of one name."""
    protocol: str = ""
    version: str = ""
    closing_ms: int | None = None
    """Since when the application has been closing the consumer."""
    closed_ms: int | None = None
    in_group: bool = False
    client: str = ""
    """`librdkafka`, or empty for Java."""
    doubtful_ms: int | None = None
    """Since when lines may have been taken for this process's that are another's."""
    settings: dict[str, str] = field(default_factory=dict)
    turn_ms: int | None = None
    """When its last rebalance began."""
    burst_ms: int = 0
    """When the lines began that follow one another closely, up to the last one."""
    before: tuple[int, Place] = (0, NOWHERE)
    """The last line before that burst."""

    def note(self, record: TraceRecord, place: Place) -> None:
        """Take over what the record says about the member itself."""
        if record.ts_ms - self.last_ms > BURST_MS:
            self.before, self.burst_ms = (self.last_ms, self.last), record.ts_ms
        if place.file != self.last.file:
            self._turn(record.ts_ms, place.file)
        self.last_ms, self.last = max(self.last_ms, record.ts_ms), place
        if _INSTANCE in record.client_id:
            self.client = LIBRDKAFKA
        elif record.detail == DOUBT:
            self.doubtful_ms = self.doubtful_ms or record.ts_ms
        self.client_id = record.client_id or self.client_id
        self.instance_id = record.instance_id or self.instance_id
        if record.member_id:
            self.member_id = record.member_id
            self.id_files.add(place.file)
        self.version = record.settings.get("version", self.version)
        for name in _KEPT:
            if name in record.settings:
                self.settings[name] = record.settings[name]
        spoken = _SPOKEN.get(record.machine, "")
        if self.client == LIBRDKAFKA:
            spoken = _SPOKEN_BY_LIBRDKAFKA.get(record.kind, "")
        self.protocol = spoken or self.protocol or self.settings.get("group.protocol", "")

    def _turn(self, ts_ms: int, file: str) -> None:
        """Another file goes on."""
        self.scattered = self.scattered or file in self.left
        self.left.add(self.last.file)
        if adjoin(self.last.file, file) and not self.scattered:
            self.whole.add(self.last.file)
        else:
            self.whole = set()
            self.turned_ms = ts_ms

    def unbroken(self, earlier: str, later: str) -> bool:
        """Nothing is missing between the two files, of which the later one was just read."""
        return earlier == later or (earlier in self.whole and (later in self.whole or later == self.last.file))

    @property
    def stays(self) -> bool:
        """close() neither leaves the group nor calls the listener."""
        return self.settings.get(STAYS) == "false"

    @property
    def in_order(self) -> bool:
        """Its lines come in the order in which they were printed: from one file, or from files that follow each other.

        Where a file begins nobody knows yet whether the one before it is over.
        """
        turned = self.turned_ms is None or self.last_ms - self.turned_ms > REORDER_MS
        return turned and not (self.scattered or self.shuffled)

    @property
    def dealt(self) -> bool:
        """Its lines were dealt out to files, each of which is in order: times tell the order but of one moment."""
        return self.scattered and not self.shuffled

    def end_before_burst(self) -> None:
        """The last burst belongs to the next life: its first lines come before the one that says `STARTED`."""
        if self.before[0] >= self.start_ms:
            self.last_ms, self.last = self.before

    def setting_ms(self, name: str) -> int | None:
        """A setting in milliseconds, None where it was not printed or is not a number."""
        text = self.settings.get(name, "")
        return int(text) if text.isdecimal() else None

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for this member's callbacks."""
        return self.setting_ms("max.poll.interval.ms") or DEFAULT_MAX_POLL_INTERVAL_MS

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout where the client decides it: in classic groups."""
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

    def row(self, ended: Ended) -> Life:
        """The finished life as a row."""
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


def unborn(group: str, member: str) -> Living:
    """A life before its first line."""
    return Living(group, member, -1, 0, NOWHERE, False, 0, NOWHERE)
