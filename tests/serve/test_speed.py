"""What a heartbeat costs does not grow with groups, members, connections or what waits: counted in function calls."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from serve_scene import Client, Scene

from fsm.protocol import messages as m
from fsm.protocol.codec import encode_request
from fsm.protocol.record_batches import Batch, LogRecord, write_batch

MOST_CALLS = 200
"""Calls of Python and C functions for a heartbeat with no news, from its frame to that of its answer."""


def join(client: Client, group: str, member: str) -> int:
    wants = m.ConsumerGroupHeartbeatRequest(group, member, 0, None, None, 60_000, ("foo",), topic_partitions=())
    epoch: int = client.ask(wants).member_epoch
    return epoch


def settle(client: Client, joined: dict[tuple[str, str], int]) -> None:
    """Everybody knows the last epoch and owns what it should."""
    for _ in range(3):
        client.scene.wait(1_100)
        for (group, member), epoch in joined.items():
            owned = None
            for _ in range(3):
                beat = m.ConsumerGroupHeartbeatRequest(group, member, epoch, topic_partitions=owned)
                answer = client.ask(beat)
                epoch, owned = answer.member_epoch, answer.assignment  # noqa: PLW2901
            joined[group, member] = epoch


def calls_of(scene: Scene, client: Client, frame: bytes) -> int:
    """Calls that one frame takes."""
    found = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    scene.now_ms += 1
    sys.setprofile(count)
    effects = scene.brokers.receive(client.number, frame, scene.now_ms)
    scene.brokers.next_deadline_ms()
    sys.setprofile(None)
    assert len(effects) == 1
    return found


@pytest.mark.parametrize(("members", "groups", "waiting"), [(1, 1, 0), (300, 1, 0), (300, 100, 0), (1, 1, 500)])
def test_a_heartbeat_costs_the_same_everywhere(members: int, groups: int, waiting: int) -> None:
    scene = Scene(topics={"foo": 8})
    client = scene.client()
    names = [(f"group-{number % groups}", f"member-{number}") for number in range(members)]
    joined = {name: join(client, *name) for name in names}
    settle(client, joined)
    for _ in range(waiting):
        other = scene.client()
        wanted = m.FetchPartition(0, partition_max_bytes=1 << 20)
        assert (
            other.ask(
                m.FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=(m.FetchTopic("foo", partitions=(wanted,)),)),
                12,
            )
            is None
        )
    (group, member), epoch = next(iter(joined.items()))
    frame = encode_request(m.ConsumerGroupHeartbeatRequest(group, member, epoch), 1, 7, "A")
    calls_of(scene, client, frame)
    assert calls_of(scene, client, frame) <= MOST_CALLS


def test_a_producer_wakes_only_those_who_wait_for_its_topic() -> None:
    scene = Scene(topics={"foo": 8, "bar": 1})
    client = scene.client()
    records = write_batch(Batch.of((LogRecord(0, 1_000, None, b"x"),)))
    sent = m.TopicProduceData("bar", partition_data=(m.PartitionProduceData(0, records),))
    frame = encode_request(m.ProduceRequest(topic_data=(sent,)), 9, 7, "A")
    calls_of(scene, client, frame)
    alone = calls_of(scene, client, frame)
    wanted = m.FetchPartition(0, partition_max_bytes=1 << 20)
    waits = m.FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=(m.FetchTopic("foo", partitions=(wanted,)),))
    others = [scene.client() for _ in range(100)]
    assert [other.ask(waits, 12) for other in others] == [None] * 100
    assert calls_of(scene, client, frame) <= alone + 2 * len(others)
    client.ask(m.ProduceRequest(topic_data=(sent._replace(name="foo"),)), 9)
    assert all(other.take() is not None for other in others)
