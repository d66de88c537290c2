"""The adapter of confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

from common import commands, options, say
from confluent_kafka import Consumer, KafkaException

o = options()
settings: dict[str, Any] = {
    "bootstrap.servers": o.bootstrap,
    "group.id": o.group,
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 1_000,
    "max.poll.interval.ms": o.max_poll_ms,
    "topic.metadata.refresh.interval.ms": 3_000,
    "error_cb": lambda error: say("error", error=str(error)),
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


def pairs(partitions: Any) -> list[tuple[str, int]]:
    return [(one.topic, one.partition) for one in partitions]


def on_assign(_consumer: Consumer, partitions: Any) -> None:
    say("assign", pairs(partitions))
    time.sleep(o.assign_delay_ms / 1000)
    say("assigned", pairs(partitions))


def on_revoke(_consumer: Consumer, partitions: Any) -> None:
    say("revoke", pairs(partitions))
    time.sleep(o.revoke_delay_ms / 1000)
    say("revoked", pairs(partitions))


def on_lost(_consumer: Consumer, partitions: Any) -> None:
    say("lost", pairs(partitions))


def subscribe(topics: str) -> None:
    consumer.subscribe(topics.split(","), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)


consumer, told, paused, going = Consumer(settings), commands(), False, True
subscribe(o.topics)
while going:
    while not told.empty():
        verb, _, rest = told.get().partition(" ")
        try:
            if verb == "close":
                going = False
            elif verb in ("pause", "resume"):
                paused = verb == "pause"
            elif verb == "subscribe":
                subscribe(rest)
            elif verb == "unsubscribe":
                consumer.unsubscribe()
            elif verb == "commit":
                consumer.commit(asynchronous=False)
        except KafkaException as problem:
            say("error", error=str(problem))
    if paused:
        time.sleep(0.05)
    elif going:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            say("error", error=str(message.error()))
consumer.close()
say("close_end")
