"""Tasks that run on though their connector was deleted (G3): in the trace of the checker's path, planted in logs."""

from __future__ import annotations

import memory
import recordings

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.check import Walk
from fsm.check.kafka.connect.cluster import connect

LEADER_GOES = """
a deletes A
config topic receives from a: deletes a connector
b receives from config topic: A: a connector is gone
a is killed
broker receives from b: JoinGroup as b-b0
broker session of a0 expires
b receives from broker: generation 2 as b-b0, leads
b heartbeat interval is over
broker receives from b: SyncGroup of generation 2, gives b-b0: +nothing
b receives from broker: +nothing
b its starts end
broker receives from b: Heartbeat of generation 2
b receives from broker: ok
"""
"""The shortest path to it, of `fsm check connect --settled --disturb config,crash --disturbances 2`."""
SCENARIO, LOG, TASK = "s10_config_changes_info", "W3.log", "B-0"
"""Where a connector is deleted in order, and a worker that ran one of its tasks."""


def deleted(files: dict[str, bytes]) -> list[Finding]:
    return [one for one in memory.audit(files).findings if one.cause is Cause.DELETED]


def test_the_trace_of_the_shortest_path_is_called_by_its_number() -> None:
    walk = Walk(connect(settled=True))
    for step in LEADER_GOES.strip().splitlines():
        walk.take(step)
    assert walk.model.replay is not None
    told = walk.model.replay(walk.path)
    assert not told.differs
    (found,) = deleted({"run.jsonl": "".join(f"{line}\n" for line in told.trace).encode()})
    assert (found.kind, found.severity) == (FindingKind.TASK_ZOMBIE, Severity.ERROR)
    assert (found.member, found.partitions) == ("connect-b", (("A", 1),))
    assert "G3" in found.summary


def test_a_task_that_a_log_never_stops_is_found_and_one_that_stops_is_not() -> None:
    """Planted: from the deletion on, the worker's log has no line more of its task, and it has rounds."""
    files = dict(recordings.logs("connect")[SCENARIO])
    assert deleted(files) == []
    before, removed, after = files[LOG].partition(b"Connector B config removed")
    kept = [line for line in after.splitlines(keepends=True) if TASK.encode() not in line and b"B|task-0" not in line]
    files[LOG] = before + removed + b"".join(kept)
    (found,) = deleted(files)
    assert (found.kind, found.partitions) == (FindingKind.TASK_ZOMBIE, (("B", 0),))


def test_a_task_goes_on_in_its_own_right_once_its_connector_is_created_again() -> None:
    """Planted: the connector is there again when the round after the deletion has ended; nothing later counts."""
    files = dict(recordings.logs("connect")[SCENARIO])
    before, removed, after = files[LOG].partition(b"Connector B config removed")
    lines = [line for line in after.splitlines(keepends=True) if TASK.encode() not in line and b"B|task-0" not in line]
    rounds = [number for number, line in enumerate(lines) if b"Finished starting connectors and tasks" in line]
    created = next(line for line in before.splitlines(keepends=True) if b"Connector B config updated" in line)
    stamp, _, _ = lines[rounds[1]].partition(b"]")
    again = stamp + created[created.index(b"]") :]
    files[LOG] = before + removed + b"".join((*lines[: rounds[1] + 1], again, *lines[rounds[1] + 1 :]))
    assert deleted(files) == []
