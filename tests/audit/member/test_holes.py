"""Logs of which a rotated file in the middle is missing: what they do not tell is nobody's fault."""

from __future__ import annotations

import memory
import pytest
import recordings

from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.group import judge
from fsm.audit.group.coverage import find_coverage
from fsm.audit.hygiene.rotation import find_missing, is_hole
from fsm.audit.rows import Begun, Ended, GroupRows, Interval, Life
from fsm.trace import Kind

GONE = find_missing(["a.log.2", "a.log"])


def test_files_between_rotations_are_missed():
    """Numbers between the least and the greatest; days tell nothing, and every log is judged by itself."""
    assert find_missing(["x/a.log", "x/a.log.3", "y/a.log.1", "b-2026-11-20.log", "b-2026-11-22.log"]) == {
        "x/a": {1, 2}
    }
    assert find_missing(["a.log.gz", "a.log.1.gz", "a.log.2.gz"]) == {}


@pytest.mark.parametrize(
    ("older", "newer", "hole"),
    [
        ("a.log.2", "a.log", True),
        ("a.log", "a.log.2", True),
        ("a.log.2", "a.log.2", False),
        ("b.log.2", "b.log", False),
    ],
)
def test_a_hole_lies_between_two_files_of_one_log(older, newer, hole):
    """Only where a number between theirs was not given."""
    assert is_hole(GONE, older, newer) is hole


@pytest.fixture
def rotated(log):
    """A member that is given a partition in its oldest file; the newest one begins a minute later."""
    log(0, Kind.STARTED, file="a.log.2")(100, Kind.SUBSCRIBED, topics=("t",), file="a.log.2")
    log(1000, Kind.ASSIGN_BEGIN, partitions=(("t", 0),), file="a.log.2")
    return log(61_000, Kind.HEARTBEAT_OK, epoch=9, file="a.log")


def test_ownership_is_not_known_across_a_hole(rotated):
    """It ends with the last line before it; the same files with nothing missing tell of one ownership."""
    rotated(70_000, Kind.CLOSE_BEGIN, file="a.log")(70_100, Kind.CLOSE_END, file="a.log")
    assert [(i.start_ms, i.end_ms, i.ended) for i in rotated.rows(Interval, GONE)] == [(1000, 1000, Ended.HOLE)]
    assert [(i.start_ms, i.end_ms) for i in rotated.rows(Interval)] == [(1000, 70_100)]


def test_what_is_given_up_behind_a_hole_was_given_in_it(rotated):
    """A callback for a partition that no line gave: with nothing missing that is a finding."""
    rotated(70_000, Kind.REVOKE_BEGIN, partitions=(("t", 7),), file="a.log")(70_100, Kind.REVOKE_END, file="a.log")
    begun = [(i.partition, i.start_ms, i.begun) for i in rotated.rows(Interval, GONE)]
    assert begun == [(0, 1000, Begun.ASSIGNED), (7, 61_000, Begun.FOUND)]
    assert [f.kind for f in rotated.rows(Finding, GONE)] == [FindingKind.UNPARSED_LINES]
    assert FindingKind.CALLBACK_NOT_OWNED in [f.kind for f in rotated.rows(Finding)]


def test_a_hole_is_told(rotated):
    """For information: both files, how long nothing is known, and the lines on both sides."""
    (told,) = rotated.rows(Finding, GONE)
    assert (told.severity, told.start_ms, told.end_ms) == (Severity.INFO, 1000, 61_000)
    assert told.summary == (
        "a rotated file between a.log.2 and a.log is missing: what c did in these 1 min 0 s is not known"
    )
    assert [shown.file for shown in told.evidence] == ["a.log.2", "a.log"]


def test_coverage_is_unknown_from_a_hole_on(rotated):
    """The first life ends without a word, the second is the same process in mid-life."""
    first, second = rotated.rows(Life, GONE)
    assert (first.ended, first.whole_start, second.whole_start) == (Ended.HOLE, True, False)
    assert find_coverage([first, second], [])[0].end == "unknown"


def test_another_owner_during_a_hole_is_no_double_ownership(rotated, interval):
    """The member may have given the partition up where nobody can see it."""
    rotated(70_000, Kind.CLOSE_BEGIN, file="a.log")(70_100, Kind.CLOSE_END, file="a.log")
    other = interval("d", 20_000, 90_000)
    assert judge("g", GroupRows([*rotated.rows(Interval, GONE), other], rotated.rows(Life, GONE))) == []
    (double,) = judge("g", GroupRows([*rotated.rows(Interval), other], rotated.rows(Life)))
    assert (double.kind, double.severity) == (FindingKind.DOUBLE_OWNERSHIP, Severity.ERROR)


@pytest.mark.parametrize(
    ("archive", "scenario"),
    [("java", "i_m_range_upgrade_down"), ("java", "j03_rolling3"), ("librdkafka", "c03_rolling4")],
)
def test_recorded_members_without_their_middle_file(transform, archive, scenario):
    """Each member in turn: nothing was wrong, and nothing above info is found."""
    logs = recordings.logs(archive)[scenario]
    for name in logs:
        rest = {file: data for file, data in transform.rotated(logs).items() if file != f"{name}.1"}
        found = memory.audit(rest).findings
        assert [f.summary for f in found if f.severity is not Severity.INFO] == []
        assert FindingKind.UNPARSED_LINES in [f.kind for f in found]
