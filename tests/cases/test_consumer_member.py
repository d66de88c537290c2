"""The consumer member against recordings of the Java client, from inside and on the wire, and the tools that do it.

`oracle/member-recorded-later.tar.xz` has more of them, made in the same way on a busy machine: brokers that were killed
or held, closes in the midst of something, listeners that raise, a client's own pattern.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import choices_of, custom
from fsm.member.effects import Enqueued, Purpose, Transition, UnsentRequest
from fsm.member.events import AsyncPollEvent, ErrorEvent, KafkaError, LeaveGroupOnCloseEvent
from fsm.member.inputs import Answered, Tick
from fsm.protocol.messages import OffsetCommitResponse
from fsm.tables.consumer_member import State

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
    dialect = None if choices is None else custom("of a test", choices)
    return REPLAY.Replay(recorded, TIMELINE.in_order, dialect).run(TIMELINE.merged(recorded))


def test_member_does_what_the_java_client_did(case: list[Any]) -> None:
    """Transitions, targets, marks, commits before runs, callbacks and heartbeats are those recorded, in their order."""
    classic = sibling("classic_replay")
    recorded = classic.Recording(tuple(case))
    if recorded.is_classic:  # a process that had not migrated yet
        assert classic.differences(recorded) == []
    else:
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
    method, partitions = found.got
    assert (method, len(partitions) - len(found.expected[1])) == ("revoked", 1)


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("kind", "field", "value", "found"),
    [
        ("assign", "epoch", 7, "group metadata"),
        ("revoke", "member_id", "other", "group metadata"),
        ("revoke", "before", [], "before"),
        ("close_begin", "owned", [], "owned"),
        ("mismatch", "assignment", [], "assignment"),
    ],
)
def test_what_an_application_is_told_is_compared(
    files: Sequence[Any], kind: str, field: str, value: Any, found: str
) -> None:
    """Epoch and member id of groupMetadata(), what is held, and consumer.assignment() where they differ."""
    lines = recording(files, "4.4.0/j02_second_joins/A")
    first(lines, app=kind)[field] = value
    assert difference(lines).field == found


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
def test_noise_is_what_the_timeline_shows(files: Sequence[Any]) -> None:
    """A heartbeat 800 ms late is the noise of its own timeline, and a second one no more; a signal's hold is none."""
    lines = recording(files, "4.4.0/j01_join_close/A")
    assert TIMELINE.timeline(lines).noise_ms < 10
    beats = [n for n, line in enumerate(lines) if line.get("api") == "ConsumerGroupHeartbeat"]
    for line in lines[beats[6] :]:
        line["t_ms"] += 800
    assert 799 < TIMELINE.timeline(lines).noise_ms < 810
    assert difference(lines) is None
    at = lines[beats[6]]["t_ms"]
    held = [{"t_ms": at - 700, "driver": "sigstop"}, {"t_ms": at - 1, "driver": "sigcont"}]
    lines[beats[6] : beats[6]] = held
    assert TIMELINE.timeline(lines).noise_ms < 10
    assert difference(lines) is None


@pytest.mark.our_copies
def test_what_comes_after_a_silence_may_be_late(files: Sequence[Any]) -> None:
    """A line may tell of an instant before a time in which nothing was recorded, and of none that lines lie between."""
    recorded = TIMELINE.timeline(recording(files, "4.4.0/j01_join_close/A"))
    before, after = next((a, b) for a, b in itertools.pairwise(recorded.own) if b - a > 500)
    assert recorded.near(before, after)
    assert recorded.near(before - 1, after)
    assert not recorded.near(recorded.own[0], after)


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
    names = TIMELINE.names_of([*lines, acknowledged({"A": [0], "C": [0]})], {})
    assert dict(names) == {"A": "a", "B": "b", "C": "b"}


def test_topic_that_no_callback_tells_of_is_the_one_that_fits() -> None:
    """An id that is assigned and never called back for has the name of the one topic left with so many partitions."""
    given = {"topic_partitions": [{"topic_id": "A", "partitions": [0, 3]}]}
    line = {"wire": "response", "api": "ConsumerGroupHeartbeat", "body": {"assignment": given}}
    assert dict(TIMELINE.names_of([line], {"a": 4, "b": 3})) == {"A": "a"}
    assert dict(TIMELINE.names_of([line], {"a": 4, "b": 4})) == {}


# Mistakes of a member that the comparison finds

Step = Callable[[Any, Any, int], Any]


def without_commit(step: Step) -> Step:
    """It begins runs without a commit."""
    return lambda member, given, now: step(
        member, replace(given, consumed=()) if isinstance(given, AsyncPollEvent) else given, now
    )


def with_other_offsets(step: Step) -> Step:
    """It commits the offset after the next one."""

    def planted(member: Any, given: Any, now: int) -> Any:
        if isinstance(given, AsyncPollEvent):
            given = replace(given, consumed=tuple((p, offset + 1) for p, offset in given.consumed))
        return step(member, given, now)

    return planted


def then(step: Step, more: Callable[[Any, Any, Any], Any]) -> Step:
    """A member to which something more is given, wherever `more` says so of it, of what was given and came of it."""

    def planted(member: Any, given: Any, now: int) -> Any:
        after, effects = step(member, given, now)
        if (given := more(after, given, effects)) is not None:
            after, others = step(after, given, now)
            effects = (*effects, *others)
        return after, effects

    return planted


def without_waiting(step: Step) -> Step:
    """It goes on without the answer to the commit."""
    good = OffsetCommitResponse(())

    def more(_member: Any, _given: Any, effects: Any) -> Any:
        sent = (e for e in effects if isinstance(e, UnsentRequest) and e.purpose is Purpose.RUN_COMMIT)
        return next((Answered(request, good) for request in sent), None)

    return then(step, more)


def leaving_when_polled(step: Step) -> Step:
    """Every poll in STABLE leaves."""
    return then(
        step,
        lambda member, given, _: (
            LeaveGroupOnCloseEvent() if isinstance(given, AsyncPollEvent) and member.state is State.STABLE else None
        ),
    )


def reconciling_without_poll(step: Step) -> Step:
    """A run begins in the background, without a poll."""
    return then(
        step,
        lambda member, given, _: (
            AsyncPollEvent() if isinstance(given, Tick) and member.state is State.RECONCILING else None
        ),
    )


def throwing_when_fenced(step: Step) -> Step:
    """poll() throws that the member was fenced."""

    def planted(member: Any, given: Any, now: int) -> Any:
        after, effects = step(member, given, now)
        fenced = any(isinstance(e, Transition) and e.target is State.FENCED for e in effects)
        error = Enqueued(ErrorEvent(KafkaError("FENCED_MEMBER_EPOCH")))
        return after, (*effects, error) if fenced else effects

    return planted


@pytest.mark.our_copies
@pytest.mark.parametrize(
    ("plant", "name", "field"),
    [
        (without_commit, "4.4.0/j02_second_joins/A", "commit"),
        (without_waiting, "4.4.0/j02_second_joins/A", "commit"),
        (with_other_offsets, "4.0.0/j02_second_joins/A", "commit offsets"),
        (leaving_when_polled, "4.4.0/j10_static_restart/C", "transition"),
        (throwing_when_fenced, "4.4.0/j08_sigstop/B", "error"),
        (reconciling_without_poll, "4.3.1/j07_maxpoll/B", "marked"),
    ],
)
def test_mistake_of_a_member_is_found(
    files: Sequence[Any], monkeypatch: pytest.MonkeyPatch, plant: Callable[[Step], Step], name: str, field: str
) -> None:
    """What a member does otherwise is a difference in a recording that shows it."""
    lines = recording(files, name)
    assert difference(lines) is None
    moves = sibling("member_moves")
    monkeypatch.setattr(moves, "step", plant(moves.step))
    assert difference(lines).field == field


@pytest.mark.our_copies
def test_missing_backoff_is_found(files: Sequence[Any]) -> None:
    """A member that tries a failed heartbeat again at once is too early for the recorded one."""
    lines = recording(files, "4.4.0/j28_pause_consumer/B")
    first(lines, app="start")["conf"]["retry.backoff.ms"] = 0
    found = difference(lines)
    assert (found.field, found.got) == ("request", "a heartbeat due 120 ms earlier")
