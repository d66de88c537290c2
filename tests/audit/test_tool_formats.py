"""JUnit's XML and SARIF: their form, whatever the names in logs are, and every finding once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity, finding, with_ids
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import Incident, find_incidents, of_files
from fsm.audit.report.tool_formats import junit, sarif
from fsm.audit.rows import GroupRows

NASTY = "a]]>&<b\x00\x1b[31m\u202e\ud800"
REQUIRED = {
    "runs": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rules": {"id"},
    "results": {"message"},
    "message": {"text"},
    "relatedLocations": {"physicalLocation"},
    "locations": {"physicalLocation"},
    "physicalLocation": {"artifactLocation"},
    "shortDescription": {"text"},
    "fullDescription": {"text"},
    "snippet": {"text"},
}
"""What SARIF 2.1.0 asks of its objects (sections 3.13 to 3.58), by the property that holds them."""


def told(*findings: Finding) -> tuple[list[Incident], list[Finding]]:
    """A group's incidents and findings as an audit has them."""
    found = with_ids(findings)
    if not found[0].group:
        return of_files(found), found
    return find_incidents(GroupAudit(found[0].group, {}, {}, GroupRows(), found, (), (), (), ())), found


@pytest.fixture
def audit() -> tuple[list[Incident], list[Finding]]:
    """A damaged file, a group with two incidents, and one with something for information."""
    shown = (Evidence("logs/a b#1.log", 7, 3, "said so"), Evidence("/logs/é.log", 9, 12, NASTY))
    out = replace(finding(FindingKind.MEMBER_OUT_FOR_GOOD, "g", NASTY, 10, 2500, summary=NASTY), evidence=shown)
    slow = finding(FindingKind.SLOW_CALLBACK, "g", "m", 10, 20, summary="slow")
    lost = finding(FindingKind.PARTITIONS_LOST, "g", "m", 15, 15, summary="lost", cause=Cause.SLOW_CALLBACK)
    quiet = replace(finding(FindingKind.UNOWNED_PARTITION, "h", "m", 5, 9, summary="s"), severity=Severity.INFO)
    file = finding(FindingKind.UNPARSED_LINES, "", "", 0, 0, summary="not read: cut")
    parts = [told(replace(file, evidence=(Evidence("c.gz", -1),))), told(out, slow, lost), told(quiet)]
    return [one for incidents, _ in parts for one in incidents], [one for _, findings in parts for one in findings]


def test_junit_has_a_suite_for_each_group_and_a_case_for_each_incident(audit: Any) -> None:
    """What is for information passed; so did a group in which nothing was found."""
    suites = ET.fromstring("".join(junit(["g", "h", "quiet"], *audit)))  # noqa: S314  our own
    assert [(one.get("name"), one.get("tests"), one.get("failures")) for one in suites] == [
        ("files", "1", "0"),
        ("g", "2", "2"),
        ("h", "1", "0"),
        ("quiet", "1", "0"),
    ]
    cases = {case.get("name", "").rpartition(" ")[0]: case for case in suites.iter("testcase")}
    assert list(cases) == [
        "unparsed_lines", "member_out_for_good", "partitions_lost slow_callback", "unowned_partition", "nothing",
    ]  # fmt: skip
    failure = cases["partitions_lost slow_callback"].find("failure")
    assert failure is not None
    assert failure.get("type") == "warning"
    assert (failure.text or "").splitlines()[0].startswith("to try: Shorten the rebalance callback")
    assert cases["member_out_for_good"].get("time") == "2.490"
    assert "logs/a b#1.log:3: error: a]]>&<b\\x00\\x1b[31m\\u202e\\ud800" in "".join(suites.itertext())


def test_sarif_has_what_its_standard_asks_for(audit: Any) -> None:
    """Version 2.1.0, required properties everywhere, levels, and rules that results name."""
    document = json.loads("".join(sarif(*audit)))
    assert document["version"] == "2.1.0"
    _check(document)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [kind.value for kind in FindingKind]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
    assert len({one["partialFingerprints"]["findingId/v1"] for one in run["results"]}) == len(run["results"]) == 5


def _check(value: Any, name: str = "") -> None:
    if isinstance(value, list):
        for one in value:
            _check(one, name)
    elif isinstance(value, dict):
        assert REQUIRED.get(name, set()) <= set(value), (name, value)
        for key, one in value.items():
            _check(one, key)


def test_sarif_names_lines_of_files(audit: Any) -> None:
    """As URIs with regions; a file that was not read has no line."""
    results = json.loads("".join(sarif(*audit)))["runs"][0]["results"]
    by_kind = {one["ruleId"]: one for one in results}
    (place,) = by_kind["member_out_for_good"]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "logs/a%20b%231.log"},
        "region": {"startLine": 3, "snippet": {"text": "said so"}},
    }
    (other,) = by_kind["member_out_for_good"]["relatedLocations"]
    assert other["physicalLocation"]["artifactLocation"] == {"uri": "file:///logs/%C3%A9.log"}
    assert by_kind["unparsed_lines"]["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "c.gz"}}}]
    assert by_kind["slow_callback"]["locations"] == []
    assert by_kind["slow_callback"]["properties"]["incident"] == by_kind["partitions_lost"]["properties"]["incident"]
    assert r"\ud800" not in json.dumps(results).replace(r"\\ud800", "written out")


def test_an_audit_without_findings() -> None:
    """Both are complete documents."""
    assert len(ET.fromstring("".join(junit(["g"], [], [])))) == 1  # noqa: S314  our own
    assert json.loads("".join(sarif([], [])))["runs"][0]["results"] == []
