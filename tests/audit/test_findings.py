"""Findings: order, JSON, severity, words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import recordings

from fsm.audit.findings import SEVERITY, Cause, Evidence, FindingKind, Severity, finding, in_order
from fsm.audit.local import audit_files
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


@pytest.mark.parametrize("newest_first", [False, True])
def test_lines_that_are_records_of_a_document_are_told_by_number(newest_first, tmp_path):
    """All of them stand on one line; in an ordinary file a line is enough."""
    for name, data in recordings.logs("java")["i_j07_maxpoll"].items():
        entries = re.split(r"(?m)\n(?=\[\d{4})", data.decode().rstrip("\n"))
        hits = [
            {"_source": {"@timestamp": f"{one[1:11]}T{one[12:20]}.{one[21:24]}Z", "message": one}} for one in entries
        ]
        document = {"hits": hits[::-1] if newest_first else hits}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    lines = [one for found in audit_files(tmp_path.iterdir()).findings for one in found.evidence if one.offset >= 0]
    assert len(lines) > 2
    for one in lines:
        number = one.record or 1
        told = json.loads(Path(one.file).read_text())["hits"][number - 1]["_source"]["message"]
        assert told[:24] in one.text
        assert one.place == (f"{one.file}:1:{number}" if number > 1 else f"{one.file}:1")
        assert one.to_json().get("record", 1) == number
    assert len({one.record for one in lines}) > 2
    plain = Evidence("a.log", 36, 7, "text")
    assert (plain.place, plain.to_json()) == ("a.log:7", {"file": "a.log", "line": 7, "text": "text"})
