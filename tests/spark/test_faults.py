"""Logs with planted faults, one of every kind, through the pipeline: what one process finds, Spark finds."""

from __future__ import annotations

import random
import sys
import tarfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

import faults
from scene import NoPlace, Scene

from fsm.audit import local
from fsm.spark.conformance import hops_of, judged
from fsm.tables.consumer_member import TABLE
from fsm.trace import Kind, TraceRecord

from .conftest import DATA, as_told, run, without_unparsed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

BASES = ("j02_second_joins", "x01_coop_second", "c02_two")
"""Each client and protocol; the kinds take turns."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, faults.Fault]]:
    """A folder of scenarios, one for each kind, in a base that has a place for it; what is wrong in each."""
    logs: dict[str, dict[str, bytes]] = defaultdict(dict)
    for archive in ("java-logs.tar.xz", "librdkafka-logs.tar.xz"):
        with tarfile.open(DATA / archive) as packed:
            for item in packed:
                scenario, _, name = item.name.partition("/")
                if scenario in BASES and name.endswith(".log") and name != "broker.log":
                    logs[scenario][name] = packed.extractfile(item).read()  # type: ignore[union-attr]
    root = tmp_path_factory.mktemp("planted")
    for name, files in collected(logs["c02_two"], logs["x01_coop_second"]).items():
        write(root / name, files)
    wrong = {}
    for turn, kind in enumerate(faults.KINDS):
        for base in BASES[turn % 3 :] + BASES[: turn % 3]:
            try:
                case = faults.plant(kind, logs[base], 0)
            except NoPlace:
                continue
            wrong[f"{kind}-{base}"] = case.fault
            write(root / f"{kind}-{base}", case.logs)
            break
    return root, wrong


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def collected(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    """What collectors do to logs: a rotated file is lost, a file is shipped twice, a host has another time zone."""
    lines = one["A.log"].splitlines(keepends=True)
    thirds = [b"".join(lines[i * len(lines) // 3 : (i + 1) * len(lines) // 3]) for i in range(3)]
    scene = Scene(other, random.Random(0))  # noqa: S311
    scene.shift("B.log", 0, 3_600_000)
    return {
        "hole": {"A.log.2": thirds[0], "A.log": thirds[2], "B.log": one["B.log"]},
        "copied": {**one, "A-again.log": one["A.log"]},
        "zones": scene.logs(),
    }


@pytest.fixture(scope="module")
def by_cluster(
    spark: SparkSession, planted: tuple[Path, dict[str, faults.Fault]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """What one audit of all folders, each a cluster of its own, finds in each."""
    assert spark.version
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    out = tmp_path_factory.mktemp("faults") / "out"
    for one in without_unparsed(run([planted[0]], out, by_folder=True)["findings"]):
        found[one["group"].partition(":")[0]].append(one)
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hole", "a rotated file between"),
        ("copied", "as if a log had been collected twice"),
        ("zones", "ahead of those of"),
    ],
)
def test_what_collectors_do_to_logs_is_said(
    planted: tuple[Path, dict[str, faults.Fault]], by_cluster: dict[str, list[dict[str, Any]]], name: str, said: str
) -> None:
    """A finding says so, nothing else is above info, and all is as in one process."""
    expected = local.audit_files(sorted((planted[0] / name).iterdir())).findings
    assert by_cluster[name] == [as_told(one, name) for one in expected]
    (told,) = (one for one in by_cluster[name] if said in one["summary"])
    assert [one for one in by_cluster[name] if one["severity"] != "info" and one is not told] == []


def test_one_run_finds_every_planted_fault(
    planted: tuple[Path, dict[str, faults.Fault]], by_cluster: dict[str, list[dict[str, Any]]]
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


def test_rows_that_name_their_event_are_judged_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A trace of every row of a table, each in one record, has no illegal step; one with a wrong event has one."""
    rows = [(s, e, c.target) for (s, e), c in TABLE.compiled.items() if not c.ignored]
    records = [
        TraceRecord(
            1000 * i, Kind.TRANSITION, group="g", client_id=f"c-{i}", machine=TABLE.name,
            state=s.name, event=e.name, next_state=t.name,
        )
        for i, (s, e, t) in enumerate(rows)
    ]  # fmt: skip
    wrong = next(e for e in TABLE.event_type if (rows[0][0], e) not in TABLE.compiled)
    forged = TraceRecord(
        9_000_000, Kind.TRANSITION, group="g", client_id="x", machine=TABLE.name,
        state=rows[0][0].name, event=wrong.name, next_state=rows[0][2].name,
    )  # fmt: skip
    (tmp_path / "t.jsonl").write_text("".join(r.to_json() + "\n" for r in [*records, forged]), encoding="utf-8")
    found = run([tmp_path / "t.jsonl"], tmp_path / "out", format="trace")["findings"]
    assert [(f["member"], f["kind"]) for f in found if f["severity"] == "error"] == [("x", "illegal_transition")]
    frame = spark.read.parquet(str(tmp_path / "out" / "transitions.parquet"))
    assert frame.where("allowed_by is null").count() == 1
    assert judged(spark, frame.drop("allowed_by", "judged")).count() == len(rows) + 1


def test_the_allowed_steps_of_a_table_are_its_hops_and_its_rows() -> None:
    """Single hops for logs, whole rows for records of our own machines, each once."""
    allowed = list(hops_of((TABLE,)))
    assert len({a[:4] for a in allowed}) == len(allowed)
    assert sum(len(a.allowed_by) for a in allowed if a.named) == len(TABLE.compiled)
    assert sum(not a.named for a in allowed) == len(TABLE.columns.edges)
