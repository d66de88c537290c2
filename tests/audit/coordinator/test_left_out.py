"""The audit of a path that the checker found: members of 4.4.0 and their coordinator, played by ours on one clock.

The lines are traces of this package's members, and the coordinator's states as its records would tell them; on a real
broker and with Java clients the same was seen by hand (W9).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsm.check import check
from fsm.check.kafka.application import BROKER
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.model import Path as Taken
from fsm.check.model import Replayed
from fsm.cli import main
from fsm.trace import Kind, TraceRecord

START_MS, FOO = 1_700_000_000_000, f"{0:020d}AA"


def found_by_checker() -> tuple[Taken, Replayed]:
    """The shortest path to two users with one lost request, and what live objects did along it."""
    model, kept = consumer_group(), list[tuple[Taken, Replayed]]()

    def replay(path: Taken) -> Replayed:
        assert model.replay is not None
        kept.append((path, model.replay(path)))
        return kept[-1][1]

    check(replace(model, replay=replay), disturb=["lose"], disturbances=1, properties=["no partition has two users"])
    return kept[-1]


def coordinator_lines(path: Taken, replayed: Replayed) -> list[str]:
    """Each member's state, as it changes."""
    last: dict[str, Any] = {}
    names = TraceRecord(START_MS, Kind.TOPIC_NAMES, "g", thread="coordinator", settings={FOO: "foo"})
    lines = [names.to_json()]
    for (_, after), at_ms in zip(path, replayed.times_ms, strict=True):
        group = after[BROKER].state.groups.get("g") if BROKER in after else None
        for member_id, member in group.members.items() if group is not None else ():
            if last.get(member_id) == member.current:
                continue
            last[member_id] = current = member.current
            assigned, pending = (
                tuple((FOO, number) for (_, number), _ in held) for held in (current.assigned, current.pending)
            )
            record = TraceRecord(
                START_MS + at_ms,
                Kind.MEMBER_STATE,
                "g",
                member_id=member_id,
                thread="coordinator",
                machine="consumer-group-member",
                next_state=current.state.name,
                epoch=current.epoch,
                full=assigned,
                revoked=pending,
            )
            lines.append(record.to_json())
    return lines


def test_the_audit_names_what_a_report_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, replayed = found_by_checker()
    for name, lines in (("members", replayed.trace), ("broker", coordinator_lines(path, replayed))):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    main(["audit", "--format", "trace", "--master", "none", "--json", str(tmp_path), "-o", str(tmp_path / "out")])
    (double,) = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["kind"] == "double_ownership"]
    assert (double["member"], double["partitions"], double["cause"]) == ("a", [["foo", 1]], "left_out")
    assert "though it had not asked a to give it up" in double["summary"]
