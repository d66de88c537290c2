"""The classic member against recordings of the Java client, from inside and on the wire, and the tools that do it."""

from __future__ import annotations

import base64
import copy
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsm.member.classic.assignors import Candidate, assign_cooperative_sticky, assign_range
from fsm.member.classic.state import Close
from fsm.member.events import AsyncPollEvent
from fsm.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


@cache
def sibling(name: str) -> ModuleType:
    """A module beside this one; test modules are no package that could import it."""
    spec = importlib.util.spec_from_file_location(f"cases_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REPLAY = sibling("classic_replay")
Lines = list[Any]


def reads(head: Any) -> bool:
    """Recordings whose scenario began under the classic protocol say so in their first line."""
    return isinstance(head, dict) and "member" in head and head.get("protocol") == "classic"


def cases(file: Any) -> Iterator[tuple[str, Lines]]:
    lines = list(file.lines())
    yield f"{lines[0]['scenario']}/{lines[0]['member']}", lines


@pytest.mark.loop(30)
def test_member_does_what_the_java_client_did(case: Lines) -> None:
    """Every request, callback, log line of the state and error of the recording is the member's, in its order."""
    recording = REPLAY.Recording(tuple(case))
    if recording.is_classic:
        assert REPLAY.differences(recording) == []
    else:  # a migrated process runs the other protocol
        assert sibling("test_consumer_member").difference(case) is None


def test_metadata_is_written_as_java_writes_it(case: Lines) -> None:
    """Subscriptions come back byte by byte; assignments by what they say, as Java does not sort their partitions."""
    for body in bodies(case, "JoinGroup", "request"):
        for protocol in body["protocols"]:
            data = base64.b64decode(protocol["metadata"])
            assert encode_subscription(decode_subscription(data)) == data
    for body in bodies(case, "SyncGroup", "request"):
        for member in body["assignments"]:
            assignment = decode_assignment(base64.b64decode(member["assignment"]))
            assert decode_assignment(encode_assignment(assignment)) == assignment


def test_leader_computes_what_the_java_client_computed(case: Lines) -> None:
    """`range` partition by partition; `cooperative-sticky` the same number for everyone in all."""
    counts = tuple(sorted((topic, count) for topic, count in case[0]["topics"]))
    for joined, synced in led(case):
        group = {
            Candidate.of(m["member_id"], m["group_instance_id"]): decode_subscription(base64.b64decode(m["metadata"]))
            for m in joined["members"]
        }
        given = REPLAY.given_by_leader(synced)
        if joined["protocol_name"] == "range":
            assert assign_range(group, counts) == given
        else:
            ours = assign_cooperative_sticky(group, counts)
            assert sorted(map(len, ours.values())) == sorted(map(len, given.values()))


def bodies(lines: Lines, api: str, wire: str) -> Iterator[Any]:
    return (line["body"] for line in lines if line.get("api") == api and line.get("wire") == wire)


def led(lines: Lines) -> Iterator[tuple[Any, Any]]:
    """Each JoinGroup response to a leader, with the assignments that it then sent."""
    joined = None
    for line in lines:
        if line.get("api") == "JoinGroup" and line["wire"] == "response":
            joined = line["body"]
        elif line.get("api") == "SyncGroup" and line["wire"] == "request" and line["body"]["assignments"] and joined:
            yield joined, line["body"]


# The comparison finds what is otherwise


def recording(files: Sequence[Any], name: str) -> Lines:
    found = next(file for file in files if file.name.endswith(f"{name}.jsonl"))
    return copy.deepcopy(list(found.lines()))


def first(lines: Lines, after: int = 0, **wanted: Any) -> Any:
    return next(line for line in lines[after:] if all(line.get(key) == value for key, value in wanted.items()))


def without_a_sync(lines: Lines) -> None:
    corr = first(lines, api="SyncGroup", wire="request")["corr"]
    lines[:] = [line for line in lines if line.get("corr") != corr]


def with_another_owned(lines: Lines) -> None:
    protocol = next(b for b in bodies(lines, "JoinGroup", "request") if b["member_id"])["protocols"][0]
    protocol["metadata"] = base64.b64encode(base64.b64decode(protocol["metadata"])[:-2] + b"\x00\x00").decode()


def with_another_heartbeat(lines: Lines) -> None:
    first(lines, api="Heartbeat", wire="request")["body"]["generation_id"] += 1


def with_another_interval(lines: Lines) -> None:
    """A member that waits longer than the client did."""
    first(lines, app="start")["conf"]["heartbeat.interval.ms"] = 1_300


def without_a_callback_partition(lines: Lines) -> None:
    next(line for line in lines if line.get("app") == "revoke" and line["parts"])["parts"].pop()


def with_another_callback(lines: Lines) -> None:
    first(lines, app="revoke")["app"] = "lost"


def with_another_generation_told(lines: Lines) -> None:
    first(lines, app="assign")["epoch"] += 1


def with_less_held_before(lines: Lines) -> None:
    next(line for line in lines if line.get("app") == "revoke")["before"].pop()


def without_a_log_line(lines: Lines) -> None:
    lines.remove(next(line for line in lines if line.get("text", "").startswith("Successfully synced group")))


def with_another_generation_logged(lines: Lines) -> None:
    line = next(line for line in lines if line.get("text", "").startswith("Successfully joined group"))
    line["text"] = line["text"].replace("generationId=", "generationId=7")


def with_another_reset(lines: Lines) -> None:
    line = next(line for line in lines if line.get("text", "").startswith("Resetting generation and member id"))
    line["text"] = line["text"].replace("and member id ", "")


def without_the_leave(lines: Lines) -> None:
    lines.remove(first(lines, api="LeaveGroup", wire="request"))


def with_another_commit(lines: Lines) -> None:
    body = first(lines[::-1], api="OffsetCommit", wire="request")["body"]
    body["topics"][0]["partitions"][0]["committed_offset"] += 1


def with_an_unknown_member(lines: Lines) -> None:
    """An answer that the client did not get: it did not react."""
    first(lines, api="Heartbeat", wire="response")["body"]["error_code"] = "unknown_member_id"


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("change", "lane"),
    [
        (without_a_sync, "acts"),
        (with_another_owned, "acts"),
        (with_another_heartbeat, "sent"),
        (with_another_interval, "time"),
        (without_a_callback_partition, "acts"),
        (with_another_callback, "acts"),
        (with_another_generation_told, "group metadata"),
        (with_less_held_before, "held"),
        (without_a_log_line, "log"),
        (with_another_generation_logged, "log"),
        (with_another_reset, "log"),
        (without_the_leave, "acts"),
        (with_an_unknown_member, "log"),
        (with_another_commit, "commits"),
    ],
)
def test_changed_recording_is_told_from_the_real_one(
    files: Sequence[Any], change: Callable[[Lines], None], lane: str
) -> None:
    """Whatever is changed in a recording shows as a difference, in its lane."""
    lines = recording(files, "4.4.0/x01_coop_second/A")
    assert REPLAY.differences(REPLAY.Recording(tuple(lines))) == []
    change(lines)
    found = REPLAY.differences(REPLAY.Recording(tuple(lines)))
    assert any(difference.field.startswith(lane) for difference in found), found


@pytest.mark.our_copies
def test_error_that_poll_threw_is_compared(files: Sequence[Any]) -> None:
    """Another class of it differs."""
    lines = recording(files, "4.4.0/x05_coop_fenced_static/C")
    first(lines, app="poll_error")["err"] = "org.apache.kafka.common.errors.GroupAuthorizationException"
    assert [d.field for d in REPLAY.differences(REPLAY.Recording(tuple(lines)))] == ["thrown[0]"]


# Mistakes of a member that the comparison finds


def without_commits(step: Any) -> Any:
    """It joins without a commit before."""
    return lambda member, given, now: step(
        member, replace(given, consumed=()) if isinstance(given, AsyncPollEvent) else given, now
    )


def closing_without_commit(step: Any) -> Any:
    """close() commits nothing."""

    def planted(member: Any, given: Any, now: int) -> Any:
        if isinstance(given, Close):
            member, given = step(member, AsyncPollEvent(), now).member, replace(given, consumed=())
        return step(member, given, now)

    return planted


@pytest.mark.our_copies
@pytest.mark.parametrize("plant", [without_commits, closing_without_commit])
def test_missing_commit_of_a_member_is_found(
    files: Sequence[Any], monkeypatch: pytest.MonkeyPatch, plant: Callable[[Any], Any]
) -> None:
    """What the client committed before a join and in close(), a member commits too."""
    lines = recording(files, "4.4.0/x01_coop_second/A")
    monkeypatch.setattr(REPLAY, "step", plant(REPLAY.step))
    found = REPLAY.differences(REPLAY.Recording(tuple(lines)))
    assert [difference.field.partition("[")[0] for difference in found] == ["commits"]


@pytest.mark.our_copies
def test_halved_session_timeout_is_found(files: Sequence[Any]) -> None:
    """A member joins with the session timeout of the client."""
    lines = recording(files, "4.4.0/x01_coop_second/A")
    first(lines, app="start")["conf"]["session.timeout.ms"] = 3_000
    assert REPLAY.differences(REPLAY.Recording(tuple(lines)))[0].field == "acts[0]"


def after_a_failed_join(lines: Lines) -> Lines:
    """The recording with a join before its first one: the coordinator was loading the group."""
    at = next(n for n, line in enumerate(lines) if line.get("text") == "(Re-)joining group")
    asked = first(lines, api="JoinGroup", wire="request")
    log, sent, answer = copy.deepcopy((lines[at], asked, first(lines, corr=asked["corr"], wire="response")))
    sent["corr"] = answer["corr"] = [0, 0]
    answer["body"]["error_code"] = "coordinator_load_in_progress"
    reason = "Request joining group due to: rebalance failed due to CoordinatorLoadInProgressException"
    failed, again = {**log, "text": "JoinGroup failed: Coordinator is loading the group."}, {**log, "text": reason}
    for wait, line in ((104, log), (103, sent), (101, answer), (100, failed), (100, again)):
        line["t_ms"] = lines[at]["t_ms"] - wait - 1
    return [*lines[:at], log, sent, answer, failed, again, *lines[at:]]


@pytest.mark.our_copies
def test_join_without_backoff_is_found(files: Sequence[Any]) -> None:
    """A join that failed by the coordinator is tried again after a backoff, and not before."""
    lines = after_a_failed_join(recording(files, "4.4.0/x02_coop_rolling/B"))
    assert REPLAY.differences(REPLAY.Recording(tuple(lines))) == []
    first(lines, app="start")["conf"]["retry.backoff.ms"] = 0
    assert REPLAY.differences(REPLAY.Recording(tuple(lines)))[0].field == "time"


# What is explained


def test_a_rejoin_asked_for_twice_is_one() -> None:
    """The handler of a failed answer asks, and so does the loop around it; two rejoins with a join between are two."""
    asked, sent = REPLAY.Seen(0, "rejoin requested", None), REPLAY.Seen(0, "join sent", None)
    assert REPLAY.once([asked, asked, sent, asked]) == [asked, sent, asked]


def test_a_close_that_hangs_is_followed_up_to_its_beginning() -> None:
    """B12: what a close would have done is not expected of a client that hangs in it; what came before is."""
    lines = ({"scenario": "s"}, {"app": "close_begin", "t_ms": 10.0}, {"driver": "close_timeout", "t_ms": 99.0})
    ours = [REPLAY.Seen(9, "JoinGroup", None), REPLAY.Seen(10, "revoked", None)]
    assert REPLAY.until_hang(REPLAY.Recording(lines), ours) == ours[:1]
    ended = (*lines, {"app": "close_end", "t_ms": 100.0})
    assert REPLAY.until_hang(REPLAY.Recording(ended), ours) == ours
