"""The brokers as a value: frames in, effects out."""

from __future__ import annotations

import pytest
from serve_scene import Scene

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.codec import encode_request
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, read_batches, write_batch
from fsm.serve.faults import Do, Rule

CLASSIC = (m.JoinGroupRequestProtocol("range", b"\0\1\0\0\0\1\0\3foo\0\0\0\0\0\0\0\0"),)


def join(group: str = "g", member_id: str = "m-1") -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("foo",), topic_partitions=()
    )


def heartbeat(epoch: int) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest("g", "m-1", epoch)


def join_classic(member_id: str = "") -> m.JoinGroupRequest:
    return m.JoinGroupRequest("c", 10_000, 60_000, member_id, protocol_type="consumer", protocols=CLASSIC)


def fetch(offset: int = 0) -> m.FetchRequest:
    wanted = m.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return m.FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=(m.FetchTopic("foo", partitions=(wanted,)),))


def produce(data: bytes) -> m.ProduceRequest:
    return m.ProduceRequest(topic_data=(m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(0, data),)),))


def batch(*values: bytes) -> bytes:
    records = tuple(LogRecord(i, 1_000 + i, None, value) for i, value in enumerate(values))
    return write_batch(Batch(0, records, 0, 0, -1, -1, -1, len(values) - 1, 1_000, 1_000 + len(values) - 1))


def test_a_member_joins_is_told_everything_and_leaves() -> None:
    scene = Scene()
    client = scene.client()
    answer = client.ask(join())
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 1_000)
    (assigned,) = answer.assignment
    assert scene.brokers.cluster.topics.names[assigned[0]] == "foo"
    assert assigned[1] == (0, 1, 2, 3)
    described = client.ask(m.ConsumerGroupDescribeRequest(("g", "other"))).groups
    assert [(one.group_state, one.error_code) for one in described] == [
        ("Stable", ErrorCode.NONE),
        ("", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert client.ask(m.ListGroupsRequest()).groups == (m.ListedGroup("g", "consumer", "Stable", "consumer"),)
    assert client.ask(m.ListGroupsRequest(types_filter=("classic",))).groups == ()
    assert client.ask(heartbeat(-1)).member_epoch == -1
    assert client.ask(m.DeleteGroupsRequest(("g", "other"))).results == (
        m.DeletableGroupResult("g", ErrorCode.NONE),
        m.DeletableGroupResult("other", ErrorCode.GROUP_ID_NOT_FOUND),
    )


def test_a_silent_member_is_removed_and_that_is_told() -> None:
    scene = Scene()
    client = scene.client()
    client.ask(join())
    scene.wait(5_999)
    assert scene.notes("removed") == []
    scene.wait(1)
    assert [note.about for note in scene.notes("removed")] == [{"group": "g", "member": "m-1"}]
    assert client.ask(heartbeat(2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("release", "members"), [("fixed", 0), ("4.4.0", 1)])
def test_a_fixed_broker_closes_the_connection_that_a_member_has_left(release: str, members: int) -> None:
    """A join is abandoned and sent again on the next connection; its member leaves, and then the first join arrives."""
    scene = Scene(release=release)
    first, second = scene.client(), scene.client()
    assert second.ask(join()).member_epoch > 0
    assert second.ask(heartbeat(-1)).member_epoch == -1
    answer = first.ask(join())
    assert (answer is None, first.is_closed) == (members == 0, members == 0)
    assert not second.is_closed
    (group,) = second.ask(m.ConsumerGroupDescribeRequest(("g",))).groups
    assert len(group.members) == members
    assert [one.answered_ms is None for one in scene.exchanges("ConsumerGroupHeartbeat")] == [False, False, not members]


def test_what_comes_after_a_request_that_waits_is_handled_after_its_answer() -> None:
    scene = Scene(settings={"group.initial.rebalance.delay.ms": "3000"})
    client, other = scene.client(), scene.client("B")
    first = client.ask(join_classic())
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert client.ask(join_classic(first.member_id)) is None
    client.send(m.MetadataRequest())
    assert client.take() is None
    assert other.ask(m.MetadataRequest()).topics[0].name == "foo"
    scene.wait(3_000)
    assert client.take().generation_id == 1
    assert client.take().topics[0].name == "foo"


def test_a_version_that_is_too_new() -> None:
    client = Scene().client()
    frame = bytearray(encode_request(m.ApiVersionsRequest("x", "1"), 3, 7, "A"))
    frame[2:4] = (99).to_bytes(2, "big")
    client.send_frame(bytes(frame))
    client.waiting.append((m.APIS["ApiVersions"], 0))
    response = client.take()
    assert response.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert [one.api_key for one in response.api_keys] == [18]
    client.send_frame(encode_request(join(), 1, 8, "A").replace(b"\0\x44\0\1", b"\0\x44\0\x09", 1))
    assert client.is_closed


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x44\0\1\0\0\0\1\xff\xff\0" + b"\xff" * 9, b"\x7f\xff" * 8])
def test_bytes_that_are_no_request_end_their_own_connection_only(frame: bytes) -> None:
    scene = Scene()
    client, other = scene.client(), scene.client()
    client.send_frame(frame)
    assert client.is_closed
    assert other.ask(join()).member_epoch == 2


def test_groups_are_coordinated_by_the_brokers_that_lead_their_partitions() -> None:
    scene = Scene(brokers=3)
    clients = {broker: scene.client(broker=broker) for broker in (1, 2, 3)}
    found = clients[2].ask(m.FindCoordinatorRequest(coordinator_keys=("g", "h", "i"))).coordinators
    # The hash codes of one letter are its numbers: 103, 104, 105; partitions 3, 4, 5 of 50.
    assert [(one.node_id, one.port) for one in found] == [(1, 9_092), (2, 9_093), (3, 9_094)]
    assert clients[1].ask(join("g")).member_epoch == 2
    assert clients[2].ask(join("g")).error_code is ErrorCode.NOT_COORDINATOR
    assert clients[2].ask(join("h")).member_epoch == 2
    assert [one.group_id for one in clients[1].ask(m.ListGroupsRequest()).groups] == ["g"]
    wanted = (m.OffsetFetchRequestGroup("g"), m.OffsetFetchRequestGroup("h"))
    fetched = clients[1].ask(m.OffsetFetchRequest(groups=wanted))
    assert [one.error_code for one in fetched.groups] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]


def test_a_coordinator_moves_with_what_it_stored() -> None:
    scene = Scene(brokers=2)
    clients = {broker: scene.client(broker=broker) for broker in (1, 2)}
    leader = scene.brokers.cluster.coordinators.leader_of("g")
    clients[leader].ask(join())
    scene.do(scene.brokers.move("g", None, scene.now_ms))
    assert clients[leader].ask(heartbeat(2)).error_code is ErrorCode.NOT_COORDINATOR
    assert clients[3 - leader].ask(heartbeat(2)).member_epoch == 2
    with pytest.raises(InputError, match="there is no broker 7"):
        scene.brokers.move("g", 7, scene.now_ms)


def test_a_join_that_waits_is_told_that_the_coordinator_moved() -> None:
    scene = Scene(brokers=2, settings={"group.initial.rebalance.delay.ms": "3000"})
    client = scene.client(broker=scene.brokers.cluster.coordinators.leader_of("c"))
    assert client.ask(join_classic(), 3) is None
    scene.do(scene.brokers.move("c", None, scene.now_ms))
    assert client.take().error_code is ErrorCode.NOT_COORDINATOR


def test_records_are_made_up_until_somebody_produces() -> None:
    scene = Scene(records_a_second=2)
    client = scene.client()
    assert client.ask(fetch(), 12) is None
    scene.wait(499)
    assert client.take() is None
    scene.wait(1)
    (data,) = client.take().responses[0].partitions
    assert [record.value for one in read_batches(data.records) for record in one.records] == [b"foo-0-0"]
    scene.wait(1_000)
    produced = client.ask(produce(batch(b"x", b"y")), 9)
    assert produced.responses[0].partition_responses[0].base_offset == 3
    scene.wait(10_000)
    (data,) = client.ask(fetch(), 12).responses[0].partitions
    values = [record.value for one in read_batches(data.records) for record in one.records]
    assert values == [b"foo-0-0", b"foo-0-1", b"foo-0-2", b"x", b"y"]
    listed = client.ask(m.ListOffsetsRequest(topics=(m.ListOffsetsTopic("foo", (m.ListOffsetsPartition(0),)),)))
    assert listed.topics[0].partitions[0].offset == 5
    too_far = client.ask(fetch(6), 12).responses[0].partitions[0]
    assert too_far.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_that_waits_is_answered_when_somebody_produces() -> None:
    scene = Scene()
    client, producer = scene.client(), scene.client("P")
    assert client.ask(fetch(), 12) is None
    silent = m.ProduceRequest(acks=0, topic_data=produce(batch(b"x")).topic_data)
    assert producer.ask(silent, 9) is None
    assert client.take().responses[0].partitions[0].high_watermark == 1
    assert client.ask(fetch(1), 12) is None
    scene.wait(5_000)
    assert client.take().responses[0].partitions[0].records == b""


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"x")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"x")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x") + b"\0" * 61, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x")[:16] + b"\1" + batch(b"x")[17:], ErrorCode.INVALID_RECORD),
        (batch(b"x") + batch(b"y"), ErrorCode.INVALID_RECORD),
    ],
)
def test_batches_that_are_none_are_refused_whole(data: bytes, code: ErrorCode) -> None:
    answer = Scene().client().ask(produce(data), 9).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (code, -1)


def test_topics_are_made_grown_and_deleted_over_the_wire() -> None:
    scene = Scene()
    client = scene.client()
    wanted = tuple(m.CreatableTopic(name, 2, 1) for name in ("bar", "foo", "b/r"))
    assert [one.error_code for one in client.ask(m.CreateTopicsRequest(wanted)).topics] == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    more = (m.CreatePartitionsTopic("bar", 3), m.CreatePartitionsTopic("bar", 2))
    grown = client.ask(m.CreatePartitionsRequest(more))
    assert [one.error_code for one in grown.results] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert len(client.ask(m.MetadataRequest((m.MetadataRequestTopic(name="bar"),))).topics[0].partitions) == 3
    gone = client.ask(m.DeleteTopicsRequest((m.DeleteTopicState("bar"), m.DeleteTopicState("bar"))))
    assert [one.error_code for one in gone.responses] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(scene.notes("topics")) == 4


def test_a_groups_own_heartbeat_interval_is_set_and_described() -> None:
    client = Scene().client()
    changes = (m.AlterableConfig("consumer.heartbeat.interval.ms", 0, value) for value in ("700", "7"))
    resources = tuple(m.AlterConfigsResource(32, "g", (one,)) for one in changes)
    answer = client.ask(m.IncrementalAlterConfigsRequest(resources))
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    assert client.ask(join()).heartbeat_interval_ms == 700
    described = client.ask(m.DescribeConfigsRequest((m.DescribeConfigsResource(32, "g"),))).results[0].configs
    found = {one.name: (one.value, one.config_source) for one in described}
    assert found["consumer.heartbeat.interval.ms"] == ("700", 8)
    assert found["consumer.session.timeout.ms"] == ("6000", 4)


def test_settings_with_which_no_broker_starts() -> None:
    with pytest.raises(InputError, match=r"1000 is below group\.consumer\.min\.session\.timeout\.ms=3000"):
        Scene(settings={"group.consumer.session.timeout.ms": "1000"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.consumer.migration.policy", "upgrad"),
        ("group.consumer.assignors", "uniform,mine"),
        ("group.coordinator.rebalance.protocols", ""),
    ],
)
def test_settings_that_are_words_nobody_knows(key: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{key}: cannot be '{value}'; choose from "):
        Scene(settings={key: value})


def test_brokers_that_start_again_know_what_they_stored() -> None:
    scene = Scene(kept={})
    client = scene.client()
    client.ask(join())
    place = m.OffsetCommitRequestPartition(0, 42)
    commit = m.OffsetCommitRequest("g", 2, "m-1", topics=(m.OffsetCommitRequestTopic("foo", partitions=(place,)),))
    assert client.ask(commit, 9).errors == ()
    client.ask(m.CreateTopicsRequest((m.CreatableTopic("bar", 2, 1),)))
    again = Scene(kept=scene.kept)
    assert again.brokers.cluster.topics.names == scene.brokers.cluster.topics.names
    client = again.client()
    assert client.ask(heartbeat(2)).error_code is ErrorCode.NONE
    fetched = client.ask(m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup("g"),)), 8).groups[0]
    assert fetched.topics[0].partitions[0].committed_offset == 42


@pytest.mark.parametrize("a_second", [3, 6, 7, 11, 14, 59, 333, 1_000])
def test_records_are_made_up_at_any_rate(a_second: int) -> None:
    """What is due is there when it is due: a fetch that waits is answered by then."""
    scene = Scene(records_a_second=a_second)
    client = scene.client()
    for offset in range(20):
        client.send(fetch(offset), 12)
        scene.wait(1_000 / a_second + 1)
        (data,) = client.take().responses[0].partitions
        assert data.high_watermark > offset


def test_made_up_records_end_for_the_whole_topic() -> None:
    scene = Scene(records_a_second=2)
    client = scene.client()
    scene.wait(2_000)
    client.ask(produce(batch(b"x")), 9)
    scene.wait(10_000)
    wanted = tuple(m.ListOffsetsPartition(number) for number in (0, 1))
    (topic,) = client.ask(m.ListOffsetsRequest(topics=(m.ListOffsetsTopic("foo", wanted),))).topics
    assert [one.offset for one in topic.partitions] == [5, 4]


def test_an_idempotent_producer_is_told_of_what_it_has_said_before() -> None:
    client = Scene().client()

    def ask(sequence: int) -> tuple[ErrorCode, int]:
        record = LogRecord(0, 1_000, None, b"x")
        data = write_batch(Batch(0, (record,), 0, 0, 7, 0, sequence, 0, 1_000, 1_000))
        (answer,) = client.ask(produce(data), 9).responses[0].partition_responses
        return answer.error_code, answer.base_offset

    assert [ask(sequence) for sequence in (0, 0, 5, 1, 0)] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 0),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 0),
    ]


def test_groups_that_nobody_uses_end() -> None:
    scene = Scene()
    client = scene.client()
    client.ask(join())
    client.ask(heartbeat(-1))
    assert len(client.ask(m.ListGroupsRequest()).groups) == 1
    scene.wait(600_000)
    assert client.ask(m.ListGroupsRequest()).groups == ()


def test_clients_before_version_4_are_not_told_of_features_that_may_be_off() -> None:
    """KAFKA-17011: they fail to read them."""
    client = Scene().client()
    request = m.ApiVersionsRequest("x", "1")
    assert [len(client.ask(request, version).supported_features) for version in (3, 4)] == [0, 1]


def test_an_answer_that_nobody_could_get_is_not_told_as_sent() -> None:
    scene = Scene(Rule(Do.DELAY, ms=400), Rule(Do.DUPLICATE, api="JoinGroup"))
    client = scene.client()
    client.send(join())
    scene.do(scene.brokers.disconnect(client.number, scene.now_ms))
    scene.wait(500)
    (seen,) = scene.exchanges("ConsumerGroupHeartbeat")
    assert (seen.answered_ms, seen.response.member_epoch) == (None, 2)
    other = scene.client()
    other.send(join_classic("somebody"), 3)
    scene.do(scene.brokers.disconnect(other.number, scene.now_ms))
    assert len(scene.exchanges("JoinGroup")) == 1


def test_a_topic_is_found_by_its_id_whatever_name_comes_with_it() -> None:
    """Java sends an empty name with the id; an id that is not known is told as such."""
    client = Scene(topics={"foo": 4}).client()
    (known,) = client.ask(m.MetadataRequest((m.MetadataRequestTopic(name="foo"),))).topics
    unknown = "BBBBBBBBBBBBBBBBBBBBBQ"
    wanted = tuple(
        m.MetadataRequestTopic(topic_id, name) for topic_id in (known.topic_id, unknown) for name in ("", None)
    )
    found = client.ask(m.MetadataRequest(wanted)).topics
    assert [(one.error_code, one.name) for one in found] == [
        (ErrorCode.NONE, "foo"),
        (ErrorCode.NONE, "foo"),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
    ]
