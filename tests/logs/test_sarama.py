"""sarama's words as records."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.logs.message import Message
from fsm.logs.programs.sarama import understand
from fsm.trace import Kind, TraceRecord


def record(kind: Kind, **values: Any) -> TraceRecord:
    return TraceRecord(5, kind, client_id="sarama", **values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("client/coordinator coordinator for g is #1 (127.0.0.1:9092)", record(Kind.COORDINATOR_FOUND, group="g")),
        ("client/coordinator coordinator for consumergroup g is #1 (b:1)", record(Kind.COORDINATOR_FOUND, group="g")),
        ("consumer/broker/1 added subscription to foo.bar/17", record(Kind.ADDED, partitions=(("foo.bar", 17),))),
        (
            "consumergroup/session/a/b-B-ca89/2 released",
            record(Kind.OWNED, member_id="a/b-B-ca89", epoch=2, full=()),
        ),
        (
            "consumergroup/g lost ownership of map[bar:[3] foo:[0 1]] due to kafka: revoked",
            record(Kind.DROPPED, group="g", partitions=(("bar", 3), ("foo", 0), ("foo", 1)), detail="kafka: revoked"),
        ),
        ("Closing Client", record(Kind.LEFT)),
    ],
)
def test_a_line_is_one_record(text: str, expected: TraceRecord) -> None:
    """With the prefix of a debug logger, too, and whatever stands below it."""
    assert understand(Message(5, text)) == understand(Message(5, f"DEBUG {text}")) == (expected,)
    assert understand(Message(5, f"{text}\n    app: 7")) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "consumergroup/session/a-B-ca89/2 heartbeat loop stopped",
        "consumer/broker/1 accumulated 4 new subscriptions",
        "Closing Client connections of the shop",
    ],
)
def test_other_lines_have_no_bearing(text: str) -> None:
    assert understand(Message(5, text)) == ()


@pytest.mark.parametrize(
    "text", ["consumer/broker/1 added subscription to foo/1 [trace=7]", "consumergroup/session/a-B/2 released {}"]
)
def test_a_line_that_ends_otherwise_is_not_understood(text: str) -> None:
    """Nobody else says so, and what stands behind it is not its own."""
    assert understand(Message(5, text)) is None


def test_the_end_of_a_partitions_consumer_may_be_the_end_of_ownership() -> None:
    """If its version logs nothing after Cleanup."""
    ended = [record(kind, event="closed", partitions=(("foo", 1),)) for kind in (Kind.REVOKE_BEGIN, Kind.REVOKE_END)]
    assert list(understand(Message(5, "consumer/broker/1 closed dead subscription to foo/1")) or ()) == ended
