"""Writes trace records as logs of Java consumers: the inverse of `java_client` and its membership modules.

There is one table of messages per protocol; a test reads every line back. Records that the client does not log have no
message, nor do those that follow from another line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fsm.logs.message import Message
from fsm.logs.programs.java_messages import error_text
from fsm.protocol.assignment import without
from fsm.trace import Kind, Partition, TraceRecord, by_partition

INTERNALS = "org.apache.kafka.clients.consumer.internals."
PROCESS = "org.apache.kafka.common."
LOGGERS = {
    "AbstractConfig": f"{PROCESS}config.",
    "AppInfoParser": f"{PROCESS}utils.internals.",
    "NetworkClient": "org.apache.kafka.clients.",
}
"""Packages of the classes that are not internals of the consumer."""


class Words(NamedTuple):
    """The message of a record."""

    level: str
    logger: str
    text: str
    """With placeholders in braces for fields of the record and values of its writer."""


Row = tuple[Kind, str, str, str, str]
"""A kind of record, its detail, and the message."""
Table = Mapping[tuple[Kind, str], tuple[Words, ...]]
"""By kind and detail; details without their own messages use those of the empty detail."""


def _make_table(rows: Iterable[Row]) -> Table:
    out: dict[tuple[Kind, str], tuple[Words, ...]] = {}
    for kind, detail, level, logger, text in rows:
        out[kind, detail] = (*out.get((kind, detail), ()), Words(level, logger, text))
    return out


_MEMBER, _HEARTBEAT = "ConsumerMembershipManager", "ConsumerHeartbeatRequestManager"
_INVOKER, _COORDINATOR, _REQUESTS = "ConsumerRebalanceListenerInvoker", "ConsumerCoordinator", "NetworkClient"
_ASYNC, _CLASSIC = "AsyncKafkaConsumer", "ClassicKafkaConsumer"
_WHO = "Member {member_id} with epoch {epoch}"
_FAILED = "ConsumerGroupHeartbeatRequest failed"
_API = "RequestHeader(apiKey=CONSUMER_GROUP_HEARTBEAT, apiVersion=1, clientId={client_id}, correlationId={number})"
_LISTS = (
    "\n\tAssigned partitions:                       {full}"
    "\n\tCurrent owned partitions:                  {owned}"
    "\n\tAdded partitions (assigned - owned):       {partitions}"
    "\n\tRevoked partitions (owned - assigned):     {revoked}\n"
)
_UNAVAILABLE = "Group coordinator {node} is unavailable or invalid due to cause: {cause}. "
_COMMIT_FAILED = "Asynchronous auto-commit of offsets {{}} failed: {error}"
_CALLBACK_ENDED = (
    "The ConsumerRebalanceListener.onPartitions%s method completed successfully; "
    "signaling to continue to the next phase of rebalance"
)
_SENDING = (
    f"Sending CONSUMER_GROUP_HEARTBEAT request with header {_API} and timeout 30000 to node +1: "
    "ConsumerGroupHeartbeatRequestData(groupId='{group}', memberId='{member_id}', memberEpoch={epoch}, "
    "instanceId={instance})"
)
_RECEIVED = (
    f"Received CONSUMER_GROUP_HEARTBEAT response from node +1 for request with header {_API}: "
    "ConsumerGroupHeartbeatResponseData(throttleTimeMs=0, errorCode=0, errorMessage=null, "
    "memberId='{member_id}', memberEpoch={epoch}, heartbeatIntervalMs=0)"
)
_RECONCILING = (
    "Reconciling assignment with local epoch {local_epoch}"
    f"\n\tMember:                                    {{member_id}}{_LISTS}"
)
_POLLED_LATE = (
    "Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, exceeded "
    "approximately by {late_ms} ms. Member {member_id} will rejoin the group now."
)
_GIVEN_ID = (
    "JoinGroup failed due to non-fatal error: MEMBER_ID_REQUIRED. Will set the member id as {member_id} "
    "and then rejoin."
)

# fmt: off
_CALLBACKS: tuple[Row, ...] = (
    (Kind.ASSIGN_BEGIN, "", "INFO", _INVOKER, "Adding newly assigned partitions: {partitions}"),
    (Kind.REVOKE_BEGIN, "", "INFO", _INVOKER, "Revoke previously assigned partitions {partitions}"),
    (Kind.LOST_BEGIN, "", "INFO", _INVOKER, "Lost previously assigned partitions {partitions}"),
    (Kind.CALLBACK_FAILED, "", "ERROR", _INVOKER,
     "User provided listener Listener failed on invocation of onPartitions{callback} for partitions {partitions}"),
)


def _list_process_rows(consumer: str) -> tuple[Row, ...]:
    """Messages of the application's own class."""
    return (
        (Kind.SUBSCRIBED, "", "INFO", consumer, "Subscribed to topic(s): {topics}"),
        (Kind.SUBSCRIBED, "pattern", "INFO", consumer, "Subscribed to pattern: '{detail}'"),
        (Kind.UNSUBSCRIBED, "", "INFO", consumer, "Unsubscribed all topics or patterns and assigned partitions"),
        (Kind.CLOSE_END, "", "DEBUG", consumer, "Kafka consumer has been closed"),
    )


CONSUMER = _make_table((
    *_CALLBACKS,
    *_list_process_rows(_ASYNC),
    (Kind.TRANSITION, "", "INFO", _MEMBER, f"{_WHO} transitioned from {{state}} to {{next_state}}."),
    (Kind.HEARTBEAT_SENT, "", "DEBUG", _REQUESTS, _SENDING),
    (Kind.HEARTBEAT_OK, "", "DEBUG", _REQUESTS, _RECEIVED),
    (Kind.TARGET, "", "DEBUG", _MEMBER,
     "Member {member_id} updated its target assignment from {target} to {new_target}."),
    (Kind.RECONCILING, "", "INFO", _MEMBER, _RECONCILING),
    (Kind.REVOKE_DECIDED, "", "INFO", _MEMBER, "Revoking previously assigned partitions {partitions}"),
    (Kind.ASSIGN_END, "", "DEBUG", _MEMBER, _CALLBACK_ENDED % "Assigned"),
    (Kind.REVOKE_END, "", "DEBUG", _MEMBER, _CALLBACK_ENDED % "Revoked"),
    (Kind.LOST_END, "", "DEBUG", _MEMBER, _CALLBACK_ENDED % "Lost"),
    (Kind.POLL_EXPIRED, "", "WARN", _HEARTBEAT, "Consumer poll timeout has expired."),
    (Kind.POLL_LATE, "", "WARN", _HEARTBEAT, _POLLED_LATE),
    (Kind.FENCED, "UNKNOWN_MEMBER_ID", "INFO", _HEARTBEAT, f"{_FAILED} because member {{member_id}} is unknown."),
    (Kind.FENCED, "FENCED_MEMBER_EPOCH", "INFO", _HEARTBEAT,
     f"{_FAILED} for member {{member_id}} because epoch {{epoch}} is fenced."),
    (Kind.FATAL, "UNRELEASED_INSTANCE_ID", "ERROR", _HEARTBEAT,
     f"{_FAILED} due to unreleased instance id {{instance}}: owned by another member"),
    (Kind.FATAL, "FENCED_INSTANCE_ID", "ERROR", _HEARTBEAT,
     f"{_FAILED} due to fenced instance id {{instance}}: fenced by another member"),
    (Kind.FATAL, "", "ERROR", _HEARTBEAT, f"{_FAILED} due to unexpected error {{detail}}"),
    (Kind.ERROR, "", "INFO", _HEARTBEAT, f"{_FAILED} because of {{detail}}: the heartbeat is sent again"),
    (Kind.ERROR, "reconciliation ended early: it is of the past", "INFO", _MEMBER,
     "Interrupting reconciliation that is not relevant anymore"),
    (Kind.ERROR, "reconciliation", "ERROR", _MEMBER, "Reconciliation failed."),
    (Kind.COORDINATOR_FOUND, "", "INFO", "CoordinatorRequestManager", "Discovered group coordinator {node}"),
    (Kind.COORDINATOR_LOST, "", "INFO", "CoordinatorRequestManager", f"{_UNAVAILABLE}Rediscovery will be attempted."),
    (Kind.COMMIT_FAILED, "", "WARN", "CommitRequestManager", _COMMIT_FAILED),
    (Kind.LEAVE_SENT, "", "DEBUG", _MEMBER, f"{_WHO} generated the heartbeat to leave the group."),
    (Kind.LEFT, "", "DEBUG", _MEMBER, f"{_WHO} received a successful response to the heartbeat to leave the group"),
    (Kind.CLOSE_BEGIN, "", "DEBUG", _ASYNC, "Stop finding coordinator during consumer close"),
))
"""The KIP-848 protocol. JOINING, JOINED and LEAVE_BEGIN follow from transitions, as does LEFT after one."""

CLASSIC = _make_table((
    *_CALLBACKS,
    *_list_process_rows(_CLASSIC),
    (Kind.JOINING, "", "INFO", _COORDINATOR, "(Re-)joining group"),
    (Kind.JOINING, "reason", "INFO", _COORDINATOR, "Request joining group due to: {detail}"),
    (Kind.MEMBER_ID, "", "DEBUG", _COORDINATOR, _GIVEN_ID),
    (Kind.JOINED, "", "INFO", _COORDINATOR, "Successfully joined group with generation {generation}"),
    (Kind.SYNCED, "", "INFO", _COORDINATOR, "Successfully synced group in generation {generation}"),
    (Kind.TARGET, "", "INFO", _COORDINATOR, f"Updating assignment with{_LISTS}"),
    (Kind.TARGET, "", "INFO", _COORDINATOR, "Notifying assignor about the new Assignment(partitions={full})"),
    (Kind.HEARTBEAT_SENT, "", "DEBUG", _COORDINATOR,
     "Sending Heartbeat request with generation {epoch} and member id {member_id} to coordinator {node}"),
    (Kind.HEARTBEAT_OK, "", "DEBUG", _COORDINATOR, "Received successful Heartbeat response"),
    (Kind.FENCED, "", "INFO", _COORDINATOR, "{refusal}"),
    (Kind.ERROR, "", "INFO", _COORDINATOR, "{refusal}"),
    (Kind.GENERATION_RESET, "", "INFO", _COORDINATOR, "Resetting generation and member id due to: {detail}"),
    (Kind.COORDINATOR_FOUND, "", "INFO", _COORDINATOR, "Discovered group coordinator {node}"),
    (Kind.COORDINATOR_LOST, "", "INFO", _COORDINATOR,
     f"{_UNAVAILABLE}isDisconnected: false. Rediscovery will be attempted."),
    (Kind.COMMIT_FAILED, "", "WARN", _COORDINATOR, _COMMIT_FAILED),
    (Kind.POLL_EXPIRED, "", "WARN", _COORDINATOR, "consumer poll timeout has expired."),
    (Kind.LEAVE_SENT, "", "INFO", _COORDINATOR,
     "Member {member_id} sending LeaveGroup request to coordinator {node} due to {detail}"),
    (Kind.LEFT, "", "DEBUG", _COORDINATOR, "LeaveGroup response with {generation} returned successfully"),
))
"""The classic protocol, which does not log states. LEAVE_BEGIN is in the line of LEAVE_SENT."""
# fmt: on

_VARIANTS = {Kind.SUBSCRIBED: "pattern", Kind.JOINING: "reason"}
"""The name in the tables for any detail of these kinds."""
NODE = "localhost:9092 (id: +1 rack: null)"
"""A fixed coordinator: the trace does not contain its address."""


@dataclass
class JavaConsumer:
    """A Java consumer that logs, starting with its record STARTED."""

    settings: Mapping[str, str]
    """The settings that it logs when it starts, in addition to those in that record."""
    topic_ids: Mapping[str, str]
    """By topic; used in targets of KIP-848."""
    is_classic: bool = False
    last: Kind = Kind.STARTED
    has_left: bool = False
    state: str = ""
    """Of a classic member; determines which request an error answers."""
    epoch: int = 0
    local_epoch: int = -1
    number: int = 0
    """Of its last request."""
    owned: tuple[Partition, ...] = ()
    target: tuple[Partition, ...] = ()
    expired_ms: int = 0

    def write(self, record: TraceRecord) -> Iterator[Message]:
        """The messages of the next record."""
        if record.kind is Kind.STARTED:
            yield from self._write_start(record)
        elif words := self._find_words(record):
            prefix, values = _format_prefix(record), self._collect_values(record)
            for level, logger, text in words:
                yield _make_message(record, level, logger, prefix + text.format_map(values))
        if record.kind is Kind.CLOSE_END:
            yield from self._write_end(record)
        self._remember(record)

    def _find_words(self, record: TraceRecord) -> tuple[Words, ...]:
        kind, detail = record.kind, record.detail
        if self.is_classic:
            follows = kind is Kind.MEMBER_ID and bool(record.instance_id)  # a static member gets it with its generation
        else:
            follows = kind is Kind.LEFT and self.last is Kind.TRANSITION
        if follows:
            return ()
        table = CLASSIC if self.is_classic else CONSUMER
        variant = _VARIANTS.get(kind, "reconciliation" if detail.startswith("reconciliation ") else "")
        found = table.get((kind, detail)) or (detail and table.get((kind, variant)))
        return found or table.get((kind, ""), ())

    def _collect_values(self, record: TraceRecord) -> dict[str, object]:
        """The values of all placeholders."""
        epoch = self.epoch if record.epoch is None else record.epoch
        full, added, revoked = record.full or (), record.partitions, record.revoked
        if record.kind is Kind.TARGET:
            added, revoked = without(full, self.owned), without(self.owned, full)
        return {
            "callback": record.event.capitalize(),
            "cause": record.detail or "null",
            "client_id": record.client_id,
            "detail": record.detail,
            "epoch": epoch,
            "error": error_text(record.detail),
            "full": _format_partitions(full),
            "generation": self._format_generation(record, epoch),
            "group": record.group,
            "instance": record.instance_id or "null",
            "late_ms": record.ts_ms - self.expired_ms,
            "local_epoch": self.local_epoch,
            "member_id": record.member_id,
            "new_target": self._format_assignment(self.local_epoch + 1, full),
            "next_state": record.next_state,
            "node": NODE,
            "number": self.number,
            "owned": _format_partitions(self.owned),
            "partitions": _format_partitions(added),
            "refusal": self._format_refusal(record, epoch),
            "revoked": _format_partitions(revoked),
            "state": record.state,
            "target": self._format_assignment(self.local_epoch, self.target),
            "topics": ", ".join(record.topics),
        }

    def _format_refusal(self, record: TraceRecord, epoch: int) -> str:
        """A classic member's message for an error: of heartbeats in a stable group, else of its JoinGroup or
        SyncGroup."""
        why = error_text(record.detail)
        if self.state != "STABLE":
            return f"{'SyncGroup' if self.state == 'COMPLETING_REBALANCE' else 'JoinGroup'} failed: {why}"
        if record.kind is Kind.ERROR:
            return f"Attempt to heartbeat failed since {why}"
        with_what = (
            f"{self._format_generation(record, epoch)} and group instance id {record.instance_id or 'Optional.empty'}"
        )
        return f"Attempt to heartbeat with {with_what} failed due to {record.detail}, resetting generation"

    def _format_generation(self, record: TraceRecord, epoch: int) -> str:
        name = self.settings.get("partition.assignment.strategy", "range").partition(",")[0]
        return f"Generation{{generationId={epoch}, memberId='{record.member_id}', protocol='{name}'}}"

    def _format_assignment(self, local_epoch: int, full: Iterable[Partition]) -> str:
        topics: dict[str, list[int]] = {}
        for topic, number in full:
            topics.setdefault(self.topic_ids.get(topic, topic), []).append(number)
        listed = ", ".join(f"{topic_id}={numbers}" for topic_id, numbers in topics.items())
        return f"LocalAssignment{{localEpoch={local_epoch}, partitions={{{listed}}}}}"

    def _write_start(self, record: TraceRecord) -> Iterator[Message]:
        settings = {**self.settings, **record.settings}
        self.is_classic = settings.get("group.protocol") == "classic"
        version = settings.pop("version", "")
        lines = "".join(f"\n\t{name} = {value}" for name, value in sorted(settings.items()))
        yield _make_message(record, "INFO", "AbstractConfig", f"ConsumerConfig values: {lines}\n")
        if version:
            yield _make_message(record, "INFO", "AppInfoParser", f"Kafka version: {version}")

    def _write_end(self, record: TraceRecord) -> Iterator[Message]:
        if not self.is_classic and self.has_left:
            yield _make_message(record, "INFO", _ASYNC, f"{_format_prefix(record)}Completed leaving the group")
        text = f"App info kafka.consumer for {record.client_id} unregistered"
        yield _make_message(record, "INFO", "AppInfoParser", text)

    def _remember(self, record: TraceRecord) -> None:
        """Updates the state that later messages refer to."""
        kind = self.last = record.kind
        if record.epoch is not None:
            self.epoch = record.epoch
        if kind is Kind.TRANSITION:
            self.state = record.next_state
        elif kind is Kind.TARGET:
            self.target, self.local_epoch = record.full or (), self.local_epoch + 1
        elif kind is Kind.HEARTBEAT_SENT:
            self.number += 1
        elif kind is Kind.POLL_EXPIRED:
            self.expired_ms = record.ts_ms
        elif kind is Kind.LEFT:
            self.has_left = True
        elif kind is Kind.ASSIGN_BEGIN:
            self.owned = by_partition((*self.owned, *record.partitions))
        elif kind in (Kind.REVOKE_END, Kind.LOST_END):
            self.owned = without(self.owned, record.partitions)


def write_java(
    records: Iterable[TraceRecord], settings: Mapping[str, str], topic_ids: Mapping[str, str]
) -> Iterator[Message]:
    """The messages of the records of one client id, whose consumers run one after another."""
    consumer = JavaConsumer(settings, topic_ids)
    for record in records:
        if record.kind is Kind.STARTED:
            consumer = JavaConsumer(settings, topic_ids)
        yield from consumer.write(record)


def _format_partitions(partitions: Iterable[Partition]) -> str:
    return f"[{', '.join(f'{topic}-{number}' for topic, number in partitions)}]"


def _format_prefix(record: TraceRecord) -> str:
    instance = f"instanceId={record.instance_id}, " if record.instance_id else ""
    return f"[Consumer {instance}clientId={record.client_id}, groupId={record.group}] "


def _make_message(record: TraceRecord, level: str, logger: str, text: str) -> Message:
    package = LOGGERS.get(logger, INTERNALS)
    return Message(record.ts_ms, text, level, package + logger)
