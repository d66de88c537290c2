"""A watched consumer from its start to its end: polls, reports what it sees, leaves when it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fsm.join.consumer import AsyncMessageConsumer, MessageConsumer, ReadingOptions, Subscription
from fsm.join.fetcher import Message
from fsm.member.dialect.dialect import Dialect
from fsm.protocol.config import ConsumerConfig
from fsm.trace import TraceRecord
from fsm.wire.login import Security

POLL_MS = 200
"""The maximum delay before a request to end is noticed."""


class Watched(NamedTuple):
    """The arguments of a run: the cluster, the member, and the functions that get its output."""

    bootstrap: str
    config: ConsumerConfig
    to: Subscription
    dialect: Dialect | str
    reading: ReadingOptions
    on_record: Callable[[TraceRecord], None]
    on_message: Callable[[Message], None]
    security: Security
    most: int | None = None
    """Messages after which it ends; None for no end."""


class Stop:
    """Whether a signal has requested the end; a second one interrupts."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, *_: object) -> None:
        """Requests the end. Raises `KeyboardInterrupt` the second time."""
        again, self.asked = self.asked, True
        if again:
            raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[Stop]:
    """Makes signals request the end within this context; only in the main thread, which receives signals."""
    stop = Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watch(watched: Watched, stop: Stop) -> None:
    """Runs it on threads until it is stopped or has its messages. Raises what `MessageConsumer` does."""
    made = (watched.bootstrap, watched.config)
    with MessageConsumer(
        *made,
        dialect=watched.dialect,
        trace=watched.on_record,
        reading=watched.reading,
        security=watched.security,
    ) as consumer:
        consumer.subscribe(watched.to, gives_up=lambda: stop.asked)
        seen = 0
        while not stop.asked and seen != watched.most:
            seen += _hand_out(watched, consumer.poll(POLL_MS, _limit(watched, seen)))


async def watch_on_asyncio(watched: Watched, stop: Stop) -> None:
    """The same on the running event loop."""
    made = (watched.bootstrap, watched.config)
    async with AsyncMessageConsumer(
        *made,
        dialect=watched.dialect,
        trace=watched.on_record,
        reading=watched.reading,
        security=watched.security,
    ) as consumer:
        subscribing = asyncio.create_task(consumer.subscribe(watched.to))
        while not stop.asked and not subscribing.done():
            await asyncio.wait([subscribing], timeout=POLL_MS / 1000)
        if subscribing.done():
            subscribing.result()
        subscribing.cancel()
        seen = 0
        while not stop.asked and seen != watched.most:
            seen += _hand_out(watched, await consumer.poll(POLL_MS, _limit(watched, seen)))


def _limit(watched: Watched, seen: int) -> int:
    return 500 if watched.most is None else min(500, watched.most - seen)


def _hand_out(watched: Watched, messages: Sequence[Message]) -> int:
    for message in messages:
        watched.on_message(message)
    return len(messages)
