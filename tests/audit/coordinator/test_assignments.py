"""Target and current assignments as a coordinator kept them: begun, followed, ended, told twice, named."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.audit.coordinator.assignments import (
    HELD,
    CoordinatorRecord,
    add_topic_names,
    find_assignments,
    label,
    with_names,
)
from fsm.audit.rows import Place
from fsm.trace import Kind, TraceRecord

FOO = "8s1lnmxkSK2e4GljFsdRJw"
CONSUMER, CLASSIC, MEMBER = "consumer-group", "classic-group", "consumer-group-member"


def foo(*numbers: int) -> tuple[tuple[str, int], ...]:
    """Partitions of one topic."""
    return tuple(("foo", n) for n in numbers)


def said(ts_ms: int, kind: Kind, member_id: str = "", file: str = "broker.log", **fields: Any) -> CoordinatorRecord:
    """A record of the coordinator."""
    record = TraceRecord(ts_ms, kind, "g", member_id=member_id, thread="coordinator", **fields)
    return CoordinatorRecord(record, {"id-a": "a", "id-b": "b"}.get(member_id, ""), Place(file, ts_ms))


def state(ts_ms: int, member_id: str, epoch: int, state: str, *numbers: int, **fields: Any) -> CoordinatorRecord:
    """A member's state in a consumer group."""
    more = {"machine": MEMBER, **fields}
    return said(ts_ms, Kind.MEMBER_STATE, member_id, next_state=state, epoch=epoch, full=foo(*numbers), **more)


def target(ts_ms: int, member_id: str, *numbers: int, **fields: Any) -> CoordinatorRecord:
    """A member's target."""
    return said(ts_ms, Kind.TARGET, member_id, full=foo(*numbers), **fields)


def told(*spoken: CoordinatorRecord) -> list[tuple[object, ...]]:
    """Member id, which, state, epoch, partition numbers, begin, end, what ended it; in the order of their begins."""
    found = sorted(find_assignments("g", spoken), key=lambda a: (a.start_ms, a.member_id, a.which))
    return [
        (
            a.member_id,
            a.which.value,
            a.state,
            a.epoch,
            [n for _, n in a.partitions],
            a.start_ms,
            a.end_ms,
            a.until.value,
        )
        for a in found
    ]


def test_a_partition_moves_from_one_member_to_another() -> None:
    """The target moves, the owner is told, it acknowledges, the other one gets what it was waiting for."""
    story = (
        target(0, "id-a", 0, 1, epoch=2),
        state(0, "id-a", 2, "STABLE", 0, 1),
        target(100, "id-a", 0, epoch=3),
        target(100, "id-b", 1, epoch=3),
        state(100, "id-b", 3, "UNRELEASED_PARTITIONS"),
        state(150, "id-a", 2, "UNREVOKED_PARTITIONS", 0, revoked=foo(1)),
        state(200, "id-a", 3, "STABLE", 0),
        state(250, "id-b", 3, "STABLE", 1),
    )
    assert told(*story) == [
        ("id-a", "current", "STABLE", 2, [0, 1], 0, 150, "followed"),
        ("id-a", "target", "", 2, [0, 1], 0, 100, "followed"),
        ("id-a", "target", "", 3, [0], 100, None, ""),
        ("id-b", "current", "UNRELEASED_PARTITIONS", 3, [], 100, 250, "followed"),
        ("id-b", "target", "", 3, [1], 100, None, ""),
        ("id-a", "current", "UNREVOKED_PARTITIONS", 2, [0], 150, 200, "followed"),
        ("id-a", "current", "STABLE", 3, [0], 200, None, ""),
        ("id-b", "current", "STABLE", 3, [1], 250, None, ""),
    ]
    asked = next(a for a in find_assignments("g", story) if a.state == "UNREVOKED_PARTITIONS")
    assert (asked.member, asked.revoked, asked.label, asked.giving_up) == ("a", foo(1), "foo-[0]", "foo-[1]")
    assert (asked.start, asked.end) == (Place("broker.log", 150), Place("broker.log", 200))


@pytest.mark.parametrize(
    ("ending", "ended"),
    [
        (said(90, Kind.LEFT, "id-a"), True),
        (said(90, Kind.FENCED, "id-a", detail="SESSION_EXPIRED"), True),
        (said(90, Kind.LEFT, "id-a", detail="STATIC_MEMBER_AWAY"), False),
        (said(90, Kind.LEFT, "id-b"), False),
        (said(90, Kind.GROUP_STATE, machine=CONSUMER, next_state="DEAD"), True),
        (said(90, Kind.GROUP_STATE, machine=CONSUMER, next_state="DEAD", epoch=7), False),
        (said(90, Kind.GROUP_STATE, machine=CLASSIC), True),
        (said(90, Kind.GROUP_STATE, machine=CONSUMER), False),
        (said(90, Kind.GROUP_STATE, machine=CLASSIC, detail="3 members"), False),
    ],
    ids=["left", "fenced", "away", "other", "gone", "unloaded", "converted", "upgraded", "loaded"],
)
def test_what_ends_both_assignments(ending: CoordinatorRecord, ended: bool) -> None:
    """A member that is one no more, a group that is gone or of another kind; not a static member's absence."""
    found = told(target(0, "id-a", 1), state(0, "id-a", 2, "STABLE", 1), ending)
    assert [one[-2:] for one in found] == [(90, "removed") if ended else (None, "")] * 2


def test_a_static_member_comes_back_under_another_id() -> None:
    """What was kept for the old id is nobody's from then on."""
    found = told(
        said(0, Kind.JOINED, "id-a", instance_id="i"),
        state(1, "id-a", 2, "STABLE", 1),
        said(5, Kind.LEFT, "id-a", detail="STATIC_MEMBER_AWAY"),
        said(9, Kind.JOINED, "id-b", instance_id="i"),
        state(9, "id-b", 2, "STABLE", 1),
    )
    assert [(one[0], one[5], one[6]) for one in found] == [("id-a", 1, 9), ("id-b", 9, None)]


def test_two_sources_of_one_group_are_one_story() -> None:
    """What the broker prints, and what it stores a moment later, is said once; going back to a state is news."""
    stored = {"file": "offsets.jsonl"}
    found = told(
        state(100, "id-a", 2, "STABLE", 1),
        state(101, "id-a", 3, "STABLE"),
        state(102, "id-a", 2, "STABLE", 1, **stored),
        state(103, "id-a", 3, "STABLE", **stored),
        state(500, "id-a", 2, "STABLE", 1),
        target(500, "id-a", 1, epoch=4),
        target(501, "id-a", 1, **stored),
    )
    assert [one[1:6] for one in found] == [
        ("current", "STABLE", 2, [1], 100),
        ("current", "STABLE", 3, [], 101),
        ("current", "STABLE", 2, [1], 500),
        ("target", "", 4, [1], 500),
    ]


def generation(ts_ms: int, number: int, **owned: tuple[int, ...]) -> list[CoordinatorRecord]:
    """A generation of a classic group as it is stored."""
    group = said(ts_ms, Kind.GROUP_STATE, machine=CLASSIC, next_state="STABLE" if owned else "EMPTY", epoch=number)
    return [group, *(state(ts_ms, f"id-{m}", number, "STABLE", *n, machine=CLASSIC) for m, n in owned.items())]


def test_generations_of_a_classic_group() -> None:
    """One ends with the next; who is not in that one has nothing any more, and nobody has when the group is empty."""
    printed = said(12, Kind.GROUP_STATE, machine=CLASSIC, next_state="STABLE", epoch=4)
    preparing = said(18, Kind.GROUP_STATE, machine=CLASSIC, next_state="PREPARING_REBALANCE", epoch=4)
    found = told(
        *generation(10, 4, a=(0,), b=(1,)), printed, preparing, *generation(20, 5, a=(0, 1)), *generation(30, 6)
    )
    assert [(one[0], *one[3:]) for one in found] == [
        ("id-a", 4, [0], 10, 20, "removed"),
        ("id-b", 4, [1], 10, 20, "removed"),
        ("id-a", 5, [0, 1], 20, 30, "removed"),
    ]


def test_the_leader_of_a_generation() -> None:
    """A classic group names it; a consumer group has none, whatever is told of its members."""
    leads = state(1, "id-a", 4, "STABLE", 0, machine=CLASSIC, detail="leader")
    other = state(1, "id-b", 4, "STABLE", 1, detail="leader")
    assert [a.role for a in find_assignments("g", [leads, other])] == ["leader", ""]


def test_an_unknown_member_has_no_name_and_no_partitions_no_row() -> None:
    """A member that no log names keeps its id alone; members of other protocols have no assignment that we know."""
    (one,) = find_assignments(
        "g", [state(1, "id-c", 1, "STABLE", 3), said(2, Kind.MEMBER_STATE, "id-d", machine=CLASSIC)]
    )
    assert (one.member, one.member_id, one.partitions) == ("", "id-c", foo(3))


def test_a_hostile_number_of_members_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more members than are followed at once, the oldest are let go as they stand."""
    held = 1000
    assert held < HELD <= 1_000_000
    monkeypatch.setattr("fsm.audit.coordinator.assignments.HELD", held)
    spoken = (state(n, f"id-{n}", 1, "STABLE") for n in range(held + 3))
    first = [a for a, _ in zip(find_assignments("g", spoken), range(3), strict=False)]
    assert [(a.member_id, a.end_ms) for a in first] == [("id-0", None), ("id-1", None), ("id-2", None)]


def test_topics_have_names_where_anything_tells_them() -> None:
    """Else their ids, marked as such; classic groups print names, which may look like ids."""
    names: dict[str, str] = {}
    for name in ("foo", "another"):
        add_topic_names(names, {FOO: name})
    assert names == {FOO: "another"}
    names = {FOO: "foo"}
    record = TraceRecord(2, Kind.TARGET, full=((FOO, 1), ("unknown-22-character-id", 0)), revoked=((FOO, 2),))
    shown = with_names(record, names)
    assert (shown.full, shown.revoked) == ((("foo", 1), ("id:unknown-22-character-id", 0)), (("foo", 2),))
    classic = TraceRecord(2, Kind.MEMBER_STATE, machine=CLASSIC, full=((FOO, 1),))
    assert with_names(classic, names) == classic


def test_labels_are_short_whatever_there_is() -> None:
    """Runs of numbers, ids cut to eight characters, an ellipsis where partitions or topics are left out."""
    assert label([*foo(0, 1, 2, 5), (f"id:{FOO}", 7)]) == "foo-[0..2, 5], id:8s1lnmxk…-[7]"
    assert label([]) == ""
    assert label((f"t{n}", 0) for n in range(21)).endswith("…")
    assert len(label(("t" * 9000, 2 * n) for n in range(500))) == 160
