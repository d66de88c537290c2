"""Requests at the edges of what a broker answers, and what is compared of each answer: codes and values, not texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from live_broker import Wire
from patience import wait_until

from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, write_batch

Ask = Callable[[Wire], Any]
TOPIC, GROUP = "odd", "odd-group"
TOPICS, BROKERS, GROUPS = 2, 4, 32
"""Kinds of resources with settings."""
LATER_MS = 60_000


def prepare(wire: Wire) -> None:
    """A topic of two partitions with three records in the first and one in the second, and a coordinator for groups."""
    ready = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    made = m.CreateTopicsRequest((m.CreatableTopic(TOPIC, 2, 1),), 10_000)
    wait_until(lambda: wire.ask(made).topics[0].error_code in ready)
    for partition, values in ((0, (b"a", b"b", b"c")), (1, (b"x" * 1_000,))):
        data = batch(*values)
        wait_until(lambda data=data, partition=partition: not produce(wire, data, partition=partition)[0])
    asked = m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup(GROUP),))
    wait_until(lambda: not (find(wire, 0, GROUP) or wire.ask(asked, 9).groups[0].error_code))


def batch(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """Records at 1,000 ms and every 10 ms after."""
    records = tuple(LogRecord(number, 1_000 + 10 * number, None, value) for number, value in enumerate(values))
    last = len(values) - 1
    return write_batch(Batch(0, records, 0, 0, *producer, last, 1_000, 1_000 + 10 * last))


def produce(wire: Wire, data: bytes | None, topic: str = TOPIC, partition: int = 0, acks: int = -1) -> tuple[int, int]:
    sent = m.TopicProduceData(topic, partition_data=(m.PartitionProduceData(partition, data),))
    found = wire.ask(m.ProduceRequest(acks=acks, topic_data=(sent,)), 9).responses[0].partition_responses[0]
    return found.error_code, found.base_offset


def produce_again(wire: Wire) -> list[tuple[int, int]]:
    """A batch of an idempotent producer, the same, one after a gap, and one of an older epoch."""
    asked = m.InitProducerIdRequest(None, 1)
    wait_until(lambda: not wire.ask(asked, 5).error_code)
    made = wire.ask(asked, 5)
    who = made.producer_id, made.producer_epoch
    sent = [batch(b"i", producer=(*who, sequence)) for sequence in (0, 0, 5)]
    return [produce(wire, one, partition=1) for one in sent]


def list_offsets(time_ms: int, topic: str = TOPIC, partition: int = 0, epoch: int = -1) -> Ask:
    wanted = m.ListOffsetsPartition(partition, epoch, time_ms)
    asked = m.ListOffsetsRequest(topics=(m.ListOffsetsTopic(topic, (wanted,)),))

    def ask(wire: Wire) -> Any:
        found = wire.ask(asked, 10).topics[0].partitions[0]
        return found.error_code, found.timestamp, found.offset, found.leader_epoch

    return ask


def fetch(*partitions: m.FetchPartition, topic: str = TOPIC, version: int = 12, **fields: Any) -> Ask:
    asked = m.FetchRequest(topics=(m.FetchTopic(topic, partitions=partitions),), **{"max_wait_ms": 0, **fields})

    def ask(wire: Wire) -> Any:
        begun = time.monotonic()
        answer = wire.ask(asked, version)
        waited = 0 < 0.8 * asked.max_wait_ms / 1_000 < time.monotonic() - begun
        found = [one for topic in answer.responses for one in topic.partitions]
        return (
            waited,
            answer.error_code,
            [(one.error_code, one.high_watermark, len(one.records or b"")) for one in found],
        )

    return ask


def part(number: int = 0, **fields: Any) -> m.FetchPartition:
    return m.FetchPartition(number, **{"partition_max_bytes": 1 << 20, **fields})


def find(wire: Wire, kind: int, key: str) -> int:
    code: int = wire.ask(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,)), 6).coordinators[0].error_code
    return code


def metadata(*topics: m.MetadataRequestTopic) -> Ask:
    return lambda wire: [
        (one.error_code, one.name, len(one.partitions), one.is_internal)
        for one in wire.ask(m.MetadataRequest(topics)).topics
    ]


def describe_configs(kind: int, name: str) -> Ask:
    asked = m.DescribeConfigsRequest((m.DescribeConfigsResource(kind, name),))

    def ask(wire: Wire) -> Any:
        (found,) = wire.ask(asked).results
        of_groups = [one for one in found.configs if one.name.startswith("consumer.")]
        return found.error_code, sorted((one.name, one.value, one.config_source, one.read_only) for one in of_groups)

    return ask


def alter(name: str, key: str, value: str | None, operation: int = 0, kind: int = GROUPS) -> Ask:
    change = m.AlterConfigsResource(kind, name, (m.AlterableConfig(key, operation, value),))
    return lambda wire: wire.ask(m.IncrementalAlterConfigsRequest((change,))).responses[0].error_code


def create(*topics: m.CreatableTopic, only_checks: bool = False) -> Ask:
    asked = m.CreateTopicsRequest(topics, 10_000, only_checks)
    return lambda wire: sorted({(one.name, one.error_code, one.num_partitions) for one in wire.ask(asked).topics})


def grow(topic: str, count: int) -> Ask:
    asked = m.CreatePartitionsRequest((m.CreatePartitionsTopic(topic, count),), 10_000)
    return lambda wire: wire.ask(asked).results[0].error_code


def end_of_epoch(epoch: int, topic: str = TOPIC) -> Ask:
    wanted = m.OffsetForLeaderPartition(0, leader_epoch=epoch)
    asked = m.OffsetForLeaderEpochRequest(topics=(m.OffsetForLeaderTopic(topic, (wanted,)),))

    def ask(wire: Wire) -> Any:
        found = wire.ask(asked, 4).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    return ask


def commit(topic: str, group: str = GROUP, **fields: Any) -> Ask:
    place = m.OffsetCommitRequestPartition(0, 42, committed_metadata="")
    asked = m.OffsetCommitRequest(group, topics=(m.OffsetCommitRequestTopic(topic, partitions=(place,)),), **fields)
    return lambda wire: wire.ask(asked, 9).topics[0].partitions[0].error_code


def beat(member: str = "m-1", epoch: int = 0, version: int = 1, **fields: Any) -> Ask:
    joins = {"rebalance_timeout_ms": LATER_MS, "subscribed_topic_names": (TOPIC,), "topic_partitions": ()}
    fields = {**(joins if epoch == 0 else {}), **fields}
    asked = m.ConsumerGroupHeartbeatRequest(fields.pop("group_id", "odd-members"), member, epoch, **fields)

    def ask(wire: Wire) -> Any:
        found = wire.ask(asked, version)
        return found.error_code, found.member_epoch, found.heartbeat_interval_ms

    return ask


def join(version: int = 9, **fields: Any) -> Ask:
    protocols = (m.JoinGroupRequestProtocol("range", b"\0\1\0\0\0\1\0\3odd\xff\xff\xff\xff"),)
    usual = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "", "protocol_type": "consumer"}
    asked = m.JoinGroupRequest(**{"group_id": "odd-classic", **usual, "protocols": protocols, **fields})
    return lambda wire: wire.ask(asked, version).error_code


def versions(wire: Wire) -> dict[str, tuple[int, int]]:
    """Of the APIs that are served."""
    names = {api.key: name for name, api in m.APIS.items()}
    found = wire.ask(m.ApiVersionsRequest("x", "1"), 4).api_keys
    return {names[one.api_key]: (one.min_version, one.max_version) for one in found if one.api_key in names}


def _listed(states: tuple[str, ...], types: tuple[str, ...]) -> Ask:
    def ask(wire: Wire) -> Any:
        found = wire.ask(m.ListGroupsRequest(states, types))
        return found.error_code, [one.group_id for one in found.groups]

    return ask


def _delete_offsets(wire: Wire) -> Any:
    answer = wire.ask(m.OffsetDeleteRequest("nobody", (m.OffsetDeleteRequestTopic(TOPIC, ()),)))
    return answer.error_code


def cases() -> Iterator[tuple[str, Ask]]:
    """In the order in which they are asked: some make what later ones find."""
    yield from _of_records()
    yield from _of_descriptions()
    yield from _of_settings()
    yield from _of_producers()
    yield from _of_topics()
    yield from _of_offsets()
    yield from _of_members()
    yield from _of_classic_members()


def _of_records() -> Iterator[tuple[str, Ask]]:
    yield "versions that are served", versions
    for version in (3, 4):
        yield (
            f"features in ApiVersions {version}",
            lambda wire, version=version: [
                one
                for one in wire.ask(m.ApiVersionsRequest("x", "1"), version).supported_features
                if one.name == "group.version"
            ],
        )
    yield "ApiVersions of a nameless client", lambda wire: wire.ask(m.ApiVersionsRequest("", ""), 3).error_code
    for time_ms in (1_000, 1_005, 1_010, 1_021, -1, -2, -3, -4, -5):
        yield f"ListOffsets at {time_ms}", list_offsets(time_ms)
    yield "ListOffsets of no topic", list_offsets(-1, topic="none")
    yield "ListOffsets of no partition", list_offsets(-1, partition=9)
    yield "ListOffsets at a leader epoch to come", list_offsets(-1, epoch=7)
    yield "Fetch at the end, no byte wanted", fetch(part(fetch_offset=3), max_wait_ms=60_000, min_bytes=0)
    yield "Fetch at the end, a byte wanted", fetch(part(fetch_offset=3), max_wait_ms=500, min_bytes=1)
    yield "Fetch beyond the end", fetch(part(fetch_offset=4))
    yield "Fetch before the beginning", fetch(part(fetch_offset=-1))
    yield "Fetch of one byte, two partitions", fetch(part(), part(1), max_bytes=1)
    yield "Fetch of a partition with no room", fetch(part(partition_max_bytes=0))
    yield "Fetch at a leader epoch to come", fetch(part(current_leader_epoch=7))
    yield "Fetch of no topic", fetch(part(), topic="none")
    yield "Fetch of no partition", fetch(part(9))


def _of_descriptions() -> Iterator[tuple[str, Ask]]:
    yield "Metadata of a name that cannot be", metadata(m.MetadataRequestTopic(name="a b"))
    yield "Metadata of an empty name", metadata(m.MetadataRequestTopic(name=""))
    yield "Metadata of the same topic three times", metadata(*[m.MetadataRequestTopic(name=TOPIC)] * 3)
    yield "Metadata of an id that is none", metadata(m.MetadataRequestTopic("AAAAAAAAAAAAAAAAAAAAAQ", None))
    for kind, key in ((0, ""), (7, "x"), (0, GROUP)):
        yield f"FindCoordinator of {key!r} of kind {kind}", lambda wire, kind=kind, key=key: find(wire, kind, key)
    for version in (5, 6):
        yield (
            f"DescribeGroups {version} of a group that is none",
            lambda wire, version=version: [
                (one.error_code, one.group_state) for one in wire.ask(m.DescribeGroupsRequest(("q",)), version).groups
            ],
        )
    yield "DescribeGroups of a group twice", lambda wire: len(wire.ask(m.DescribeGroupsRequest(("q", "q"))).groups)
    yield (
        "ConsumerGroupDescribe of a group that is none",
        lambda wire: [
            (one.error_code, one.group_epoch) for one in wire.ask(m.ConsumerGroupDescribeRequest(("q",))).groups
        ],
    )
    yield (
        "DeleteGroups of a group twice",
        lambda wire: [(one.group_id, one.error_code) for one in wire.ask(m.DeleteGroupsRequest(("q", "q"))).results],
    )
    yield "DeleteGroups of no name", lambda wire: wire.ask(m.DeleteGroupsRequest(("",))).results[0].error_code
    yield "OffsetDelete of a group that is none", _delete_offsets


def _of_settings() -> Iterator[tuple[str, Ask]]:
    yield "settings of a broker that is none", describe_configs(BROKERS, "99")
    yield "settings of a group without a name", describe_configs(GROUPS, "")
    yield "settings of a topic that is none", describe_configs(TOPICS, "none")
    yield "settings of no kind", describe_configs(3, "x")
    timeout = "consumer.session.timeout.ms"
    yield "alter a setting that is none", alter(GROUP, "consumer.foo", "1")
    yield "alter to what is no number", alter(GROUP, timeout, "abc")
    yield "alter to less than allowed", alter(GROUP, timeout, "1")
    yield "alter", alter(GROUP, timeout, "46000")
    yield "alter by appending", alter(GROUP, timeout, "46000", operation=2)
    yield "alter without a value", alter(GROUP, timeout, None)
    yield "alter back to the default", alter(GROUP, timeout, None, operation=1)
    yield "alter a topic", alter(TOPIC, "retention.ms", "60000", kind=TOPICS)
    yield "alter a group without a name", alter("", timeout, "46000")
    yield "alter a topic that is none", alter("none", "retention.ms", "1", kind=TOPICS)
    yield "settings of a group", describe_configs(GROUPS, GROUP)


def _of_producers() -> Iterator[tuple[str, Ask]]:
    yield "Produce to the offsets", lambda wire: produce(wire, batch(b"a"), "__consumer_offsets")[0]
    yield "Produce of nothing", lambda wire: produce(wire, b"")[0]
    yield "Produce to no partition", lambda wire: produce(wire, batch(b"a"), partition=9)[0]
    yield "Produce for three acknowledgements", lambda wire: produce(wire, batch(b"a"), acks=3)[0]
    yield "Produce of what was changed on its way", lambda wire: produce(wire, batch(b"a")[:-1] + b"\x07")[0]
    yield "Produce again, and after a gap", produce_again


def _of_topics() -> Iterator[tuple[str, Ask]]:
    yield "create with three replicas", create(m.CreatableTopic("rf3", 1, 3))
    yield "create the same twice", create(m.CreatableTopic("dd", 1, 1), m.CreatableTopic("dd", 1, 1))
    yield "create what is there", create(m.CreatableTopic(TOPIC, 1, 1))
    yield "create without partitions", create(m.CreatableTopic("p0", 0, 1))
    yield "check a name that cannot be", create(m.CreatableTopic("vv vv", 1, 1), only_checks=True)
    yield "check a topic", create(m.CreatableTopic("checked", 3, 1), only_checks=True)
    for name in ("", ".", "x" * 250, "__consumer_offsets"):
        yield f"create {name[:20]!r}", create(m.CreatableTopic(name, 1, 1))
    yield "grow to as many as there are", grow(TOPIC, 2)
    yield "grow to fewer", grow(TOPIC, 1)
    yield "grow no topic", grow("none", 3)
    yield (
        "delete no topic",
        lambda wire: (
            wire.ask(m.DeleteTopicsRequest((m.DeleteTopicState("none"),), timeout_ms=10_000)).responses[0].error_code
        ),
    )
    for epoch in (-1, 0, 5):
        yield f"end of leader epoch {epoch}", end_of_epoch(epoch)
    yield "end of a leader epoch of no topic", end_of_epoch(0, "none")
    yield "ListGroups in no state", _listed(("nonsense",), ())
    yield "ListGroups of no type", _listed((), ("nonsense",))
    yield (
        "resources with settings, version 0",
        lambda wire: [one.resource_type for one in wire.ask(m.ListConfigResourcesRequest(), 0).config_resources],
    )
    yield (
        "groups with settings",
        lambda wire: [
            one.resource_name for one in wire.ask(m.ListConfigResourcesRequest((GROUPS,)), 1).config_resources
        ],
    )
    yield "one partition of a topic a time", _describe_topics(TOPIC, 1)
    yield "the other partition", _describe_topics(TOPIC, 1, m.Cursor(TOPIC, 1))
    yield "no room for partitions", _describe_topics(TOPIC, 0)
    yield "topics that are none", _describe_topics("none", 100)


def _of_offsets() -> Iterator[tuple[str, Ask]]:
    yield "commit to no topic", commit("none")
    yield "commit", commit(TOPIC)
    yield "commit as a member of no group", commit(TOPIC, "nobody", generation_id_or_member_epoch=3, member_id="m")
    yield "commit to a group without a name", commit(TOPIC, "")


def _of_members() -> Iterator[tuple[str, Ask]]:
    yield "heartbeat of a member of no group", beat(epoch=3)
    yield "join without a subscription", beat(subscribed_topic_names=None)
    yield "join without a timeout", beat(rebalance_timeout_ms=-1)
    yield "join with what was owned", beat(topic_partitions=(("AAAAAAAAAAAAAAAAAAAAAQ", (0,)),))
    yield "join without a member id", beat(member="")
    yield "join a group without a name", beat(group_id="")
    yield "join with an assignor that is none", beat(server_assignor="none")
    yield "join with a pattern that is none", beat(subscribed_topic_names=None, subscribed_topic_regex="(")
    yield "join", beat()
    yield "join again", beat()
    yield "stay at an epoch that is over", beat(epoch=7)
    yield "stay at an epoch below all", beat(epoch=-3)
    yield "leave as a static member without being one", beat(epoch=-2)
    yield "leave as another", beat(member="m-2", epoch=-1)
    yield "leave", beat(epoch=-1)


def _of_classic_members() -> Iterator[tuple[str, Ask]]:
    yield "join a classic group without an id", join()
    yield "join a classic group for too short", join(session_timeout_ms=1)
    yield "join a classic group for too long", join(session_timeout_ms=1 << 30)
    yield "join a classic group without a protocol", join(protocols=())
    yield "join a classic group with an id of nobody", join(member_id="nobody")
    yield "join a classic group without a name", join(group_id="")
    yield (
        "heartbeat to a classic group that is none",
        lambda wire: wire.ask(m.HeartbeatRequest("nobody", 1, "m")).error_code,
    )
    yield (
        "leave a classic group that is none",
        lambda wire: [
            one.error_code for one in wire.ask(m.LeaveGroupRequest("nobody", members=(m.MemberIdentity("m"),))).members
        ],
    )
    yield (
        "sync with a classic group that is none",
        lambda wire: wire.ask(m.SyncGroupRequest("nobody", 1, "m", None, "consumer", "range")).error_code,
    )


def _describe_topics(name: str, most: int, cursor: m.Cursor | None = None) -> Ask:
    asked = m.DescribeTopicPartitionsRequest((m.TopicRequest(name),), most, cursor)

    def ask(wire: Wire) -> Any:
        found = wire.ask(asked)
        after = found.next_cursor and tuple(found.next_cursor)
        return [(one.error_code, one.name, [p.partition_index for p in one.partitions]) for one in found.topics], after

    return ask


def answers(wire: Wire) -> dict[str, str]:
    """What a broker answers to all of it; where it ends the connection instead, that."""
    prepare(wire)
    found = {}
    for name, ask in cases():
        try:
            found[name] = str(ask(wire))
        except OSError:
            found[name] = "the connection ended"
            wire.reconnect()
    return found
