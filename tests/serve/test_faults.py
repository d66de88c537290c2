"""Scripted faults: what each does to a request, and to which requests."""

from __future__ import annotations

from typing import Any

import pytest
from serve_scene import Client, Scene

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.codec import decode_response, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, write_batch
from fsm.serve.faults import ALWAYS, Do, Rule, read_rules
from fsm.serve.refusals import refusal
from fsm.serve.requests import NOT_SUPPORTED

JOIN = m.ConsumerGroupHeartbeatRequest(
    "g", "m-1", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("foo",), topic_partitions=()
)
BEAT = m.ConsumerGroupHeartbeatRequest("g", "m-1", 2)
OF_HEARTBEATS = "ConsumerGroupHeartbeat"


def joined(*rules: Rule) -> tuple[Scene, Client]:
    """A member, and rules from now on."""
    scene = Scene()
    client = scene.client()
    assert client.ask(JOIN).member_epoch == 2
    scene.rules.extend(rules)
    return scene, client


def test_refused() -> None:
    scene, client = joined(Rule(Do.REFUSE, ErrorCode.FENCED_MEMBER_EPOCH, api=OF_HEARTBEATS, name="fence it"))
    assert client.ask(BEAT).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert client.ask(BEAT).error_code is ErrorCode.NONE
    assert [one.fault for one in scene.exchanges(OF_HEARTBEATS)] == ["", "fence it", ""]


def test_lost_the_leave_is_handled_and_the_connection_closed() -> None:
    scene, client = joined(Rule(Do.LOSE))
    assert client.ask(m.ConsumerGroupHeartbeatRequest("g", "m-1", -1)) is None
    assert client.is_closed
    lost = scene.exchanges(OF_HEARTBEATS)[-1]
    assert (lost.answered_ms, lost.response.member_epoch) == (None, -1)
    assert scene.client().ask(BEAT).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_mute_handles_and_swallow_does_not_and_neither_answers_any_more() -> None:
    for do, code in ((Do.MUTE, ErrorCode.UNKNOWN_MEMBER_ID), (Do.SWALLOW, ErrorCode.NONE)):
        scene, client = joined(Rule(do))
        assert client.ask(m.ConsumerGroupHeartbeatRequest("g", "m-1", -1)) is None
        assert client.ask(BEAT) is None
        scene.wait(1_000)
        assert client.take() is None
        assert not client.is_closed
        assert scene.client().ask(BEAT).error_code is code


def test_delayed_before_it_is_handled_or_after() -> None:
    for do, code in ((Do.DELAY, ErrorCode.NONE), (Do.DELAY_ANSWER, ErrorCode.UNKNOWN_MEMBER_ID)):
        scene, client = joined(Rule(do, ms=500))
        client.send(m.ConsumerGroupHeartbeatRequest("g", "m-1", -1))
        assert scene.client().ask(BEAT).error_code is code
        scene.wait(499)
        assert client.take() is None
        scene.wait(1)
        assert client.take().member_epoch == -1


def test_closed_before_it_is_handled() -> None:
    scene, client = joined(Rule(Do.CLOSE))
    assert client.ask(m.ConsumerGroupHeartbeatRequest("g", "m-1", -1)) is None
    assert client.is_closed
    assert scene.client().ask(BEAT).error_code is ErrorCode.NONE


def test_a_duplicate_is_handled_twice_and_answered_once() -> None:
    scene = Scene(Rule(Do.DUPLICATE, api="Produce"))
    client = scene.client()
    data = m.PartitionProduceData(0, _one_record())
    client.ask(m.ProduceRequest(topic_data=(m.TopicProduceData("foo", partition_data=(data,)),)), 9)
    assert client.take() is None
    listed = client.ask(m.ListOffsetsRequest(topics=(m.ListOffsetsTopic("foo", (m.ListOffsetsPartition(0),)),)))
    assert listed.topics[0].partitions[0].offset == 2


def _one_record() -> bytes:
    return write_batch(Batch(0, (LogRecord(0, 1, None, b"x"),), 0, 0, -1, -1, -1, 0, 1, 1))


def test_a_field_of_the_answer_is_replaced() -> None:
    _, client = joined(Rule(Do.REWRITE, fields={"heartbeat_interval_ms": 77}, times=ALWAYS))
    assert [client.ask(BEAT).heartbeat_interval_ms for _ in range(3)] == [77, 77, 77]


def test_throttled_the_connection_waits() -> None:
    scene, client = joined(Rule(Do.THROTTLE, ms=400))
    assert client.ask(BEAT).throttle_time_ms == 400
    client.send(BEAT)
    scene.wait(399)
    assert client.take() is None
    scene.wait(1)
    assert client.take().throttle_time_ms == 0


def test_paused_brokers_answer_nobody_and_their_timers_stand_still() -> None:
    scene, client = joined(Rule(Do.DELAY, ms=1_000, client="C"), Rule(Do.PAUSE, ms=8_000, client="A"))
    delayed, waiting, other = (scene.client(name) for name in "CDB")
    delayed.send(m.MetadataRequest())
    wanted = m.FetchTopic("foo", partitions=(m.FetchPartition(0, partition_max_bytes=1_000),))
    waiting.send(m.FetchRequest(max_wait_ms=500, min_bytes=1, topics=(wanted,)), 12)
    client.send(BEAT)
    other.send(m.MetadataRequest())
    everybody = (client, delayed, waiting, other)
    scene.wait(5_000)
    scene.brokers.pause(4_000, scene.now_ms)
    scene.wait(3_999)
    assert [one.take() for one in everybody] == [None] * 4
    assert scene.notes("removed") == []
    scene.wait(1)
    assert None not in [one.take() for one in everybody]


@pytest.mark.parametrize(
    ("request_", "version", "rule"),
    [
        (m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup("g", "m", 5),)), 9, Rule(Do.CLOSE, group="g")),
        (m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup("g", "m", 5),)), 9, Rule(Do.CLOSE, epoch=5)),
        (m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup("g", "m", 5),)), 9, Rule(Do.CLOSE, member="m")),
        (m.DescribeGroupsRequest(("x", "g")), 6, Rule(Do.CLOSE, group="g")),
        (m.FindCoordinatorRequest(key="g"), 3, Rule(Do.CLOSE, group="g")),
        (m.FindCoordinatorRequest(coordinator_keys=("g",)), 4, Rule(Do.CLOSE, group="g")),
        (m.LeaveGroupRequest("g", members=(m.MemberIdentity("m"),)), 5, Rule(Do.CLOSE, member="m")),
        (
            m.ProduceRequest(topic_data=(m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(2, b""),)),)),
            9,
            Rule(Do.CLOSE, partition=("foo", 2)),
        ),
    ],
)
def test_conditions_know_where_each_request_names_what(request_: Any, version: int, rule: Rule) -> None:
    scene = Scene(rule)
    client = scene.client()
    client.send(request_, version)
    assert client.is_closed


def test_expired_before_it_is_handled() -> None:
    scene, client = joined(Rule(Do.EXPIRE))
    assert client.ask(BEAT).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.notes("removed")[0].about == {"group": "g", "member": "m-1"}


def test_moved_before_it_is_handled() -> None:
    scene = Scene(brokers=2)
    client = scene.client(broker=scene.brokers.cluster.coordinators.leader_of("g"))
    client.ask(JOIN)
    scene.rules.append(Rule(Do.MOVE))
    assert client.ask(BEAT).error_code is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        (Rule(Do.REFUSE, client="A"), [1]),
        (Rule(Do.REFUSE, client="B"), []),
        (Rule(Do.REFUSE, api="Heartbeat"), []),
        (Rule(Do.REFUSE, group="g", member="m-1", times=2), [1, 2]),
        (Rule(Do.REFUSE, nth=2), [2]),
        (Rule(Do.REFUSE, nth=2, times=2), [2, 3]),
        (Rule(Do.REFUSE, epoch=2), [1]),
        (Rule(Do.REFUSE, epoch=3), []),
        (Rule(Do.REFUSE, full=True), [4]),
        (Rule(Do.REFUSE, full=False, times=ALWAYS), [1, 2, 3]),
        (Rule(Do.REFUSE, partition=("foo", 1)), [4]),
        (Rule(Do.REFUSE, partition=("foo", 2)), []),
        (Rule(Do.REFUSE, version=0), []),
        (Rule(Do.REFUSE, after_ms=150), [3]),
    ],
)
def test_what_a_rule_meets(rule: Rule, met: list[int]) -> None:
    rule.code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    scene, client = joined(rule)
    owned = ((scene.brokers.cluster.topics.by_name["foo"].topic_id, (0, 1)),)
    full = m.ConsumerGroupHeartbeatRequest(
        "g", "m-1", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=("foo",), topic_partitions=owned
    )
    found = []
    for number, request in enumerate((BEAT, BEAT, BEAT, full), 1):
        if client.ask(request).error_code is rule.code:
            found.append(number)
        scene.wait(100)
    assert found == met


def test_every_request_can_be_refused() -> None:
    """The answer is one that the codec can write, and its error stands somewhere in it."""
    context = Scene().brokers.cluster.coordinators.context
    for name, api in sorted(m.APIS.items()):
        if name in NOT_SUPPORTED:
            continue
        request = REQUESTS.get(name) or _bare(api.request)
        for version in range(api.oldest, api.newest + 1):
            response = refusal(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context)
            _, read = decode_response(api.response, encode_response(response, version, 1), version)
            assert "CLUSTER_AUTHORIZATION_FAILED" in repr(read), (name, version)


REQUESTS = {
    "ConsumerGroupDescribe": m.ConsumerGroupDescribeRequest(("g",)),
    "CreatePartitions": m.CreatePartitionsRequest((m.CreatePartitionsTopic("foo", 3),)),
    "CreateTopics": m.CreateTopicsRequest((m.CreatableTopic("foo", 1, 1),)),
    "DeleteGroups": m.DeleteGroupsRequest(("g",)),
    "DeleteTopics": m.DeleteTopicsRequest((m.DeleteTopicState("foo"),), ("foo",)),
    "DescribeConfigs": m.DescribeConfigsRequest((m.DescribeConfigsResource(2, "foo"),)),
    "DescribeGroups": m.DescribeGroupsRequest(("g",)),
    "DescribeTopicPartitions": m.DescribeTopicPartitionsRequest((m.TopicRequest("foo"),)),
    "Fetch": m.FetchRequest(topics=(m.FetchTopic("foo", partitions=(m.FetchPartition(0),)),)),
    "FindCoordinator": m.FindCoordinatorRequest(key="g", coordinator_keys=("g",)),
    "IncrementalAlterConfigs": m.IncrementalAlterConfigsRequest((m.AlterConfigsResource(32, "g", ()),)),
    "InitProducerId": m.InitProducerIdRequest(None, 1),
    "JoinGroup": m.JoinGroupRequest("g", 1, 1, "", protocol_type="consumer", protocols=()),
    "ListOffsets": m.ListOffsetsRequest(topics=(m.ListOffsetsTopic("foo", (m.ListOffsetsPartition(0),)),)),
    "Metadata": m.MetadataRequest((m.MetadataRequestTopic(name="foo"),)),
    "OffsetCommit": m.OffsetCommitRequest(
        "g", topics=(m.OffsetCommitRequestTopic("foo", partitions=(m.OffsetCommitRequestPartition(0, 1),)),)
    ),
    "OffsetDelete": m.OffsetDeleteRequest("g", ()),
    "OffsetFetch": m.OffsetFetchRequest(
        "g", (m.OffsetFetchRequestTopics("foo", partition_indexes=(0,)),), (m.OffsetFetchRequestGroup("g"),)
    ),
    "OffsetForLeaderEpoch": m.OffsetForLeaderEpochRequest(
        topics=(m.OffsetForLeaderTopic("foo", (m.OffsetForLeaderPartition(0),)),)
    ),
    "Produce": m.ProduceRequest(
        topic_data=(m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(0, b""),)),)
    ),
    "Heartbeat": m.HeartbeatRequest("g", 1, "m"),
    "SyncGroup": m.SyncGroupRequest("g", 1, "m"),
    "LeaveGroup": m.LeaveGroupRequest("g", "m"),
    "ConsumerGroupHeartbeat": JOIN,
}


def _bare(request: type) -> object:
    return request()


def test_rules_are_read_from_yaml() -> None:
    rules = read_rules(
        """
        - refuse: UNKNOWN_MEMBER_ID
          api: ConsumerGroupHeartbeat
          client: A
          epoch: 2
          partition: my-topic-12
        - lose: yes
          full: no
          nth: 3
          times: always
          name: the answer is lost
        - delay_ms: 500
          after_ms: 1000
        - rewrite: {heartbeat_interval_ms: 3000, error_code: FENCED_MEMBER_EPOCH, error_message: no}
          api: ConsumerGroupHeartbeat
        """.replace("error_message: no}", 'error_message: "no"}'),
        "faults.yaml",
    )
    assert rules == [
        Rule(
            Do.REFUSE, ErrorCode.UNKNOWN_MEMBER_ID, api=OF_HEARTBEATS, client="A", epoch=2, partition=("my-topic", 12)
        ),
        Rule(Do.LOSE, full=False, nth=3, times=ALWAYS, name="the answer is lost"),
        Rule(Do.DELAY, ms=500, after_ms=1000),
        Rule(
            Do.REWRITE,
            fields={
                "heartbeat_interval_ms": 3000,
                "error_code": ErrorCode.FENCED_MEMBER_EPOCH,
                "error_message": "no",
            },
            api=OF_HEARTBEATS,
        ),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- refuse: UNKNOWN_MEMBER", "f.yaml:1: unknown error 'UNKNOWN_MEMBER'; did you mean UNKNOWN_MEMBER_ID?"),
        ("- lose: yes\n  epcoh: 2", "f.yaml:2: unknown key 'epcoh'; did you mean epoch?"),
        ("- lose: yes\n  api: Hearbeat", "f.yaml:2: unknown API 'Hearbeat'; did you mean Heartbeat?"),
        ("- api: Heartbeat", "f.yaml:1: a rule has to do something; one of refuse"),
        ("- lose: yes\n  mute: yes", "f.yaml:1: a rule does one thing"),
        ("- lose: no", "f.yaml:1: lose: no does nothing"),
        ("- delay_ms: 0", "f.yaml:1: takes 1 to 2147483647 ms"),
        ("- lose: yes\n  times: 0", "f.yaml:2: 0 is too small"),
        ("- lose: yes\n  partition: foo", "f.yaml:2: 'foo' is not a partition"),
        ("- rewrite: {member_epoch: 3}", "f.yaml:1: the key 'api' is missing"),
        ("- rewrite: {epoch: 3}\n  api: ConsumerGroupHeartbeat", "f.yaml:1: answers of ConsumerGroupHeartbeat have no"),
        ("- rewrite: {member_epoch: x}\n  api: ConsumerGroupHeartbeat", "f.yaml:1: member_epoch cannot be 'x'"),
        ("- rewrite: {member_epoch: ~}\n  api: ConsumerGroupHeartbeat", "f.yaml:1: member_epoch cannot be null"),
        ("lose: yes", "f.yaml:1: must be a list"),
        ("- lose: yes\n  api: Heartbeat\n  full: yes", "f.yaml:3: requests of Heartbeat cannot be full"),
        ("- expire: yes\n  api: Metadata", "f.yaml:1: requests of Metadata have no group"),
        ("- lose: yes\n  api: Heartbeat\n  version: 99", "f.yaml:3: no version 99 of Heartbeat"),
        ("- refuse: NONE", "f.yaml:1: unknown error 'NONE'"),
        (
            "- rewrite: {heartbeat_interval_ms: 99999999999}\n  api: ConsumerGroupHeartbeat",
            "f.yaml:1: heartbeat_interval_ms cannot be 99999999999: it has 32 bits",
        ),
        ("- throttle_ms: 99999999999", "f.yaml:1: takes 1 to 2147483647 ms"),
        ("- [", "f.yaml:1: not YAML"),
        (f"- rewrite: {{leader: {'x' * 32_768}}}\n  api: JoinGroup", "f.yaml:1: leader is too long"),
        ("- rewrite: {protocol_name: ~}\n  api: JoinGroup", "f.yaml:1: protocol_name cannot be null before version 7"),
    ],
)
def test_a_rule_that_is_none_is_named(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_rules(text, "f.yaml")
    assert str(refused.value).startswith(words)
