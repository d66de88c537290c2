"""The words of aiokafka and of kafka-python as records."""

from __future__ import annotations

import re
from datetime import UTC
from types import ModuleType
from typing import Any

import pytest
from recordings import logs

from fsm.logs import formats
from fsm.logs.message import Message
from fsm.logs.programs import aiokafka, kafka_python
from fsm.logs.reading.entries import parse_entry
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import Kind, Partition, TraceRecord

ME = {
    aiokafka: ("aiokafka", "aiokafka.consumer.group_coordinator"),
    kafka_python: ("kafka-python", "kafka.coordinator"),
}
FOO: tuple[Partition, ...] = (("foo", 0), ("foo", 1))
SET = "{TopicPartition(topic='foo', partition=1), TopicPartition(topic='foo', partition=0)}"
SUBSCRIPTION = {aiokafka: "frozenset({'t2', 't1'})", kafka_python: "['t2', 't1']"}


def told(client: ModuleType, text: str, level: str = "INFO", **values: Any) -> list[TraceRecord]:
    """What a client understands of a message of its own logger."""
    found = client.understand(Message(1000, text, level, ME[client][1], **values))
    assert found is not None, text
    return list(found)


def record(client: ModuleType, kind: Kind, group: str = "g", **values: Any) -> TraceRecord:
    return TraceRecord(1000, kind, group=group, client_id=ME[client][0], **values)


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
def test_what_both_say(client: ModuleType) -> None:
    """One grew out of the other."""

    def says(text: str, kind: Kind, **values: Any) -> None:
        for below in ("", "\n", "\nKilled", "\n    at consume.rs:12"):
            assert told(client, text + below) == [record(client, kind, **values)], text

    says("(Re-)joining group g", Kind.JOINING)
    says("Revoking previously assigned partitions set() for group g", Kind.REVOKE_BEGIN)
    says(f"Setting newly assigned partitions {SET} for group g", Kind.ASSIGN_BEGIN, partitions=FOO)
    subscribed = f"Updating subscribed topics to: {SUBSCRIPTION[client]}"
    says(subscribed, Kind.SUBSCRIBED, group="", topics=("t1", "t2"))
    for blank in (" ", "  "):
        generation = f"Heartbeat failed for group g: generation id is not{blank}current."
        says(generation, Kind.FENCED, detail="ILLEGAL_GENERATION")


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
def test_a_line_that_both_print_is_nobodys_without_its_logger(client: ModuleType) -> None:
    """It belongs to who else writes to the file for its group; a logger of another program is none of theirs."""
    text = f"Setting newly assigned partitions {SET} for group g"
    nameless = TraceRecord(1000, Kind.ASSIGN_BEGIN, group="g", partitions=FOO)
    assert list(client.understand(Message(1000, text)) or ()) == [nameless]
    assert client.understand(Message(1000, text, "INFO", "shop.orders")) == ()


@pytest.mark.parametrize(
    "name",
    [
        "kafkapython_range.bounce",
        pytest.param("kafkapython_coop.brokerkill", marks=pytest.mark.deep),
        "aiokafka.bounce",
    ],
)
def test_without_loggers_a_log_is_of_the_client_whose_words_stand_there(name: str) -> None:
    """What only one of them prints is never taken for the other's."""
    owner = "aiokafka" if name.startswith("aiokafka") else "kafka-python"
    for data in logs("client")[name].values():
        bare = re.sub(rb"(?m)^(\S+ \S+ \w+) \S+ ", rb"\1 ", data)
        told = [one for entry in from_bytes(bare, formats()) for one in parse_entry(entry, UTC)[1] or ()]
        assert {one.client_id for one in told} - {""} == {owner}
        assert len(told) == sum(len(parse_entry(entry, UTC)[1] or ()) for entry in from_bytes(data, formats()))


def test_a_blank_behind_a_message_is_no_part_of_it() -> None:
    """Some loggers print one behind every message, others only behind some; those of Faust do."""
    for data in logs("client")["aiokafka.bounce"].values():
        spaced = re.sub(rb"(?m)(Joined group .*|Successfully synced group .*)$", rb"\1 ", data)
        assert spaced != data
        told, same = (
            [one for entry in from_bytes(text, formats()) for one in parse_entry(entry, UTC)[1] or ()]
            for text in (data, spaced)
        )
        assert told == same


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
def test_a_message_that_ends_otherwise_is_not_understood(client: ModuleType) -> None:
    """With a logger or without."""
    for logger in ("", ME[client][1]):
        text = f"Setting newly assigned partitions {SET} for group {'g' * 301}"
        assert client.understand(Message(1000, text, "DEBUG", logger)) is None


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
@pytest.mark.parametrize(
    "behind", [' {"seq":11} {"uid":"3c"}', " [12 ms]", " - [main] consumer", ", app=orders", "; a: 5", "')"]
)
def test_what_a_logger_puts_behind_a_group_is_no_part_of_it(behind: str, client: ModuleType) -> None:
    """Each line would be of a group of its own, in which nothing happens."""
    for text in ("(Re-)joining group my group", f"Setting newly assigned partitions {SET} for group my group"):
        assert {one.group for one in told(client, text)} == {"my group"}
        assert client.understand(Message(1000, text + behind, "INFO", ME[client][1])) is None


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
def test_partitions_of_a_java_client_before_1_0_are_none_of_theirs(client: ModuleType) -> None:
    """It prints the same words around another list; only its logger tells it apart."""
    text = "Setting newly assigned partitions [foo-0, foo-1] for group g"
    assert client.understand(Message(1000, text)) is None
    logger = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"
    assert client.understand(Message(1000, text, "INFO", logger)) == ()


@pytest.mark.parametrize("client", [aiokafka, kafka_python])
def test_above_debug_the_coordinator_is_understood_or_reported(client: ModuleType) -> None:
    """Its logger speaks of nothing but the membership; half a list is not taken for a whole one."""
    logger = ME[client][1]
    assert client.understand(Message(1000, "Something new happened", "WARNING", logger)) is None
    assert client.understand(Message(1000, "Something new happened", "DEBUG", logger)) == ()
    cut = f"Setting newly assigned partitions {SET[:-4]} for group g"
    assert client.understand(Message(1000, cut, "INFO", logger)) is None


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        (
            f"Revoking previously assigned partitions frozenset({SET}) for group g",
            Kind.REVOKE_BEGIN,
            {"partitions": FOO},
        ),
        ("Joined group 'g' (generation 4) with member_id a-B-1", Kind.JOINED, {"epoch": 4, "member_id": "a-B-1"}),
        ("Successfully synced group g with generation 4", Kind.SYNCED, {"epoch": 4}),
        ("Marking the coordinator dead (node 1)for group g.", Kind.COORDINATOR_LOST, {}),
        ("LeaveGroup request succeeded", Kind.LEFT, {"group": ""}),
        (
            "Heartbeat failed: local member_id was not recognized; resetting and re-joining group",
            Kind.FENCED,
            {"group": "", "detail": "UNKNOWN_MEMBER_ID"},
        ),
        (
            "OffsetCommit failed for group g due to group error ([Error 25] UnknownMemberIdError: g), will rejoin",
            Kind.FENCED,
            {"detail": "UNKNOWN_MEMBER_ID"},
        ),
        (
            "OffsetCommit failed for group g due to group error ([Error 27] RebalanceInProgressError: g), will rejoin",
            Kind.COMMIT_FAILED,
            {"detail": "REBALANCE_IN_PROGRESS"},
        ),
    ],
)
def test_aiokafka(text: str, kind: Kind, values: dict[str, Any]) -> None:
    """Most lines name the group, the leave and the loss do not."""
    assert told(aiokafka, text) == [record(aiokafka, kind, **values)]


def test_a_listener_of_aiokafka_that_raises() -> None:
    """The rebalance goes on; the error stands in the stack trace."""
    text = "User provided subscription listener <__main__.L object at 0x7f> for group g failed on_partitions_revoked"
    failed = record(aiokafka, Kind.CALLBACK_FAILED, event="revoked", detail="RuntimeError: no")
    assert told(aiokafka, text, "ERROR", error="RuntimeError: no") == [failed]


@pytest.mark.parametrize(
    ("text", "kinds", "values"),
    [
        ("Received member id k-1 for group g; will retry join-group", [Kind.MEMBER_ID], {"member_id": "k-1"}),
        (
            "Successfully joined group g <Generation 2 (member_id: k-1, protocol: range)>",
            [Kind.JOINED],
            {"epoch": 2, "member_id": "k-1"},
        ),
        (f"Revoking previously assigned partitions {SET} for group g", [Kind.REVOKE_BEGIN], {"partitions": FOO}),
        (f"Group g lost membership; forcibly revoking {SET}", [Kind.LOST_BEGIN], {"partitions": FOO}),
        ("Leaving consumer group g (member k-1).", [Kind.LEAVE_BEGIN, Kind.LEAVE_SENT], {"member_id": "k-1"}),
        ("LeaveGroup request for group g returned successfully", [Kind.LEFT], {}),
        ("Rebalance listener L.on_partitions_revoked for group g took 11.000s. Sync listeners", [Kind.REVOKE_END], {}),
        (
            "OffsetCommit for group g failed due to fenced id error: i-B",
            [Kind.FATAL],
            {"instance_id": "i-B", "detail": "FENCED_INSTANCE_ID"},
        ),
        (
            "OffsetCommit for group g failed: [Error 25] UnknownMemberIdError: g",
            [Kind.FENCED],
            {"detail": "UNKNOWN_MEMBER_ID"},
        ),
    ],
)
def test_kafka_python(text: str, kinds: list[Kind], values: dict[str, Any]) -> None:
    """Everything that names the group."""
    assert told(kafka_python, text) == [record(kafka_python, kind, **values) for kind in kinds]


@pytest.mark.parametrize(
    ("text", "kinds", "values"),
    [
        (
            "Sending heartbeat for group g <Generation 2 (member_id: k-1, protocol: range)>",
            [Kind.HEARTBEAT_SENT],
            {"epoch": 2, "member_id": "k-1"},
        ),
        (
            "Received heartbeat response for group g: HeartbeatResponse_v1(throttle_time_ms=0, error_code=0)",
            [Kind.HEARTBEAT_OK],
            {},
        ),
        (
            "Received heartbeat response for group g: HeartbeatResponse(version=4, throttle_time_ms=0, error_code=0)",
            [Kind.HEARTBEAT_OK],
            {},
        ),
        (
            "Received heartbeat response for group g: HeartbeatResponse(version=4, throttle_time_ms=0, error_code=27)",
            [],
            {},
        ),
    ],
)
def test_heartbeats_of_kafka_python_at_debug(text: str, kinds: list[Kind], values: dict[str, Any]) -> None:
    """Since 2.1. What refuses one has a line of its own."""
    assert told(kafka_python, text, "DEBUG") == [record(kafka_python, kind, **values) for kind in kinds]


@pytest.mark.parametrize(
    ("text", "kinds", "values"),
    [
        ("Discovered coordinator 1 for group g", [Kind.COORDINATOR_FOUND], {}),
        ("Successfully joined group g with generation 4", [Kind.JOINED, Kind.SYNCED], {"epoch": 4}),
        (
            (
                "Setting newly assigned partitions set([TopicPartition(topic=u'foo', partition=0), "
                "TopicPartition(topic=u'foo', partition=1)]) for group g"
            ),
            [Kind.ASSIGN_BEGIN],
            {"partitions": FOO},
        ),
        ("Heartbeat poll expired, leaving group", [Kind.POLL_EXPIRED], {"group": ""}),
        ("Leaving consumer group (g).", [Kind.LEAVE_BEGIN, Kind.LEAVE_SENT], {}),
        ("Leaving consumer group (g)", [Kind.LEAVE_BEGIN, Kind.LEAVE_SENT], {}),  # quoted without its end
        (
            "Auto offset commit failed for group g: [Error 25] UnknownMemberIdError: g",
            [Kind.FENCED],
            {"detail": "UNKNOWN_MEMBER_ID"},
        ),
        ("Stopping heartbeat thread", [], {}),
        (
            "Heartbeat: g[4] kafka-python-2.0.2-0a1b",
            [Kind.HEARTBEAT_SENT],
            {"epoch": 4, "member_id": "kafka-python-2.0.2-0a1b"},
        ),
        ("Received successful heartbeat response for group g", [Kind.HEARTBEAT_OK], {}),
    ],
)
def test_words_of_kafka_python_up_to_2_1(text: str, kinds: list[Kind], values: dict[str, Any]) -> None:
    """On Python 2 a printed set is a call, and its topics have a prefix."""
    assert told(kafka_python, text) == [record(kafka_python, kind, **values) for kind in kinds]


def test_a_set_of_python_2_is_kafka_pythons() -> None:
    """Without a logger: aiokafka never ran there."""
    text = "Revoking previously assigned partitions set([TopicPartition(topic=u'foo', partition=0)]) for group g"
    assert not aiokafka.understand(Message(1000, text))
    assert kafka_python.understand(Message(1000, text)) == (
        record(kafka_python, Kind.REVOKE_BEGIN, partitions=(("foo", 0),)),
    )


def test_a_logger_with_one_word_beside_kafka_pythons() -> None:
    """An application's own logger hardly has a dot; the column is the logger's all the same."""
    lines = (
        "INFO - __main__ - starting",
        "INFO - kafka.coordinator - Discovered coordinator 0 for group g",
        "INFO - kafka.coordinator - (Re-)joining group g",
        "INFO - kafka.coordinator - Successfully joined group g with generation 4",
        f"INFO - kafka.coordinator.consumer - Setting newly assigned partitions {SET} for group g",
        "INFO - __main__ - got a message",
    )
    data = "".join(f"2026-11-21 07:55:0{i},000 - {line}\n" for i, line in enumerate(lines))
    found = [one for entry in from_bytes(data.encode(), formats()) for one in parse_entry(entry, UTC)[1] or ()]
    assert {(one.client_id, one.group) for one in found} == {("kafka-python", "g")}


def test_a_cooperative_rebalance_of_kafka_python() -> None:
    """One line before both callbacks; revoked comes first, and neither where it has nothing."""
    text = f"Cooperative rebalance complete for group g: owned={SET}, assigned=set(), revoked=%s, added=%s"
    revoked = record(kafka_python, Kind.REVOKE_BEGIN, partitions=FOO)
    added = record(kafka_python, Kind.ASSIGN_BEGIN, partitions=FOO)
    nothing = record(kafka_python, Kind.ASSIGN_BEGIN)
    assert told(kafka_python, text % (SET, SET)) == [revoked, added]
    assert told(kafka_python, text % (SET, "set()")) == [revoked]
    assert told(kafka_python, text % ("set()", SET)) == [added]
    assert told(kafka_python, text % ("set()", "set()")) == [nothing]


def test_kafka_python_says_when_a_revocation_is_part_of_a_close() -> None:
    """The group's name may end like the words behind it."""
    closing = told(kafka_python, f"Revoking previously assigned partitions {SET} for group g on close")
    assert [one.kind for one in closing] == [Kind.CLOSE_BEGIN, Kind.REVOKE_BEGIN]
    assert {one.group for one in closing} == {"g"}
