"""Real clients behind the proxy, in front of our own broker: all that they say is seen, and they notice nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capturing import Capture
from confluent_kafka import Consumer
from patience import PATIENCE_S, wait_until

from fsm.kit import Grade, judge
from fsm.testing.broker import LiveBroker
from fsm.wire import Exchange, Note

AIOKAFKA = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer

async def run():
    consumer = AIOKafkaConsumer("foo", bootstrap_servers=sys.argv[1], group_id="g-aio", client_id="aio")
    await consumer.start()
    while len(consumer.assignment()) < 4:
        await consumer.getmany(timeout_ms=100)
    await consumer.stop()

asyncio.run(run())
"""


@pytest.fixture
def capture(broker: LiveBroker, tmp_path: Path) -> Iterator[Capture]:
    running = Capture(broker.bootstrap, tmp_path / "trace.jsonl")
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.communicate()


def confluent(bootstrap: str, name: str, protocol: str) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"g-{protocol}",
        "client.id": name,
        "group.protocol": protocol,
    }
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["foo"])
    return consumer


def poll_until(is_so: Callable[[], bool], *consumers: Consumer) -> None:
    wait_until(is_so, lambda: [consumer.poll(0.05) for consumer in consumers])


def as_said(seen: list[Exchange | Note]) -> Counter[tuple[str | None, str, int, str]]:
    """Without what is compared elsewhere: answers that were rewritten."""
    return Counter(
        (one.client_id, one.api, one.version, repr(one.request)) for one in seen if isinstance(one, Exchange)
    )


@pytest.mark.deep
@pytest.mark.broker(topics={"foo": 4}, brokers=3)
def test_whatever_clients_say_is_seen(broker: LiveBroker, capture: Capture) -> None:
    """Two protocols on three brokers: what the brokers were asked is what the proxy saw, no client went past it."""
    consumers = [
        confluent(capture.bootstrap, f"{protocol}-{n}", protocol)
        for protocol in ("consumer", "classic")
        for n in (1, 2)
    ]
    poll_until(lambda: [len(one.assignment()) for one in consumers] == [2, 2, 2, 2], *consumers)
    broker.move("g-consumer")
    moved = time.monotonic() + 2
    poll_until(lambda: time.monotonic() > moved, *consumers)
    for consumer in consumers:
        consumer.close()
    subprocess.run([sys.executable, "-c", AIOKAFKA, capture.bootstrap], check=True, timeout=PATIENCE_S)
    seen = capture.stop()
    by_clients = as_said([one for one in broker.exchanges() if one.client_id != "fsm capture"])
    answered = [one for one in seen if isinstance(one, Exchange) and one.is_answered]
    assert as_said([*answered]) <= by_clients <= as_said(seen)
    assert len(answered) > 50
    opened = [note.about["to"] for note in seen if isinstance(note, Note) and note.event == "connected"]
    assert len(set(opened)) == 3
    # On a busy machine a thread of librdkafka learns late that it is to fetch a partition no more.
    assert set(judge(seen).list_failed(Grade.MUST)) <= {"F2"}
    assert "g-consumer: consumer-1 (" in capture.output
    assert "opaque" not in capture.output


@pytest.mark.broker(topics={"foo": 4})
def test_a_client_that_breaks_a_rule_is_told_while_it_runs(broker: LiveBroker, capture: Capture) -> None:
    """News come as they happen: that it was fenced, and that it asks for offsets without its member id."""
    consumer = confluent(capture.bootstrap, "app", "consumer")
    poll_until(lambda: len(consumer.assignment()) == 4, consumer)
    broker.refuse("FENCED_MEMBER_EPOCH", api="ConsumerGroupHeartbeat", times=1)
    read = time.monotonic() + 9
    poll_until(lambda: time.monotonic() > read, consumer)
    consumer.close()
    capture.stop()
    lines = capture.output.splitlines()
    ended = next(i for i, line in enumerate(lines) if " exchanges on " in line)
    assert any(
        "g-consumer: app (" in line and "is no member any more: fenced_member_epoch" in line for line in lines[:ended]
    )
    assert any(" app violates SHOULD C6: expected member " in line for line in lines[:ended])
    assert any(line.startswith("SHOULD C6") for line in lines[ended:])
