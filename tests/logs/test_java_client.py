"""What the Java consumer's messages mean, in the wording of each release; the layout is Kafka's own throughout."""

from __future__ import annotations

from datetime import UTC

import pytest

from fsm.logs.message import Message
from fsm.logs.programs.java_classic_member import COORDINATOR
from fsm.logs.programs.java_client import ASYNC_CONSUMER, BACKGROUND, FORMATS, INVOKER, PROCESS, RULES, understand
from fsm.logs.programs.java_consumer_member import HEARTBEATS, MEMBERSHIP, REQUESTS
from fsm.logs.programs.java_messages import RuleSet, error_name, partitions
from fsm.logs.reading.entries import LINE_LIMIT
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import Kind, TraceRecord

TIME = "[2026-11-21 07:55:16,081]"
MS = 1795247716081
INTERNALS = "org.apache.kafka.clients.consumer.internals"
ID = "JfPEXPR3Qj2fqaMDTyAVtg"
CLASSIC_ID = "g-x01-A-451f009b-f8a8-4b3f-be6a-60114b6a216c"
GENERATION = f"Generation{{generationId=4, memberId='{CLASSIC_ID}', protocol='range'}}"
NODE = "127.0.0.1:29092 (id: +1 rack: null isFenced: false)"
NODE_4_0 = "127.0.0.1:29092 (id: 2147483646 rack: null isFenced: false)"


def line(message: str, logger: str, trace: str = "") -> str:
    """A line with the prefix of client c in group g."""
    return f"{TIME} INFO [Consumer clientId=c, groupId=g] {message} ({INTERNALS}.{logger}){trace}\n"


def read(text: str) -> list[list[TraceRecord] | None]:
    """What each entry gives, None where it was not understood; every entry must be a candidate."""
    out: list[list[TraceRecord] | None] = []
    for entry in from_bytes(text.encode(), FORMATS):
        assert entry.format is not None
        assert entry.format.candidate.search(entry.data)
        found = entry.format.parse(entry.data.decode(), UTC)
        out.append(None if found is None else list(found))
    return out


def told(message: str, logger: str, trace: str = "") -> list[TraceRecord]:
    """The records of one message."""
    (records,) = read(line(message, logger, trace))
    assert records is not None
    return records


def kinds(message: str, logger: str) -> list[Kind]:
    return [record.kind for record in told(message, logger)]


def seen(kind: Kind, **fields: object) -> TraceRecord:
    """The expected record."""
    return TraceRecord(MS, kind, **{"group": "g", "client_id": "c", **fields})


Case = tuple[str, TraceRecord]


def case(message: str, kind: Kind, **fields: object) -> Case:
    return message, seen(kind, **fields)


def background(message: str, kind: Kind, **fields: object) -> Case:
    return case(message, kind, thread="background", **fields)


# KIP-848


@pytest.mark.parametrize(
    ("state", "epoch", "next_state", "expected"),
    [
        ("UNSUBSCRIBED", 0, "JOINING", [Kind.TRANSITION, Kind.JOINING]),
        ("JOINING", 2, "RECONCILING", [Kind.TRANSITION, Kind.JOINED]),
        ("JOINING", 2, "STABLE", [Kind.TRANSITION, Kind.JOINED]),
        ("STABLE", 3, "FENCED", [Kind.TRANSITION]),
        ("STABLE", 3, "PREPARE_LEAVING", [Kind.TRANSITION, Kind.LEAVE_BEGIN]),
        ("PREPARE_LEAVING", -1, "LEAVING", [Kind.TRANSITION]),
        ("LEAVING", -2, "UNSUBSCRIBED", [Kind.TRANSITION, Kind.LEFT]),
        ("LEAVING", -1, "STALE", [Kind.TRANSITION, Kind.LEFT]),
        ("JOINING", 0, "FATAL", [Kind.TRANSITION]),
    ],
)
def test_a_transition_tells_what_it_proves(state: str, epoch: int, next_state: str, expected: list[Kind]) -> None:
    """Joining, being accepted, leaving and having left are proved by the state line alone, at INFO."""
    message = f"Member {ID} with epoch {epoch} transitioned from {state} to {next_state}."
    records = told(message, "ConsumerMembershipManager")
    assert [r.kind for r in records] == expected
    assert records[0] == seen(
        Kind.TRANSITION,
        machine="consumer-member",
        state=state,
        next_state=next_state,
        epoch=epoch,
        member_id=ID,
        thread="background",
    )


BLOCK = (
    "Reconciling assignment with local epoch 1\n"
    f"\tMember:                                    {ID}\n"
    "\tAssigned partitions:                       [a-b-0, a-b-1, a-b-2]\n"
    "\tCurrent owned partitions:                  [a-b-0, a-b-1, t-3]\n"
    "\tAdded partitions (assigned - owned):       [a-b-2]\n"
    "\tRevoked partitions (owned - assigned):     [t-3]\n"
)
LISTS = {"full": (("a-b", 0), ("a-b", 1), ("a-b", 2)), "partitions": (("a-b", 2),), "revoked": (("t", 3),)}


def test_a_reconciliation_names_all_added_and_revoked_partitions() -> None:
    """The block of six lines is one entry, with its logger on a line of its own."""
    assert told(BLOCK, "ConsumerMembershipManager") == [
        seen(Kind.RECONCILING, member_id=ID, thread="background", **LISTS)
    ]


def test_the_block_in_spring_ends_with_an_empty_line() -> None:
    """The same block with the logger in front gives the same lists."""
    head = "2026-11-21T07:55:16.081Z   INFO 1 --- [ckground_thread] o.a.k.c.c.i.ConsumerMembershipManager    : "
    assert read(f"{head}[Consumer clientId=c, groupId=g] {BLOCK}\n") == [told(BLOCK, "ConsumerMembershipManager")]


def test_the_classic_client_prints_the_block_without_a_member() -> None:
    """`Updating assignment with` is the cooperative member's reconciliation."""
    block = BLOCK.replace("Reconciling assignment with local epoch 1", "Updating assignment with")
    block = block.replace(f"\tMember:                                    {ID}\n", "")
    assert told(block, "ConsumerCoordinator") == [seen(Kind.RECONCILING, **LISTS)]


def test_a_block_without_one_of_its_lists_is_not_understood() -> None:
    """A block whose lines were swallowed is reported, not half believed."""
    block = BLOCK.replace("\tRevoked partitions (owned - assigned):     [t-3]\n", "")
    assert read(line(block, "ConsumerMembershipManager")) == [None]


def test_a_block_whose_end_is_missing_keeps_its_complete_lists() -> None:
    """Without logger the entry is cut: what is complete stands, what is not is left out."""
    entry = f"{TIME} INFO [Consumer clientId=c, groupId=g] " + BLOCK[: BLOCK.index("-2]\n\tRevoked")]
    (record,) = FORMATS[0].parse(entry.ljust(LINE_LIMIT), UTC) or ()
    assert (record.full, record.partitions, record.revoked) == ((("a-b", 0), ("a-b", 1), ("a-b", 2)), (), ())
    assert FORMATS[0].parse(entry, UTC) is None  # the rest may be elsewhere


MANAGER = (
    background(
        "Revoking previously assigned partitions [t-3, t-4]", Kind.REVOKE_DECIDED, partitions=(("t", 3), ("t", 4))
    ),
    background(
        "Revoking previously assigned partitions t-4, t-3", Kind.REVOKE_DECIDED, partitions=(("t", 3), ("t", 4))
    ),
    background(
        f"Member {ID} updated its target assignment from LocalAssignment{{localEpoch=-1, partitions={{}}}} to "
        "LocalAssignment{localEpoch=0, partitions={GnIBkUQYRTS0wW0xXf47hA=[0, 1]}}. Member will",
        Kind.TARGET,
        member_id=ID,
    ),
    background("Target assignment updated from LocalAssignment{localEpoch=-1, partitions={}} to Local", Kind.TARGET),
    background(
        "The ConsumerRebalanceListener.onPartitionsRevoked method completed successfully; signaling", Kind.REVOKE_END
    ),
    background(
        "The ConsumerRebalanceListener.onPartitionsAssigned method completed successfully; signaling", Kind.ASSIGN_END
    ),
    background(
        "The ConsumerRebalanceListener.onPartitionsLost method completed successfully; signaling", Kind.LOST_END
    ),
    background(
        "The ConsumerRebalanceListener.onPartitionsLost method completed with an error (it throws); signaling",
        Kind.CALLBACK_FAILED,
        event="lost",
        detail="it throws",
    ),
    background(
        f"Member {ID} with epoch -1 generated the heartbeat to leave the group.",
        Kind.LEAVE_SENT,
        member_id=ID,
        epoch=-1,
    ),
    background(
        f"Member {ID} with epoch -1 received a successful response to the heartbeat to leave the group and",
        Kind.LEFT,
        member_id=ID,
        epoch=-1,
    ),
)


@pytest.mark.parametrize(("message", "expected"), MANAGER)
def test_the_membership_manager(message: str, expected: TraceRecord) -> None:
    """Decisions of the background thread, in the wording of 4.0 and of later releases."""
    assert told(message, "ConsumerMembershipManager") == [expected]


HEARTBEAT = (
    background("Consumer poll timeout has expired. This means the time between", Kind.POLL_EXPIRED),
    background(
        "Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, exceeded "
        f"approximately by 3866 ms. Member {ID} will rejoin the group now.",
        Kind.POLL_LATE,
        member_id=ID,
    ),
    background(
        f"ConsumerGroupHeartbeatRequest failed because member {ID} is unknown. in 109ms: Member {ID} is not a member",
        Kind.FENCED,
        member_id=ID,
        detail="UNKNOWN_MEMBER_ID",
    ),
    background(
        f"ConsumerGroupHeartbeatRequest failed for member {ID} because epoch 7 is fenced. in 100ms: The member epoch",
        Kind.FENCED,
        member_id=ID,
        epoch=7,
        detail="FENCED_MEMBER_EPOCH",
    ),
    background(
        f"ConsumerGroupHeartbeatRequest failed due to unreleased instance id same: Static member {ID} with instance id",
        Kind.FATAL,
        detail="UNRELEASED_INSTANCE_ID",
    ),
    background(
        f"ConsumerGroupHeartbeatRequest failed due to fenced instance id i-b: Static member {ID} with instance id i-b",
        Kind.FATAL,
        detail="FENCED_INSTANCE_ID",
    ),
    background(
        "ConsumerGroupHeartbeatRequest failed due to UNSUPPORTED_ASSIGNOR: ServerAssignor no-such is not supported.",
        Kind.FATAL,
        detail="UNSUPPORTED_ASSIGNOR",
    ),
    background(
        "ConsumerGroupHeartbeatRequest failed due to unexpected error GROUP_ID_NOT_FOUND: Cannot upgrade",
        Kind.FATAL,
        detail="GROUP_ID_NOT_FOUND",
    ),
    background(f"Member {ID} received heartbeat interval 0ms from the group coordinator", Kind.LEFT, member_id=ID),
    background(
        "ConsumerGroupHeartbeatRequest responded successfully: ClientResponse(errorCode=0, errorMessage=null, "
        f"memberId='{ID}', memberEpoch=-1, heartbeatIntervalMs=0, assignment=null))",
        Kind.LEFT,
        member_id=ID,
        epoch=-1,
    ),
)


@pytest.mark.parametrize(("message", "expected"), HEARTBEAT)
def test_the_heartbeat_manager(message: str, expected: TraceRecord) -> None:
    """Poll timer, fencing, fatal answers and the answer to a leave."""
    assert told(message, "ConsumerHeartbeatRequestManager") == [expected]


def test_an_interval_that_is_configuration_has_no_bearing() -> None:
    """Only the interval 0 answers a leave."""
    message = f"Member {ID} received heartbeat interval 1000ms from the group coordinator"
    assert told(message, "ConsumerHeartbeatRequestManager") == []


WRAPPED = (
    "\njava.util.concurrent.CompletionException: org.apache.kafka.common.errors.{}\n\tat java.base/x.y(Z.java:315)"
)


def test_a_failed_commit_before_a_reconciliation_names_its_cause() -> None:
    """The exception stands behind the logger, one line further, in its wrapper."""
    message = (
        "Auto-commit request before reconciling new assignment failed. Will proceed with the reconciliation anyway."
    )
    trace = WRAPPED.format("UnknownTopicOrPartitionException: gone")
    assert told(message, "ConsumerMembershipManager", trace) == [
        seen(Kind.COMMIT_FAILED, thread="background", detail="UnknownTopicOrPartitionException")
    ]


def test_a_failed_reconciliation_is_an_error() -> None:
    """What is behind it decides whether it is harmless: the whole first line is kept."""
    trace = WRAPPED.format("TimeoutException: could not be completed before the consumer closed")
    assert told("Reconciliation failed.", "ConsumerMembershipManager", trace) == [
        seen(
            Kind.ERROR,
            thread="background",
            detail="org.apache.kafka.common.errors.TimeoutException: could not be completed before the consumer closed",
        )
    ]


def test_heartbeats_on_the_wire_carry_the_epoch() -> None:
    """Requests and answers of NetworkClient; an error is told by the heartbeat manager."""
    header = "header RequestHeader(apiKey=CONSUMER_GROUP_HEARTBEAT, apiVersion=1, correlationId=15)"
    sent = (
        f"Sending CONSUMER_GROUP_HEARTBEAT request with {header} and timeout 30000 to node +1: ConsumerGroupHeartbeat"
        f"RequestData(groupId='g', memberId='{ID}', memberEpoch=2, instanceId=null, topicPartitions=[])"
    )
    answer = (
        f"Received CONSUMER_GROUP_HEARTBEAT response from node +1 for request with {header}: ConsumerGroupHeartbeat"
        f"ResponseData(errorCode=0, errorMessage=null, memberId='{ID}', memberEpoch=3, heartbeatIntervalMs=1000)"
    )
    text = "".join(line(m, "NetworkClient") for m in (sent, answer, answer.replace("errorCode=0", "errorCode=25")))
    assert read(text.replace(INTERNALS, "org.apache.kafka.clients")) == [
        [seen(Kind.HEARTBEAT_SENT, epoch=2, member_id=ID, thread="background")],
        [seen(Kind.HEARTBEAT_OK, epoch=3, member_id=ID, thread="background")],
        [],
    ]


# The application's thread


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        ("Adding newly assigned partitions: [t-0, t-10, t-2]", Kind.ASSIGN_BEGIN, (("t", 0), ("t", 2), ("t", 10))),
        ("Adding newly assigned partitions: t-1, t-0", Kind.ASSIGN_BEGIN, (("t", 0), ("t", 1))),
        ("Adding newly assigned partitions: []", Kind.ASSIGN_BEGIN, ()),
        ("Adding newly assigned partitions: ", Kind.ASSIGN_BEGIN, ()),
        ("Revoke previously assigned partitions [a-1-b_.c-0]", Kind.REVOKE_BEGIN, (("a-1-b_.c", 0),)),
        ("Revoke previously assigned partitions ", Kind.REVOKE_BEGIN, ()),
        ("Lost previously assigned partitions t-7", Kind.LOST_BEGIN, (("t", 7),)),
    ],
)
def test_a_callback_begins_with_its_partitions(message: str, kind: Kind, expected: tuple[object, ...]) -> None:
    """With brackets since 4.1, without before, sorted in the record whatever the order in the line."""
    assert told(message, "ConsumerRebalanceListenerInvoker") == [seen(kind, partitions=expected, thread="app")]


def test_a_listener_that_throws_is_told_by_the_application_thread() -> None:
    """The ERROR line stands at INFO in both protocols; the exception follows it."""
    message = "User provided listener Member$L failed on invocation of onPartitionsRevoked for partitions [t-3, t-4]"
    trace = "\njava.lang.IllegalStateException: on purpose\n\tat Member.maybeThrow(Member.java:22)"
    assert told(message, "ConsumerRebalanceListenerInvoker", trace) == [
        seen(
            Kind.CALLBACK_FAILED,
            event="revoked",
            partitions=(("t", 3), ("t", 4)),
            detail="java.lang.IllegalStateException: on purpose",
            thread="app",
        )
    ]


def test_a_list_of_many_partitions_is_read_whole() -> None:
    """20,000 partitions are one line of 200 KB."""
    listing = ", ".join(f"topic-{n}" for n in range(20_000))
    (record,) = told(f"Adding newly assigned partitions: [{listing}]", "ConsumerRebalanceListenerInvoker")
    assert record.partitions == tuple(("topic", n) for n in range(20_000))


NO_LISTS = ("[t]", "[t-]", "[-1]", "[t-0,t-1]", "[t-0; t-1]", "[t-2147483648]", "[t-\u0663]", "[t-0] x", "[a b-0]")


@pytest.mark.parametrize("listing", NO_LISTS)
def test_what_is_no_partition_list_is_not_understood(listing: str) -> None:
    """One element that is no partition makes the whole list unusable."""
    assert read(line(f"Adding newly assigned partitions: {listing}", "ConsumerRebalanceListenerInvoker")) == [None]


def test_the_largest_partition_number_is_a_32_bit_one() -> None:
    """Partition numbers are Java ints."""
    assert partitions("[t-2147483647]") == (("t", 2147483647),)


@pytest.mark.parametrize("logger", ["AsyncKafkaConsumer", "ClassicKafkaConsumer"])
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Subscribed to topic(s): t1, t2", [seen(Kind.SUBSCRIBED, topics=("t1", "t2"), thread="app")]),
        ("Subscribed to pattern: 't.*'", [seen(Kind.SUBSCRIBED, detail="t.*", thread="app")]),
        ("Unsubscribed all topics or patterns and assigned partitions", [seen(Kind.UNSUBSCRIBED, thread="app")]),
        ("Kafka consumer has been closed", [seen(Kind.CLOSE_END, thread="app")]),
        ("Assigned to partition(s): t-0", []),
        ("Seeking to offset 5 for partition t-0", []),
    ],
)
def test_the_application_subscribes_and_closes(logger: str, message: str, expected: list[TraceRecord]) -> None:
    """Both consumers say it in the same words; assign() is no membership."""
    assert told(message, logger) == expected


def test_a_regular_expression_of_the_new_protocol() -> None:
    """SubscriptionPattern is matched by the broker."""
    expected = seen(Kind.SUBSCRIBED, detail="t(zz|c)", thread="app")
    assert told("Subscribing to regular expression t(zz|c)", "AsyncKafkaConsumer") == [expected]


LEAVE = f"Member {CLASSIC_ID} sending LeaveGroup request to coordinator {NODE} due to the consumer "


@pytest.mark.parametrize(
    ("message", "logger", "expected"),
    [
        ("Sending synchronous auto-commit on closing", "AsyncKafkaConsumer", [Kind.CLOSE_BEGIN]),
        ("Stop finding coordinator during consumer close", "AsyncKafkaConsumer", [Kind.CLOSE_BEGIN]),
        ("Completed leaving the group", "AsyncKafkaConsumer", [Kind.CLOSE_BEGIN, Kind.LEFT]),
        ("Sending synchronous auto-commit of offsets {}", "ConsumerCoordinator", [Kind.CLOSE_BEGIN]),
        (LEAVE + "is being closed", "ConsumerCoordinator", [Kind.CLOSE_BEGIN, Kind.LEAVE_BEGIN, Kind.LEAVE_SENT]),
        (LEAVE + "unsubscribed from all topics", "ConsumerCoordinator", [Kind.LEAVE_BEGIN, Kind.LEAVE_SENT]),
    ],
)
def test_what_marks_a_close(message: str, logger: str, expected: list[Kind]) -> None:
    """DEBUG tells a close before its callback, INFO only after it, by the leave."""
    assert kinds(message, logger) == expected


@pytest.mark.parametrize("package", ["org.apache.kafka.common.utils", "org.apache.kafka.common.utils.internals"])
def test_the_end_of_a_close_stands_at_info(package: str) -> None:
    """The client unregisters its application info last; only the client id is printed. The package moved in 4.4."""
    text = f"{TIME} INFO App info kafka.consumer for c unregistered ({package}.AppInfoParser)\n"
    assert read(text) == [[TraceRecord(MS, Kind.CLOSE_END, client_id="c", thread="app")]]


def test_streams_consumers_do_not_subscribe_to_a_consumer_group() -> None:
    """A streams group's member uses the new consumer, but another membership manager."""
    text = line("Subscribed to topic(s): t1", "AsyncKafkaConsumer")
    assert read(text.replace("clientId=c", "clientId=app-1-StreamThread-1-consumer")) == [[]]


CONFIG = (
    f"{TIME} INFO ConsumerConfig values: \n"
    "\tauto.commit.interval.ms = 5000\n"
    "\tbootstrap.servers = [127.0.0.1:29092]\n"
    "\tclient.id = c\n"
    "\tclient.rack = \n"
    "\tenable.auto.commit = true\n"
    "\tgroup.id = g\n"
    "\tgroup.instance.id = i-a\n"
    "\tgroup.protocol = consumer\n"
    "\tgroup.remote.assignor = null\n"
    "\theartbeat.interval.ms = 1000\n"
    "\tmax.poll.interval.ms = 300000\n"
    "\tpartition.assignment.strategy = [class org.apache.kafka.clients.consumer.RangeAssignor]\n"
    "\tsasl.oauthbearer.client.credentials.client.id = null\n"
    "\tsession.timeout.ms = 6000\n"
    "\tssl.keystore.password = [hidden]\n"
    " (org.apache.kafka.common.config.AbstractConfig)\n"
)
SETTINGS = {
    "auto.commit.interval.ms": "5000",
    "client.id": "c",
    "enable.auto.commit": "true",
    "group.id": "g",
    "group.instance.id": "i-a",
    "group.protocol": "consumer",
    "heartbeat.interval.ms": "1000",
    "max.poll.interval.ms": "300000",
    "partition.assignment.strategy": "[class org.apache.kafka.clients.consumer.RangeAssignor]",
    "session.timeout.ms": "6000",
}


def test_a_consumer_starts_with_its_settings() -> None:
    """The identity comes from the settings; null and empty ones are absent."""
    assert read(CONFIG) == [[seen(Kind.STARTED, instance_id="i-a", settings=SETTINGS)]]


def test_a_consumer_without_a_group_is_not_started_in_one() -> None:
    """Restore consumers of Kafka Streams have no group."""
    assert read(CONFIG.replace("group.id = g\n", "group.id = null\n")) == [[]]


def test_settings_that_were_torn_off_are_not_understood() -> None:
    """As where a copy has lost the blanks before them."""
    assert understand(Message(1, "ConsumerConfig values: ")) is None


@pytest.mark.parametrize(
    ("shown", "otherwise"), [("INFO ", "INFO [mirror-1|task-0] "), ("\n\t", "\n        ")], ids=["connect", "blanks"]
)
def test_a_configuration_is_read_behind_a_task_and_with_blanks_for_tabs(shown: str, otherwise: str) -> None:
    """Connect puts the task of a sink before it, terminals show tabs as blanks."""
    assert read(CONFIG.replace(shown, otherwise)) == read(CONFIG)


@pytest.mark.parametrize("text", ["Kafka version: 4.4.0", "App info kafka.consumer for c unregistered"])
def test_lines_without_prefix_are_read_behind_a_task(text: str) -> None:
    """The version of a sink's consumer, and its close."""
    line = f"{TIME} INFO {{}}{text} (org.apache.kafka.common.utils.AppInfoParser)\n"
    (records,) = read(line.format(""))
    assert records
    assert read(line.format("[sink|task-0] ")) == [records]


@pytest.mark.parametrize("gap", [" ", "     ", " \t\t"])
def test_a_prefix_that_was_wrapped_and_joined_again_names_the_group(gap: str) -> None:
    """Its second line had been indented."""
    text = f"[Consumer clientId=c,{gap}groupId=g] (Re-)joining group"
    (records,) = read(f"{TIME} INFO {text} (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n")
    assert {(one.client_id, one.group) for one in records} == {("c", "g")}


def test_spring_adds_the_process_id_to_settings_and_version() -> None:
    """Several processes may share a client id; the pid tells them apart."""
    head = "2026-11-21T07:55:16.081Z   INFO 29348 --- [           main] o.a.k.c.c.AbstractConfig                 : "
    config = CONFIG.replace(f"{TIME} INFO ", head).replace(" (org.apache.kafka.common.config.AbstractConfig)", "")
    version = head.replace("c.c.AbstractConfig ", "c.u.i.AppInfoParser") + "Kafka version: 4.4.0\n"
    (started,), (told_version,) = read(config + version)
    assert started.settings == {**SETTINGS, "pid": "29348"}
    assert told_version.settings == {"version": "4.4.0", "pid": "29348"}


def test_a_version_has_no_client() -> None:
    """The line stands without prefix; whose version it is the reader must infer."""
    text = f"{TIME} INFO Kafka version: 4.0.0 (org.apache.kafka.common.utils.AppInfoParser)\n"
    assert read(text) == [[TraceRecord(MS, Kind.VERSION, settings={"version": "4.0.0"})]]


def test_the_banner_has_no_bearing() -> None:
    """The classic consumer's advertisement begins with an empty line."""
    stars = "*" * 64
    banner = f"\n{stars}\n* The consumer rebalance protocol (KIP-848) is production-ready!\n{stars}"
    assert told(banner, "ClassicKafkaConsumer") == []


OTHERS = (
    (
        "CoordinatorRequestManager",
        f"Group coordinator {NODE} is unavailable or invalid due to cause: null. Rediscovery will be attempted.",
        seen(Kind.COORDINATOR_LOST, thread="background", detail="null"),
    ),
    (
        "CoordinatorRequestManager",
        "Discovered group coordinator Coordinator(key='g', nodeId=1, host='127.0.0.1', port=29092, errorCode=0)",
        seen(Kind.COORDINATOR_FOUND, thread="background"),
    ),
    (
        "CommitRequestManager",
        "OffsetCommit failed with UNKNOWN_MEMBER_ID",
        seen(Kind.COMMIT_FAILED, thread="background", detail="UNKNOWN_MEMBER_ID"),
    ),
    (
        "CommitRequestManager",
        f"OffsetCommit failed for member {ID} with stale member epoch error. Last epoch sent: 3",
        seen(Kind.COMMIT_FAILED, thread="background", detail="STALE_MEMBER_EPOCH"),
    ),
)


@pytest.mark.parametrize(("logger", "message", "expected"), OTHERS)
def test_coordinator_and_commits_of_the_new_consumer(logger: str, message: str, expected: TraceRecord) -> None:
    """Both run on the background thread."""
    assert told(message, logger) == [expected]


# Classic


def test_a_classic_rebalance_tells_where_it_went() -> None:
    """The state before is never printed; join, sync and reset each say where the member is now."""

    def to(next_state: str, **fields: object) -> TraceRecord:
        return seen(Kind.TRANSITION, machine="classic-member", next_state=next_state, **fields)

    messages = (
        "Request joining group due to: group is already rebalancing",
        "(Re-)joining group",
        f"Successfully joined group with generation {GENERATION}",
        f"Successfully synced group in generation {GENERATION}",
        "Resetting generation and member id due to: consumer pro-actively leaving the group",
        "Request joining group due to: consumer pro-actively leaving the group",
    )
    of = {"epoch": 4, "member_id": CLASSIC_ID}
    assert [told(message, "ConsumerCoordinator") for message in messages] == [
        [seen(Kind.JOINING, detail="group is already rebalancing")],
        [to("PREPARING_REBALANCE"), seen(Kind.JOINING)],
        [to("COMPLETING_REBALANCE", **of), seen(Kind.JOINED, **of)],
        [to("STABLE", **of), seen(Kind.SYNCED, **of)],
        [to("UNJOINED"), seen(Kind.GENERATION_RESET, detail="consumer pro-actively leaving the group")],
        [],
    ]


CLASSIC = (
    case(
        f"JoinGroup failed due to non-fatal error: MEMBER_ID_REQUIRED. Will set the member id as {CLASSIC_ID} and then",
        Kind.MEMBER_ID,
        member_id=CLASSIC_ID,
    ),
    case(
        "JoinGroup failed: The coordinator is not aware of this member. Need to re-join the group.",
        Kind.FENCED,
        detail="UNKNOWN_MEMBER_ID",
    ),
    case(
        "JoinGroup failed due to fatal error: The group member's supported protocols are incompatible with those of",
        Kind.ERROR,
        detail="INCONSISTENT_GROUP_PROTOCOL",
    ),
    case(
        "SyncGroup failed: The group began another rebalance. Need to re-join the group.",
        Kind.ERROR,
        detail="REBALANCE_IN_PROGRESS",
    ),
    case(
        f"Attempt to heartbeat with {GENERATION} and group instance id Optional[same] failed due to "
        "FENCED_INSTANCE_ID, resetting generation",
        Kind.FENCED,
        detail="FENCED_INSTANCE_ID",
    ),
    case(
        "Notifying assignor about the new Assignment(partitions=[t-0, t-1], userDataSize=4)",
        Kind.TARGET,
        full=(("t", 0), ("t", 1)),
    ),
    case("Notifying assignor about the new Assignment(partitions=[])", Kind.TARGET, full=()),
    background("consumer poll timeout has expired. This means the time between", Kind.POLL_EXPIRED),
    background(
        f"Sending Heartbeat request with generation 4 and member id {CLASSIC_ID} to coordinator {NODE}",
        Kind.HEARTBEAT_SENT,
        epoch=4,
        member_id=CLASSIC_ID,
    ),
    case("Received successful Heartbeat response", Kind.HEARTBEAT_OK),
    case(
        f"LeaveGroup response with {GENERATION} returned successfully: ClientResponse(receivedTimeMs=1)",
        Kind.LEFT,
        epoch=4,
        member_id=CLASSIC_ID,
    ),
    case(
        f"Group coordinator {NODE_4_0} is unavailable or invalid due to cause: error response NOT_COORDINATOR. "
        "isDisconnected: false. Rediscovery will be attempted.",
        Kind.COORDINATOR_LOST,
        detail="error response NOT_COORDINATOR",
    ),
    case(f"Discovered group coordinator {NODE}", Kind.COORDINATOR_FOUND),
    case(
        "Asynchronous auto-commit of offsets {t-0=OffsetAndMetadata{offset=5, leaderEpoch=0, metadata=''}} failed: "
        "Commit cannot be completed since the group has already rebalanced and",
        Kind.COMMIT_FAILED,
        detail="CommitFailedException",
    ),
    case(
        "Synchronous auto-commit of offsets {} failed: Offset commit cannot be completed since the consumer is "
        "undergoing a rebalance for",
        Kind.COMMIT_FAILED,
        detail="REBALANCE_IN_PROGRESS",
    ),
    case(
        "Offset commit failed on partition a-b-3 at offset 5: The coordinator is not aware of this member.",
        Kind.COMMIT_FAILED,
        partitions=(("a-b", 3),),
        detail="UNKNOWN_MEMBER_ID",
    ),
    case(
        "Failing OffsetCommit request since the consumer is not part of an active group",
        Kind.COMMIT_FAILED,
        detail="CommitFailedException",
    ),
    background(
        "Caught fenced group.instance.id Optional[same] error in heartbeat thread",
        Kind.ERROR,
        detail="FENCED_INSTANCE_ID",
    ),
)


@pytest.mark.parametrize(("message", "expected"), CLASSIC)
def test_the_classic_coordinator(message: str, expected: TraceRecord) -> None:
    """What ConsumerCoordinator says besides the rebalance itself; no join error ends a classic membership for good."""
    assert told(message, "ConsumerCoordinator") == [expected]


OLDER = (
    case(f"Marking the coordinator {NODE} dead", Kind.COORDINATOR_LOST),
    case(f"Group coordinator {NODE} is unavailable or invalid, will attempt rediscovery", Kind.COORDINATOR_LOST),
    case(
        f"Group coordinator {NODE} is unavailable or invalid due to cause: session timed out without receiving a "
        "heartbeat response.isDisconnected: false. Rediscovery will be attempted.",
        Kind.COORDINATOR_LOST,
        detail="session timed out without receiving a heartbeat response",
    ),
    background(
        "This member will leave the group because consumer poll timeout has expired. This means the time between "
        "subsequent calls to poll() was longer than the configured max.poll.interval.ms, which typically implies that",
        Kind.POLL_EXPIRED,
    ),
    case("Attempt to join group failed due to unknown member id.", Kind.FENCED, detail="UNKNOWN_MEMBER_ID"),
    case(
        "Attempt to join group returned MEMBER_ID_REQUIRED error. Will set the member id as m-1 and then rejoin",
        Kind.MEMBER_ID,
        member_id="m-1",
    ),
    case(
        "Attempt to join group failed due to fatal error: Group authorization failed.",
        Kind.ERROR,
        detail="Group authorization failed.",
    ),
    case(
        f"SyncGroup with {GENERATION} failed: The coordinator is not aware of this member., would request re-join",
        Kind.FENCED,
        detail="UNKNOWN_MEMBER_ID",
    ),
    case("Received fatal exception: group.instance.id gets fenced", Kind.ERROR, detail="FENCED_INSTANCE_ID"),
    case(
        "Generation data was cleared by heartbeat thread. Initiating rejoin.",
        Kind.ERROR,
        detail="Generation data was cleared by heartbeat thread",
    ),
    case(
        "Requesting to re-join the group and trigger rebalance since the subscription has changed from [t] to [t, u]",
        Kind.JOINING,
        detail="the subscription has changed from [t] to [t, u]",
    ),
)


@pytest.mark.parametrize(("message", "expected"), OLDER)
def test_words_of_the_coordinator_from_1_0_to_3_2(message: str, expected: TraceRecord) -> None:
    assert told(message, "AbstractCoordinator") == [expected]


def test_up_to_2_1_a_leave_names_no_member() -> None:
    message = f"Sending LeaveGroup request to coordinator {NODE}"
    assert told(message, "AbstractCoordinator") == [seen(Kind.LEAVE_BEGIN), seen(Kind.LEAVE_SENT)]


def test_up_to_2_3_a_listener_that_throws_names_no_partitions() -> None:
    message, trace = (
        "User provided listener a.B failed on partition revocation",
        "\njava.lang.IllegalStateException: no",
    )
    (record,) = told(message, "ConsumerCoordinator", trace)
    assert (record.kind, record.event) == (Kind.CALLBACK_FAILED, "revoked")
    assert record.detail == "java.lang.IllegalStateException: no"


def test_up_to_2_1_the_version_stands_behind_a_blank() -> None:
    ((record,),) = read(f"{TIME} INFO Kafka version : 1.0.0 (org.apache.kafka.common.utils.AppInfoParser)\n")
    assert record.settings == {"version": "1.0.0"}


def test_lines_of_a_connect_worker_are_not_a_consumers() -> None:
    """Up to Kafka 2.8 they had the logger of its coordinator."""
    worker = line("(Re-)joining group", "AbstractCoordinator").replace("[Consumer ", "[Worker ")
    assert read(worker) == [[]]


def test_an_id_given_by_the_coordinator() -> None:
    """A dynamic member gets its id with the first, refused join."""
    records = told(
        f"Request joining group due to: need to re-join with the given member-id: {CLASSIC_ID}", "ConsumerCoordinator"
    )
    assert [(r.kind, r.member_id) for r in records] == [(Kind.JOINING, ""), (Kind.MEMBER_ID, CLASSIC_ID)]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("UNKNOWN_MEMBER_ID from OFFSET_COMMIT response", [Kind.TRANSITION, Kind.GENERATION_RESET, Kind.FENCED]),
        ("FENCED_INSTANCE_ID from HEARTBEAT response", [Kind.TRANSITION, Kind.GENERATION_RESET]),
    ],
)
def test_a_fencing_is_told_once(reason: str, expected: list[Kind]) -> None:
    """A heartbeat's fencing has a line of its own; that of a commit shows only in the reset."""
    message = f"Resetting generation and member id due to: encountered {reason}"
    assert kinds(message, "ConsumerCoordinator") == expected
    older = f"Resetting generation after encountering {reason} and requesting re-join"
    assert kinds(older, "AbstractCoordinator") == expected


# What is not understood

SPEAKERS = (*MEMBERSHIP.loggers[:1], *HEARTBEATS.loggers, *INVOKER.loggers, *COORDINATOR.loggers)


@pytest.mark.parametrize("logger", SPEAKERS)
def test_an_unknown_message_about_the_membership_is_not_understood(logger: str) -> None:
    """A release that says something new is noticed."""
    assert read(line("Member x did something that no release before it did.", logger)) == [None]


def test_share_and_streams_members_are_not_understood() -> None:
    """Their managers use the words of consumer groups, but are other machines."""
    message = f"Member {ID} with epoch 1 transitioned from JOINING to RECONCILING."
    share = line(message, "ShareMembershipManager").replace("[Consumer", "[ShareConsumer")
    assert read(share + line(message, "StreamsMembershipManager")) == [None, None]


@pytest.mark.parametrize(
    "book", [MEMBERSHIP, HEARTBEATS, REQUESTS, COORDINATOR, INVOKER, ASYNC_CONSUMER, BACKGROUND, PROCESS]
)
def test_every_rule_is_found_by_its_first_word(book: RuleSet) -> None:
    """A pattern must begin with a literal word, or its messages would be looked up under another."""
    for one in book.rules:
        words = [word for word, rules in RULES[book.loggers[0]].items() if one in rules]
        assert [word for word in words if not set(word) & set("[]{}|?*+\\^$")] == words
        assert len(words) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("encountered FENCED_INSTANCE_ID from HEARTBEAT response", "FENCED_INSTANCE_ID"),
        ("The coordinator is loading and hence can't process requests.", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("org.apache.kafka.common.errors.TimeoutException: Timeout", "TimeoutException"),
        ("something else", "something else"),
    ],
)
def test_errors_have_names(text: str, name: str) -> None:
    """The protocol's name where there is one, then the exception's, then the text."""
    assert error_name(text) == name


def test_without_a_logger_a_revocation_is_what_a_member_of_a_consumer_group_decided() -> None:
    """Up to Kafka 2.3 the coordinator announced a callback in the same words, and its logger tells the two apart."""
    said = "[Consumer clientId=c, groupId=g] Revoking previously assigned partitions [foo-0]"
    for logger, kind in (("", Kind.REVOKE_DECIDED), (f"{INTERNALS}.ConsumerCoordinator", Kind.REVOKE_BEGIN)):
        (record,) = understand(Message(MS, said, logger=logger)) or ()
        assert (record.kind, record.partitions) == (kind, (("foo", 0),))
