"""Members whose files tell another time than those of the others."""

from __future__ import annotations

import random
from dataclasses import replace

import memory
import pytest
import recordings
from scene import Scene

from fsm.audit.findings import FindingKind, Severity
from fsm.audit.group import judge
from fsm.audit.group.clocks import find_clock_differences
from fsm.audit.rows import GroupRows, MemberRebalance, Place
from fsm.trace import Kind

HOUR_MS = 3_600_000


def turn(member, start_ms, epoch, cause="", **values):
    place = Place(f"{member}.log", start_ms)
    return MemberRebalance("g", member, start_ms, start_ms + 100, epoch, 1, 0, cause, place, **values)


def told(*turns):
    given = sorted(turns, key=lambda t: (t.epoch or 0, t.member, t.start_ms))
    return [f.summary.partition(":")[0] for f in find_clock_differences("g", given)]


def fleet(*members, offset_ms=0, at=((1, 0), (2, 500_000), (3, 2_000_000))):
    return [turn(m, start_ms + offset_ms, epoch) for m in members for epoch, start_ms in at]


def test_one_file_an_hour_ahead():
    """The member, how far, of whom, by which epochs; both lines; a warning with what to do about it."""
    given = sorted([*fleet("a", "b"), *fleet("c", offset_ms=HOUR_MS)], key=lambda t: (t.epoch, t.member))
    (found,) = find_clock_differences("g", given)
    assert (found.kind, found.severity, found.member) == (FindingKind.ILLEGAL_TRANSITION, Severity.WARNING, "c")
    assert found.summary.startswith("the time stamps of c are 1 h 0 min ahead of those of a, by 3 epochs that both")
    assert "--timezone" in found.summary
    assert "--clock-skew-ms 3600000" in found.summary
    assert [(e.file, e.offset) for e in found.evidence] == [("c.log", HOUR_MS), ("a.log", 0)]


def test_the_clock_that_most_members_have_is_right():
    """Two files of three are a day behind: the third is wrong; two wrong ones of one clock are one finding."""
    assert told(*fleet("a", "b", offset_ms=-24 * HOUR_MS), *fleet("c")) == [
        "the time stamps of c are 24 h 0 min ahead of those of a, by 3 epochs that both came to"
    ]
    assert told(*fleet("a", "b", "c"), *fleet("d", "e", offset_ms=-HOUR_MS)) == [
        "the time stamps of d and 1 more are 1 h 0 min behind those of a, by 3 epochs that both came to"
    ]


def test_members_that_wait_for_one_another_have_one_clock():
    """Within twice the time that the group waits, by default or by the members' own settings."""
    assert told(*fleet("a"), *fleet("b", offset_ms=600_000)) == []
    assert told(*fleet("a"), *fleet("b", offset_ms=600_001)) != []
    patient = [replace(t, timeout_ms=HOUR_MS) for t in fleet("b", offset_ms=HOUR_MS)]
    assert told(*fleet("a"), *patient) == []


@pytest.mark.parametrize(
    "turns",
    [
        [turn("b", HOUR_MS, 1), turn("b", 2 * HOUR_MS, 2)],
        [turn("b", HOUR_MS, 1), turn("b", 500_000, 2)],
        [turn("b", 40 * HOUR_MS, 1), turn("b", 40 * HOUR_MS + 500_000, 2)],
        [turn("b", HOUR_MS, 1, "lost"), turn("b", HOUR_MS + 500_000, 2, "left")],
        [turn("b", HOUR_MS + 700_000, 2)],
        [turn("b", HOUR_MS, 1), turn("b", 0, 1)],
        [turn("b", HOUR_MS, None), turn("b", HOUR_MS, 0)],
    ],
    ids=["not constant", "together once", "another group", "on the way out", "one epoch", "twice", "no epoch"],
)
def test_what_tells_nothing_of_clocks(turns):
    """A member that was slow, a group that counts anew, losses, a single epoch by no whole hour."""
    assert told(*fleet("a"), *turns) == []


def test_one_epoch_is_enough_between_time_zones():
    """Whole hours, to half a minute."""
    assert told(*fleet("a"), turn("b", 500_000 + 2 * HOUR_MS - 29_000, 2)) == [
        "the time stamps of b are 1 h 59 min ahead of those of a, by epoch 2, which both came to"
    ]


def test_ownership_is_for_information_where_clocks_are_apart(interval):
    """Who owned what at one time is not known."""
    owned = [interval("a", 0, 9_000_000), interval("b", 5000, 12_000)]
    together = judge("g", GroupRows(owned, [*fleet("a"), *fleet("b")]))
    assert [(f.kind, f.severity) for f in together] == [(FindingKind.DOUBLE_OWNERSHIP, Severity.ERROR)]
    apart = judge("g", GroupRows(owned, [*fleet("a"), *fleet("b", offset_ms=HOUR_MS)]))
    assert [(f.kind, f.severity) for f in apart] == [
        (FindingKind.ILLEGAL_TRANSITION, Severity.WARNING),
        (FindingKind.DOUBLE_OWNERSHIP, Severity.INFO),
    ]


def test_a_rebalance_tells_its_generation(log):
    """The epoch that a classic member joins, and that which librdkafka got the assignment with."""
    log(0, Kind.JOINING)(50, Kind.JOINED, epoch=4)(60, Kind.ASSIGN_BEGIN, partitions=(("t", 0),))
    assert [(t.start_ms, t.epoch, t.timeout_ms) for t in log.rows(MemberRebalance)] == [(0, 4, 300_000)]
    modern = type(log)("c#consumer-1")(0, Kind.HEARTBEAT_OK, epoch=7)(1, Kind.RECONCILING)(9, Kind.ASSIGN_BEGIN)
    assert [t.epoch for t in modern.rows(MemberRebalance)] == [7]


@pytest.mark.parametrize("scenario", ["java/j03_rolling3", "java/x01_range_second", "librdkafka/c07_subchange"])
@pytest.mark.parametrize("by_ms", [HOUR_MS, -24 * HOUR_MS])
def test_recorded_logs_of_which_one_is_off(scenario, by_ms):
    """One finding names the file, and nothing else is above info."""
    archive, _, name = scenario.partition("/")
    scene = Scene(recordings.logs(archive)[name], random.Random(0))  # noqa: S311
    off = max(scene.files)
    scene.shift(off, 0, by_ms)
    (found,) = (f for f in memory.audit(scene.logs()).findings if f.severity is not Severity.INFO)
    assert found.kind is FindingKind.ILLEGAL_TRANSITION
    assert off in {shown.file for shown in found.evidence}
    assert "the time stamps of" in found.summary
