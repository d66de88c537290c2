"""The result of an audit for other tools: JUnit XML by incident, SARIF 2.1.0 by finding.

Both are generated in pieces, with one group in memory at a time. Incidents and findings are given in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from fsm import __version__
from fsm.audit.findings import SEVERITY, Evidence, Finding, FindingKind, Severity
from fsm.audit.incidents import Incident
from fsm.render.report.glossary import KINDS
from fsm.render.wording import show

FILES = "files"
"""The group name of findings about files."""
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LONGEST = 10_000
"""Longest text of one finding."""
_shown = partial(show, limit=LONGEST)


def junit(groups: Iterable[str], incidents: Iterable[Incident], findings: Iterable[Finding]) -> Iterator[str]:
    """A suite per group and a case per incident, failed unless its severity is info.

    A group without incidents has one passed case.
    """
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="fsm audit">\n'
    quiet = set(groups)
    for group, (own, by_id) in _by_group(incidents, findings):
        quiet.discard(group)
        yield _suite(group, [_case(incident, [by_id[one] for one in incident.findings]) for incident in own])
    for group in sorted(quiet):
        yield _suite(group, [ET.Element("testcase", classname=_shown(group), name="nothing found")])
    yield "</testsuites>\n"


def _suite(group: str, cases: Sequence[ET.Element]) -> str:
    failures = sum(case.find("failure") is not None for case in cases)
    suite = ET.Element("testsuite", name=_shown(group or FILES), tests=str(len(cases)), failures=str(failures))
    suite.extend(cases)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode") + "\n"


def _case(incident: Incident, findings: Sequence[Finding]) -> ET.Element:
    lasted_ms = (incident.until_ms or max(one.end_ms for one in findings)) - incident.since_ms
    name = f"{incident.kind} {incident.cause} {incident.id}".replace("  ", " ")
    group = _shown(incident.group or FILES)
    case = ET.Element("testcase", classname=group, name=name, time=f"{lasted_ms / 1000:.3f}")
    lines = [f"to try: {incident.next_step}", *map(_line, findings)]
    if incident.severity is Severity.INFO:
        output = ET.SubElement(case, "system-out")
        lines = [incident.sentence, *lines]
    else:
        output = ET.SubElement(case, "failure", type=incident.severity.value, message=_shown(incident.sentence))
    output.text = "\n".join(map(_shown, lines))
    return case


def _line(found: Finding) -> str:
    place = next((f"{one.place}: " for one in found.evidence), "")
    return f"{place}{found.severity}: {found.summary}"


def sarif(incidents: Iterable[Incident], findings: Iterable[Finding]) -> Iterator[str]:
    """A run with a result per finding, at its lines, with its id as fingerprint."""
    head = {"$schema": SCHEMA, "version": "2.1.0"}
    rules = [_rule(kind) for kind in FindingKind]
    tool = {"driver": {"name": "fsm audit", "version": __version__, "rules": rules}}
    yield json.dumps(head)[:-1] + ', "runs": [{"tool": ' + json.dumps(tool) + ', "results": ['
    comma = ""
    for _, (own, by_id) in _by_group(incidents, findings):
        for incident in own:
            for found in incident.findings:
                yield f"{comma}\n" + json.dumps(_result(by_id[found], incident))
                comma = ","
    yield "\n]}]}\n"


def _rule(kind: FindingKind) -> dict[str, Any]:
    level = LEVELS[SEVERITY[kind]]
    return {
        "id": kind.value,
        "shortDescription": {"text": kind.value.replace("_", " ")},
        "fullDescription": {"text": KINDS[kind.value]},
        "defaultConfiguration": {"level": level},
    }


def _result(found: Finding, incident: Incident) -> dict[str, Any]:
    about = f"{found.group}: " if found.group else ""
    places = [_location(one) for one in found.evidence]
    return {
        "ruleId": found.kind.value,
        "ruleIndex": list(FindingKind).index(found.kind),
        "level": LEVELS[found.severity],
        "message": {"text": _shown(f"{about}{found.summary}; to try: {incident.next_step}")},
        "locations": places[:1],
        "relatedLocations": [{"id": number} | one for number, one in enumerate(places[1:], 1)],
        "partialFingerprints": {"findingId/v1": found.id},
        "properties": {
            "group": _shown(found.group),
            "member": _shown(found.member),
            "cause": found.cause.value,
            "incident": incident.id,
            "startMs": found.start_ms,
            "endMs": found.end_ms,
        },
    }


def _location(one: Evidence) -> dict[str, Any]:
    """A line of a file, or the file if it could not be read."""
    scheme = "file://" if one.file.startswith("/") else ""
    place: dict[str, Any] = {"artifactLocation": {"uri": scheme + quote(one.file, errors="surrogateescape")}}
    if one.line > 0:
        place["region"] = {"startLine": one.line, "snippet": {"text": _shown(one.text)}}
    located: dict[str, Any] = {"physicalLocation": place}
    return located | {"message": {"text": f"record {one.record}"}} if one.record else located


def _by_group(
    incidents: Iterable[Incident], findings: Iterable[Finding]
) -> Iterator[tuple[str, tuple[list[Incident], Mapping[str, Finding]]]]:
    """(group, (incidents, findings by id)) of each group with incidents."""
    by_group = groupby(findings, key=attrgetter("group"))
    for group, own in groupby(incidents, key=attrgetter("group")):
        of_group, its = list(own), next(found for name, found in by_group if name == group)
        yield group, (of_group, {one.id: one for one in its})
