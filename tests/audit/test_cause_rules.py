"""Rules of `fsm.audit.incidents.cause_rules` on recordings of real clients: what has one cause is one incident."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import memory
import pytest
import recordings
from hypothesis import given
from hypothesis import strategies as st

from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding, with_ids
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import Incident, find_incidents
from fsm.audit.incidents.cause_rules import RULES
from fsm.audit.local import Audit
from fsm.audit.rows import GroupRows

K, C = FindingKind, Cause
_audits: dict[tuple[str, str], Audit] = {}


def audited(archive: str, scenario: str) -> Audit:
    """What is found in a recorded scenario."""
    if (archive, scenario) not in _audits:
        _audits[archive, scenario] = memory.audit(recordings.logs(archive)[scenario])
    return _audits[archive, scenario]


def severe(archive: str, scenario: str) -> list[Incident]:
    """Its incidents above info."""
    return [one for one in audited(archive, scenario).incidents if one.severity is not Severity.INFO]


def kinds(archive: str, incident: Incident, scenario: str) -> Counter[FindingKind]:
    """How many findings of each kind an incident has."""
    return Counter(one.kind for one in audited(archive, scenario).findings if one.id in incident.findings)


def test_two_processes_with_one_instance_id_are_one_incident() -> None:
    """Seven errors and four warnings are one sentence, with both processes, the setting and its value."""
    found = audited("java", "x05_range_fenced_static")
    assert Counter(one.severity for one in found.findings) == {Severity.ERROR: 7, Severity.WARNING: 4}
    (told,) = found.incidents
    assert len(told.findings) == 11
    assert (told.cause, told.setting, told.value) == (C.SHARED_INSTANCE, "group.instance.id", "same")
    assert told.who == ("g-x05-range-fenced-static-B", "g-x05-range-fenced-static-C")
    assert told.sentence == (
        "g-x05-range-fenced-static-B and g-x05-range-fenced-static-C had one group.instance.id (same) at the same "
        "time, and only one of them can be a member: x05-range-fenced-static-foo-[3, 4, 5] had two owners 5 times, "
        "for up to 1.2 s; these were lost 4 times; they lost the membership again and again"
    )
    assert told.next_step.startswith("Give each process a group.instance.id of its own")


def test_two_processes_with_one_instance_id_are_known_by_what_they_do() -> None:
    """aiokafka prints no instance id, but 31 times one of two members takes the partitions of the other, whose commit
    is refused then."""
    (told,) = severe("client", "aiokafka.dupinstance")
    assert (len(told.findings) / 2, told.cause, told.setting, told.value) == (
        31,
        C.SHARED_INSTANCE,
        "group.instance.id",
        None,
    )
    assert told.who == ("aiokafka (B.log)", "aiokafka (B2.log)")


def test_one_process_is_refused_its_instance_id() -> None:
    """In a group of KIP-848 the second one ends, until it is closed; in a restart nobody shares anything."""
    (told,) = severe("java", "j13_dup_instance")
    assert (told.kind, told.cause, told.value) == (K.MEMBER_OUT_FOR_GOOD, C.SHARED_INSTANCE, "same")
    assert told.until_ms == max(one.end_ms for one in audited("java", "j13_dup_instance").findings)
    assert all(one.cause is not C.SHARED_INSTANCE for one in audited("java", "x04_range_static").incidents)
    (_, restarted) = audited("java", "j11_static_kill_restart").incidents
    assert (restarted.cause, restarted.setting) == (C.FATAL_ERROR, "group.instance.id")
    assert restarted.next_step.startswith("Stop the other process that has this group.instance.id, or wait")


def test_a_slow_callback_explains_what_comes_of_it() -> None:
    """A state that lasted too long, two owners, lost partitions, and the lost callback for what was gone."""
    (told,) = severe("java", "j24_commit_fail_revoke")
    assert kinds("java", told, "j24_commit_fail_revoke") == dict.fromkeys(
        (K.DOUBLE_OWNERSHIP, K.PARTITIONS_LOST, K.CALLBACK_NOT_OWNED, K.SLOW_CALLBACK, K.STUCK_STATE), 1
    )
    assert (told.cause, told.setting, told.value, told.hazard) == (
        C.SLOW_CALLBACK,
        "max.poll.interval.ms",
        "4000",
        "a7",
    )
    assert told.sentence.startswith("rebalance callbacks of g-j24-commit-fail-revoke-A took longer than max.poll.")
    assert "the longest took 7.1 s; it waited in one state for up to 4.0 s" in told.sentence


def test_a_poll_timeout_with_what_follows() -> None:
    """Of a loop with three losses, and of one that only showed that the leave was late."""
    (told,) = severe("java", "j36_stall_loop")
    assert kinds("java", told, "j36_stall_loop") == {K.DOUBLE_OWNERSHIP: 3, K.PARTITIONS_LOST: 3, K.FENCING_LOOP: 1}
    assert (told.cause, told.setting, told.value, told.hazard) == (C.NO_POLL, "max.poll.interval.ms", "3000", "a5")
    (told,) = severe("librdkafka", "c06_maxpoll")
    assert kinds("librdkafka", told, "c06_maxpoll") == dict.fromkeys(
        (K.LATE_LEAVE, K.PARTITIONS_LOST, K.STUCK_STATE), 1
    )
    assert (told.cause, told.hazard) == (C.NO_POLL, "")


@pytest.mark.parametrize(
    ("archive", "scenario", "setting", "value"),
    [
        ("java", "j08_sigstop", "group.consumer.session.timeout.ms", None),
        ("java", "x09_range_sigstop", "session.timeout.ms", "6000"),
        ("client", "franz_consumer.sigstop_twice", "group.consumer.session.timeout.ms", None),
    ],
)
def test_a_session_that_expired(archive: str, scenario: str, setting: str, value: str | None) -> None:
    """Two owners and what was lost, however often."""
    (told,) = severe(archive, scenario)
    assert len(told.findings) == len(audited(archive, scenario).findings)
    assert (told.cause, told.setting, told.value) == (C.SESSION_EXPIRED, setting, value)


def test_a_fatal_error_with_what_it_took() -> None:
    """The member is out for good, and its partitions had no owner."""
    (told,) = severe("librdkafka", "f08_unreleased_instance")
    assert kinds("librdkafka", told, "f08_unreleased_instance") == dict.fromkeys(
        (K.UNOWNED_PARTITION, K.MEMBER_OUT_FOR_GOOD, K.LOST_WITHOUT_CALLBACK), 1
    )
    assert told.sentence.startswith("B#consumer-1 got a fatal error (UNRELEASED_INSTANCE_ID)")


@pytest.mark.parametrize(
    ("archive", "scenario", "count"),
    [
        ("connect", "s15_broker_bounce", 7),
        ("client", "franz_coop.brokerkill", 4),
        # To the next coordinator they are unknown.
        pytest.param("client", "kafkapython_coop.brokerkill", 3, marks=pytest.mark.deep),
        ("java", "j28_pause_consumer", 1),  # its session expired while the broker stood still
    ],
)
def test_a_coordinator_that_goes_away_is_one_incident(archive: str, scenario: str, count: int) -> None:
    """Of all members or workers, with what they had to stop."""
    (told,) = severe(archive, scenario)
    assert (len(told.findings), told.cause) == (count, C.COORDINATOR_LOST)
    assert told.next_step.startswith("Look at the brokers first")


@pytest.mark.parametrize(
    ("scenario", "cause", "count", "setting"),
    [
        ("s04_leader_leaves", C.WORKER_STOPPED, 2, ("scheduled.rebalance.max.delay.ms", "6000")),
        ("s09_pause_leader", C.WORKER_FROZEN, 4, ("session.timeout.ms", "6000")),
        ("s12_downgrade_sessioned_eager", C.DOWNGRADED, 5, ("connect.protocol", "eager, sessioned")),
        ("s21_task_ignores_stop", C.SLOW_CALLBACK, 4, ("task.shutdown.graceful.timeout.ms", "3000")),
    ],
)
def test_a_worker_of_connect_with_its_work(scenario: str, cause: Cause, count: int, setting: tuple[str, str]) -> None:
    """It left, stood still, spoke the older protocol, or its tasks did not stop; the settings are those it printed."""
    (told,) = severe("connect", scenario)
    assert (len(told.findings), told.cause, (told.setting, told.value)) == (count, cause, setting)


def test_a_connector_that_failed_is_one_incident() -> None:
    """With all its tasks."""
    (told,) = severe("connect", "s14_failing")
    assert (len(told.findings), told.cause) == (4, C.FATAL_ERROR)
    assert {connector for one in audited("connect", "s14_failing").findings for connector, _ in one.partitions} == {"G"}


def test_other_causes_are_incidents_of_their_own() -> None:
    """A callback that raises an error after a poll timeout is no consequence of it."""
    assert [(one.kind, one.cause, len(one.findings)) for one in severe("java", "j45_throw_lost")] == [
        (K.DOUBLE_OWNERSHIP, C.NO_POLL, 2),
        (K.LISTENER_ERROR, C.NONE, 1),
    ]


FOUND = st.builds(
    lambda kind, cause, member, other, span, number: finding(
        kind, "g", member, span[0], sum(span), summary="s", partitions=[("t", number)], cause=cause, others=other
    ),
    st.sampled_from(FindingKind),
    st.sampled_from(Cause),
    st.sampled_from("abc"),
    st.sampled_from(["", "a", "b"]).map(lambda name: (name,) if name else ()),
    st.tuples(st.integers(0, 900_000), st.sampled_from([0, 10, 5_000, 400_000])),
    st.integers(0, 2),
)


@given(st.lists(FOUND, max_size=40), st.randoms(use_true_random=False))
def test_any_findings_are_in_one_incident_each(found: list[Finding], random: Random) -> None:
    """Whatever is found, in whatever order it comes; what is told together begins and ends with its findings."""
    told = with_ids(found)
    by_id = {one.id: one for one in told}
    shuffled = random.sample(told, len(told))
    incidents = find_incidents(GroupAudit("g", {}, {}, GroupRows(), told, (), (), (), ()))
    assert sorted(one for incident in incidents for one in incident.findings) == sorted(by_id)
    assert len({one.id for one in incidents}) == len(incidents)
    for incident in incidents:
        own = [by_id[one] for one in incident.findings]
        assert incident.since_ms == min(one.start_ms for one in own)
        assert incident.severity in {one.severity for one in own}
        assert {one.member for one in own} <= set(incident.who)
    assert with_ids(shuffled) == told


@pytest.mark.parametrize("archive", [pytest.param("connect", marks=pytest.mark.slow), "weak-spot"])
def test_every_finding_of_every_recording_is_in_one_incident(archive: str) -> None:
    """As `test_recordings` has it of consumers' recordings."""
    for scenario, files in sorted(recordings.logs(archive).items()):
        audit = memory.audit(files)
        ids = [one.id for one in audit.findings]
        assert sorted(one for incident in audit.incidents for one in incident.findings) == sorted(ids), scenario


def test_every_kind_and_every_cause_has_a_rule() -> None:
    """Nothing is told finding by finding but what is about files."""
    core = set(chain.from_iterable(rule.core for rule in RULES))
    assert set(K) - core == {K.UNPARSED_LINES}
    named = core | {cause for _, cause in (what for what in core if isinstance(what, tuple))}
    assert set(C) - named == {C.NONE, C.SHARED_INSTANCE}
