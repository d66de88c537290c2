"""The adapter of our own member, on sockets."""

from __future__ import annotations

from typing import Any

from common import call_back, drive, o, print_line

from fsm.join import MessageConsumer, ReadingOptions
from fsm.member import ClassicConfig, ConsumerConfig, ConsumerRebalanceListener, SubscriptionPattern
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE

REQUEST_TIMEOUT_MS = 4_000

common: dict[str, Any] = {
    "client_id": "fsm",
    "group_instance_id": o.instance or None,
    "max_poll_interval_ms": o.max_poll_ms,
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
    "auto_commit_interval_ms": 1_000,
}
config = (
    ConsumerConfig(o.group, group_remote_assignor=o.assignor or None, **common)
    if o.protocol == "consumer"
    else ClassicConfig(
        o.group,
        session_timeout_ms=o.session_ms,
        heartbeat_interval_ms=1_000,
        assignors=(COOPERATIVE_STICKY,) if "cooperative" in o.assignor else (RANGE,),
        **common,
    )
)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, partitions: Any) -> None:
        call_back("assign", partitions)

    def on_partitions_revoked(self, partitions: Any) -> None:
        call_back("revoke", partitions)

    def on_partitions_lost(self, partitions: Any) -> None:
        call_back("lost", partitions)


def subscribe(topics: str) -> None:
    to = SubscriptionPattern(topics) if topics.startswith("^") else topics.split(",")
    consumer.subscribe(to, Listener())


try:
    with MessageConsumer(o.bootstrap, config, reading=ReadingOptions(metadata_max_age_ms=3_000)) as consumer:
        subscribe(o.topics)
        drive(
            lambda: consumer.poll(100),
            {"subscribe": subscribe, "unsubscribe": lambda _: consumer.unsubscribe()},
            goes_on=o.protocol == "consumer",
        )
except Exception as problem:
    print_line("error", error=problem)
print_line("close_end")
