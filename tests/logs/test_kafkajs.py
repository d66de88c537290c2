"""KafkaJS's words as records, wherever a layout puts their fields."""

from __future__ import annotations

from typing import Any

import pytest
from recordings import logs

from fsm.logs.exports.broken_lines import Wrapped, find_broken
from fsm.logs.message import Message
from fsm.logs.programs.kafkajs import understand
from fsm.trace import Kind, TraceRecord

JOINED = {"groupId": "g", "memberId": "m-1", "memberAssignment": {"foo": [1, 0]}, "isLeader": True, "duration": 9}
BEHIND = ' {"groupId":"g","memberId":"m-1","memberAssignment":{"foo":[1,0]},"isLeader":true,"duration":9}'


def record(kind: Kind, **values: Any) -> TraceRecord:
    """A record of member m-1 of group g."""
    return TraceRecord(5, kind, **{"group": "g", "client_id": "kafkajs", "member_id": "m-1", **values})


@pytest.mark.parametrize(
    "message",
    [
        Message(5, "[ConsumerGroup] Consumer has joined the group", "INFO", "kafkajs", fields=JOINED),
        Message(5, "Consumer has joined the group", "30", fields=JOINED),
        Message(5, "Consumer has joined the group", "info", fields={"namespace": "ConsumerGroup", "extra": JOINED}),
        Message(5, "Consumer has joined the group" + BEHIND, "INFO", "kafkajs.ConsumerGroup"),
        Message(5, "[ConsumerGroup] Consumer has joined the group" + BEHIND),
    ],
)
def test_a_join_tells_all_that_is_owned(message: Message) -> None:
    """The default layout, pino, winston, a text layout, and one whose logger is missing."""
    owned = record(Kind.OWNED, full=(("foo", 0), ("foo", 1)))
    assert list(understand(message) or ()) == [record(Kind.JOINED), owned]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[Consumer] Starting", [Kind.STARTED]),
        ("[Runner] The group is rebalancing, re-joining", [Kind.OWNED, Kind.JOINING]),
        (
            "[Runner] The coordinator is not aware of this member, re-joining the group",
            [Kind.FENCED, Kind.OWNED, Kind.JOINING],
        ),
        ("[Consumer] Crash: KafkaJSNumberOfRetriesExceeded: it failed", [Kind.ERROR, Kind.OWNED]),
        ("[Runner] consumer not running, exiting", [Kind.CLOSE_BEGIN]),
        ("[Consumer] Stopped", [Kind.CLOSE_END]),
        ("[Connection] Response Heartbeat(key: 12, version: 3)", []),
    ],
)
def test_what_ends_ownership_names_no_partitions(text: str, kinds: list[Kind]) -> None:
    """Nothing is owned then."""
    found = understand(Message(5, text, "WARN", "kafkajs", fields={"groupId": "g", "memberId": "m-1"})) or ()
    assert [one.kind for one in found] == kinds
    assert all(one.full == () for one in found if one.kind is Kind.OWNED)


def test_another_program_that_starts_is_not_kafkajs() -> None:
    """Everybody's words need a group beside them, and an assignment that cannot be read is not understood."""
    assert understand(Message(5, "Starting")) == ()
    assert understand(Message(5, 'Starting {"groupId": [')) == ()
    broken = {**JOINED, "memberAssignment": {"foo": "all"}}
    assert understand(Message(5, "[ConsumerGroup] Consumer has joined the group", fields=broken)) is None


def test_without_fields_a_join_says_little() -> None:
    """A logger that drops them leaves the words: no group, and nothing that is owned."""
    nameless = record(Kind.JOINED, group="", member_id="")
    assert understand(Message(5, "[ConsumerGroup] Consumer has joined the group")) == (nameless,)


def test_the_subscription_is_told_where_it_is_not_kept() -> None:
    """The one line that names it."""
    fields = {"groupId": "g", "memberId": "m-1", "topicsSubscribed": ["t2", "t1"], "topicsNotSubscribed": ["t3"]}
    text = "[ConsumerGroup] Consumer group received unsubscribed topics"
    assert understand(Message(5, text, fields=fields)) == (record(Kind.SUBSCRIBED, topics=("t1", "t2")),)


@pytest.mark.parametrize("more", [" [trace=7]", BEHIND + " [trace=7]"])
def test_a_line_that_ends_otherwise_is_not_understood(more: str) -> None:
    """It would tell what is owned, and the end that is not its own hides that."""
    assert understand(Message(5, f"[ConsumerGroup] Consumer has joined the group{more}")) is None


def test_lines_of_one_length_may_fill_the_last_row_of_a_terminal() -> None:
    """Some of the messages that repeat have three times the width of the terminal."""
    log = logs("client")["kafkajs.sigstop"]["A.log"]
    rows = (line[i : i + 80] for line in log.splitlines() for i in range(0, len(line), 80))
    assert find_broken(b"\n".join(rows)) == Wrapped(80)
    assert find_broken(log) is None
