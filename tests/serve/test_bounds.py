"""What clients may make the brokers hold is bounded."""

from __future__ import annotations

import pytest
from serve_scene import Client, Scene

from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, read_batches, write_batch
from fsm.serve import topics
from fsm.serve.partition_logs import MOST_MADE, PartitionLog
from fsm.serve.timers import FEW


def batch(size: int) -> bytes:
    return write_batch(Batch.of((LogRecord(0, 1_000, None, bytes(size)),)))


def produce(client: Client, partition: int, data: bytes) -> m.PartitionProduceResponse:
    sent = m.TopicProduceData("foo", partition_data=(m.PartitionProduceData(partition, data),))
    found: m.PartitionProduceResponse = client.ask(m.ProduceRequest(topic_data=(sent,)), 9).responses[0][2][0]
    return found


def fetch(client: Client, *partitions: int, most: int = 1 << 30) -> tuple[m.PartitionData, ...]:
    wanted = tuple(m.FetchPartition(one, partition_max_bytes=most) for one in partitions)
    request = m.FetchRequest(max_wait_ms=0, max_bytes=most, topics=(m.FetchTopic("foo", partitions=wanted),))
    found: tuple[m.PartitionData, ...] = client.ask(request, 12).responses[0].partitions
    return found


def test_a_fetch_gives_a_megabyte_whatever_it_asks_for() -> None:
    client = Scene().client()
    for _ in range(8):
        assert produce(client, 0, batch(400_000)).error_code is ErrorCode.NONE
    (data,) = fetch(client, 0)
    assert len(list(read_batches(data.records or b""))) == 2
    assert sum(len(one.records or b"") for one in fetch(client, *[0] * 1_000)) < topics.MOST_FETCHED


def test_a_fetch_gives_one_batch_at_least_and_only_one() -> None:
    client = Scene().client()
    for partition in (0, 1):
        assert produce(client, partition, batch(1_000)).error_code is ErrorCode.NONE
    first, second = fetch(client, 0, 1, most=10)
    assert first.records
    assert not second.records


def test_a_batch_that_is_too_large_is_refused() -> None:
    client = Scene().client()
    assert produce(client, 0, batch(1_048_588)).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert produce(client, 0, batch(1_048_000)).error_code is ErrorCode.NONE


def test_each_partition_has_its_share_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "KEPT_IN_ALL", 40_000)
    client = Scene(topics={"foo": 4}).client()
    for partition in range(4):
        for _ in range(30):
            answer = produce(client, partition, batch(1_000))
            assert answer.error_code is ErrorCode.NONE
        assert answer.log_start_offset == 21
    for _ in range(3):
        codes = {produce(client, partition, batch(30_000)).error_code for partition in range(4)}
    assert codes == {ErrorCode.KAFKA_STORAGE_ERROR}
    client.ask(m.DeleteTopicsRequest((m.DeleteTopicState("foo"),)))
    client.ask(m.CreateTopicsRequest((m.CreatableTopic("foo", 1, 1),)))
    assert produce(client, 0, batch(1_000)).error_code is ErrorCode.NONE


def test_partitions_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_PARTITIONS_IN_ALL", 10)
    client = Scene(topics={"foo": 4}).client()
    wanted = tuple(m.CreatableTopic(name, 3, 1) for name in ("a", "b", "c"))
    made = client.ask(m.CreateTopicsRequest(wanted)).topics
    assert [one.error_code for one in made] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    grown = client.ask(m.CreatePartitionsRequest((m.CreatePartitionsTopic("a", 4),))).results
    assert [one.error_code for one in grown] == [ErrorCode.POLICY_VIOLATION]
    client.ask(m.DeleteTopicsRequest((m.DeleteTopicState("b"),)))
    grown = client.ask(m.CreatePartitionsRequest((m.CreatePartitionsTopic("a", 4),))).results
    assert [one.error_code for one in grown] == [ErrorCode.NONE]


def test_thousands_of_topics_in_one_request_are_written_down_once() -> None:
    scene = Scene(kept={})
    client = scene.client()
    wanted = tuple(m.CreatableTopic(f"t-{number}", 1, 1) for number in range(2_000))
    frame_effects = len(scene.replaced)
    made = client.ask(m.CreateTopicsRequest(wanted)).topics
    assert {one.error_code for one in made} == {ErrorCode.NONE}
    assert len(scene.replaced) == frame_effects + 1
    assert len(Scene(kept=scene.kept).brokers.cluster.topics.by_name) == 2_001


def test_records_that_are_made_up_take_no_memory_and_follow_from_their_offset() -> None:
    log = PartitionLog("foo", 3, 1_000.0, 2.0)
    log.grow(1_000.0 + 86_400_000)
    assert (log.start_offset, log.end_offset) == (172_800 - MOST_MADE, 172_800)
    assert log.batches == []
    (read,) = read_batches(log.read(170_000, 1 << 20))
    assert (read.records[0].offset, read.records[0].value) == (170_000, b"foo-3-170000")
    assert read.records[0].timestamp_ms == 1_000 + 170_001 * 500
    for offset in (log.start_offset, 170_000, 172_799):
        time_ms = 1_000 + (offset + 1) * 500
        assert log.find_time(time_ms) == log.find_time(time_ms - 499) == (offset, time_ms)
    assert log.find_time(0) == (log.start_offset, 1_000 + (log.start_offset + 1) * 500)
    assert log.find_time(1 << 60) == (-1, -1)
    assert log.append(batch(10)) == (ErrorCode.NONE, 172_800)
    assert log.newest() == (172_800, 1_000)
    log.grow(1_000.0 + 2 * 86_400_000)
    assert log.end_offset == 172_801


def test_timers_that_were_called_off_take_no_room() -> None:
    scene = Scene()
    client = scene.client()
    wanted = m.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    waits = m.FetchRequest(max_wait_ms=(1 << 31) - 1, min_bytes=1, topics=(m.FetchTopic("foo", partitions=(wanted,)),))
    for _ in range(1_000):
        other = scene.client("waits")
        assert other.ask(waits, 12) is None
        scene.do(scene.brokers.disconnect(other.number, scene.now_ms))
    assert len(scene.brokers._timers) <= 2 * FEW
    other = scene.client("waits")
    assert other.ask(waits, 12) is None
    for _ in range(500):
        produce(client, 1, batch(1))
    assert len(scene.brokers._timers) <= 2 * FEW
    assert other.take() is None


def test_groups_are_not_made_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsm.serve import coordinators  # noqa: PLC0415

    monkeypatch.setattr(coordinators, "MOST_STORED", 5_000)
    client = Scene().client()

    def commit(group: str) -> ErrorCode:
        place = m.OffsetCommitRequestPartition(0, 1, committed_metadata="x" * 500)
        topics = (m.OffsetCommitRequestTopic("foo", partitions=(place,)),)
        answer = client.ask(m.OffsetCommitRequest(group, topics=topics), 9)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    codes = [commit(f"g-{number}") for number in range(20)]
    assert codes[0] is ErrorCode.NONE
    assert codes[-1] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    joins = m.ConsumerGroupHeartbeatRequest("new", "m", 0, None, None, 60_000, ("foo",), topic_partitions=())
    assert client.ask(joins).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.ask(m.ConsumerGroupHeartbeatRequest("new", "m", 3)).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    gone = client.ask(m.DeleteGroupsRequest(tuple(f"g-{number}" for number in range(20)))).results
    assert {one.error_code for one in gone} == {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
