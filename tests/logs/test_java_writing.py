"""What is written of a record is read back as that record: the words of the writer are those of the reader."""

from __future__ import annotations

from datetime import UTC

import pytest

from fsm.logs import formats
from fsm.logs.layouts.java_layouts import kafka_line
from fsm.logs.writing.java_writing import CLASSIC, CONSUMER, JavaConsumer, write_java
from fsm.trace import Kind, TraceRecord, to_dict

JAVA = next(one for one in formats() if (one.name, one.layout) == ("java", "kafka"))
MACHINES = {True: "classic-member", False: "consumer-member"}
DETAILS = {
    Kind.COMMIT_FAILED: "TimeoutException",
    Kind.COORDINATOR_LOST: "coordinator unavailable",
    Kind.ERROR: "NOT_COORDINATOR",
    Kind.FATAL: "GROUP_MAX_SIZE_REACHED",
    Kind.FENCED: "ILLEGAL_GENERATION",
    Kind.GENERATION_RESET: "consumer pro-actively leaving the group",
    Kind.JOINING: "group is already rebalancing",
    Kind.LEAVE_SENT: "the consumer is being closed",
    Kind.SUBSCRIBED: "foo.*",
}
"""What a record of a kind may say."""
OTHERWISE = {Kind.ERROR: {"Interrupting reconciliation that is not relevant anymore", "Reconciliation failed"}}
"""Details that Java's words say otherwise than a trace does."""


def read(entry: str) -> list[TraceRecord]:
    """What the audit makes of an entry."""
    assert JAVA.header.match(entry.encode())
    assert JAVA.candidate.search(entry.encode())
    found = JAVA.parse(entry.rstrip("\n"), UTC)
    assert found is not None, entry
    return [*found]


def told(record: TraceRecord) -> dict[str, object]:
    """Its fields, without the thread: a layout may not print it."""
    return {name: value for name, value in to_dict(record).items() if name != "thread"}


def example(kind: Kind, variant: str, *, is_classic: bool) -> TraceRecord:
    """A record of this kind with all that it may hold."""
    detail = variant if variant not in ("", "reason", "pattern") else DETAILS.get(kind, "")
    detail = "" if (kind, variant) in ((Kind.JOINING, ""), (Kind.SUBSCRIBED, "")) else detail
    detail = "reconciliation ended early: TimeoutException" if detail == "reconciliation" else detail
    return TraceRecord(
        1_700_000_000_123,
        kind,
        "shop",
        "shop-1",
        "r7vJWPoMRUmLnGoxlEAsbg",
        "shop-a",
        machine=MACHINES[is_classic] if kind is Kind.TRANSITION else "",
        state="STABLE" if kind is Kind.TRANSITION else "",
        event="revoked" if kind is Kind.CALLBACK_FAILED else "",
        next_state="RECONCILING" if kind is Kind.TRANSITION else "",
        epoch=7,
        partitions=(("bills", 0), ("or-ders", 11)),
        revoked=(("bills", 1),),
        full=(("bills", 0), ("or-ders", 3), ("or-ders", 11)),
        topics=() if variant == "pattern" else ("bills", "or-ders"),
        detail=detail,
    )


@pytest.mark.parametrize(
    ("is_classic", "kind", "variant"),
    [(is_classic, *key) for is_classic, table in ((False, CONSUMER), (True, CLASSIC)) for key in sorted(table)],
)
def test_every_line_is_read_back(is_classic: bool, kind: Kind, variant: str) -> None:
    """The kind comes back, and no field that the record does not have."""
    given = example(kind, variant, is_classic=is_classic)
    if kind is Kind.MEMBER_ID:
        given.instance_id = ""
    found = [
        one
        for message in JavaConsumer({}, {}, is_classic=is_classic).write(given)
        for one in read(kafka_line(message))
        if one.kind is kind
    ]
    assert found
    for one in found:
        got, had = told(one), told(given)
        if got.get("detail") in OTHERWISE.get(kind, ()):
            del got["detail"]
        if kind is Kind.CLOSE_END:  # printed by a class without the prefix, too
            had |= {"group": got.get("group"), "instance_id": got.get("instance_id")}
        assert {name: had.get(name) for name in got} == got


def test_a_consumer_from_start_to_end() -> None:
    """Settings and version stand where a consumer prints them; a second one of its name forgets the first."""
    settings = {"client.id": "shop-1", "group.id": "shop", "group.protocol": "consumer", "version": "4.4.0"}
    identity = {"group": "shop", "client_id": "shop-1"}
    started = TraceRecord(1_000, Kind.STARTED, **identity, settings=settings)
    left = TraceRecord(2_000, Kind.LEFT, **identity, epoch=-1)
    closed = TraceRecord(2_001, Kind.CLOSE_END, **identity)
    lines = [kafka_line(one) for one in write_java([started, left, closed, started, closed], {"client.rack": "r"}, {})]
    found = [one for line in lines for one in read(line)]
    assert [one.kind.value for one in found] == [
        *("started", "version", "left", "close_end", "close_begin", "left", "close_end"),
        *("started", "version", "close_end", "close_end"),
    ]
    assert found[0].settings == {key: value for key, value in settings.items() if key != "version"} | {
        "client.rack": "r"
    }
    assert found[1].settings == {"version": "4.4.0"}


def test_a_target_has_the_ids_of_its_topics_and_what_it_was_before() -> None:
    """As the client prints an assignment."""
    consumer = JavaConsumer({}, {"foo": "8s1lnmxkSK2e4GljFsdRJw"})
    first = TraceRecord(0, Kind.TARGET, "g", "a", "m", full=(("foo", 0), ("foo", 2)))
    [one] = consumer.write(first)
    assert one.text == (
        "[Consumer clientId=a, groupId=g] Member m updated its target assignment from "
        "LocalAssignment{localEpoch=-1, partitions={}} to "
        "LocalAssignment{localEpoch=0, partitions={8s1lnmxkSK2e4GljFsdRJw=[0, 2]}}."
    )
    [two] = consumer.write(TraceRecord(1, Kind.TARGET, "g", "a", "m", full=()))
    assert two.text.endswith("=[0, 2]}} to LocalAssignment{localEpoch=1, partitions={}}.")
