"""Older clients show the end of ownership in other words: what was handed over in order is not owned twice."""

from __future__ import annotations

import json
from pathlib import Path

import memory
import pytest

from fsm.audit.findings import FindingKind, Severity
from fsm.cli import main


def write(*lines: str) -> bytes:
    """Two lines a minute; Go prints their times like this."""
    return "".join(f"2026/11/21 07:{i // 2:02}:{i % 2 * 30:02} {line}\n" for i, line in enumerate(lines)).encode()


FOUND = "client/coordinator coordinator for consumergroup g is #1 (b:9092)"
ADDED, CLOSED = "consumer/broker/1 added subscription to t/%d", "consumer/broker/1 closed dead subscription to t/%d"


@pytest.mark.parametrize(
    ("released", "owned_twice"),
    [((), []), (("consumergroup/session/a-B/2 released",), [FindingKind.DOUBLE_OWNERSHIP])],
)
def test_a_partition_ends_with_its_consumer_if_no_session_ends(
    released: tuple[str, ...], owned_twice: list[FindingKind], tmp_path: Path
) -> None:
    """Before 1.31.1. Later, its handler may hold it until the session is released. The same wherever files are cut."""
    one = write(FOUND, ADDED % 0, ADDED % 1, CLOSED % 0, CLOSED % 1, *[FOUND] * 5, *released, ADDED % 0, FOUND)
    other = write(*[FOUND] * 6, ADDED % 1, *[FOUND] * 4)
    found = memory.audit({"a.log": one, "b.log": other}).findings
    assert [one.kind for one in found if one.severity is Severity.ERROR] == owned_twice
    (tmp_path / "logs").mkdir()
    for name, log in (("a.log", one), ("b.log", other)):
        (tmp_path / "logs" / name).write_bytes(log)
    out = tmp_path / "out"
    main(["audit", str(tmp_path / "logs"), "-o", str(out), "--master", "none", "--split-bytes", "600"])
    errors = [
        one["kind"] for one in json.loads((out / "audit.json").read_text())["findings"] if one["severity"] == "error"
    ]
    assert errors == owned_twice


def test_a_java_client_up_to_2_3_without_loggers() -> None:
    """Its callback begins with the words with which a member of a consumer group decides a revocation."""
    found = "Discovered group coordinator b:9092 (id: 2147483646 rack: null)"
    revoked, assigned = "Revoking previously assigned partitions [%s]", "Setting newly assigned partitions [%s]"
    joined = ["(Re-)joining group", "Successfully joined group with generation 2"]
    one = [found, revoked % "", *joined, assigned % "t-0, t-1", revoked % "t-0, t-1", *joined, assigned % "t-0"]
    other = [found] * 6 + [*joined, assigned % "t-1"]
    logs = {
        f"{name}.log": write(*(f"[Consumer clientId={name}, groupId=g] {line}" for line in lines))
        for name, lines in (("a", one), ("b", other))
    }
    assert [one.summary for one in memory.audit(logs).findings if one.severity is Severity.ERROR] == []
