"""The adapter of kafka-python."""

from __future__ import annotations

import logging
import time
from typing import Any

from common import commands, options, say
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

o = options()
logging.disable(logging.CRITICAL)
if o.protocol == "consumer":
    say("error", error="kafka-python has no consumer groups")
    say("close_end")
    raise SystemExit


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Any) -> None:
        say("assign", [tuple(one) for one in assigned])
        time.sleep(o.assign_delay_ms / 1000)
        say("assigned", [tuple(one) for one in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        say("revoke", [tuple(one) for one in revoked])
        time.sleep(o.revoke_delay_ms / 1000)
        say("revoked", [tuple(one) for one in revoked])

    def on_partitions_lost(self, lost: Any) -> None:
        say("lost", [tuple(one) for one in lost])


settings: dict[str, Any] = {"group_instance_id": o.instance} if o.instance else {}
consumer = KafkaConsumer(
    bootstrap_servers=o.bootstrap,
    group_id=o.group,
    auto_offset_reset="earliest",
    auto_commit_interval_ms=1_000,
    session_timeout_ms=min(o.session_ms, o.max_poll_ms),
    heartbeat_interval_ms=1_000,
    max_poll_interval_ms=o.max_poll_ms,
    metadata_max_age_ms=3_000,
    partition_assignment_strategy=[
        CooperativeStickyAssignor if "cooperative" in o.assignor else RangePartitionAssignor
    ],
    **settings,
)
consumer.subscribe(o.topics.split(","), listener=Listener())
told, paused, going = commands(), False, True
while going:
    while not told.empty():
        verb, _, rest = told.get().partition(" ")
        if verb == "close":
            going = False
        elif verb in ("pause", "resume"):
            paused = verb == "pause"
        elif verb == "subscribe":
            consumer.subscribe(rest.split(","), listener=Listener())
        elif verb == "unsubscribe":
            consumer.unsubscribe()
        elif verb == "commit":
            try:
                consumer.commit()
            except Exception as problem:
                say("error", error=repr(problem))
    if paused:
        time.sleep(0.05)
    elif going:
        try:
            consumer.poll(100)
        except Exception as problem:
            say("error", error=repr(problem))
            going = False
consumer.close()
say("close_end")
