"""Findings: order, JSON, severity, words."""

from __future__ import annotations

import pytest

from fsm.audit.findings import SEVERITY, Cause, Evidence, FindingKind, Severity, finding, in_order
from fsm.audit.rows import NOWHERE, Place
from fsm.audit.wording import names, seconds


def lost(**values):
    fields = {
        "summary": "s",
        "partitions": [("t", 1), ("t", 0), ("t", 1)],
        "places": [Place("f", 5), NOWHERE, Place("f", 5)],
    } | values
    return finding(FindingKind.PARTITIONS_LOST, fields.pop("group", "g"), "m", fields.pop("start_ms", 10), 20, **fields)


def test_partitions_are_sorted_and_each_place_is_shown_once():
    """Places that no line has are left out."""
    assert lost().partitions == (("t", 0), ("t", 1))
    assert lost().evidence == (Evidence("f", 5),)


def test_json_has_the_promised_form():
    """Times in epoch milliseconds, partitions as lists, enums as text."""
    assert lost(cause=Cause.NO_POLL).to_json() == {
        "id": "",
        "kind": "partitions_lost",
        "severity": "warning",
        "group": "g",
        "member": "m",
        "others": [],
        "start_ms": 10,
        "end_ms": 20,
        "partitions": [["t", 0], ["t", 1]],
        "cause": "no_poll",
        "summary": "s",
        "piled_up": None,
        "evidence": [{"file": "f", "line": 0, "text": ""}],
    }


def test_every_kind_has_a_severity():
    """And nothing else has one."""
    assert set(SEVERITY) == set(FindingKind)


@pytest.mark.parametrize(
    ("kind", "once", "twice"),
    [(FindingKind.DOUBLE_OWNERSHIP, "warning", "info"), (FindingKind.PARTITIONS_LOST, "info", "info")],
)
def test_lowered_is_one_step(kind, once, twice):
    """Nothing is lower than info."""
    found = finding(kind, "g", "m", 0, 0, summary="")
    assert (found.lower_severity().severity, found.lower_severity().lower_severity().severity) == (
        Severity(once),
        Severity(twice),
    )


def test_order_is_by_group_then_time():
    """The same findings in any order give the same list."""
    found = [lost(start_ms=30), lost(group="f", start_ms=90), lost(start_ms=5), lost(start_ms=5, summary="a")]
    assert [(f.group, f.start_ms, f.summary) for f in in_order(reversed(found))] == [
        ("f", 90, "s"), ("g", 5, "a"), ("g", 5, "s"), ("g", 30, "s"),
    ]  # fmt: skip


def test_long_lists_are_cut_and_counted():
    """A sentence names eight partitions of a topic, and eight topics."""
    assert names([("t", i) for i in range(11)]) == "t-[0, 1, 2, 3, 4, 5, 6, 7 and 3 more]"
    assert names([(f"t{i}", 0) for i in range(9)]).endswith("t7-[0] and partitions of 1 more topics")


def test_durations_are_read_aloud():
    """Tenths below a minute, then minutes, then hours."""
    assert [seconds(ms) for ms in (49, 59_999, 60_000, 3_600_000)] == ["0.0 s", "60.0 s", "1 min 0 s", "1 h 0 min"]
