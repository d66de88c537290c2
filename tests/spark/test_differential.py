"""The pipeline says what the audit in one process says, on recordings of real clients."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

from fsm.audit import local
from fsm.audit.group import Rebalance
from fsm.audit.rows import ObservedTransition
from fsm.spark import columns

from .conftest import SCENARIOS, Told, as_told, run, without_unparsed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.loop(12)
def test_each_recording_gives_the_findings_of_one_process(
    scenario: str, recordings: Path, by_cluster: dict[str, list[Told]]
) -> None:
    """Kind, severity, member, times, partitions, cause, words and lines of evidence, all in the same order."""
    found = local.audit_files(sorted((recordings / scenario).glob("*.log"))).findings
    assert by_cluster[scenario] == [as_told(one, scenario) for one in found]


def test_the_recordings_hold_something_to_find(by_cluster: dict[str, list[Told]]) -> None:
    """The comparison is about many kinds of findings, and some scenarios have none."""
    recorded = [by_cluster[scenario] for scenario in SCENARIOS]
    kinds = Counter(one["kind"] for found in recorded for one in found)
    assert len(kinds) >= 8
    assert kinds.total() >= 30
    assert not all(recorded)


def test_one_crowd_of_all_recordings(recordings: Path, tmp_path: Path) -> None:
    """Read as one cluster, recordings share groups and client ids: members must be told apart by their files."""
    found = run([recordings], tmp_path / "out")["findings"]
    expected = local.audit_files(recordings.rglob("*.log"))
    assert len(expected.findings) > 30
    assert without_unparsed(found) == [as_told(one) for one in expected.findings]
    assert_same_rows(tmp_path / "out", expected)


def assert_same_rows(out: Path, expected: local.Audit) -> None:
    """What the findings rest on is the same as well: every row of the folds, every transition and rebalance."""
    stages = {"intervals": "intervals", "wants": "subscriptions", "lives": "lives", "turns": "rebalances"}
    for stage, name in stages.items():
        rows = [row for own in expected.rows.values() for row in getattr(own, name)]
        assert rows_of(out, stage, type(rows[0])) == Counter(rows), stage
    assert rows_of(out, "transitions", ObservedTransition) == Counter(expected.transitions)
    assert rows_of(out, "rebalances", Rebalance) == Counter(expected.rebalances)
    ends = Counter((life.group, life.member, life.number, end) for life, end in expected.coverage)
    lives = parquet.read_table(out / "lives.parquet").to_pylist()
    assert Counter((row["group"], row["member"], row["number"], row["end_known"]) for row in lives) == ends


def rows_of(out: Path, stage: str, cls: type) -> Counter[object]:
    """The rows of a stage as instances, counted."""
    return Counter(map(columns.reader(cls), parquet.read_table(out / f"{stage}.parquet").to_pylist()))
