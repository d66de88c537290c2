"""The adapter of our own member, on sockets."""

from __future__ import annotations

import time
from typing import Any

from common import commands, options, say

from fsm.join import MessageConsumer, ReadingOptions
from fsm.member import ClassicConfig, ConsumerConfig, ConsumerRebalanceListener, SubscriptionPattern
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE

REQUEST_TIMEOUT_MS = 4_000

o = options()
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
        say("assign", partitions)
        time.sleep(o.assign_delay_ms / 1000)
        say("assigned", partitions)

    def on_partitions_revoked(self, partitions: Any) -> None:
        say("revoke", partitions)
        time.sleep(o.revoke_delay_ms / 1000)
        say("revoked", partitions)

    def on_partitions_lost(self, partitions: Any) -> None:
        say("lost", partitions)


def wanted(topics: str) -> Any:
    return SubscriptionPattern(topics) if topics.startswith("^") else topics.split(",")


def obey(line: str) -> None:
    global paused, going  # noqa: PLW0603
    verb, _, rest = line.partition(" ")
    if verb == "close":
        going = False
    elif verb in ("pause", "resume"):
        paused = verb == "pause"
    elif verb == "subscribe":
        consumer.subscribe(wanted(rest), Listener())
    elif verb == "unsubscribe":
        consumer.unsubscribe()
    else:
        say("error", error=f"unsupported: {line}")


told, paused, going = commands(), False, True
try:
    with MessageConsumer(o.bootstrap, config, reading=ReadingOptions(metadata_max_age_ms=3_000)) as consumer:
        consumer.subscribe(wanted(o.topics), Listener())
        while going:
            while not told.empty():
                obey(told.get())
            if paused:
                time.sleep(0.05)
            elif going:
                try:
                    consumer.poll(100)
                except Exception as problem:
                    say("error", error=str(problem) or type(problem).__name__)
                    time.sleep(0.2)
                    going &= o.protocol == "consumer"
except Exception as problem:
    say("error", error=str(problem) or type(problem).__name__)
say("close_end")
