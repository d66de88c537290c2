"""The consumer member against recordings of the Java client, from inside and on the wire, and the tools that do it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsm.member.choices import Choice
from fsm.member.dialect import choices_of, custom

HERE = str(Path(__file__).parent)


@cache
def sibling(name: str) -> ModuleType:
    """A module beside this one; test modules are no package, so their folder is where to look."""
    if HERE not in sys.path:
        sys.path.append(HERE)
    return importlib.import_module(name)


TIMELINE, REPLAY = sibling("member_timeline"), sibling("member_replay")


def reads(head: Any) -> bool:
    return isinstance(head, dict) and "member" in head and head.get("protocol") == "consumer"


def cases(file: Any) -> Iterator[tuple[str, Any]]:
    lines = list(file.lines())
    yield f"{lines[0]['scenario']}/{lines[0]['member']}", lines


def difference(lines: list[Any], choices: Sequence[Choice] | None = None) -> Any:
    """The first difference of a recording, under the dialect of its version or one of these choices."""
    recorded = TIMELINE.timeline(lines)
    spoken = None if choices is None else custom("of a test", choices)
    return REPLAY.Replay(recorded, TIMELINE.in_order, spoken).run(TIMELINE.merged(recorded))


def test_member_does_what_the_java_client_did(case: list[Any]) -> None:
    """Transitions, targets, marks, commits before runs, callbacks and heartbeats are those recorded, in their order."""
    assert difference(case) is None


def recording(files: Sequence[Any], name: str) -> list[Any]:
    found = next(file for file in files if file.name.endswith(f"{name}.jsonl"))
    return [json.loads(json.dumps(line)) for line in found.lines()]


def first(lines: list[Any], **wanted: Any) -> Any:
    return next(line for line in lines if all(line.get(key) == value for key, value in wanted.items()))


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("name", "choices", "field"),
    [
        ("4.4.0/j14_regex/B", "4.3.1", "transition"),
        ("4.4.0/j31_nolistener/B", "4.2.0", "transition"),
        ("4.4.0/j07_maxpoll/B", "4.2.1", "heartbeat member_epoch"),
        ("4.0.0/j07_maxpoll/B", "4.4.0", "marked"),
        ("4.0.0/j24_commit_fail_revoke/A", "4.4.0", "marked"),
    ],
)
def test_dialect_of_another_release_differs(files: Sequence[Any], name: str, choices: str, field: str) -> None:
    """A recording does not fit the rules of a release that differs in what it shows."""
    found = difference(recording(files, name), tuple(choices_of(choices)))
    assert found is not None
    assert found.field == field


def without_line(lines: list[Any], **wanted: Any) -> list[Any]:
    gone = first(lines, **wanted)
    return [line for line in lines if line is not gone]


@pytest.mark.our_copies
def test_changed_epoch_of_a_heartbeat_is_found(files: Sequence[Any]) -> None:
    """A recorded leave with another epoch is a difference at that heartbeat."""
    lines = recording(files, "4.4.0/j01_join_close/A")
    leave = next(line for line in lines if line.get("body", {}).get("member_epoch") == -1)
    leave["body"]["member_epoch"] = -2
    found = difference(lines)
    assert (found.field, found.expected, found.got) == ("heartbeat member_epoch", -2, -1)
    assert str(found).startswith("j01_join_close/A at ")


@pytest.mark.our_copies
def test_changed_partitions_of_a_callback_are_found(files: Sequence[Any]) -> None:
    """A recorded revoked callback over other partitions is a difference of the application's lane."""
    lines = recording(files, "4.4.0/j02_second_joins/A")
    first(lines, app="revoke")["parts"].pop()
    found = difference(lines)
    assert (found.field, found.t_ms, found.sought) == ("callback", 7644.1, "app: revoke")
    method, told = found.got
    assert (method, len(told) - len(found.expected[1])) == ("revoked", 1)


@pytest.mark.our_copies
def test_missing_transition_is_found(files: Sequence[Any]) -> None:
    """A transition that is not in the recording is one too many of the member."""
    lines = recording(files, "4.4.0/j01_join_close/A")
    gone = next(line for line in lines if "from ACKNOWLEDGING to STABLE" in line.get("text", ""))
    assert difference([line for line in lines if line is not gone]) is not None


@pytest.mark.our_copies
def test_missing_acknowledgement_is_found(files: Sequence[Any]) -> None:
    """A heartbeat that should carry what is owned and does not is a difference of that field."""
    lines = recording(files, "4.4.0/j02_second_joins/A")
    ack = next(line for line in lines if line.get("body", {}).get("topic_partitions"))
    ack["body"]["topic_partitions"] = None
    found = difference(lines)
    assert (found.field, found.expected) == ("heartbeat topic_partitions", None)


@pytest.mark.our_copies
def test_commit_after_the_revocation_is_found(files: Sequence[Any]) -> None:
    """The commit before a run must have ended before the revoked callback is asked for."""
    lines = recording(files, "4.4.0/j02_second_joins/A")
    ended = next(
        line for line in lines if line.get("text", "").startswith("Auto-commit before") and line["t_ms"] > 7000
    )
    later = next(line for line in lines if line.get("text", "").startswith("The event to trigger"))
    lines.remove(ended)
    lines.insert(lines.index(later) + 1, {**ended, "t_ms": later["t_ms"]})
    assert difference(lines) is not None


@pytest.mark.our_copies
def test_late_heartbeat_is_found(files: Sequence[Any]) -> None:
    """A plain heartbeat 800 ms after its interval is a difference, unless a signal held the process meanwhile."""
    lines = recording(files, "4.4.0/j01_join_close/A")
    beats = [n for n, line in enumerate(lines) if line.get("api") == "ConsumerGroupHeartbeat"]
    moved = [n for n in beats if lines[n]["t_ms"] > lines[beats[4]]["t_ms"] - 1][:1]
    for line in lines[moved[0] :]:
        line["t_ms"] += 800
    found = difference(lines)
    assert found.field == "request"
    assert found.got.startswith("due ")
    at = lines[moved[0]]["t_ms"]
    held = [{"t_ms": at - 700, "driver": "sigstop"}, {"t_ms": at - 1, "driver": "sigcont"}]
    assert difference([*lines[: moved[0]], *held, *lines[moved[0] :]]) is None


@pytest.mark.our_copies
def test_heartbeat_that_waits_for_a_coordinator_is_explained(files: Sequence[Any]) -> None:
    """One whose coordinator has to be found first may be as late as that takes; any other one may not."""
    recorded = TIMELINE.timeline(recording(files, "4.4.0/j01_join_close/A"))
    replay = REPLAY.Replay(recorded, TIMELINE.in_order)
    found_ms = next(seen.t_ms for seen in replay.moves.lanes["response"] if seen.kind == "coordinator")
    meanwhile = replay.begin()._replace(lateness=((found_ms + 10, 900.0),))
    later = replay.begin()._replace(lateness=((found_ms + 2_000, 900.0),))
    assert replay.late(meanwhile) is None
    assert replay.late(later).got == "due 900 ms earlier"


@pytest.mark.our_copies
def test_response_that_nobody_read_is_explained_by_a_kill(files: Sequence[Any]) -> None:
    """What came when the process was killed may never have been looked at; else it is a difference."""
    lines = recording(files, "4.4.0/j01_join_close/A")
    recorded = TIMELINE.timeline(lines)
    replay = REPLAY.Replay(recorded, TIMELINE.in_order)
    world = replay.begin()
    for lane, seen in replay.moves.lanes.items():
        for _ in range(len(seen) - (lane == "response")):
            world = world.past(lane)
    assert replay.left_over(world).field == "response"
    replay.moves.recorded = replace(recorded, killed=True)
    assert replay.left_over(world) is None


@pytest.mark.our_copies
def test_failed_commit_is_logged_twice(files: Sequence[Any]) -> None:
    """`Reconciliation failed.` after a failed commit ends no run; without the failed commit it does."""
    lines = recording(files, "4.4.0/j18_topic_deleted/A")
    failed = next(line for line in lines if line.get("text", "").startswith("Auto-commit request before"))
    assert difference(lines) is None
    failed["text"] = "Auto-commit before reconciling new assignment completed successfully."
    assert difference(lines) is not None


def test_topic_made_again_keeps_its_name() -> None:
    """Two ids that were never assigned together may have one name; two that were may not."""

    def acknowledged(ids: dict[str, list[int]]) -> Any:
        owned = [{"topic_id": i, "partitions": numbers} for i, numbers in ids.items()]
        body = {"topic_partitions": owned, "member_epoch": 1}
        return {"wire": "request", "api": "ConsumerGroupHeartbeat", "body": body}

    both = {"app": "assign", "parts": [["a", 0], ["b", 0]]}
    lost_b = {"app": "revoke", "parts": [["b", 0]]}
    again = {"app": "assign", "parts": [["b", 0]]}
    lines = [both, acknowledged({"A": [0], "B": [0]}), lost_b, acknowledged({"A": [0]}), again]
    names = TIMELINE.names_of([*lines, acknowledged({"A": [0], "C": [0]})])
    assert dict(names) == {"A": "a", "B": "b", "C": "b"}
