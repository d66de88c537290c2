"""The adapter of confluent-kafka (librdkafka)."""

from __future__ import annotations

from typing import Any

from common import call_back, drive, o, print_line
from confluent_kafka import Consumer

settings: dict[str, Any] = {
    "bootstrap.servers": o.bootstrap,
    "group.id": o.group,
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 1_000,
    "max.poll.interval.ms": o.max_poll_ms,
    "topic.metadata.refresh.interval.ms": 3_000,
    "error_cb": lambda error: print_line("error", error=str(error)),
    "log_level": 0,
}
if o.protocol == "consumer":
    settings["group.protocol"] = "consumer"
    if o.assignor:
        settings["group.remote.assignor"] = o.assignor
else:
    settings |= {
        "session.timeout.ms": min(o.session_ms, o.max_poll_ms),
        "heartbeat.interval.ms": 1_000,
        "partition.assignment.strategy": o.assignor or "range",
    }
if o.instance:
    settings["group.instance.id"] = o.instance


def make_callback(event: str) -> Any:
    return lambda _consumer, partitions: call_back(event, [(one.topic, one.partition) for one in partitions])


def subscribe(topics: str) -> None:
    consumer.subscribe(
        topics.split(","),
        on_assign=make_callback("assign"),
        on_revoke=make_callback("revoke"),
        on_lost=make_callback("lost"),
    )


def poll() -> None:
    message = consumer.poll(0.1)
    if message is not None and message.error():
        print_line("error", error=message.error())


consumer = Consumer(settings)
subscribe(o.topics)
drive(
    poll,
    {
        "subscribe": subscribe,
        "unsubscribe": lambda _: consumer.unsubscribe(),
        "commit": lambda _: consumer.commit(asynchronous=False),
    },
)
consumer.close()
print_line("close_end")
