"""Traces of live objects on one clock: a coordinator's records, and the continuation of a path.

A path ends at the instant of a violation, or when the goal is out of reach. An audit sees only what lasts for some time
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from fsm.check.kafka.application import ENDED, GROUP, App
from fsm.check.kafka.live.consumers import LiveMember
from fsm.coordinator.model.context import Image
from fsm.protocol.records import Record, to_json
from fsm.trace import Kind, TraceRecord

HELD_MS, WATCHED_MS = 1_000, 40_000
"""The pause after the last step, and the length of the traced continuation."""
TURN_MS = 500
"""The interval of polls in the continuation."""
ROUND_TRIPS = 4
"""The maximum number of consecutive round trips within one turn."""


def topics_of(image: Image, now_ms: int) -> TraceRecord:
    """A record of topic names by id, which the log of a consumer group uses."""
    return TraceRecord(now_ms, Kind.TOPIC_NAMES, GROUP, thread="coordinator", settings=dict(image.names))


def tell_stored(records: Iterable[Record], now_ms: int) -> Iterator[TraceRecord]:
    """The trace records of a coordinator's log, as its parser returns them."""
    from fsm.logs.programs.consumer_offsets import interpret  # noqa: PLC0415  only a counterexample needs it

    for record in records:
        printed = to_json(record)
        yield from interpret(now_ms, int(printed["key"]["type"]), printed["key"], printed["value"]) or ()


def go_on(
    members: Mapping[str, LiveMember], serve: Callable[[str], None], pass_time: Callable[[int], None], now_ms: int
) -> None:
    """Continues after a path: first a pause, then everything that is due.

    A violation of the path may raise an error later, which ends the continuation. `serve` handles the first request of
    a member; `pass_time` sets all clocks, and the coordinator handles due timers.
    """
    turns_ms = turns(now_ms)
    note_users(members, turns_ms.start)
    with suppress(Exception):
        for turn_ms in turns_ms:
            pass_time(turn_ms)
            for name, one in members.items():
                _take_turn(name, one, serve, turn_ms)
        note_users(members, turns_ms.stop)


class Exchanges(Protocol):
    """A component that sends requests and receives responses."""

    out: list[Any]
    back: list[tuple[Any, Any]]

    def end(self, order: Any, answer: Any, /) -> None: ...


def turns(now_ms: int) -> range:
    """The instants of the turns, after the pause."""
    held_ms = now_ms + HELD_MS
    return range(held_ms, held_ms + WATCHED_MS, TURN_MS)


def _take_turn(name: str, one: LiveMember, serve: Callable[[str], None], now_ms: int) -> None:
    exchange(name, one, serve)
    if one.asked is not None and one.app is not App.HUNG:
        one.act("returns from its callback")
    if one.app is App.RUNNING and one.heartbeat_due_ms <= now_ms:
        one.act("heartbeat interval is over")
    if one.app is App.RUNNING:
        one.act("polls")
    exchange(name, one, serve)


def exchange(name: str, one: Exchanges, serve: Callable[[str], None]) -> None:
    """Handles the requests that a member has sent, and passes it the responses."""
    for _ in range(ROUND_TRIPS):
        for _ in range(len(one.out)):
            serve(name)
        for _ in range(len(one.back)):
            one.end(*one.back.pop(0))


def note_users(members: Mapping[str, LiveMember], now_ms: int) -> None:
    """Notes in the trace what each application uses at that time."""
    for one in members.values():
        if one.app not in ENDED and one.shell.trace is not None:
            one.shell.trace.write(now_ms, Kind.OWNED, full=one.using, thread="app")
