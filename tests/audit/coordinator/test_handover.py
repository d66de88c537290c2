"""How a partition came to its second owner, and whose it was when no log tells: what the coordinator's side adds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, EndReason
from fsm.audit.coordinator.evidence import HELD, add_handover, find_spans
from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity, finding
from fsm.audit.rows import Place
from fsm.trace import Partition

A_MS, B_MS = 100_000, 104_000
P: Partition = ("foo", 3)


def found(kind: FindingKind = FindingKind.DOUBLE_OWNERSHIP) -> Finding:
    """Something about partition 3 between the two times; a had it before."""
    return finding(kind, "g", "a", A_MS, B_MS, summary="so", partitions=[P, ("foo", 4)], places=[Place("a.log", 1)])


def held(
    start_ms: int, end_ms: int | None, member: str, until: EndReason = EndReason.FOLLOWED, *, up: bool = False
) -> Assignment:
    """An assignment with partition 3."""
    start, end = Place("b", start_ms), Place("b", end_ms or -1)
    own = ((), (P,)) if up else ((P,), ())
    which, name = AssignmentKind.CURRENT, f"id-{member}"
    return Assignment("g", member, name, which, "", "", "", 3, *own, start_ms, end_ms, until, "", "", start, end)


GIFT = held(A_MS - 100, None, "b", EndReason.OPEN)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (held(1, 99_000, "a", EndReason.REMOVED), "gave foo-[3] to b 900 ms after a was no member any more"),
        (held(1, 99_500, "a", up=True), "gave foo-[3] to b 400 ms after a had acknowledged giving it up"),
        (held(1, 99_900, "a"), "gave foo-[3] to b in the place of a"),
        (held(1, None, "a", EndReason.OPEN), "gave foo-[3] to b while it counted a as its owner"),
        (held(1, 110_000, "a"), "gave foo-[3] to b while it counted a as its owner"),
    ],
)
def test_what_the_first_owner_was_when_the_second_came(before: Assignment, told: str) -> None:
    """Out of the group, asked and done, replaced, or still an owner: each has its words."""
    assert add_handover(found(), [GIFT, before], 0).summary == f"so; the coordinator {told}"


def unasked(start_ms: int, end_ms: int) -> Assignment:
    """A member of the consumer protocol had it, and has it no more, without having been told to give it up."""
    return replace(held(start_ms, end_ms, "a"), machine="consumer-group-member")


def test_what_was_taken_unasked_was_left_out_of_a_report() -> None:
    """W1 and W9: a member gives up what it was told to give up, in two steps; here is one alone."""
    unknown = replace(found(), cause=Cause.UNKNOWN)
    told = add_handover(unknown, [GIFT, unasked(1, 99_900)], 0)
    assert told.cause is Cause.LEFT_OUT
    gave = "so; the coordinator gave foo-[3] to b though it had not asked a to give it up"
    assert told.summary == f"{gave}: a report of a left it out"
    known = replace(found(), cause=Cause.NO_POLL)
    assert add_handover(known, [GIFT, unasked(1, 99_900)], 0).cause is Cause.NO_POLL


@pytest.mark.parametrize(
    "before",
    [
        held(1, 99_900, "a"),
        replace(unasked(1, 99_900), revoked=(P,)),
        replace(unasked(1, 99_900), until=EndReason.REMOVED),
        unasked(1, 99_950),
    ],
    ids=["of a classic group", "asked", "removed", "later than the gift"],
)
def test_nothing_else_is_called_so(before: Assignment) -> None:
    told = add_handover(replace(found(), cause=Cause.UNKNOWN), [GIFT, before], 0)
    assert told.cause is Cause.UNKNOWN


def test_both_moments_become_evidence() -> None:
    """The line that ended the first one's assignment, then the line that began the second one's."""
    told = add_handover(found(), [held(1, 99_000, "a", EndReason.REMOVED), GIFT], 0)
    assert told.evidence == (Evidence("a.log", 1), Evidence("b", 99_000), Evidence("b", 99_900))
    assert replace(told, summary="so", evidence=found().evidence) == found()
    known = replace(found(), evidence=(Evidence("b", 99_900),))
    assert add_handover(known, [GIFT], 0).evidence == known.evidence


def test_a_new_owner_without_a_log_is_named_by_its_id() -> None:
    """The coordinator knows it, and nobody else does."""
    told = add_handover(found(), [replace(GIFT, member="", member_id="id-x")], 0)
    assert told.summary == "so; the coordinator gave foo-[3] to id-x, whose log is missing"


@pytest.mark.parametrize(
    "others",
    [
        [],
        [held(1, None, "b")],
        [held(89_999, 99_000, "b"), held(99_000, None, "b")],
        [held(A_MS - 100, None, "a")],
        [held(A_MS - 100, None, "b", up=True)],
        [held(A_MS + 1001, None, "b")],
    ],
    ids=["nothing", "long before", "kept", "itself", "gives up", "later"],
)
def test_only_a_reassignment_near_the_begin_counts(others: list[Assignment]) -> None:
    """Who had the partition long before, keeps it, or gives it up, was not given it now."""
    assert add_handover(found(), others, 0) == found()


def test_clocks_may_differ() -> None:
    """A gift after the allowed second counts where the clocks may be apart."""
    late = held(A_MS + 1500, None, "b")
    assert add_handover(found(), [late], 0) == found()
    assert add_handover(found(), [late], 500) != found()


@pytest.mark.parametrize(
    ("owner", "theirs"),
    [
        (held(99_000, 103_000, ""), True),
        (held(99_000, None, ""), True),
        (held(99_000, 102_000, ""), False),
        (held(99_000, None, "b"), False),
        (held(99_000, None, "", up=True), False),
    ],
    ids=["most of it", "to the end", "half of it", "its log is here", "gives up"],
)
def test_a_partition_nobody_owned_may_be_somebodys_whose_log_is_missing(owner: Assignment, theirs: bool) -> None:
    """Then there was no gap as far as one can tell: the finding is for information, and says whose it was."""
    gap = found(FindingKind.UNOWNED_PARTITION)
    told = add_handover(gap, [owner], 0)
    if not theirs:
        assert told == gap
        return
    assert told.severity is Severity.INFO
    assert told.summary == "so; the coordinator counted id-, whose log is missing, as the owner"
    assert told.evidence[-1] == Evidence("b", 99_000)


def test_other_findings_are_left_alone() -> None:
    """A lost partition is the member's own affair."""
    lost = found(FindingKind.PARTITIONS_LOST)
    assert add_handover(lost, [GIFT], 0) == lost


def assignment(start_ms: int, partitions: tuple[Partition, ...], revoked: tuple[Partition, ...] = ()) -> Assignment:
    """A current assignment of b that stands."""
    return Assignment(
        "g", "b", "id-b", AssignmentKind.CURRENT, "consumer-group-member", "STABLE", "", 3, partitions, revoked,
        start_ms, None, EndReason.OPEN, "", "", Place("b", start_ms), Place("", -1),
    )  # fmt: skip


def test_assignments_that_concern_a_finding() -> None:
    """Those with its first partition, assigned or to be given up, that stand near its time; the last ones."""
    own = [
        assignment(90_000, (P,)),
        assignment(90_001, (), (P,)),
        assignment(90_002, (("foo", 4),)),
        replace(assignment(10, (P,)), end_ms=89_999),
        replace(assignment(20, (P,)), which=AssignmentKind.TARGET),
        assignment(101_001, (P,)),
    ]
    assert [h.start_ms for h in find_spans(own, found(), 0)] == [90_000, 90_001]
    many = [assignment(90_000 + n, (P,)) for n in range(HELD + 9)]
    assert [h.start_ms for h in find_spans(many, found(), 0)] == list(range(90_009, 90_009 + HELD))
