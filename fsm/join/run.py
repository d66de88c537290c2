"""A watched consumer from its start to its end: polls, reports what it sees, leaves when it is stopped.

What it sees are the steps of its member's table, the arguments of its callbacks, and messages. Each is a line of text,
or a JSON object: trace records in the format of `fsm audit --format trace`, a message as `{"event": "message", ...}`
with key and value in base64 if they are not text.
"""

from __future__ import annotations

import asyncio
import json
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from fsm.join.consumer import AsyncMessageConsumer, MessageConsumer, Subscription
from fsm.join.fetcher import Message
from fsm.protocol.assignment import Partitions, numbers_by_topic
from fsm.trace import Kind, TraceRecord

POLL_MS = 200
"""The maximum delay before a request to end is noticed."""
AT_ONCE = 500
"""The maximum number of messages of a poll."""


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
    """Makes signals request the end within this context."""
    stop = Stop()
    with handle_signals(stop.ask):
        yield stop


@contextmanager
def handle_signals(act: Callable[..., None]) -> Iterator[None]:
    """SIGINT and SIGTERM call this within the context; only in the main thread, which receives signals."""
    before = {number: signal.signal(number, act) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watch(
    make: Callable[[], MessageConsumer], to: Subscription, on_message: Callable[[Message], None], most: int, stop: Stop
) -> None:
    """Runs a consumer on threads until it is stopped or has so many messages. Raises what `MessageConsumer` does."""
    with make() as consumer:
        consumer.subscribe(to, gives_up=lambda: stop.asked)
        seen = 0
        while not stop.asked and seen < most:
            for message in consumer.poll(POLL_MS, min(AT_ONCE, most - seen)):
                on_message(message)
                seen += 1


async def watch_on_asyncio(
    make: Callable[[], AsyncMessageConsumer],
    to: Subscription,
    on_message: Callable[[Message], None],
    most: int,
    stop: Stop,
) -> None:
    """The same on the running event loop."""
    async with make() as consumer:
        subscribing = asyncio.create_task(consumer.subscribe(to))
        while not stop.asked and not subscribing.done():
            await asyncio.wait([subscribing], timeout=POLL_MS / 1000)
        if subscribing.done():
            subscribing.result()
        subscribing.cancel()
        seen = 0
        while not stop.asked and seen < most:
            for message in await consumer.poll(POLL_MS, min(AT_ONCE, most - seen)):
                on_message(message)
                seen += 1


CALLBACKS = {Kind.ASSIGN_BEGIN: "assigned:", Kind.REVOKE_BEGIN: "revoked:", Kind.LOST_BEGIN: "lost:"}
PLAIN = {
    Kind.STARTED: "starts",
    Kind.SUBSCRIBED: "subscribes to",
    Kind.UNSUBSCRIBED: "has unsubscribed",
    Kind.JOINING: "joins",
    Kind.JOINED: "has joined",
    Kind.SYNCED: "is in the generation",
    Kind.MEMBER_ID: "is called",
    Kind.HEARTBEAT_SENT: "sends a heartbeat",
    Kind.HEARTBEAT_OK: "heartbeat answered",
    Kind.HEARTBEAT_GIVEN_UP: "gives a heartbeat up",
    Kind.TARGET: "target:",
    Kind.RECONCILING: "reconciles to",
    Kind.REVOKE_DECIDED: "gives up",
    Kind.ASSIGN_END: "assigned callback is back",
    Kind.REVOKE_END: "revoked callback is back",
    Kind.LOST_END: "lost callback is back",
    Kind.CALLBACK_FAILED: "a callback raised",
    Kind.OWNED: "owns",
    Kind.POLL_EXPIRED: "was not polled in time",
    Kind.POLL_LATE: "is polled again",
    Kind.FENCED: "is fenced",
    Kind.FATAL: "is out for good",
    Kind.ERROR: "error",
    Kind.COORDINATOR_FOUND: "has a coordinator",
    Kind.COORDINATOR_LOST: "has lost its coordinator",
    Kind.GENERATION_RESET: "forgets its generation",
    Kind.LEAVE_BEGIN: "begins to leave",
    Kind.LEAVE_SENT: "sends its leave",
    Kind.LEFT: "has left",
    Kind.COMMIT_FAILED: "commit failed",
    Kind.CLOSE_BEGIN: "closes",
    Kind.CLOSE_END: "is closed",
}
"""The words for each kind of record."""


def line_of(record: TraceRecord) -> str:
    """A record as a line.

    >>> line_of(TraceRecord(1_000, Kind.TRANSITION, state="JOINING", next_state="RECONCILING", epoch=3))
    '00:00:01.000  JOINING -> RECONCILING  epoch 3'
    """
    if record.kind is Kind.TRANSITION:
        parts = f"{record.state} -> {record.next_state}"
    elif record.kind in CALLBACKS:
        parts = f"{CALLBACKS[record.kind]} {_show_partitions(record.partitions or ())}"
    else:
        parts = PLAIN.get(record.kind, record.kind.value)
        if record.kind is Kind.MEMBER_ID:
            parts += f" {record.member_id}"
        if record.kind is Kind.STARTED:
            parts += f" as {record.client_id} in {record.group}"
        if record.topics:
            parts += f" {', '.join(record.topics)}"
        if record.full is not None:
            parts += f" {_show_partitions(record.full)}"
    more = [f"epoch {record.epoch}"] if record.epoch is not None else []
    if record.kind is Kind.RECONCILING:
        more += [
            f"adds {_show_partitions(record.partitions or ())}",
            f"gives up {_show_partitions(record.revoked or ())}",
        ]
    more += [record.detail] if record.detail else []
    return "  ".join((_time(record.ts_ms), parts, *more))


def line_of_message(message: Message) -> str:
    """A message as a line.

    >>> line_of_message(Message("foo", 1, 7, 1_000, None, b"hello"))
    '00:00:01.000  foo-1 @7  hello'
    """
    key = "" if message.key is None else f"{_text(message.key)}: "
    value = "(null)" if message.value is None else _text(message.value)
    return f"{_time(message.timestamp_ms)}  {message.topic}-{message.partition} @{message.offset}  {key}{value}"


def json_of_message(message: Message) -> str:
    """A message as a JSON object."""
    headers = [[name, _plain(value)] for name, value in message.headers]
    known = {"event": "message", **message._asdict(), "key": _plain(message.key), "value": _plain(message.value)}
    return json.dumps({**known, "headers": headers})


def printers(*, as_json: bool) -> tuple[Callable[[TraceRecord], str], Callable[[Message], str]]:
    """The functions that format records and messages."""
    return (TraceRecord.to_json, json_of_message) if as_json else (line_of, line_of_message)


def _plain(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _text(data: bytes) -> str:
    text = data.decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _time(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _show_partitions(partitions: Partitions) -> str:
    """Partitions by topic: `foo-[0, 1], bar-[2]`; `nothing` if empty."""
    by_topic = numbers_by_topic(sorted(partitions)).items()
    return ", ".join(f"{topic}-{numbers}" for topic, numbers in by_topic) or "nothing"
