"""Logs of Apache Kafka's Java consumer, clients 1.0 to 4.4, both protocols, at INFO and DEBUG.

This module handles messages of the application's thread (callbacks, subscriptions, close, settings) and looks up the
rules for the rest. A message of a membership class is either understood or reported as not understood; messages of
other classes (fetching, metadata, networking) are not even decoded. Consumers of share groups and of the streams
protocol have other state machines: messages of their membership managers are deliberately not understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import repeat

from fsm.logs import Client, Format, Message
from fsm.logs.layouts.java_layouts import (
    ECS_HEADER,
    ECS_REACH,
    KAFKA_HEADER,
    KAFKA_REACH,
    SPRING_HEADER,
    SPRING_REACH,
    ecs,
    find_ecs_program,
    kafka,
    reading,
    spring,
)
from fsm.logs.message import NO_BEARING
from fsm.logs.programs.client_facts import JAVA, ClientFacts
from fsm.logs.programs.java_classic_member import COORDINATOR
from fsm.logs.programs.java_classic_member import MACHINE as CLASSIC
from fsm.logs.programs.java_consumer_member import CALLBACKS, HEARTBEATS, MEMBERSHIP, REQUESTS
from fsm.logs.programs.java_consumer_member import MACHINE as CONSUMER
from fsm.logs.programs.java_messages import (
    JavaMessage,
    Records,
    Row,
    Rule,
    emit,
    emit_error,
    emit_partitions,
    first_word,
    ignore,
    index,
    parse_message,
    partitions,
    record,
    rule_set,
)
from fsm.trace import Kind

FACTS = ClientFacts(
    name=JAVA,
    title="Java",
    supported_protocols="classic, KIP-848, Connect",
    ownership_lines="each callback, by name",
    not_logged="at INFO: when a revoked callback ended, which target came",
    protocols={CONSUMER: "consumer", CLASSIC: "classic"},
    begins_in={
        (CLASSIC, Kind.TARGET): ("STABLE",),
        (CLASSIC, Kind.RECONCILING): ("STABLE",),
        (CLASSIC, Kind.ASSIGN_BEGIN): ("STABLE",),
        (CONSUMER, Kind.RECONCILING): ("RECONCILING",),
        (CONSUMER, Kind.ASSIGN_BEGIN): ("RECONCILING",),
    },
    chosen_id_length=22,  # a UUID in base64 (KIP-848)
    last_step_since=(3, 2),
    logs_each_heartbeat=True,
)

SETTINGS = frozenset(
    {
        "auto.commit.interval.ms",
        "client.id",
        "client.rack",
        "enable.auto.commit",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "request.timeout.ms",
        "session.timeout.ms",
    }
)
"""The settings that are kept from a client's start."""

THREADS = {
    "AsyncKafkaConsumer": "app",
    "ClassicKafkaConsumer": "app",
    "KafkaConsumer": "app",
    "LegacyKafkaConsumer": "app",
    "ConsumerRebalanceListenerInvoker": "app",
    "CommitRequestManager": "background",
    "ConsumerHeartbeatRequestManager": "background",
    "ConsumerMembershipManager": "background",
    "CoordinatorRequestManager": "background",
}
"""The thread of each class, whatever the layout prints. ConsumerCoordinator runs on both threads of the classic
consumer."""


def _read_listener_error(message: JavaMessage, match: re.Match[str]) -> Records | None:
    found = partitions(match["partitions"], message.cut)
    if found is None:
        return None
    event, _, _ = CALLBACKS[match["callback"]]
    return (record(message, Kind.CALLBACK_FAILED, event=event, partitions=found, detail=message.error),)


def _read_older_listener_error(message: JavaMessage, match: re.Match[str]) -> Records:
    event = "assigned" if match["callback"] == "assignment" else "revoked"
    return (record(message, Kind.CALLBACK_FAILED, event=event, detail=message.error),)


_LISTENER = r"User provided listener \S{0,500} failed on"
_CALLBACK = r"(?P<callback>Assigned|Revoked|Lost)"
# The listener is about to be called: a close logs that even without one. Up to Kafka 3.6 the coordinator called it
# itself, and the consumer was one class.
INVOKER = rule_set(
    ("ConsumerRebalanceListenerInvoker", "ConsumerCoordinator"),
    (
        (r"Adding newly assigned partitions: ?(?P<partitions>.*)", emit_partitions(Kind.ASSIGN_BEGIN)),
        (r"Revoke previously assigned partitions ?(?P<partitions>.*)", emit_partitions(Kind.REVOKE_BEGIN)),
        # Up to Kafka 2.3.
        (r"Setting newly assigned partitions:? \[?(?P<partitions>[^\]]*)", emit_partitions(Kind.ASSIGN_BEGIN)),
        (r"Revoking previously assigned partitions \[(?P<partitions>[^\]]*)", emit_partitions(Kind.REVOKE_BEGIN)),
        (r"Lost previously assigned partitions ?(?P<partitions>.*)", emit_partitions(Kind.LOST_BEGIN)),
        (rf"{_LISTENER} invocation of onPartitions{_CALLBACK} for partitions (?P<partitions>.*)", _read_listener_error),
        # Up to Kafka 2.3.
        (rf"{_LISTENER} partition (?P<callback>assignment|revocation)", _read_older_listener_error),
        *ignore(r"The pause flag in partitions "),
    ),
)


def _read_subscription(message: JavaMessage, match: re.Match[str]) -> Records | None:
    topics = tuple(name for name in match["topics"].strip(", ").split(", ") if name)
    if (match["rest"][:1].isspace() and match["rest"].strip()) or any(name.endswith("..") for name in topics):
        return None
    return (record(message, Kind.SUBSCRIBED, topics=topics[:-1] if message.cut else topics),)


_APPLICATION: tuple[Row, ...] = (
    (r"Subscribed to topic\(s\):(?P<topics>(?: [\w.-]+(?:, [\w.-]+)*,?)?)(?P<rest>[^\n]*)", _read_subscription),
    (r"Subscribed to pattern: '(?P<detail>.*)'", Kind.SUBSCRIBED),
    (r"Subscribing to regular expression (?P<detail>.*)", Kind.SUBSCRIBED),
    (r"Unsubscribed all topics or patterns", Kind.UNSUBSCRIBED),
    (r"Kafka consumer has been closed", Kind.CLOSE_END),
    (r"Synchronous auto-commit of offsets .*? failed: (?P<detail>[^\n]*)", emit_error(Kind.COMMIT_FAILED)),
    (r"Synchronous auto-commit failed(?P<detail>)", emit_error(Kind.COMMIT_FAILED)),
    (r"Offset commit with offsets .* failed(?P<detail>)", emit_error(Kind.COMMIT_FAILED)),
    (r"(?P<detail>Consumer attempted to leave the group but couldn't complete it)", Kind.ERROR),
)


def _read_leave_on_close(message: JavaMessage, _match: re.Match[str]) -> Records:
    """Logged only by close(), and at INFO the first line that distinguishes a close from other revocations."""
    return record(message, Kind.CLOSE_BEGIN), record(message, Kind.LEFT)


ASYNC_CONSUMER = rule_set(
    ("AsyncKafkaConsumer",),
    (
        *_APPLICATION,
        (r"Sending synchronous auto-commit on closing", Kind.CLOSE_BEGIN),
        (r"Stop finding coordinator during consumer close", Kind.CLOSE_BEGIN),
        (r"Completed leaving the group", _read_leave_on_close),
    ),
)
CLASSIC_CONSUMER = rule_set(("ClassicKafkaConsumer", "LegacyKafkaConsumer", "KafkaConsumer"), _APPLICATION)

BACKGROUND = rule_set(
    ("CoordinatorRequestManager", "CommitRequestManager"),
    (
        (r"Discovered group coordinator ", Kind.COORDINATOR_FOUND),
        (
            r"Group coordinator .{0,300}? is unavailable or invalid due to cause: (?P<detail>.{0,400}?)\. Rediscovery",
            Kind.COORDINATOR_LOST,
        ),
        (r"Asynchronous auto-commit of offsets .*? failed: (?P<detail>[^\n]*)", emit_error(Kind.COMMIT_FAILED)),
        (r"Auto-commit of offsets .* failed(?P<detail>)$", emit_error(Kind.COMMIT_FAILED)),
        (r"OffsetCommit failed (?P<detail>[^\n]*)", emit_error(Kind.COMMIT_FAILED)),
    ),
)


def _read_start(message: JavaMessage, _match: re.Match[str]) -> Records | None:
    """A consumer without a group is not a member. A block without settings comes from a line that was split up."""
    found = dict(_KEPT_SETTING.findall(message.text))
    if not found and not _SETTING.search(message.text):
        return None
    kept = {name: value for name, value in found.items() if value not in {"null", ""}}
    if "group.id" not in kept:
        return ()
    identity = {
        "group": kept["group.id"],
        "client_id": kept.get("client.id", ""),
        "instance_id": kept.get("group.instance.id", ""),
    }
    return (record(message, Kind.STARTED, settings=_add_pid(message, kept), **identity),)


_INDENT = r"\n[\t \xa0]{1,8}"  # terminals show a tab as blanks
_SETTING = re.compile(_INDENT + "[a-z.]{1,80} = ")
_KEPT_SETTING = re.compile(rf"{_INDENT}({'|'.join(map(re.escape, sorted(SETTINGS)))}) = (.*)")


def _read_version(message: JavaMessage, match: re.Match[str]) -> Records:
    return (record(message, Kind.VERSION, settings=_add_pid(message, {"version": match["version"]})),)


def _add_pid(message: JavaMessage, settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "pid": message.pid} if message.pid else settings


PROCESS = rule_set(
    ("AbstractConfig", "ConsumerConfig", "AppInfoParser"),
    (
        (r"ConsumerConfig values:", _read_start),
        (r"Kafka version ?: (?P<version>[\w.+-]{1,60})", _read_version),
        (r"App info kafka\.consumer for (?P<client_id>.{1,300}) unregistered", emit(Kind.CLOSE_END, thread="app")),
    ),
)
"""Without the client's prefix: version and end of a consumer are logged without the group."""

STRICT = frozenset(
    {
        "AbstractCoordinator",
        "ConsumerCoordinator",
        "ConsumerHeartbeatRequestManager",
        "ConsumerMembershipManager",
        "ConsumerRebalanceListenerInvoker",
        "ShareHeartbeatRequestManager",
        "ShareMembershipManager",
        "StreamsGroupHeartbeatRequestManager",
        "StreamsMembershipManager",
        "StreamsRebalanceListenerInvoker",
    }
)
"""Classes that only log about the membership: a message without a rule was not understood."""

RULES = index(
    (
        MEMBERSHIP,
        HEARTBEATS,
        REQUESTS,
        COORDINATOR,
        INVOKER,
        ASYNC_CONSUMER,
        CLASSIC_CONSUMER,
        BACKGROUND,
        PROCESS,
    )
)

_STREAMS_CLIENT = re.compile(r"-StreamThread-\d{1,6}-consumer\Z", re.ASCII)
"""Client ids of Kafka Streams' consumers; on AsyncKafkaConsumer they are members of a streams group."""

_OPENINGS = {
    "Adding": "ConsumerRebalanceListenerInvoker",
    "Revoke": "ConsumerRebalanceListenerInvoker",
    "Lost": "ConsumerRebalanceListenerInvoker",
    "Revoking": "ConsumerMembershipManager",
    "Reconciling": "ConsumerMembershipManager",
    "Updating": "ConsumerCoordinator",
    "Notifying": "ConsumerCoordinator",
}
"""Classes by the beginning of messages of unbounded length, for lines that were cut before their logger or have
none."""


def understand(entry: Message) -> Records | None:
    """The records of a message, `()` if it is irrelevant, None if it should have been understood but was not."""
    message = parse_message(entry)
    word = first_word(message.text)
    logger = message.logger or (_OPENINGS.get(word, "") if message.cut else "")
    if message.client not in {"", "Consumer"}:
        return None if logger in STRICT and message.client != "Worker" else NO_BEARING
    if logger == "AsyncKafkaConsumer" and _STREAMS_CLIENT.search(message.client_id):
        return NO_BEARING
    known = zip(repeat(logger), RULES.get(logger, {}).get(word, ()), strict=False)
    for owner, one in known if logger else _find_rules(message, word):
        match = one.pattern.match(message.text)
        if match:
            thread = THREADS.get(owner, message.thread)
            return one.build(message if thread == message.thread else message._replace(thread=thread), match)
    return None if logger in STRICT else NO_BEARING


def _find_rules(message: JavaMessage, word: str) -> Iterator[tuple[str, Rule]]:
    """The rules that may match if the layout prints no logger. Without the client's prefix only those of a starting
    process apply, since the line may come from any program. If two classes log the same text, the newer one counts: up
    to Kafka 2.3 the coordinator announced a callback with the words with which members of consumer groups announce a
    revocation."""
    for logger in sorted(RULES, key=lambda logger: (logger != _OPENINGS.get(word), logger)):
        if bool(message.client) != (logger in PROCESS.loggers):
            yield from ((logger, one) for one in RULES[logger].get(word, ()))


CLIENT = Client(
    "java",
    (b"Consumer clientId=", b"Consumer instanceId=", b"ConsumerConfig values:", b"Kafka version", b"App info kafka."),
    understand,
)


_OTHERS = ("AppInfoParser", "AbstractConfig", "ConsumerConfig", "KafkaConsumer")
_PREVIEWS = {"MembershipManagerImpl"}  # of Kafka 3.7
_INTERNALS = tuple(sorted((STRICT | RULES.keys()) - {*_OTHERS, *_PREVIEWS, "NetworkClient"}))
_ANY_INTERNAL, _ANY = "|".join(_INTERNALS), "|".join(_INTERNALS + _OTHERS)
# A literal prefix makes the search fast, and most lines need no further parsing. Requests and responses
# end with a parenthesis, NetworkClient's messages about connections do not.
_KAFKA_CANDIDATE = re.compile(
    (
        rf" \(org\.apache\.kafka\.(?:clients\.consumer\.(?:internals\.(?:{_ANY_INTERNAL})|ConsumerConfig|KafkaConsumer)"
        rf"|common\.[a-z.]{{1,40}}(?:{'|'.join(_OTHERS)})"
        r"|(?<=\) \(org\.apache\.kafka\.)clients\.NetworkClient)(?::\d{1,6})?\)"
    ).encode()
)
_CUT = re.compile(
    rb"\[[^\[\n]{1,60}\[Consumer [^\]\n]{1,600}\] (?:" + "|".join(_OPENINGS).encode() + rb") [^\n]*[^)\s]\s*\Z"
)
"""A message of unbounded length whose end is missing, and with it the logger."""


class _KafkaCandidate:
    def search(self, entry: bytes) -> object:
        return _KAFKA_CANDIDATE.search(entry) or _CUT.match(entry)


_SPRING_CANDIDATE = re.compile(
    (
        rf"\.(?:{_ANY}|NetworkClient"
        r"(?= {0,60}: \[Consumer [^\n\]]{0,600}\] (?:Sending|Received|Cancelled in-flight) "
        r"CONSUMER_GROUP_HEARTBEAT )) {0,60}: "
    ).encode()
)
_ECS_CANDIDATE = re.compile(rf'logger" ?: ?"[\w.$]{{1,200}}\.(?:{_ANY}|NetworkClient)"'.encode())

# A rare first byte makes the search for needles faster.
_CLASSES = tuple(f".{name}".encode() for name in _INTERNALS + _OTHERS)
_KAFKA_NEEDLES = (*_CLASSES, b") (org.apache.kafka.clients.NetworkClient")
_SPRING_NEEDLES = (*_CLASSES, b"_GROUP_HEARTBEAT ")
_ECS_NEEDLES = (*_CLASSES, b'.NetworkClient"')

FORMATS = tuple(
    Format("java", name, first, header, candidate, reading(layout, CLIENT), needles, reach, end=end, find_program=found)
    for name, first, header, reach, layout, candidate, needles, end, found in (
        ("kafka", b"[", KAFKA_HEADER, KAFKA_REACH, kafka, _KafkaCandidate(), _KAFKA_NEEDLES, b")", None),
        ("spring", b"12", SPRING_HEADER, SPRING_REACH, spring, _SPRING_CANDIDATE, _SPRING_NEEDLES, b"", None),
        ("json", b"{", ECS_HEADER, ECS_REACH, ecs, _ECS_CANDIDATE, _ECS_NEEDLES, b"", find_ecs_program),
    )
)
