"""Incidents: one sentence for what happened once, with the findings below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import memory
import pytest
import recordings

from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding, with_ids
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import Incident, badness, find_incidents, of_files
from fsm.audit.incidents.next_steps import STEPS, step_of
from fsm.audit.rows import Ended, GroupRows, Life, Place

NO_CAUSE = (Cause.NONE, Cause.UNKNOWN)
LifeOf = Callable[..., Life]


def lost(member: str = "m", ts_ms: int = 10, cause: Cause = Cause.NO_POLL, partition: int = 0) -> Finding:
    """A member lost a partition."""
    kind, words = FindingKind.PARTITIONS_LOST, f"{member} lost t-{partition}"
    return finding(kind, "g", member, ts_ms, ts_ms, summary=words, partitions=[("t", partition)], cause=cause)


def incidents(findings: Iterable[Finding], lives: Iterable[Life] = ()) -> list[Incident]:
    """Those of a group of which nothing else is known."""
    rows = GroupRows(lives)
    return find_incidents(GroupAudit("g", {}, {}, rows, with_ids(findings), (), (), (), ()))


# -- ids --------------------------------------------------------------------------------------------------------


def test_an_id_stays_when_end_severity_cause_and_words_change() -> None:
    """A log that grows tells more of what is known already."""
    ((first,), (later,)) = (with_ids([one]) for one in (lost(), replace(lost(), end_ms=99, summary="longer")))
    changed = replace(lost(), severity=Severity.INFO, cause=Cause.FENCED, partitions=(("t", 0), ("t", 1)))
    assert {first.id, later.id} == {one.id for one in with_ids([changed])}
    assert len(first.id) == 12


def test_an_incident_keeps_its_id_when_what_followed_is_known_to_have_begun_earlier(life: LifeOf) -> None:
    """It is named by what shows its cause: a wait that ends later may have begun before."""
    lives = [life("m", 0, 50)]
    (first,) = incidents([lost()], lives)
    waited = finding(FindingKind.STUCK_STATE, "g", "m", 5, 20, summary="waited", cause=Cause.UNKNOWN)
    (later,) = incidents([lost(), waited], lives)
    assert len(later.findings) == 2
    assert later.since_ms < first.since_ms
    assert later.id == first.id


@pytest.mark.parametrize(
    "other",
    [
        replace(lost(), group="h"),
        replace(lost(), kind=FindingKind.LOST_WITHOUT_CALLBACK),
        lost("n"),
        lost(ts_ms=11),
        lost(partition=1),
    ],
)
def test_what_is_about_something_else_has_another_id(other: Finding) -> None:
    """Group, kind, member, first partition and beginning tell findings apart."""
    assert with_ids([lost()])[0].id != with_ids([other])[0].id


def test_two_findings_that_would_share_an_id_are_counted() -> None:
    """Two machines of one member may be stuck at once; the order of findings tells which is the first."""
    first, second = with_ids([replace(lost(), summary="b"), replace(lost(), summary="a")])
    assert (first.summary, second.summary, second.id) == ("a", "b", f"{first.id}-2")


def test_findings_about_files_are_told_apart_by_the_file() -> None:
    """They are about no group, and may begin at no time."""
    kind = FindingKind.UNPARSED_LINES
    about = [finding(kind, "", "", 0, 0, summary="s", places=[place]) for place in (_place("a"), _place("b"))]
    assert len({one.id for one in with_ids(about)}) == len(of_files(with_ids(about))) == 2


def _place(file: str) -> Place:
    return Place(file, 0)


@pytest.mark.parametrize("scenario", ["j36_stall_loop", "x05_range_fenced_static", "j24_commit_fail_revoke"])
def test_what_is_found_early_keeps_its_id_while_the_logs_grow(scenario: str) -> None:
    """Whenever one looks, the ids of what is more than information are among those in the end."""
    files = recordings.logs("java")[scenario]
    whole = memory.audit(files)
    final = {one.id for one in whole.findings}
    times = sorted(one.record.ts_ms for one in whole.seen)
    early = 0
    for share in range(1, 8):
        until_ms = times[share * len(times) // 8]
        ends = {name: len(data) for name, data in files.items()}
        for one in whole.seen:
            if one.record.ts_ms > until_ms:
                ends[one.place.file] = min(ends[one.place.file], one.place.offset)
        found = memory.audit({name: data[: ends[name]] for name, data in files.items() if ends[name]}).findings
        ids = {one.id for one in found if one.severity is not Severity.INFO}
        assert ids <= final
        early += len(ids)
    assert early > 5


# -- what an incident says --------------------------------------------------------------------------------------


def test_an_incident_says_what_to_look_at_and_what_to_try(life: LifeOf) -> None:
    """The setting with the value that the log of that member told, and the hazard that a Java client shows."""
    own = life("m", 0, 10, settings={"max.poll.interval.ms": "10000"})
    (told,) = incidents([lost()], [own, life("n", 0, 50)])
    assert (told.setting, told.value, told.hazard) == ("max.poll.interval.ms", "10000", "a5")
    assert told.next_step.startswith("Let every poll come back within max.poll.interval.ms: ")
    assert (told.who, told.since_ms, told.until_ms, told.kind) == (("m",), 10, 10, FindingKind.PARTITIONS_LOST)
    assert told.id == "i" + told.findings[0]


@pytest.mark.parametrize(
    ("protocol", "setting", "value"),
    [("classic", "session.timeout.ms", "6000"), ("consumer", "group.consumer.session.timeout.ms", None)],
)
def test_a_setting_has_the_name_that_counts_in_its_protocol(
    life: LifeOf, protocol: str, setting: str, value: str | None
) -> None:
    """In consumer groups the broker decides, and no member's log says how."""
    own = life("m", 0, 10, protocol=protocol, settings={"session.timeout.ms": "6000"})
    (told,) = incidents([lost(cause=Cause.SESSION_EXPIRED)], [own])
    assert (told.setting, told.value) == (setting, value)
    assert f"raise {setting} only" in told.next_step


def test_what_lasts_to_the_end_of_the_log_is_still_so(life: LifeOf) -> None:
    """Of the group's logs, or of those of a member that went silent; what is over has an end."""
    kind = FindingKind.UNOWNED_PARTITION
    gaps = [finding(kind, "g", "m", 0, end_ms, summary=f"{end_ms}") for end_ms in (40, 50)]
    out = finding(FindingKind.MEMBER_OUT_FOR_GOOD, "g", "n", 5, 30, summary="out", cause=Cause.FATAL_ERROR)
    lives = [life("m", 0, 50), life("n", 0, 30, ended=Ended.LOG_ENDED)]
    taken = replace(gaps[1], others=("n",))
    until_ms = [told.until_ms for one in (*gaps, taken, out) for told in incidents([one], lives)]
    assert until_ms == [40, None, 50, None]
    closed = [life("m", 0, 50), life("n", 0, 30, ended=Ended.CLOSED)]
    assert incidents([out], closed)[0].until_ms == 30


def test_the_worst_come_first(life: LifeOf) -> None:
    """By severity, then what is still so, then by kind and length."""
    kind = FindingKind.UNOWNED_PARTITION
    short, open_ = (finding(kind, "g", "m", start_ms, end_ms, summary="s") for start_ms, end_ms in ((0, 10), (45, 50)))
    out = finding(FindingKind.FENCING_LOOP, "g", "m", 20, 30, summary="s", cause=Cause.FENCED)
    told = [one for found in (short, open_, out, lost()) for one in incidents([found], [life("m", 0, 50)])]
    told.sort(key=badness)
    assert [(one.kind, one.until_ms) for one in told] == [
        (FindingKind.FENCING_LOOP, 30),
        (kind, None),
        (kind, 10),
        (FindingKind.PARTITIONS_LOST, 10),
    ]


def test_a_loop_of_several_causes_holds_all_losses_of_its_member() -> None:
    """Those of another member are its own."""
    loop = finding(FindingKind.FENCING_LOOP, "g", "m", 0, 90_000, summary="loop", cause=Cause.UNKNOWN)
    losses = [lost(ts_ms=10, cause=Cause.NO_POLL), lost(ts_ms=80_000, cause=Cause.SESSION_EXPIRED)]
    told = incidents([loop, *losses, lost("n", 50)])
    assert [(one.who, len(one.findings)) for one in told] == [(("m",), 3), (("n",), 1)]
    assert told[0].sentence.startswith("m lost its place in the group again and again: t-[0] were lost 2 times; ")


def test_who_waits_for_a_slow_callback_belongs_to_it() -> None:
    """A rebalance waits for all members: a state that lasted too long at that time, and no other."""
    slow = finding(FindingKind.SLOW_CALLBACK, "g", "m", 10_000, 30_000, summary="slow")
    stuck = [
        finding(FindingKind.STUCK_STATE, "g", member, ts_ms, ts_ms + 9000, summary="stuck", cause=Cause.UNKNOWN)
        for member, ts_ms in (("n", 25_000), ("o", 700_000))
    ]
    told = incidents([slow, *stuck])
    assert [(one.who, one.cause) for one in told] == [(("m", "n"), Cause.SLOW_CALLBACK), (("o",), Cause.UNKNOWN)]
    assert told[0].sentence.endswith("the longest took 20.0 s; n waited in one state for up to 9.0 s")


@pytest.mark.parametrize(("apart_ms", "count"), [(20_000, 1), (20_001, 2)])
def test_a_setting_in_the_log_bounds_what_is_one_incident(life: LifeOf, apart_ms: int, count: int) -> None:
    """Two polls that came too late are one story within max.poll.interval.ms, and two beyond it."""
    own = life("m", 0, 99_000, settings={"max.poll.interval.ms": "20000"})
    assert len(incidents([lost(ts_ms=10), lost(ts_ms=10 + apart_ms)], [own])) == count


def test_there_is_a_next_step_for_whatever_is_found() -> None:
    """Each kind and each cause has one sentence without a full stop; a setting that it names is the one it has."""
    for kind in FindingKind:
        for cause in Cause:
            sentence, setting, _ = step_of(finding(kind, "g", "m", 0, 0, summary=""), cause)
            assert sentence[0].isupper() and not sentence.endswith(".")  # noqa: PT018
            assert ("{setting}" not in sentence) or setting
    assert {cause for cause in Cause if cause not in STEPS} == set(NO_CAUSE)
    assert {kind for kind in FindingKind if kind not in STEPS} == set()


def test_every_hazard_has_its_place_on_the_page() -> None:
    """Anchors of diagrams/hazards.md."""
    page = (Path(__file__).parents[2] / "diagrams" / "hazards.md").read_text(encoding="utf-8")
    assert {step.hazard for step in STEPS.values() if f'id="{step.hazard}"' not in page} == {""}
