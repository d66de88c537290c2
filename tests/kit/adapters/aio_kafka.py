"""The adapter of aiokafka."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from common import commands, options, say

o = options()
logging.disable(logging.CRITICAL)
if o.protocol == "consumer":
    say("error", error="aiokafka has no consumer groups")
    say("close_end")
    raise SystemExit


class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned: Any) -> None:
        say("assign", [tuple(one) for one in assigned])
        await asyncio.sleep(o.assign_delay_ms / 1000)
        say("assigned", [tuple(one) for one in assigned])

    async def on_partitions_revoked(self, revoked: Any) -> None:
        say("revoke", [tuple(one) for one in revoked])
        await asyncio.sleep(o.revoke_delay_ms / 1000)
        say("revoked", [tuple(one) for one in revoked])


async def main() -> None:
    settings: dict[str, Any] = {"group_instance_id": o.instance} if o.instance else {}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=o.bootstrap,
        group_id=o.group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        session_timeout_ms=min(o.session_ms, o.max_poll_ms),
        heartbeat_interval_ms=1_000,
        max_poll_interval_ms=o.max_poll_ms,
        rebalance_timeout_ms=o.max_poll_ms,
        metadata_max_age_ms=3_000,
        partition_assignment_strategy=[StickyPartitionAssignor if o.assignor else RangePartitionAssignor],
        **settings,
    )
    await consumer.start()
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
                    await consumer.commit()
                except Exception as problem:
                    say("error", error=repr(problem))
        if paused:
            await asyncio.sleep(0.05)
        elif going:
            try:
                await consumer.getmany(timeout_ms=100)
            except Exception as problem:
                say("error", error=repr(problem))
                going = False
    await consumer.stop()
    say("close_end")


asyncio.run(main())
