"""Static members that restart, and downgrades, in traces that the checker writes of what it finds: W13 to W15, W28."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import memory
import pytest

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.check import Model, Walk, check
from fsm.check.kafka.classic.group import classic_group
from fsm.check.kafka.mixed.group import mixed_group

Lines = list[dict[str, Any]]
NAMED = {
    "owes a join": (Cause.OWED_JOIN, "W13", (("foo", 1),)),
    "has no target": (Cause.NO_TARGET, "W14", ()),
    "is forgotten": (Cause.FORGOTTEN, "W15", (("foo", 1),)),
}


def trace_along(model: Model, steps: Path) -> Lines:
    """The trace of live objects along a path of the checker."""
    walk = Walk(model)
    for step in steps.read_text(encoding="utf-8").splitlines():
        walk.take(step)
    assert model.replay is not None
    return [json.loads(line) for line in model.replay(walk.path).trace]


def trace_of(model: Model, kind: str, *known: str) -> Lines:
    (found,) = check(model, disturb=[kind], disturbances=1, known=known).violations
    assert found.replayed is not None
    assert found.replayed.times_ms
    return [json.loads(line) for line in found.replayed.trace]


@pytest.fixture(scope="module")
def traces() -> Mapping[str, Lines]:
    owes = Path(__file__).parents[1] / "check" / "paths" / "W13.txt"
    return {
        "owes a join": trace_along(classic_group(static=True, protocol="cooperative"), owes),
        "has no target": trace_of(mixed_group(1, static=True), "convert", "early"),
        "is forgotten": trace_of(mixed_group(client="fixed", static=True), "convert", "early", "late_join", "W14"),
    }


def findings(lines: Lines) -> list[Finding]:
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    return list(memory.audit({"run.jsonl": text.encode()}).findings)


def stored(lines: Lines) -> Iterator[int]:
    """Where a generation's members stand."""
    return (i for i, line in enumerate(lines) if line["kind"] == "member_state" and line["machine"] == "classic-group")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.deep] if what == "owes a join" else []) for what in NAMED]
)
@pytest.mark.loop(1)
def test_what_happened_is_named_and_nothing_else_is_found(traces: Mapping[str, Lines], what: str) -> None:
    cause, number, partitions = NAMED[what]
    (found,) = findings(traces[what])
    assert (found.kind, found.cause, found.partitions) == (FindingKind.UNOWNED_PARTITION, cause, partitions)
    assert found.severity is Severity.WARNING
    assert f": {number}, " in found.summary
    assert found.end_ms - found.start_ms > 20_000
    assert [json.loads(one.text)["thread"] for one in found.evidence] == ["coordinator"]
    lines = "".join(f"{json.dumps(line)}\n" for line in traces[what]).encode()
    (told,) = memory.audit({"run.jsonl": lines}).incidents
    assert (told.cause, told.hazard) == (cause, number.lower())


@pytest.mark.parametrize("what", NAMED)
def test_it_takes_what_the_coordinator_stored(traces: Mapping[str, Lines], what: str) -> None:
    assert findings([line for line in traces[what] if line.get("thread") != "coordinator"]) == []


@pytest.mark.parametrize("what", ["owes a join", "is forgotten"])
def test_a_next_generation_ends_it(traces: Mapping[str, Lines], what: str) -> None:
    """Somebody asked for a round one second later."""
    lines = traces[what]
    last = max(stored(lines))
    state = next(line for line in reversed(lines[: last + 1]) if line["kind"] == "group_state")
    after = {**state, "ts_ms": state["ts_ms"] + 1_000, "epoch": state["epoch"] + 1}
    assert findings(sorted([*lines, after], key=lambda line: line["ts_ms"])) == []


def test_a_target_ends_it(traces: Mapping[str, Lines]) -> None:
    lines = traces["has no target"]
    target = [line for line in lines if line["kind"] == "target" and line.get("thread") == "coordinator"][-1]
    topic = next(topic for line in lines if line["kind"] == "topic_names" for topic in line["settings"])
    after = {**target, "ts_ms": target["ts_ms"] + 1_000, "full": [[topic, 0]]}
    assert findings(sorted([*lines, after], key=lambda line: line["ts_ms"])) == []


@pytest.fixture(scope="module")
def lost() -> Lines:
    """W28: a failover loses the rebalance of a downgrade."""
    asked = {"known": ["early"], "properties": ["the group settles"]}
    (found,) = check(mixed_group(), disturb=["failover", "leave"], disturbances=2, **asked).violations
    assert found.replayed is not None
    return [json.loads(line) for line in found.replayed.trace]


@pytest.mark.deep
def test_a_lost_round_is_named(lost: Lines) -> None:
    (found,) = findings(lost)
    assert (found.kind, found.cause, found.partitions) == (
        FindingKind.UNOWNED_PARTITION,
        Cause.LOST_ROUND,
        (("foo", 0),),
    )
    assert ": W28, " in found.summary


@pytest.mark.deep
def test_a_round_that_a_member_begins_is_not_lost(lost: Lines) -> None:
    """Nor is one of a group of which a log is missing."""
    client = next(line["client_id"] for line in lost if line["kind"] == "synced")
    end_ms = next(line["ts_ms"] for line in lost if line["kind"] == "heartbeat_ok" and line["client_id"] == client)
    own = next(line for line in lost if line["kind"] == "joining" and line["client_id"] == client)
    begun = {**own, "ts_ms": end_ms + 1, "detail": "group is already rebalancing"}
    lines = sorted([*lost, begun], key=lambda line: line["ts_ms"])
    assert not [one for one in findings(lines) if one.cause is Cause.LOST_ROUND]
    others = [line for line in lost if line.get("client_id") != client]
    assert not [one for one in findings(others) if one.cause is Cause.LOST_ROUND]


def test_who_keeps_its_id_is_not_replaced(traces: Mapping[str, Lines]) -> None:
    """The same generation is stored twice, with the same members."""
    lines = [dict(line) for line in traces["owes a join"]]
    for at in stored(lines):
        lines[at]["member_id"] = lines[at]["member_id"].replace("a1", "a0")
    assert findings(lines) == []


def test_what_somebody_was_told_is_not_forgotten(traces: Mapping[str, Lines]) -> None:
    """The coordinator had told the member all that the downgrade assigns to it."""
    lines = [dict(line) for line in traces["is forgotten"]]
    waits = [line for line in lines if line.get("next_state") == "UNRELEASED_PARTITIONS"]
    topic = next(topic for line in lines if line["kind"] == "topic_names" for topic in line["settings"])
    for line in waits:
        line["full"] = [[topic, 1]]
    assert waits
    assert not [one for one in findings(lines) if one.cause is Cause.FORGOTTEN]
