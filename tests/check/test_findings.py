"""What each release's consumer groups break by one disturbance of each kind, and at how many steps; the rest is clean.

Every path is taken by live objects, too. Releases with a `fixed` coordinator are left out: one poll timeout alone leads
them to more than a million and a half states.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pytest

from fsm.check import check
from fsm.check.catalog import make_model
from fsm.check.kafka.consumer.group import consumer_group
from fsm.cli import main, parser
from fsm.protocol.releases import LATEST
from fsm.reference.findings import ELSEWHERE, FOUND, GROUPED, SAME, SCENES, Broken
from fsm.reference.reports import REPORTS, Report

SHORT = {
    "members use only assigned partitions": "book",
    "no partition has two users": "users",
    "the group settles": "settles",
    "no error ends an application": "ended",
    "a commit of an owner is accepted": "owner",
    "a commit of a former owner is refused": "former",
}
UNTIMED = "rebalance_timeout"
"""Its shortest paths have no times: a member's poll timer, which is as long, runs out before. All others have some."""
PROTOCOLS = ("eager", "cooperative")
OF_ONE_PROTOCOL = [one for one in ELSEWHERE if "protocol" in one.options and one.behind != "W21"]
"""Findings elsewhere that groups of the other protocol do not have."""


def found(client: str, coordinator: str, scene: str) -> str:
    """What one disturbance of that kind breaks, each with its steps."""
    kind = SCENES[scene].kind
    model = consumer_group(client=client, coordinator=coordinator, **SCENES[scene].options)
    verdict = check(model, disturb=[kind] if kind else [], disturbances=int(bool(kind)), every=True)
    assert not verdict.stopped
    assert all(one.replayed is None or not one.replayed.differs for one in verdict.violations)
    timed = [one for one in verdict.violations if one.replayed is not None and one.replayed.times_ms]
    assert len(timed) == len(verdict.violations) or kind == UNTIMED
    return ", ".join(_summarize(verdict.violations))


def _summarize(violations: Any) -> Iterator[str]:
    for one in sorted(violations, key=lambda one: one.property):
        if one.property in SHORT:  # and not the invariants of steps, which have tests of their own
            yield f"{SHORT[one.property]} {one.doomed_at or len(one.path)}"


def test_no_kind_of_disturbance_is_left_out() -> None:
    asked = {one.kind for one in SCENES.values()}
    assert asked - {""} == set(
        consumer_group(search=True, topic_changes=True, compaction=True, topics={"foo": 1, "bar": 1}).kinds
    )


@pytest.mark.deep
@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("pair", FOUND, ids=" with ".join)
def test_each_release_breaks_what_is_known_of_it(pair: tuple[str, str]) -> None:
    findings = {scene: found(*pair, scene) for scene in SCENES}
    assert {scene: what for scene, what in findings.items() if what} == FOUND[pair]


@pytest.mark.slow
@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize(("release", "other"), SAME.items())
def test_a_release_breaks_what_another_one_does(release: str, other: str) -> None:
    findings = {scene: found(release, release, scene) for scene in SCENES}
    assert {scene: what for scene, what in findings.items() if what} == FOUND[other, other]


def in_each_release(found: Iterable[Broken]) -> list[Any]:
    return [
        pytest.param(one, release, marks=pytest.mark.deep if release == LATEST else pytest.mark.slow)
        for release in chain(*GROUPED.values())
        for one in found
        if release == LATEST or one.model != "connect"
    ]


def name_case(case: Broken | str) -> str:
    return case if isinstance(case, str) else case.command()


def options_in(one: Broken, release: str) -> Iterator[Mapping[str, Any]]:
    """Options of the model by the rules of a release, for each classic protocol; Connect has the same in all."""
    if one.model == "connect":
        yield one.options
        return
    rules = {"coordinator": release, **({"client": release} if one.model != "classic-group" else {})}
    if one.model == "consumer-group":
        yield {**rules, **one.options}
        return
    for protocol in PROTOCOLS:
        if one.options.get("protocol", protocol) == protocol:
            yield {**rules, **one.options, "protocol": protocol}


def assert_breaks(one: Broken, release: str) -> None:
    for options in options_in(one, release):
        asked = {"known": one.known, "properties": [one.broken]}
        verdict = check(make_model(one.model, **options), disturb=one.kinds, disturbances=len(one.kinds), **asked)
        found = [(each.property, each.doomed_at or len(each.path)) for each in verdict.violations]
        (wanted,) = (one.steps.get(stands) for stands, same in GROUPED.items() if release in same)
        assert (verdict.word, found) == (("violated", [(one.broken, wanted)]) if wanted else ("holds", []))


@pytest.mark.parametrize(("one", "release"), in_each_release(ELSEWHERE), ids=name_case)
def test_groups_of_other_kinds_break_what_is_known_of_them(one: Broken, release: str) -> None:
    assert_breaks(one, release)


@pytest.mark.parametrize(("one", "release"), in_each_release(OF_ONE_PROTOCOL), ids=name_case)
def test_what_is_of_one_protocol_is_not_of_the_other(one: Broken, release: str) -> None:
    (other,) = {*PROTOCOLS} - {one.options["protocol"]}
    assert_breaks(one._replace(options={**one.options, "protocol": other}, steps={}), release)


@pytest.mark.deep
@pytest.mark.parametrize(
    "report", [one for one in REPORTS if one.command.startswith("fsm check ")], ids=lambda report: report.number
)
def test_the_command_of_a_report_shows_what_it_tells(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    """Another finding may be nearer: the command asks for one property, or for the first finding of each."""
    words = shlex.split(report.command)[1:]
    asked = parser(["check"]).parse_args(words)
    assert main(words) == 1
    found = re.findall(r"^broken: (.*), after \d+ disturbance", capsys.readouterr().out, re.MULTILINE)
    assert found == asked.property if asked.property else asked.every


def test_a_command_of_the_page_is_understood() -> None:
    for one in ELSEWHERE:
        words = parser(["check"]).parse_args(shlex.split(one.command())[1:])
        given = words.model, ",".join(words.disturb), ",".join(words.known)
        assert given == (one.model, ",".join(one.kinds), ",".join(one.known))
        assert words.property == [one.broken]
