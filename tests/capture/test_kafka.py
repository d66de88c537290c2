"""Real clients behind the proxy, in front of a real Apache Kafka."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from patience import PATIENCE_S, wait_until

from fsm.kit import Grade, judge
from fsm.wire import Exchange

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import kafka_broker
from capturing import Capture

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("capture")]


def test_clients_of_a_real_kafka_notice_nothing(tmp_path: Path) -> None:
    """Records are made and read, groups of both protocols share a topic; what librdkafka does, keeps the MUSTs."""
    with kafka_broker.broker(tmp_path, kafka_broker.TIME) as (host, port):
        capture = Capture(f"{host}:{port}", tmp_path / "trace.jsonl")
        settings = {"bootstrap.servers": capture.bootstrap}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("foo", 4, 1)])["foo"].result(PATIENCE_S)
        producer = Producer(settings)
        for number in range(100):
            producer.produce("foo", str(number))
        assert producer.flush(PATIENCE_S) == 0
        read: set[tuple[str, bytes]] = set()
        consumers: list[tuple[str, Consumer]] = []
        for protocol in ("consumer", "classic"):
            for number in range(2):
                group = {"group.id": protocol, "group.protocol": protocol, "client.id": f"{protocol}-{number}"}
                consumer = Consumer({**settings, **group, "auto.offset.reset": "earliest"})
                consumer.subscribe(["foo"])
                consumers.append((protocol, consumer))

        def poll() -> None:
            for protocol, consumer in consumers:
                record = consumer.poll(0.05)
                if record and not record.error():
                    read.add((protocol, record.value() or b""))

        shared = [2, 2, 2, 2]
        wait_until(lambda: len(read) >= 200 and [len(one.assignment()) for _, one in consumers] == shared, poll)
        for _, consumer in consumers:
            consumer.close()
        seen = capture.stop()
    apis = {one.api for one in seen if isinstance(one, Exchange)}
    assert {"Produce", "Fetch", "ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup", "OffsetCommit"} <= apis
    assert all(one.request is not None for one in seen if isinstance(one, Exchange))
    # On a busy machine a thread of librdkafka learns late that it is to fetch a partition no more.
    assert set(judge(seen).list_failed(Grade.MUST)) <= {"F2"}
