"""The adapter of kafka-python."""

from __future__ import annotations

import logging
from typing import Any

from common import call_back, drive, o, print_line
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

logging.disable(logging.CRITICAL)
if o.protocol == "consumer":
    print_line("error", error="kafka-python has no consumer groups")
    print_line("close_end")
    raise SystemExit


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Any) -> None:
        call_back("assign", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        call_back("revoke", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        call_back("lost", lost)


def subscribe(topics: str) -> None:
    consumer.subscribe(topics.split(","), listener=Listener())


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
subscribe(o.topics)
drive(
    lambda: consumer.poll(100),
    {
        "subscribe": subscribe,
        "unsubscribe": lambda _: consumer.unsubscribe(),
        "commit": lambda _: consumer.commit(),
    },
)
consumer.close()
print_line("close_end")
