"""The adapter of aiokafka: its event loop runs whenever the application polls or waits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from common import ENDS, drive, o, print_line

logging.disable(logging.CRITICAL)
if o.protocol == "consumer":
    print_line("error", error="aiokafka has no consumer groups")
    print_line("close_end")
    raise SystemExit


class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self.print_event("assign", assigned, o.assign_delay_ms)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self.print_event("revoke", revoked, o.revoke_delay_ms)

    async def print_event(self, event: str, partitions: Any, delay_ms: int) -> None:
        found = [tuple(one) for one in partitions]
        print_line(event, found)
        await asyncio.sleep(delay_ms / 1000)
        print_line(ENDS[event], found)


async def start() -> AIOKafkaConsumer:
    settings: dict[str, Any] = {"group_instance_id": o.instance} if o.instance else {}
    made = AIOKafkaConsumer(
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
    await made.start()
    return made


async def subscribe(topics: str) -> None:
    consumer.subscribe(topics.split(","), listener=Listener())


async def unsubscribe() -> None:
    consumer.unsubscribe()


with asyncio.Runner() as runner:
    consumer = runner.run(start())
    runner.run(subscribe(o.topics))
    drive(
        lambda: runner.run(consumer.getmany(timeout_ms=100)),
        {
            "subscribe": lambda topics: runner.run(subscribe(topics)),
            "unsubscribe": lambda _: runner.run(unsubscribe()),
            "commit": lambda _: runner.run(consumer.commit()),
        },
        sleep=lambda seconds: runner.run(asyncio.sleep(seconds)),
    )
    runner.run(consumer.stop())
print_line("close_end")
