"""Lines that stand in a file out of the order of their times, and the names that rotation gives to files."""

from __future__ import annotations

import random

import pytest

from fsm.audit.findings import FindingKind
from fsm.audit.hygiene.line_order import LineOrder
from fsm.audit.hygiene.rotation import are_adjacent, are_rotations
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind, TraceRecord


def found(lines, order=None):
    """The findings for (time, offset) or (time, offset, kind, file), which are read by time."""
    order = order or LineOrder("g", "c")
    for line in sorted(lines):
        ts_ms, offset, kind, file = (*line, *(Kind.HEARTBEAT_OK, "a.log")[len(line) - 2 :])
        order.see(Seen(TraceRecord(ts_ms, kind), Place(file, offset)))
    return list(order.findings())


IN_ORDER = [(1000 * i, 100 * i) for i in range(30)]


def test_a_file_in_order_is_fine():
    """Nothing is found; threads may differ by a little."""
    assert found([*IN_ORDER, (10_020, 999)]) == []


def test_a_clock_that_was_set_back():
    """The first half of the file is up to eight seconds younger than what follows it."""
    jumped = [(ts_ms - 8000 if offset >= 1500 else ts_ms, offset) for ts_ms, offset in IN_ORDER]
    (one,) = found(jumped)
    assert (one.kind, one.start_ms, one.end_ms) == (FindingKind.ILLEGAL_TRANSITION, 7000, 14_000)
    assert one.summary == (
        "in the file of c 6 lines stand before what is up to 7.0 s older: lines were moved, or its clock was set back"
    )


def test_steps_are_in_order_to_the_millisecond():
    """One thread prints them; other lines may be a little off."""
    assert found([*IN_ORDER, (5001, 650), (5002, 640)]) == []
    (one,) = found([*IN_ORDER, (5001, 650, Kind.TRANSITION), (5002, 640, Kind.TRANSITION)])
    assert (one.start_ms, one.end_ms) == (5001, 5002)


def test_a_shuffled_file_has_no_order_to_break():
    """Where lines are out of order among those out of order, nothing was moved: they never had an order."""
    chance = random.Random(1)  # noqa: S311
    offsets = [100 * i for i in range(30)]
    chance.shuffle(offsets)
    assert found([(1000 * i, offset) for i, offset in enumerate(offsets)]) == []


def test_few_lines_of_a_member_in_files_of_a_collector():
    """Several files that go on by turns: many lines out of order mean nothing."""
    lines = [(ts_ms, offset, Kind.HEARTBEAT_OK, f"{i % 2}.log") for i, (ts_ms, offset) in enumerate(IN_ORDER)]
    assert found(lines) == []
    assert found([*lines[:4], (4500, 1, Kind.HEARTBEAT_OK, "0.log"), (9500, 2, Kind.HEARTBEAT_OK, "0.log")]) == []


@pytest.mark.parametrize(
    ("older", "newer", "whole"),
    [
        ("a.log.2", "a.log.1", True), ("a.log.1", "a.log", True), ("a.1.log.gz", "a.log", True),
        ("a.log.3", "a.log.1", False), ("a.log.2", "a.log", False), ("a.log.1", "b.log", False),
        ("a-2026-11-20.log", "a-2026-11-21.log", False), ("a-2026-11-20.log", "a.log", False),
    ],
)  # fmt: skip
def test_rotations_that_adjoin(older, newer, whole):
    """Consecutive numbers leave nothing out; days may."""
    assert are_adjacent(f"/logs/{older}", f"/logs/{newer}") is whole


def test_a_log_and_its_rotations_are_told_from_parts():
    """Parts that a collector counts have no log without a number."""
    assert are_rotations(["a.log", "a.log.2", "a.log.1"])
    assert not are_rotations(["a.log", "a.log.2"])
    assert not are_rotations(["part-0.log", "part-1.log"])
    assert not are_rotations(["part-1.log", "part-2.log"])
