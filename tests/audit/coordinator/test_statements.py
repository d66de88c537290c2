"""What the coordinator's words add to findings, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.audit.coordinator.assignments import CoordinatorRecord
from fsm.audit.coordinator.evidence import SHOWN, add_statements, find_statements
from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, finding
from fsm.audit.rows import Place
from fsm.trace import Kind, TraceRecord

START_MS, END_MS = 100_000, 130_000


def lost(cause: Cause = Cause.FENCED) -> Finding:
    """A member lost a partition."""
    kind = FindingKind.PARTITIONS_LOST
    return finding(kind, "g", "a", START_MS, END_MS, summary="a lost t-0", cause=cause, places=[Place("a.log", 7)])


def said(ts_ms: int, kind: Kind = Kind.FENCED, detail: str = "SESSION_EXPIRED", offset: int = 1) -> CoordinatorRecord:
    """A word of the coordinator."""
    return CoordinatorRecord(TraceRecord(ts_ms, kind, detail=detail), "a", Place("broker.log", offset))


def test_a_word_gives_the_cause_and_becomes_evidence() -> None:
    """The client knew only that it was fenced; the broker knows why."""
    told = add_statements(lost(), [said(95_000)], 0)
    assert told.cause is Cause.SESSION_EXPIRED
    assert told.summary == "a lost t-0; the coordinator says that its session expired"
    assert told.evidence == (Evidence("a.log", 7), Evidence("broker.log", 1))
    assert replace(told, cause=Cause.FENCED, summary="a lost t-0", evidence=lost().evidence) == lost()


@pytest.mark.parametrize(
    ("kind", "detail", "cause"),
    [
        (Kind.FENCED, "REBALANCE_TIMEOUT", Cause.SLOW_CALLBACK),
        (Kind.LEFT, "consumer poll timeout has expired.", Cause.NO_POLL),
        (Kind.LEFT, "the consumer is being closed", Cause.UNKNOWN),
    ],
)
def test_which_words_tell_a_cause(kind: Kind, detail: str, cause: Cause) -> None:
    """Timeouts do, an ordinary leave does not."""
    assert add_statements(lost(Cause.UNKNOWN), [said(99_000, kind, detail)], 0).cause is cause


def test_a_known_cause_stays() -> None:
    """The clients' logs were there: the coordinator adds its line and no opinion."""
    told = add_statements(lost(Cause.NO_POLL), [said(99_000)], 0)
    assert (told.cause, told.summary, len(told.evidence)) == (Cause.NO_POLL, "a lost t-0", 2)


def test_what_became_of_a_member_whose_log_just_ends() -> None:
    """The cause stays `killed`, and the summary says how the coordinator took it."""
    told = add_statements(lost(Cause.KILLED), [said(99_000)], 0)
    assert told.cause is Cause.KILLED
    assert told.summary.endswith("; the coordinator says that its session expired")


@pytest.mark.parametrize(
    ("ts_ms", "skew_ms", "near"),
    [(90_000, 0, True), (89_999, 0, False), (89_000, 1000, True), (131_000, 0, True), (131_001, 0, False)],
)
def test_only_words_near_the_finding_count(ts_ms: int, skew_ms: int, near: bool) -> None:
    """From ten seconds before it to one after it, and as much more as clocks may differ."""
    assert (add_statements(lost(), [said(ts_ms)], skew_ms) != lost()) is near


def test_the_last_few_are_shown_and_none_twice() -> None:
    """A fencing loop has many words; a line that is evidence already stays one line."""
    many = [said(100_000 + n, offset=n) for n in range(9)]
    shown = add_statements(lost(), many, 0).evidence[1:]
    assert shown == tuple(Evidence("broker.log", n) for n in range(9 - SHOWN, 9))
    twice = said(100_000)._replace(place=Place("a.log", 7))
    assert add_statements(lost(), [twice], 0).evidence == lost().evidence


def record(kind: Kind, member_id: str, ts_ms: int, member: str = "") -> CoordinatorRecord:
    """A record of the coordinator about a member of group g, whose log may be known."""
    about = TraceRecord(ts_ms, kind, group="g", member_id=member_id, thread="coordinator")
    return CoordinatorRecord(about, member, Place("broker.log", ts_ms))


def test_words_belong_to_the_member_that_has_the_id() -> None:
    """In order of time, the ends of memberships only; what is said of ids that no log names is nobody's."""
    every = [
        record(Kind.FENCED, "id-a", 9, "a"),
        record(Kind.LEFT, "id-a", 3, "a"),
        record(Kind.JOINED, "id-a", 1, "a"),
        record(Kind.LEFT, "id-b", 4),
        record(Kind.GROUP_EPOCH, "", 5),
    ]
    assert [w.record.ts_ms for w in find_statements(every)["a"]] == [3, 9]
    assert list(find_statements(every)) == ["a"]
