"""How the work is cut up changes nothing: pieces of files, tasks, and the planning of queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fsm.spark.result import MARK

from .conftest import Command, document, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


def test_the_recordings_can_be_cut(command: Command) -> None:
    """The files are many times as large as the pieces below, and findings name lines that lie behind many of them."""
    found = document(command.out)
    assert sum(log.stat().st_size for folder in command.logs for log in folder.iterdir()) > 8 * 65536
    assert max(shown["line"] for one in found["findings"] for shown in one["evidence"]) > 500
    assert {"unparsed_lines", "late_leave", "listener_error"} & {one["kind"] for one in found["findings"]}


@pytest.mark.usefixtures("many_tasks")
def test_neither_pieces_nor_tasks_change_a_byte(command: Command, tmp_path: Path) -> None:
    """Files cut every 64 KiB, three tasks a shuffle, adaptive plans, compiled queries and sorted joins: findings with
    their line numbers, groups, every count and the whole report are those of uncut files."""
    run(command.logs, tmp_path / "out", split_bytes=65536)
    for name in (MARK, "report.html"):
        assert (tmp_path / "out" / name).read_bytes() == (command.out / name).read_bytes(), name


@pytest.fixture
def many_tasks(spark: SparkSession) -> Iterator[None]:
    """Other settings of the session, for one test."""
    changed = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
    }
    before = {key: spark.conf.get(key) or "" for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)
