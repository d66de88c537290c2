"""Logs of a run in the clients' own words: what the audit finds in them is what it finds in the trace, and is true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from simulate_scene import connect, deployment

from fsm.cli import main
from fsm.logs.writing.connect_writing import write_connect
from fsm.logs.writing.java_writing import write_java
from fsm.simulate import Deployment, write
from fsm.trace import Kind, TraceRecord, from_json

TOLERANCE_MS, UNOWNED_MS = 100, 2_000
"""What the audit lets pass."""
TWICE = ("double_ownership", "ran_twice")
Partition = tuple[str, str, int]
Interval = tuple[int, int]


class Use(NamedTuple):
    """A client used a partition."""

    start_ms: int
    end_ms: int
    sure_ms: int
    """Up to here its log shows that it was there."""
    client: str


class Story:
    """A run and its files."""

    def __init__(self, given: Deployment, seed: int, level: str, folder: Path) -> None:
        self.folder, self.level = folder, level
        path = folder / "shop.yaml"
        path.write_text(write(given))
        out = ["--trace", "--logs", level, "-o", str(folder)]
        assert main(["simulate", str(path), "--seed", str(seed), *out]) == 0
        self.truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
        self.trace = [from_json(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
        self.ends_ms = self.truth["started_ms"] + given.lasts_ms

    def findings(self, what: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
        """What the audit finds in the trace, or in the logs."""
        capsys.readouterr()
        audit = ["audit", str(self.folder / what), "--master", "none", "--json", "-o", str(self.folder / "audit")]
        assert main(audit) in (0, 1)
        document = json.loads(capsys.readouterr().out)
        assert document["inputs"]["understood_share"] == 1.0
        assert document["inputs"]["not_understood"] == 0
        self.layouts = sorted(document["inputs"]["layouts"])
        found: list[dict[str, Any]] = document["findings"]
        return found

    def uses(self) -> dict[Partition, list[Use]]:
        """Who used what. A lost callback ends a use when it begins, to the audit."""
        by_client: dict[str, list[TraceRecord]] = {}
        for record in self.trace:
            by_client.setdefault(record.client_id, []).append(record)
        printed = {client: self._printed(records) for client, records in by_client.items()}
        found: dict[Partition, list[Use]] = {}
        for one in self.truth["held"]:
            name = one["client"] if one["client"] in by_client else f"connect-{one['client']}"
            start_ms, end_ms, own = one["start_ms"], one["end_ms"], by_client.get(name, [])
            lost = (r.ts_ms for r in own if r.kind is Kind.LOST_BEGIN and start_ms <= r.ts_ms <= end_ms)
            end_ms = min(lost, default=end_ms)
            reborn_ms = min((r.ts_ms for r in own if r.kind is Kind.STARTED and r.ts_ms >= end_ms), default=1 << 60)
            last_ms = max((ts_ms for ts_ms in printed[name] if ts_ms < reborn_ms), default=start_ms)
            use = Use(start_ms, end_ms, max(start_ms, min(end_ms, last_ms)), one["client"])
            found.setdefault((one["group"], *one["partition"]), []).append(use)
        return {where: sorted(uses) for where, uses in found.items()}

    def _printed(self, records: list[TraceRecord]) -> list[int]:
        """When the client has a line in its log."""
        is_connect = records[0].client_id.startswith("connect-")
        messages = write_connect(records) if is_connect else write_java(records, {}, {})
        return [one.ts_ms for one in messages if self.level == "debug" or one.level != "DEBUG"]

    def judge(self, kind: str, found: list[dict[str, Any]], uses: dict[Partition, list[Use]]) -> tuple[int, int, int]:
        """How many of the kind are found, missed and invented."""
        shown: dict[Partition, list[Interval]] = {}
        for one in found:
            if one["kind"] == kind and one["start_ms"] < self.ends_ms:  # afterwards the truth is not told
                for partition in one["partitions"]:
                    interval = one["start_ms"], one["end_ms"] or self.ends_ms
                    shown.setdefault((one["group"], *partition), []).append(interval)
        start_ms = self.truth["started_ms"] if kind == "unassigned_work" else None
        intervals = shared if kind in TWICE else partial(free, since_ms=start_ms)
        least_ms = TOLERANCE_MS if kind in TWICE else UNOWNED_MS
        hits = missed = invented = 0
        for where, own in uses.items():
            there = [one for one in intervals(own, sure=True) if one[1] - one[0] > least_ms]
            seen = [any(_meet(one, other) for other in shown.get(where, [])) for one in there]
            hits, missed = hits + sum(seen), missed + len(seen) - sum(seen)
            may_be = [*intervals(own, sure=False)]
            invented += sum(not any(_meet(one, other) for other in may_be) for one in shown.get(where, []))
        return hits, missed, invented


def shared(uses: list[Use], *, sure: bool) -> Iterator[Interval]:
    """When two used a partition: surely, or perhaps."""
    for i, one in enumerate(uses):
        for other in uses[i + 1 :]:
            ends = (one.sure_ms, other.sure_ms) if sure else (one.end_ms, other.end_ms)
            if one.client != other.client and min(ends) > other.start_ms:
                yield other.start_ms, min(ends)


def free(uses: list[Use], *, sure: bool, since_ms: int | None) -> Iterator[Interval]:
    """When nobody used a partition, since then or since somebody had used it: surely, or perhaps."""
    reached_ms = uses[0].start_ms if since_ms is None else since_ms
    for one in uses:
        if one.start_ms > reached_ms:
            yield reached_ms, one.start_ms
        reached_ms = max(reached_ms, one.end_ms if sure else one.sure_ms)


def _meet(one: Interval, other: Interval) -> bool:
    return min(one[1], other[1]) > max(one[0], other[0])


def _judged(findings: Iterable[dict[str, Any]], kinds: Iterable[str]) -> set[tuple[Any, ...]]:
    return {
        (f["kind"], f["severity"] == "error", f["group"], f["member"], f["cause"], str(f["partitions"]))
        for f in findings
        if f["kind"] in kinds
    }


KINDS = ("double_ownership", "unowned_partition", "partitions_lost", "fencing_loop", "member_out_for_good")


@pytest.mark.parametrize("level", ["debug", pytest.param("info", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [
        "static",
        *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("old", "consumer", "mixed", "eager", "cooperative")),
    ],
)
def test_the_audit_of_logs_finds_what_really_happened(
    kind: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the log can tell is found, and nothing else; at DEBUG it is what the trace tells."""
    story = Story(deployment(kind), 1, level, tmp_path)
    found, uses = story.findings("logs", capsys), story.uses()
    assert story.layouts == ["consumer-offsets/json", "java/kafka"]
    for what in ("double_ownership", "unowned_partition"):
        hits, missed, invented = story.judge(what, found, uses)
        assert (missed, invented) == (0, 0)
        assert hits or (kind, what) == ("consumer", "double_ownership")
    if level == "debug":
        assert _judged(found, KINDS) == _judged(story.findings("trace.jsonl", capsys), KINDS)


@pytest.mark.deep
def test_the_audit_of_workers_logs_finds_what_really_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Connectors and tasks that ran twice or nowhere."""
    story = Story(connect(), 1, "info", tmp_path)
    found, uses = story.findings("logs", capsys), story.uses()
    assert story.layouts == ["connect/kafka"]
    assert "illegal_transition" not in {one["kind"] for one in found}
    for what in ("ran_twice", "unassigned_work"):
        hits, missed, invented = story.judge(what, found, uses)
        assert (missed, invented) == (0, 0)
        assert hits > 10


@pytest.mark.deep
def test_at_debug_heartbeats_tell_that_a_worker_stood_still(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each time that the audit says so, one had been paused; no other silence is taken for that."""
    story = Story(connect(), 1, "debug", tmp_path)
    paused = [one["at_ms"] for one in story.truth["faults"] if "pause" in one]
    frozen = [one for one in story.findings("logs", capsys) if one["cause"] == "worker_frozen"]
    assert len(frozen) > 10
    for one in frozen:
        assert any(abs(at_ms - one["start_ms"]) < 60_000 for at_ms in paused)
