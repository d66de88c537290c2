"""Records as members print them, rows as their follower gives them, and the transformations of whole scenarios."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsm.audit.hygiene.rotation import Missing
from fsm.audit.limits import Limits
from fsm.audit.member.member_follower import MemberFollower
from fsm.audit.rows import Begun, Ended, Interval, Life, Place, Seen, Subscription
from fsm.trace import Kind, TraceRecord

sys.path.insert(0, str(Path(__file__).parent))

Folded = list[Any]


@pytest.fixture(scope="session")
def transform() -> ModuleType:
    """What happens to logs on their way to an auditor."""
    return import_module("transform")


class Log:
    """Writes the records of one client, line after line; `rows` follows them."""

    def __init__(self, client_id: str = "c", file: str = "a.log") -> None:
        self.client_id = client_id
        self.file = file
        self.seen: list[Seen] = []

    def __call__(self, ts_ms: int, kind: Kind, **values: Any) -> Log:
        file = values.pop("file", self.file)
        record = TraceRecord(ts_ms, kind, group="g", client_id=self.client_id, **values)
        self.seen.append(Seen(record, Place(file, 100 * len(self.seen))))
        return self

    def step(self, ts_ms: int, state: str, next_state: str, **values: Any) -> Log:
        """A transition of the KIP-848 member."""
        return self(ts_ms, Kind.TRANSITION, machine="consumer-member", state=state, next_state=next_state, **values)

    def rows(self, of: type | None = None, gone: Missing | None = None) -> Folded:
        """The rows, all or of one type; `gone` are rotated files that are missing."""
        follower = MemberFollower("g", self.client_id, Limits(), gone or {})
        rows = [row for seen in self.seen for row in follower.see(seen)]
        return [row for row in (*rows, *follower.finish()) if of is None or isinstance(row, of)]


@pytest.fixture
def log() -> Log:
    """An empty log of client `c`."""
    return Log()


@pytest.fixture
def new_log() -> type[Log]:
    """Makes logs."""
    return Log


@pytest.fixture
def interval() -> Callable[..., Interval]:
    """Makes intervals of partition t-0 in group g."""

    def make(member: str, start_ms: int, end_ms: int, **values: Any) -> Interval:
        fields: dict[str, Any] = {
            "topic": "t", "partition": 0, "begun": Begun.ASSIGNED, "ended": Ended.REVOKED, "end_exact": True,
            "doubtful": False, "void_ms": None, "void_cause": "", "life": 0,
            "start": Place(f"{member}.log", start_ms), "end": Place(f"{member}.log", end_ms),
        } | values  # fmt: skip
        return Interval("g", member, start_ms=start_ms, end_ms=end_ms, **fields)

    return make


@pytest.fixture
def want() -> Callable[..., Subscription]:
    """Makes wants of topic t in group g."""

    def make(member: str, start_ms: int, end_ms: int, topic: str = "t", pattern: str = "") -> Subscription:
        return Subscription("g", member, topic, pattern, start_ms, end_ms, Place(f"{member}.log", 0))

    return make


@pytest.fixture
def life() -> Callable[..., Life]:
    """Makes lives in group g that were logged from their start to their close."""

    def make(member: str, start_ms: int, end_ms: int, **values: Any) -> Life:
        fields: dict[str, Any] = {
            "number": 0, "client_id": member, "instance_id": "", "member_id": member, "protocol": "consumer",
            "version": "", "whole_start": True, "ended": Ended.CLOSED, "in_group": False, "doubtful_ms": None,
            "session_timeout_ms": None, "heartbeat_interval_ms": 5000, "max_poll_interval_ms": None,
            "start": Place(f"{member}.log", 0), "end": Place(f"{member}.log", 9),
        } | values  # fmt: skip
        return Life("g", member, start_ms=start_ms, end_ms=end_ms, **fields)

    return make
