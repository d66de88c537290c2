"""Logs with planted faults, one of every kind, through the pipeline: what one process finds, Spark finds."""

from __future__ import annotations

from pathlib import Path

import faults
import pytest

from fsm.audit import local

from .conftest import Told, as_told

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hole", "a rotated file between"),
        ("copied", "as if a log had been collected twice"),
        ("zones", "ahead of those of"),
    ],
)
def test_what_collectors_do_to_logs_is_said(
    planted: tuple[Path, dict[str, faults.Fault]], by_cluster: dict[str, list[Told]], name: str, said: str
) -> None:
    """A finding says so, nothing else is above info, and all is as in one process."""
    expected = local.audit_files(sorted((planted[0] / name).iterdir())).findings
    assert by_cluster[name] == [as_told(one, name) for one in expected]
    (told,) = (one for one in by_cluster[name] if said in one["summary"])
    assert [one for one in by_cluster[name] if one["severity"] != "info" and one is not told] == []


def test_one_run_finds_every_planted_fault(
    planted: tuple[Path, dict[str, faults.Fault]], by_cluster: dict[str, list[Told]]
) -> None:
    """Each fault in its own cluster, by an expected kind, in time; and all findings are those of one process."""
    root, wrong = planted
    assert {name.split("-")[0] for name in wrong} == set(faults.KINDS)
    for name, fault in wrong.items():
        expected = local.audit_files(sorted((root / name).glob("*.log"))).findings
        assert by_cluster[name] == [as_told(one, name) for one in expected]
        assert any(
            one["kind"] in fault.expected
            and one["start_ms"] <= fault.end_ms + 1500
            and one["end_ms"] >= fault.start_ms - 1500
            for one in by_cluster[name]
        ), (name, fault)
