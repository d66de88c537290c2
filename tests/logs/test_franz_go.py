"""franz-go's words, through each of its loggers, as records."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest

from fsm.logs import formats
from fsm.logs.message import Message
from fsm.logs.programs.franz_go import CLIENT, understand
from fsm.logs.reading.entries import records_of
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import Kind, Partition, TraceRecord

ID = "_Wz0X-YMQkq2bBSnXvjm9w=="
FOO: tuple[Partition, ...] = (("foo", 0), ("foo", 1), ("foo", 2))


def told(text: str, **fields: Any) -> tuple[TraceRecord, ...]:
    """What the client understands of a message."""
    found = understand(Message(1000, text, fields=fields))
    assert found is not None, text
    return tuple(found)


def record(kind: Kind, **values: Any) -> TraceRecord:
    """A record of group g."""
    return TraceRecord(1000, kind, **{"client_id": "franz-go", "group": "g", **values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("joining group; group: g", [record(Kind.JOINING)]),
        (
            f"joined; group: g, member_id: {ID}, instance_id: <nil>, generation: 7, leader: false",
            [record(Kind.JOINED, member_id=ID, epoch=7)],
        ),
        (
            (
                "joined, balancing group; group: g, member_id: i-B-4, instance_id: i-B, generation: 1, "
                "balance_protocol: cooperative-sticky, leader: true"
            ),
            [record(Kind.JOINED, member_id="i-B-4", instance_id="i-B", epoch=1)],
        ),
        (
            (
                f"consumer group initial heartbeat received assignment; group: g, member_id: {ID}, generation: 2, "
                "now_assigned: map[foo:[0 1]]"
            ),
            [record(Kind.JOINED, member_id=ID, epoch=2)],
        ),
        (
            (
                "consumer group heartbeat detected an updated assignment; exited heartbeat loop to assign & "
                f"reentering; group: g, member_id: {ID}, generation: 2, now_assigned: map[bar:[3] foo:[0 1 2]]"
            ),
            [record(Kind.TARGET, member_id=ID, full=(("bar", 3), *FOO))],
        ),
        (
            "new group session begun; group: g, added: foo[0 1 2], bar[3], lost: u[4]",
            [record(Kind.ASSIGN_BEGIN, partitions=(("bar", 3), *FOO))],
        ),
        ("new group session begun; group: g, added: , lost: ", [record(Kind.ASSIGN_BEGIN)]),
        (  # before 1.19
            "cooperative consumer calling onRevoke; group: g, lost: foo[0 1 2], stage: 1",
            [record(Kind.REVOKE_BEGIN, partitions=FOO)],
        ),
        (
            (
                "cooperative consumer calling onRevoke at the end of a session even though no partitions were lost; "
                "group: g"
            ),
            [],
        ),
        (
            "join and sync loop errored; group: g, err: ILLEGAL_GENERATION: old., consecutive_errors: 1, backoff: 1s",
            [record(Kind.LOST_BEGIN, full=(), detail="ILLEGAL_GENERATION")],
        ),
        (
            (
                "forced rejoin quitting heartbeat loop; group: g, why: cooperative rejoin after revoking what we lost "
                "from a rebalance"
            ),
            [record(Kind.REVOKE_END)],
        ),
        (
            "calling onRevoke at the end of a session; group: g, lost: foo[0 1 2], stage: 0",
            [record(Kind.REVOKE_BEGIN, partitions=FOO)],
        ),
        (
            (
                "consumer calling onRevoke at the end of a session; consumer did not change any client-side "
                "subscription; group: g"
            ),
            [],
        ),
        (
            "eager consumer revoking prior assigned partitions; group: g, revoking: foo[0 1 2]",
            [record(Kind.REVOKE_BEGIN, partitions=FOO)],
        ),
        (
            "forced rejoin quitting heartbeat loop; why: after revoking what we lost from a rebalance, is848: false",
            [record(Kind.REVOKE_END, group="")],
        ),
        ("heartbeat errored; group: g, err: context canceled", []),
        ("heartbeat errored; group: g, err: REBALANCE_IN_PROGRESS: The group is rebalancing.", []),
        (
            f"heartbeat errored; group: g, err: UNKNOWN_MEMBER_ID: Not known.: Member {ID} is no member, group: x",
            [record(Kind.FENCED, detail="UNKNOWN_MEMBER_ID")],
        ),
        (
            (
                f"consumer group heartbeat error, abandoning assignment and rejoining with new member id; group: g, "
                f"member_id: {ID}, generation: 3, err: UNKNOWN_MEMBER_ID: The coordinator is not aware of this member."
            ),
            [record(Kind.LOST_BEGIN, member_id=ID, full=(), detail="UNKNOWN_MEMBER_ID")],
        ),
        (
            (
                "group manage loop errored; group: g, err: unable to dial: dial tcp 127.0.0.1:4: connect: connection "
                "refused, consecutive_errors: 1, backoff: 292.910734ms"
            ),
            [record(Kind.LOST_BEGIN, full=(), detail="COORDINATOR_NOT_AVAILABLE")],
        ),
        (
            "group manage loop errored; group: g, err: FENCED_INSTANCE_ID: fenced., consecutive_errors: 1, backoff: 1s",
            [
                record(Kind.LOST_BEGIN, full=(), detail="FENCED_INSTANCE_ID"),
                record(Kind.FATAL, detail="FENCED_INSTANCE_ID"),
            ],
        ),
        (
            "UnreleasedInstanceID after 3 retries - static instance is held by another member; wait; group: g",
            [record(Kind.FATAL, group="", detail="UNRELEASED_INSTANCE_ID")],
        ),
        (
            "assigning partitions; why: invalidating all assignments in LeaveGroup, how: unassigning all, input: ",
            [record(Kind.CLOSE_BEGIN, group="")],
        ),
        ("assigning partitions; why: newly fetched offsets for group g, how: assigning everything new, input: x", []),
        (
            f"leaving next-gen group; group: g, member_id: {ID}, instance_id: 0x2cac1f3e40",
            [record(Kind.CLOSE_BEGIN, member_id=ID), record(Kind.LEFT, member_id=ID)],
        ),
    ],
)
def test_a_line_of_the_basic_logger(text: str, expected: list[TraceRecord]) -> None:
    """Keys stand behind the message; values may hold commas, colons and the separator."""
    assert list(told(text)) == expected


def test_the_fields_of_a_structured_line_say_the_same() -> None:
    """slog writes partitions as an object, zap and slog's text as text, and no instance as null."""
    assert told("new group session begun", group="g", added={"foo": [0, 1, 2]}, lost={}) == (
        record(Kind.ASSIGN_BEGIN, partitions=FOO),
    )
    assert told("new group session begun", group="g", added="foo[0 1 2]", lost="") == (
        record(Kind.ASSIGN_BEGIN, partitions=FOO),
    )
    assert told("joined", group="g", member_id="m", instance_id=None, generation=3, leader=False) == (
        record(Kind.JOINED, member_id="m", epoch=3),
    )


def test_a_word_of_many_programs_is_franz_gos_with_its_keys_only() -> None:
    """`joined` without a generation is somebody else's."""
    assert told("joined") == told("joined", room="lobby") == told("joined the group; group: g") == ()


@pytest.mark.parametrize("added", ["foo[0 1", "foo[x]", "foo", "foo[0 1 2], [3]", {"foo": "0"}, {"foo": [-1]}, 7])
def test_partitions_that_cannot_be_read_are_not_understood(added: object) -> None:
    """Half a list is not taken for a whole one."""
    assert understand(Message(0, "new group session begun", fields={"group": "g", "added": added})) is None


def test_the_marks_are_in_every_line_that_matters() -> None:
    """A line without one is never looked at."""
    for line in ("joined; group: g, member_id: m, generation: 3", "group manage loop errored; group: g, err: x"):
        assert any(mark in line.encode() for mark in CLIENT.marks)


def test_what_stands_below_a_message_is_none_of_its_values() -> None:
    """Loggers that end each entry with an empty line, or with the place in the code."""
    for below in ("\n", "\n    at src/main.go:17", " "):
        assert told(f"joining group; group: g{below}") == (record(Kind.JOINING),)


def test_the_last_value_may_be_empty_and_its_blank_gone() -> None:
    """Collectors strip lines."""
    text = "new group session begun; group: g, added: foo[0 1 2], lost:"
    assert told(text) == told(f"{text} ")
    assert [one.partitions for one in told(text)] == [FOO]


@pytest.mark.parametrize("behind", ["", " group=g added=map[foo:[0]] lost=map[]", "; group: g, lost: "])
def test_what_is_owned_is_not_understood_without_its_key(behind: str) -> None:
    """A logger may drop it, or write keys in a way that is not known."""
    assert understand(Message(1000, f"new group session begun{behind}")) is None


@pytest.mark.parametrize("lost", ["", {}], ids=["text", "object"])
def test_a_layout_is_learned_from_messages_that_need_their_fields(lost: object) -> None:
    """The only ones of a log at INFO that was rotated."""
    lines = [
        json.dumps({"level": "INFO", "msg": text, "group": "g", **fields, "time": f"2026-11-21T08:00:{i:02d}Z"})
        for i in range(12)
        for text, fields in (
            ("joined", {"member_id": ID, "generation": i}),
            ("new group session begun", {"added": f"foo[{i}]", "lost": lost}),
        )
    ]
    entries = from_bytes("\n".join(lines).encode(), formats())
    records = [one for entry in entries for one in records_of(entry, UTC) or ()]
    assert [one.kind for one in records if one.kind in (Kind.JOINED, Kind.ASSIGN_BEGIN)] == 12 * [
        Kind.JOINED,
        Kind.ASSIGN_BEGIN,
    ]
