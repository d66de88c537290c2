"""Verdicts on Connect clusters as the judge of the audit reads them."""

from __future__ import annotations

import json
from pathlib import Path

from judge import NOTHING, Case, Verdict, compare, read_verdicts, table, verdicts

from fsm.audit.findings import FindingKind

SCENARIO = {
    "scenario": "s99",
    "begin": 100.0,
    "ran_twice_at_once": [{"unit": "A-0", "workers": ["W1", "W2"], "frm": 1.0, "to": 2.5, "seconds": 1.5}],
    "not_running": [
        {"unit": "A", "frm": 3.0, "to": 8.0, "seconds": 5.0, "why": "unassigned"},
        {"unit": "B-1", "frm": 3.0, "to": 5.0, "seconds": 2.0, "why": "unassigned"},
        {"unit": "B-2", "frm": 3.0, "to": 4.5, "seconds": 1.5, "why": "unassigned"},
        {"unit": "C", "frm": 3.0, "to": 9.0, "seconds": 6.0, "why": "connector paused by user"},
    ],
    "wrong": ["1 unit twice"],
    "log_event_counts": {},
}


def test_a_file_of_connect_scenarios_is_read(tmp_path: Path) -> None:
    """A list with `begin` and `wrong`; a scenario without either fault or telling line is quiet."""
    quiet = {**SCENARIO, "scenario": "s00", "ran_twice_at_once": [], "not_running": [], "wrong": []}
    lagging = {**quiet, "scenario": "s24", "log_event_counts": {"config_log_slow": 62}}
    (tmp_path / "findings.json").write_text(json.dumps([SCENARIO, quiet, lagging]))
    verdicts = read_verdicts(tmp_path / "findings.json")
    assert {name: each["t0"] for name, each in verdicts.items()} == {"s99": 100.0, "s00": 100.0, "s24": 100.0}
    assert [name for name, each in verdicts.items() if each["summary"] == NOTHING] == ["s00"]


def test_units_that_ran_twice_or_nowhere_are_verdicts() -> None:
    """Twice always counts; nowhere counts above 2.4 s and unless its user wanted it, below 1.6 s it is none."""
    twice, nowhere = FindingKind.RAN_TWICE, FindingKind.UNASSIGNED_WORK
    assert verdicts({**SCENARIO, "t0": 100.0}) == (
        Verdict(twice, 101_000.0, 102_500.0, frozenset({("A", 0)}), "", True),
        Verdict(nowhere, 103_000.0, 108_000.0, frozenset({("A", -1)}), "", True),
        Verdict(nowhere, 103_000.0, 105_000.0, frozenset({("B", 1)}), "", False),
        Verdict(nowhere, 103_000.0, 109_000.0, frozenset({("C", -1)}), "", False),
    )


def test_a_frozen_worker_is_no_verdict_where_no_heartbeats_are_printed() -> None:
    """At INFO it cannot be seen, which is counted and said with the reason; at DEBUG it must be found."""
    frozen = {"unit": "A-0", "frm": 1.0, "to": 9.0, "seconds": 8.0, "why": "its worker is frozen"}
    for level, missed, hidden in (("debug", 1, 0), ("info", 0, 1)):
        scenario = {**SCENARIO, "t0": 100.0, "level": level, "ran_twice_at_once": [], "not_running": [frozen]}
        report = compare([Case("s", level, 0.0, False, verdicts(scenario), ())])
        assert (len(report.misses), sum(report.hidden.values())) == (missed, hidden)
        lines = table(report)
        assert ("unassigned_work task A-0" in lines) == bool(missed)
        assert ("not visible: 1" in lines and "at INFO no heartbeats are printed" in lines) == bool(hidden)
