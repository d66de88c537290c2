"""Weak spots by their numbers, in logs of Java consumers and a broker of 4.4.0 to which they happened.

What was done to them, and what their applications saw, stands beside the logs (`README.txt` in the archive).
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import memory
import pytest
import recordings

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.local import audit_files

DOUBLE, UNOWNED, OUT = (
    FindingKind.DOUBLE_OWNERSHIP,
    FindingKind.UNOWNED_PARTITION,
    FindingKind.MEMBER_OUT_FOR_GOOD,
)
NAMED = {
    "late_heartbeat": (UNOWNED, Cause.LATE_REQUEST, "W8"),
    "late_join": (UNOWNED, Cause.LATE_REQUEST, "W8"),
    "slow_assign_cut": (DOUBLE, Cause.LEFT_OUT, "W9"),
    "second_target": (DOUBLE, Cause.LEFT_OUT, "W11"),
    "refused_downgrade": (UNOWNED, Cause.STRANDED, "W5"),
    "early_consumer": (OUT, Cause.EARLY_JOIN, "W12"),
    "woken": (DOUBLE, Cause.INTERRUPTED, "W27"),
    "interrupted": (UNOWNED, Cause.INTERRUPTED, "W27"),
}
OTHERS = {
    "lost_answer": [(UNOWNED, Cause.UNTOLD)],
    "slow_assign_busy": [(UNOWNED, Cause.REVOKED)],
    "slow_assign_whole": [],
    "called_back": [],
}
"""What looks like those and is not."""
STRANDED = "pol_upgrade_m_coop_upgrade_down"
"""The last member of the consumer protocol goes under the policy `upgrade`."""
NEAR_MS = 400
"""An application is called back so much later, at most, than its client's log says."""
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Files]:
    """The files of each scenario."""
    found: dict[str, Files] = {}
    with recordings.opened(recordings.DATA / "weak-spot-logs.tar.xz") as packed:
        for item in packed:
            path = PurePosixPath(item.name)
            if item.isfile() and (read := packed.extractfile(item)):
                found.setdefault(path.parent.name, {})[path.name] = read.read()
    return found


def logs(files: Files, *, broker: bool = True) -> Files:
    return {name: data for name, data in files.items() if name.endswith(".log") and (broker or name != "broker.log")}


def findings(files: Files) -> list[Finding]:
    return list(memory.audit(files).findings)


def without(data: bytes, *words: bytes) -> bytes:
    """A log without the entries that have one of these words."""
    entries = re.split(rb"(?m)^(?=\[\d{4}-)", data)
    kept = [entry for entry in entries if not any(word in entry for word in words)]
    assert len(kept) < len(entries)
    return b"".join(kept)


def seen(files: Files, name: str) -> dict[str, list[tuple[int, list[int]]]]:
    """What an application saw: when each of its callbacks began or ended, and for which partitions."""
    found: dict[str, list[tuple[int, list[int]]]] = {}
    for line in files[f"{name}.jsonl"].splitlines():
        event = json.loads(line)
        found.setdefault(event["ev"], []).append((round(event["ts"] * 1000), event.get("parts", [])))
    return found


@pytest.mark.parametrize("scenario", NAMED)
def test_what_happened_is_named_and_nothing_else_is_found(recorded: dict[str, Files], scenario: str) -> None:
    kind, cause, number = NAMED[scenario]
    (found,) = findings(logs(recorded[scenario]))
    assert (found.kind, found.cause) == (kind, cause)
    assert f": {number}, " in found.summary
    assert "(to do: " in found.summary
    assert found.severity is not Severity.INFO


@pytest.mark.parametrize("scenario", NAMED)
def test_an_incident_has_its_page(recorded: dict[str, Files], scenario: str) -> None:
    """Its place in diagrams/hazards.md, and what an operator can do now; what only looks like it has none."""
    _, cause, number = NAMED[scenario]
    (told,) = memory.audit(logs(recorded[scenario])).incidents
    assert (told.cause, told.hazard) == (cause, number.lower())
    assert f'id="{told.hazard}"' in (recordings.DATA.parents[1] / "diagrams" / "hazards.md").read_text()
    others = [one.hazard for name in OTHERS for one in memory.audit(logs(recorded[name])).incidents]
    assert set(others) == {""}


@pytest.mark.parametrize("scenario", OTHERS)
def test_what_only_looks_like_it_is_not_called_so(recorded: dict[str, Files], scenario: str) -> None:
    """A slow callback, also of one who gave a heartbeat up; an answer that was lost."""
    found = findings(logs(recorded[scenario]))
    assert [(one.kind, one.cause) for one in found] == OTHERS[scenario]
    assert not any(re.search(r"\bW\d", one.summary) for one in found)


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("scenario", ["refused_downgrade", "slow_assign_busy"])
def test_a_broker_that_prints_each_line_several_times_says_it_once(
    recorded: dict[str, Files], scenario: str, times: int
) -> None:
    files = logs(recorded[scenario])
    once, again = (
        memory.audit(files | {"broker.log": re.sub(rb"(?m)^.*\n", rb"\g<0>" * count, files["broker.log"])})
        for count in (1, times)
    )
    shown = [[(one.summary, [line.text for line in one.evidence]) for one in it.findings] for it in (once, again)]
    assert shown[0] == shown[1]
    said = [[one.record for group in it.groups for one in group.coordinator] for it in (once, again)]
    assert said[0] == said[1] != []


@pytest.mark.parametrize(("scenario", "late"), [("late_heartbeat", "heartbeat"), ("late_join", "join")])
def test_a_late_request_is_told_with_its_times(recorded: dict[str, Files], scenario: str, late: str) -> None:
    """Nobody used the partition between A's revoked callback and its next assigned one."""
    files = recorded[scenario]
    (found,) = findings(logs(files))
    gone, back = (seen(files, "A")[event] for event in ("revoke_done", "assign"))
    assert abs(found.start_ms - gone[0][0]) < NEAR_MS
    assert abs(found.end_ms - next(ts for ts, parts in back if parts == [1])) < NEAR_MS
    assert not any(parts for _, parts in seen(files, "B")["assign"])
    swallowed = next(line for line in files["told.jsonl"].splitlines() if b"goes nowhere" in line)
    assert f"the late {late} of B was handled".encode() in swallowed
    shown = [(one.file, one.text) for one in found.evidence]
    assert any(file == "B.log" and "Cancelled in-flight CONSUMER_GROUP_HEARTBEAT" in text for file, text in shown)
    assert any(file == "broker.log" and "new assignment state" in text for file, text in shown)


@pytest.mark.parametrize(("scenario", "used"), [("late_heartbeat", []), ("late_join", []), ("lost_answer", [1])])
def test_a_partition_that_no_log_had_an_owner_of(recorded: dict[str, Files], scenario: str, used: list[int]) -> None:
    """A's log is missing; B has the partition in the end, where only an answer was lost."""
    files = recorded[scenario]
    found = findings({name: data for name, data in logs(files).items() if name != "A.log"})
    told = [one for one in found if one.kind is UNOWNED]
    assert [(one.cause, one.member, one.partitions) for one in told] == (
        [] if used else [(Cause.LATE_REQUEST, f"g-{scenario.replace('_', '-')}-B", told[0].partitions)]
    )
    assert used == [number for _, parts in seen(files, "B")["assign"] for number in parts][:1]


@pytest.mark.parametrize(("scenario", "partition"), [("slow_assign_cut", 1), ("second_target", 2)])
def test_two_users_are_told_with_their_times(recorded: dict[str, Files], scenario: str, partition: int) -> None:
    """From B's assigned callback to A's revoked one."""
    files = recorded[scenario]
    (found,) = findings(logs(files))
    assert [number for _, number in found.partitions] == [partition]
    begun = next(ts for ts, parts in seen(files, "B")["assign"] if parts == [partition])
    ended = next(ts for ts, parts in seen(files, "A")["revoke"] if parts == [partition])
    assert abs(found.start_ms - begun) < NEAR_MS
    assert abs(found.end_ms - ended) < NEAR_MS
    assert "had acknowledged" not in found.summary


def test_who_is_woken_up_uses_what_another_one_has(recorded: dict[str, Files]) -> None:
    """From B's assigned callback to C's next one, which names nothing; C reads it meanwhile."""
    files = recorded["woken"]
    (found,) = findings(logs(files))
    (begun, given), told = seen(files, "B")["assign"][0], seen(files, "C")["assign"][1]
    assert [number for _, number in found.partitions] == given == [2]
    assert told[1] == []
    assert abs(found.start_ms - begun) < NEAR_MS
    assert abs(found.end_ms - told[0]) < NEAR_MS
    assert [ts for ts, read in seen(files, "C")["read"] if read == given and found.start_ms < ts < found.end_ms]


def test_who_is_interrupted_with_automatic_commits_does_not_use_what_it_keeps(recorded: dict[str, Files]) -> None:
    """From the exception to the assigned callback of the next round."""
    files = recorded["interrupted"]
    (found,) = findings(logs(files))
    (thrown,), begun = seen(files, "C")["thrown"], seen(files, "C")["assign"][2]
    assert [number for _, number in found.partitions] == [3]
    assert abs(found.start_ms - thrown[0]) < NEAR_MS
    assert abs(found.end_ms - begun[0]) < NEAR_MS
    assert not [ts for ts, read in seen(files, "C")["read"] if read == [3] and thrown[0] < ts < begun[0]]


@pytest.mark.parametrize("scenario", ["woken", "interrupted"])
def test_an_interrupt_with_unknown_commits_is_for_information(recorded: dict[str, Files], scenario: str) -> None:
    """Automatic commits are the default. The member may have used what it kept."""
    (found,) = findings({"members.log": without(recorded[scenario]["members.log"], b"ConsumerConfig values")})
    assert (found.kind, found.cause, found.severity) == (UNOWNED, Cause.INTERRUPTED, Severity.INFO)


@pytest.mark.parametrize("scenario", ["woken", "interrupted"])
def test_an_interrupt_shows_in_the_assignment_alone(recorded: dict[str, Files], scenario: str) -> None:
    log = recorded[scenario]["members.log"]
    assert not named({"members.log": without(log, b"Notifying assignor")})


def test_clients_at_info_and_what_the_broker_stored_are_enough(recorded: dict[str, Files], tmp_path: Path) -> None:
    """The coordinator's assignments are printed at DEBUG alone; `__consumer_offsets` has them always."""
    files = recorded["late_join"]
    for name in ("A.log", "B.log"):
        (tmp_path / name).write_bytes(without(files[name], b"] DEBUG "))
    (tmp_path / "00000000000000000000.log").write_bytes(files["stored.segment"])
    found = [one for one in audit_files(sorted(tmp_path.iterdir())).findings if one.group == "g-late-join"]
    assert [one.cause for one in found] == [Cause.LATE_REQUEST]


def test_a_broker_at_info_tells_of_a_refused_downgrade(recorded: dict[str, Files]) -> None:
    files = {name: without(data, b"] DEBUG ") for name, data in logs(recorded["refused_downgrade"]).items()}
    (found,) = findings(files)
    assert found.cause is Cause.STRANDED
    assert found.severity is Severity.INFO  # who has what it does not print


@pytest.fixture(scope="module")
def others() -> dict[str, Files]:
    """The other recordings of Java clients that have the broker's log."""
    found = dict(recordings.logs("java"))
    with recordings.opened(recordings.DATA / "broker-logs.tar.xz") as packed:
        for item in packed:
            path = PurePosixPath(item.name)
            if path.parent.name in found and (read := packed.extractfile(item)):
                found[path.parent.name] = {**found[path.parent.name], path.name: read.read()}
    return {name: files for name, files in found.items() if "broker.log" in files}


def named(files: Files) -> list[Finding]:
    return [one for one in findings(files) if "(to do: " in one.summary or one.cause is Cause.UNTOLD]


@pytest.mark.deep
def test_no_other_recording_is_called_so_but_a_refused_downgrade(others: dict[str, Files]) -> None:
    """Slow callbacks, frozen processes, lost brokers and the rest."""
    assert len(others) > 100
    found = {name: [one.cause for one in named(files)] for name, files in others.items()}
    assert {name: causes for name, causes in found.items() if causes} == {STRANDED: [Cause.STRANDED]}


@pytest.mark.parametrize("missing", ["Ad.log", "Bd.log"])
def test_what_a_member_has_whose_log_is_missing_is_not_stranded(others: dict[str, Files], missing: str) -> None:
    """It looks as if it had no owner all the time."""
    files = {name: data for name, data in others[STRANDED].items() if name != missing}
    (found,) = named(files)
    assert [number for _, number in found.partitions] == [0, 2]


@pytest.mark.parametrize("scenario", NAMED)
def test_what_clients_alone_can_tell(recorded: dict[str, Files], scenario: str) -> None:
    """A failed heartbeat within a callback, and an early join; all else takes the coordinator's word."""
    (found,) = findings(logs(recorded[scenario], broker=False))
    kind, cause, _ = NAMED[scenario]
    told = scenario in ("slow_assign_cut", "early_consumer", "woken", "interrupted")
    assert found.kind is kind
    assert found.cause is (cause if told else Cause.UNKNOWN if kind is DOUBLE else Cause.REVOKED)


@pytest.mark.parametrize("scenario", ["late_heartbeat", "late_join"])
def test_a_request_that_was_not_given_up_was_not_late(recorded: dict[str, Files], scenario: str) -> None:
    files = logs(recorded[scenario])
    (found,) = findings(files | {"B.log": without(files["B.log"], b"Cancelled in-flight CONSUMER_GROUP_HEARTBEAT")})
    assert found.cause is Cause.UNTOLD
    assert "or was that to a request that it had given up (W8)" in found.summary


def test_one_who_was_told_is_slow_and_not_untold(recorded: dict[str, Files]) -> None:
    """The line by which a member shows that it heard of its assignment; the application need not be called yet."""
    files = logs(recorded["late_heartbeat"])
    step = re.search(
        rb"(?m)^\[[^]]*\] INFO (\[.*?\] Member \S+ with epoch 3) transitioned from RECON.*$", files["B.log"]
    )
    assert step is not None
    heard = b"[2026-11-23 04:52:00,900] INFO " + step[1] + b" transitioned from STABLE to RECONCILING. (%s)\n"
    logger = b"org.apache.kafka.clients.consumer.internals.ConsumerMembershipManager"
    entries = re.split(rb"(?m)^(?=\[\d{4}-)", files["B.log"])
    at = next(i for i, entry in enumerate(entries) if entry.startswith(b"[2026-11-23 04:52:2"))
    told = b"".join([*entries[:at], heard % logger, *entries[at:]])
    (found,) = (one for one in findings(files | {"B.log": told}) if one.kind is UNOWNED)
    assert found.cause is Cause.REVOKED


def test_a_target_that_was_computed_leaves_nobody_stranded(recorded: dict[str, Files]) -> None:
    files = logs(recorded["refused_downgrade"])
    line = re.search(rb"(?m)^\[.*Bumped group epoch to 3 .*$", files["broker.log"])
    computed = re.search(rb"(?m)^.*Computed a new target assignment for epoch 2 .*$", files["broker.log"])
    assert line is not None
    assert computed is not None
    later = computed[0].replace(b"epoch 2", b"epoch 3").replace(b"04:51:01,", b"04:51:07,")
    told = files["broker.log"].replace(line[0], line[0] + b"\n" + later)
    assert told.count(b"for epoch 3 with") == 1
    (found,) = findings(files | {"broker.log": told})
    assert found.cause is Cause.REVOKED


def test_a_member_that_lost_its_session_left_nothing_out(recorded: dict[str, Files]) -> None:
    """What it owned it lost: it was no member any more."""
    files = logs(recorded["slow_assign_cut"], broker=False)
    lost = files["A.log"].replace(b"Revoke previously assigned partitions [", b"Lost previously assigned partitions [")
    assert lost != files["A.log"]
    assert Cause.LEFT_OUT not in [one.cause for one in findings(files | {"A.log": lost})]


def test_an_error_of_a_group_that_has_had_a_generation_is_another_one(recorded: dict[str, Files]) -> None:
    files = logs(recorded["early_consumer"])
    data = {name: log.replace(b"generation 0", b"generation 4") for name, log in files.items()}
    data = {name: re.sub(rb"([gG]eneration(?:Id=|=| ))1\b", rb"\g<1>5", log) for name, log in data.items()}
    (found,) = findings(data)
    assert found.cause is Cause.FATAL_ERROR
