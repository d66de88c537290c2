"""The report of a large group is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm.spark import report
from fsm.trace import Kind, TraceRecord

from .conftest import run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
MEMBERS = 500
START_MS = 1_700_000_000_000


def life(number: int) -> list[TraceRecord]:
    """A member of one large group: it loses its membership, and owns the partition of the next one beside it."""
    client, at_ms = f"consumer-{number:04}", START_MS + 10 * number
    mine, next_one = (("orders", number),), (("orders", (number + 1) % MEMBERS),)

    def record(after_ms: int, kind: Kind, **fields: object) -> TraceRecord:
        return TraceRecord(at_ms + after_ms, kind, "large", client, f"id-{number}", thread="app", **fields)  # type: ignore[arg-type]

    began = [
        record(0, Kind.STARTED),
        record(1, Kind.SUBSCRIBED, topics=("orders",)),
        record(50, Kind.ASSIGN_BEGIN, partitions=mine),
        record(51, Kind.ASSIGN_END, partitions=mine),
    ]
    lost = [record(20_000, Kind.LOST_BEGIN, partitions=mine), record(20_001, Kind.LOST_END)]
    return [
        *began,
        *lost,
        record(30_000, Kind.ASSIGN_BEGIN, partitions=next_one),
        record(60_000, Kind.CLOSE_BEGIN),
        record(60_900, Kind.CLOSE_END),
    ]


def test_a_group_of_many_members_gives_a_small_report(tmp_path: Path) -> None:
    """The page shows a bounded part of members and findings and says what it hides; the document has them all."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for part in range(4):
        lines = [one.to_json() for number in range(part, MEMBERS, 4) for one in life(number)]
        (logs / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    found = run([logs], tmp_path / "out", format="trace")
    (group,) = found["groups"]
    assert (group["members"], group["partitions"]) == (MEMBERS, MEMBERS)
    assert len(found["findings"]) > 2 * report.FINDINGS
    page = tmp_path / "out" / "report.html"
    assert 50_000 < page.stat().st_size < 3_000_000
    assert str(MEMBERS - report.MEMBERS) in page.read_text().replace(",", "")
