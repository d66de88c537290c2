"""What the page is given of a group: lanes, incidents with their findings, what happened over time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random

import pytest

from fsm.audit.findings import Cause, Evidence, Finding, FindingKind, Severity, finding
from fsm.audit.group import Rebalance
from fsm.audit.incidents import Incident, badness
from fsm.audit.incidents.next_steps import STEPS
from fsm.audit.report import finding_view, incident_view, pack_group
from fsm.audit.report.group_views import trend
from fsm.audit.report.highlights import SPANS, Highlights
from fsm.audit.rows import ObservedTransition, Place
from fsm.reference.reports import REPORTS, describe
from fsm.render.report.page import Index
from fsm.render.timeline.views import GroupView


def found(kind: FindingKind, start_ms: int, end_ms: int, name: str, *partitions: tuple[str, int]) -> Finding:
    """A finding with an id and a line."""
    made = finding(kind, "g", "a", start_ms, end_ms, summary=name, partitions=partitions, others=["b"])
    return replace(made, id=name, evidence=(Evidence("a.log", 7, 3, "line"),))


TWICE = found(FindingKind.DOUBLE_OWNERSHIP, 1_000, 5_000, "f1", ("orders", 0), ("refunds", 1))
LOST = found(FindingKind.PARTITIONS_LOST, 4_000, 4_000, "f2", ("orders", 0))
INCIDENT = Incident(
    id="if1",
    group="g",
    severity=Severity.ERROR,
    kind=FindingKind.DOUBLE_OWNERSHIP,
    sentence="a did not poll",
    who=("a", "b"),
    since_ms=1_000,
    until_ms=None,
    cause=Cause.NO_POLL,
    setting="max.poll.interval.ms",
    value="4000",
    next_step="Poll more often",
    hazard="w9",
    findings=("f1", "f2"),
)


def test_an_incident_has_what_its_findings_are_about() -> None:
    """Kinds with its own first, topics, the setting with its value; what is still so lasts to the end of the logs."""
    view = incident_view(INCIDENT, {"f1": TWICE, "f2": LOST}, 9_000)
    assert view.kinds == ("double_ownership", "partitions_lost")
    assert view.topics == ("orders", "refunds")
    assert view.members == ("a", "b")
    assert (view.start_ms, view.end_ms, view.still) == (1_000, 9_000, True)
    assert view.setting == "max.poll.interval.ms = 4000"
    assert (view.next_step, view.findings) == ("Poll more often", ("f1", "f2"))
    assert view.hazard == "Two users in good standing during a slow assigned callback (W9, diagrams/hazards.md#w9)"


def test_every_weak_spot_that_an_incident_may_name_is_described() -> None:
    """Those of what to try next, and those that a summary may name, by the title of their report or their fact."""
    steps = {step.hazard for step in STEPS.values() if step.hazard}
    numbers = {report.number.lower() for report in REPORTS}
    for anchor in steps | numbers:
        assert re.fullmatch(rf"\S.{{20,250}} \({anchor.upper()}, diagrams/hazards\.md#{anchor}\)", describe(anchor))


def test_a_group_is_packed_with_its_incidents() -> None:
    """Each incident names its findings, which have members, topics and lines."""
    packed = pack_group(GroupView("g", 0, 9_000), [TWICE, LOST], [INCIDENT])
    told = json.loads(packed.details)
    assert [row["findings"] for row in told["rows"]] == [["f1", "f2"]]
    assert {one["id"]: one["lines"] for one in told["findings"]}["f1"] == [["a.log", 3, "line"]]
    entry = packed.index_entry["entry"]
    assert entry["incidents"] == {"error": 1}  # of two findings, of which one is a warning
    assert entry["kinds"] == {"error": {"double_ownership": 1, "partitions_lost": 1}}
    assert finding_view(TWICE).others == ("b",)


def incidents(seed: int) -> list[Incident]:
    """Incidents of twelve groups, of which many are equally bad."""
    chance = Random(seed)  # noqa: S311  a reproducible choice
    made = []
    for number in range(120):
        since_ms = chance.randrange(3)
        until_ms = chance.choice([None, since_ms, since_ms + 5])
        name, group = f"i{number:03}", f"g{chance.randrange(12)}"
        severity, kind = chance.choice(list(Severity)), chance.choice(list(FindingKind))
        one = replace(INCIDENT, id=name, group=group, severity=severity, kind=kind, findings=())
        made.append(replace(one, since_ms=since_ms, until_ms=until_ms))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_the_page_lists_incidents_in_the_order_of_the_audit(seed: int) -> None:
    """Of all groups, so that the terminal, audit.json and the page begin with the same ones."""
    made, index = incidents(seed), Index()
    for group in {one.group for one in made}:
        own = [one for one in made if one.group == group]
        index.add(pack_group(GroupView(group, 0, 9_000), [], own).index_entry)
    index.finish()
    assert [row["id"] for row in index.rows] == [one.id for one in sorted(made, key=badness)]


def test_a_trend_has_rebalances_and_times_without_owner() -> None:
    """Each where it began: what a rebalance moved, and the longest time that a partition had no owner."""
    turn = Rebalance("g", 1_200, 3_000, "joined", 2, 6, 0, 700)
    gap = found(FindingKind.UNOWNED_PARTITION, 1_900, 6_900, "f3", ("orders", 0))
    assert trend([turn], [gap, TWICE]).to_json() == {"step": 1000, "steps": [[1000, 1, 6, 5000]]}


def test_a_storm_of_states_is_cut_and_said_to_be() -> None:
    """More states of a member than are drawn."""
    noted = Highlights()
    for number in range(SPANS + 10):
        place = Place("a.log", number)
        noted.see_transition(ObservedTransition("g", "a", "consumer-member", "", "STABLE", "", number, None, "", place))
        assert noted.spans("a", 10**6)[1] is (number + 1 > SPANS)
    assert len(noted.spans("a", 10**6)[0]) == SPANS
