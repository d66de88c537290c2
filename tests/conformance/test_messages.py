"""A real Apache Kafka answers our messages in every version, and refuses what we refuse: `make test-kafka`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_broker import RELEASE, STEPS, broker
from patience import PATIENCE_S
from produced_batches import SENT

from fsm.protocol import messages as m
from fsm.protocol.assignment import TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import move_batch
from fsm.wire.connection import Connection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("messages")]

DIFFERENT = {"Produce": (0, 13), "InitProducerId": (0, 5)}
"""Brokers announce versions of Produce that they refuse, and not the version of InitProducerId that is not stable."""
ANSWER_S = PATIENCE_S
MANY_BYTES = 1 << 20

GROUP_CONFIG = 32
REQUESTS: dict[str, Callable[[TopicId], Any]] = {
    "AddOffsetsToTxn": lambda _: m.AddOffsetsToTxnRequest("t", 1, 0, "g"),
    "ApiVersions": lambda _: m.ApiVersionsRequest("fsm", "1"),
    "ConsumerGroupDescribe": lambda _: m.ConsumerGroupDescribeRequest(("g",)),
    "ConsumerGroupHeartbeat": lambda _: m.ConsumerGroupHeartbeatRequest("g", "nobody", 1),
    "CreatePartitions": lambda _: m.CreatePartitionsRequest((m.CreatePartitionsTopic("none", 9),)),
    "CreateTopics": lambda _: m.CreateTopicsRequest((m.CreatableTopic("bar", 1, 1),), validate_only=True),
    "DeleteGroups": lambda _: m.DeleteGroupsRequest(("g",)),
    "DeleteTopics": lambda _: m.DeleteTopicsRequest((m.DeleteTopicState("none"),), ("none",)),
    "DescribeCluster": lambda _: m.DescribeClusterRequest(),
    "DescribeConfigs": lambda _: m.DescribeConfigsRequest((m.DescribeConfigsResource(GROUP_CONFIG, "g"),)),
    "DescribeGroups": lambda _: m.DescribeGroupsRequest(("g",)),
    "DescribeTopicPartitions": lambda _: m.DescribeTopicPartitionsRequest((m.TopicRequest("foo"),), 1),
    "EndTxn": lambda _: m.EndTxnRequest("t", 1, 0, True),
    "Fetch": lambda topic_id: fetch(topic_id, 0, 0),
    "FindCoordinator": lambda _: m.FindCoordinatorRequest(key="g", coordinator_keys=("g",)),
    "Heartbeat": lambda _: m.HeartbeatRequest("g", 1, "nobody"),
    "IncrementalAlterConfigs": lambda _: m.IncrementalAlterConfigsRequest(
        (m.AlterConfigsResource(GROUP_CONFIG, "g", (m.AlterableConfig("consumer.session.timeout.ms", 0, "50000"),)),)
    ),
    "InitProducerId": lambda _: m.InitProducerIdRequest(None, 60_000),
    "JoinGroup": lambda _: m.JoinGroupRequest(
        "g", 1, 1, "", protocol_type="consumer", protocols=(m.JoinGroupRequestProtocol("range", b""),)
    ),
    "LeaveGroup": lambda _: m.LeaveGroupRequest("g", (m.MemberIdentity("nobody"),), member_id="nobody"),
    "ListConfigResources": lambda _: m.ListConfigResourcesRequest(),
    "ListGroups": lambda _: m.ListGroupsRequest(),
    "ListOffsets": lambda _: m.ListOffsetsRequest(topics=(m.ListOffsetsTopic("foo", (m.ListOffsetsPartition(0),)),)),
    "Metadata": lambda _: m.MetadataRequest((m.MetadataRequestTopic(name="foo"),)),
    "OffsetCommit": lambda topic_id: m.OffsetCommitRequest(
        "g", topics=(m.OffsetCommitRequestTopic("foo", topic_id, (m.OffsetCommitRequestPartition(0, 5),)),)
    ),
    "OffsetDelete": lambda _: m.OffsetDeleteRequest("g", ()),
    "OffsetFetch": lambda topic_id: m.OffsetFetchRequest(
        "g",
        (m.OffsetFetchRequestTopics("foo", partition_indexes=(0,)),),
        (m.OffsetFetchRequestGroup("g", topics=(m.OffsetFetchRequestTopics("foo", topic_id, (0,)),)),),
    ),
    "OffsetForLeaderEpoch": lambda _: m.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(m.OffsetForLeaderTopic("foo", (m.OffsetForLeaderPartition(0),)),)
    ),
    "Produce": lambda topic_id: produce(SENT["plain"][0], topic_id),
    "SyncGroup": lambda _: m.SyncGroupRequest("g", 1, "nobody", protocol_type="consumer", protocol_name="range"),
    "TxnOffsetCommit": lambda topic_id: m.TxnOffsetCommitRequest(
        "t",
        "g",
        1,
        0,
        topics=(m.TxnOffsetCommitRequestTopic("foo", topic_id, (m.TxnOffsetCommitRequestPartition(0, 5),)),),
    ),
}
"""What anybody may ask; some of it is answered with an error."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A broker with a topic, and a connection to it."""
    with broker(tmp_path_factory.mktemp("messages"), STEPS) as (host, port):
        connection = Connection(host, port, "fsm", ANSWER_S)
        made = ask(connection, m.CreateTopicsRequest((m.CreatableTopic("foo", 3, 1),)), 7)
        assert made.topics[0].error_code is ErrorCode.NONE
        while ask(connection, REQUESTS["Metadata"](""), 13).topics[0].error_code is not ErrorCode.NONE:
            time.sleep(0.1)
        yield connection
        connection.close()


def ask(connection: Connection, request: Any, version: int) -> Any:
    """The answer."""
    connection.send(request, version=version)
    arrived = connection.receive(ANSWER_S)
    assert arrived is not None
    return arrived.response


def produce(data: bytes, topic_id: TopicId, partition: int = 0) -> m.ProduceRequest:
    """Sends a batch."""
    return m.ProduceRequest(
        topic_data=(m.TopicProduceData("foo", topic_id, (m.PartitionProduceData(partition, data),)),)
    )


def fetch(topic_id: TopicId, partition: int, offset: int) -> m.FetchRequest:
    """Asks for records."""
    wanted = m.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=MANY_BYTES)
    return m.FetchRequest(topics=(m.FetchTopic("foo", topic_id, (wanted,)),))


@pytest.mark.skipif(RELEASE != "4.4.0", reason="older releases lack the newest versions")
def test_a_broker_of_the_release_has_the_versions_that_are_known_here(kafka: Connection) -> None:
    """None more, none less."""
    answer = ask(kafka, m.ApiVersionsRequest("fsm", "1"), 5)
    announced = {key: (oldest, newest) for key, oldest, newest in answer.api_keys}
    for api in m.APIS.values():
        assert announced[api.key] == DIFFERENT.get(api.name, (api.oldest, api.newest)), api.name


@pytest.mark.parametrize("name", list(m.APIS))
def test_every_version_is_answered(kafka: Connection, name: str) -> None:
    """The broker understands each, and each of its answers is read to the last byte."""
    api = m.APIS[name]
    topic_id = ask(kafka, REQUESTS["Metadata"](""), 13).topics[0].topic_id
    announced = {key: newest for key, _, newest in ask(kafka, m.ApiVersionsRequest("fsm", "1"), 4).api_keys}
    for version in range(api.oldest, min(api.newest, announced[api.key]) + 1):
        assert type(ask(kafka, REQUESTS[name](topic_id), version)) is api.response


@pytest.mark.parametrize("what", list(SENT))
def test_batches_are_refused_as_here(kafka: Connection, what: str) -> None:
    """The answers of `check_produced` are those of the broker."""
    data, code = SENT[what]
    (topic,) = ask(kafka, produce(data, "", partition=1), 12).responses
    assert topic.partition_responses[0].error_code is code


def test_what_was_produced_is_fetched(kafka: Connection) -> None:
    """The broker has moved the batch, and changed nothing else."""
    topic_id = ask(kafka, REQUESTS["Metadata"](""), 13).topics[0].topic_id
    for offset in (0, 3):
        ask(kafka, produce(SENT["plain"][0], topic_id, partition=2), 13)
        wanted = m.FetchPartition(2, fetch_offset=offset, partition_max_bytes=MANY_BYTES)
        (topic,) = ask(
            kafka, m.FetchRequest(topics=(m.FetchTopic(topic_id=topic_id, partitions=(wanted,)),)), 18
        ).responses
        assert topic.partitions[0].records == move_batch(SENT["plain"][0], offset, 0)
