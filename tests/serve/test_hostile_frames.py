"""Frames that were cut or changed: none of them harms the brokers, or anybody but who sent it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from serve_scene import Client, Scene

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.codec import decode, encode_request
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, write_batch
from tests.protocol.hostile_bytes import change, read_vectors

ASSIGNED = b"\0\1\0\0\0\1\0\3foo\0\0\0\0\0\0\0\0"
RECORDS = write_batch(Batch.of((LogRecord(0, 1_000, None, b"x"), LogRecord(1, 1_001, b"k", b"y"))))
GROUPS = ("g", "c", "none")
MEMBERS = ("m-1", "m-2", "")
RENEWED = 5_000
"""Frames that are sent before others are the ones that are changed."""
LARGE = 500
"""Partitions of a topic that is deleted again, since to tell of it takes most of the time."""
MOST, BESIDE = 300, 1_000_000
"""Bytes of memory for a byte of a frame, answer included, and beside that."""


def sensible(random: Random, names: tuple[str, ...]) -> Iterator[object]:
    """Requests that reach far into the brokers: of groups, members and topics that there are."""
    group, member, topic = random.choice(GROUPS), random.choice(MEMBERS), random.choice(("foo", "bar", "none"))
    epoch, partition = random.choice((-2, -1, 0, 1, 2, 3)), random.choice((0, 1, 99, -1))
    topic_id = random.choice(names)
    instance = random.choice((None, "i-1"))
    owned = random.choice((None, (), ((topic_id, (0, 1)),)))
    wants = random.choice((None, (), ("foo",), ("foo", "bar")))
    yield m.ConsumerGroupHeartbeatRequest(
        group, member, epoch, instance, None, 60_000, wants, random.choice((None, "", "f.*", "(")), None, owned
    )
    protocols = (m.JoinGroupRequestProtocol("range", ASSIGNED),)
    yield m.JoinGroupRequest(group, 10_000, 60_000, member, instance, "consumer", protocols)
    assigned = (m.SyncGroupRequestAssignment(member, ASSIGNED),)
    yield m.SyncGroupRequest(group, epoch, member, instance, "consumer", "range", assigned)
    yield m.HeartbeatRequest(group, epoch, member, instance)
    yield m.LeaveGroupRequest(group, members=(m.MemberIdentity(member, instance),))
    place = m.OffsetCommitRequestPartition(partition, 42)
    yield m.OffsetCommitRequest(group, epoch, member, topics=(m.OffsetCommitRequestTopic(topic, topic_id, (place,)),))
    fetched = m.OffsetFetchRequestTopics(topic, topic_id, (partition,))
    yield m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup(group, member, epoch, (fetched,)),))
    yield m.OffsetDeleteRequest(
        group, (m.OffsetDeleteRequestTopic(topic, (m.OffsetDeleteRequestPartition(partition),)),)
    )
    yield m.ConsumerGroupDescribeRequest((group, "none"))
    yield m.DescribeGroupsRequest((group, "none"))
    yield m.ListGroupsRequest(("Stable",), ("consumer",))
    yield m.DeleteGroupsRequest((group,))
    wanted = m.FetchPartition(partition, fetch_offset=epoch, partition_max_bytes=1 << 20)
    yield m.FetchRequest(max_wait_ms=500, topics=(m.FetchTopic(topic, topic_id, (wanted,)),))
    sent = m.TopicProduceData(topic, topic_id, (m.PartitionProduceData(partition, RECORDS),))
    yield m.ProduceRequest(topic_data=(sent,))
    yield m.ListOffsetsRequest(
        topics=(m.ListOffsetsTopic(topic, (m.ListOffsetsPartition(partition, timestamp=epoch),)),)
    )
    yield m.MetadataRequest((m.MetadataRequestTopic(topic_id, topic),))
    yield m.CreateTopicsRequest((m.CreatableTopic(topic, 3, 1),))
    yield m.CreatePartitionsRequest((m.CreatePartitionsTopic(topic, 5),))
    yield m.DeleteTopicsRequest((m.DeleteTopicState("bar"),))
    yield m.FindCoordinatorRequest(coordinator_keys=(group,))
    changes = (m.AlterableConfig("consumer.heartbeat.interval.ms", 0, "700"),)
    yield m.IncrementalAlterConfigsRequest((m.AlterConfigsResource(32, group, changes),))
    yield m.DescribeConfigsRequest((m.DescribeConfigsResource(32, group),))


class Hostile:
    """Brokers, a group that nobody else names, and whoever sends bytes to them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.scene = Scene(topics={"foo": 4, "bar": 2})
        self.names = (*self.scene.brokers.cluster.topics.names, "5fQzW2bJT0y3JmXG8vX1Aw")
        self.vectors = [one for one in read_vectors() if one.cls.__name__.endswith("Request")]
        self.good = self.scene.client("good")
        wants = m.ConsumerGroupHeartbeatRequest("quiet", "me", 0, None, None, 60_000, ("foo",), topic_partitions=())
        joined = self.good.ask(wants)
        self.epoch, self.owned = joined.member_epoch, joined.assignment
        self.client = self.scene.client("bad")
        self.ended = 0
        self.frames: list[bytes] = []
        self.drawn = 0

    def frame(self) -> bytes:
        """A frame that is changed, more often than not."""
        if self.drawn % RENEWED == 0:
            self.frames = [*self._well_formed()]
        self.drawn += 1
        frame = self.random.choice(self.frames)
        return frame if self.random.random() < 0.2 else change(frame, self.random.choice(self.frames), self.random)

    def _well_formed(self) -> Iterator[bytes]:
        for _ in range(RENEWED // 200):
            requests = [*sensible(self.random, self.names)]
            for request in requests:
                api = m.APIS[type(request).__name__.removesuffix("Request")]
                version = self.random.randint(api.oldest, api.newest)
                with suppress(InputError):  # an old version cannot say all of it
                    yield encode_request(request, version, 7, "bad")
            for vector in self.random.choices(self.vectors, k=len(requests)):
                yield encode_request(decode(vector.cls, vector.data, vector.version), vector.version, 7, "bad")

    def send(self, frame: bytes) -> None:
        """On a connection that is still open and free."""
        if self.client.is_closed or self.scene.brokers.count_waiting(self.client.number):
            self.ended += 1
            self.scene.do(self.scene.brokers.disconnect(self.client.number, self.scene.now_ms))
            del self.scene.answers[self.client.number]
            self.client = Client(self.scene, self.scene.client("bad").number, "bad")
        self.client.send_frame(frame)
        self.scene.answers[self.client.number].clear()

    def assert_others_are_served(self) -> None:
        """The member of the group that nobody else names stays in it, while topics come and go."""
        assert not self.good.is_closed
        topics = self.scene.brokers.cluster.topics.by_name
        for name in [name for name, topic in topics.items() if topic.partitions > LARGE]:
            self.scene.do(self.scene.brokers.change_topic(name, 0, self.scene.now_ms))
        answer = self.good.ask(m.ConsumerGroupHeartbeatRequest("quiet", "me", self.epoch, topic_partitions=self.owned))
        assert answer.error_code is ErrorCode.NONE
        self.epoch = answer.member_epoch
        self.owned = self.owned if answer.assignment is None else answer.assignment
        self.scene.seen.clear()


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        pytest.param(8_000, 1, id="8k"),
        pytest.param(20_000, 1, id="20k", marks=pytest.mark.deep),
        pytest.param(1_000_000, 2, id="1M", marks=pytest.mark.slow),
    ],
)
def test_changed_frames_end_at_most_their_own_connection(count: int, seed: int) -> None:
    hostile = Hostile(seed)
    for number in range(count):
        hostile.send(hostile.frame())
        if number % 100 == 0:
            hostile.scene.wait(50)
            hostile.assert_others_are_served()
    assert count // 10 < hostile.ended < count
    assert len(hostile.scene.brokers._connections) <= 2
    assert len(hostile.scene.brokers._asked) < 100


def test_changed_frames_take_no_more_memory_than_their_size_allows() -> None:
    hostile = Hostile(3)
    for _ in range(500):
        hostile.send(hostile.frame())
    for _ in range(1_500):
        frame = hostile.frame()
        tracemalloc.start()
        hostile.send(frame)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= MOST * len(frame) + BESIDE, frame.hex()
