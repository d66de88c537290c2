"""Baselines: what they may be, and what they leave of an audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsm.audit.findings import Cause, Finding, FindingKind, finding, with_ids
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents import find_incidents
from fsm.audit.incidents.baseline import find_unknown, read_baseline
from fsm.audit.rows import GroupRows
from fsm.errors import InputError

A, B = "0123456789ab", "ba9876543210-2"


@pytest.fixture
def findings() -> list[Finding]:
    """Two of one cause, and one of another."""
    kinds = ((FindingKind.PARTITIONS_LOST, Cause.NO_POLL), (FindingKind.FENCING_LOOP, Cause.NO_POLL))
    own = [finding(kind, "g", "m", 10, 20, summary="s", cause=cause) for kind, cause in kinds]
    return with_ids([*own, finding(FindingKind.LISTENER_ERROR, "g", "n", 10, 20, summary="s")])


@pytest.mark.parametrize(
    "text",
    [
        f"{A}\n\n# known since May\n  i{B}  # the slow one\n",
        json.dumps({"inputs": {}, "findings": [{"id": A}, {"id": f"i{B}"}]}),
    ],
)
def test_a_baseline_is_a_list_of_ids_or_an_earlier_document(tmp_path: Path, text: str) -> None:
    """The folder of a result stands for its document."""
    path = tmp_path / "audit.json"
    path.write_text(text)
    assert read_baseline(path) == read_baseline(tmp_path) == {A, f"i{B}"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe\0", "audit.json: is not a baseline: it is not text"),
        (b"{", "audit.json: is not a baseline: its JSON is incomplete"),
        (b'{"a":' * 100_000, "audit.json: is not a baseline: its JSON is incomplete"),
        (b'{"findings": 3}', "audit.json: is not a baseline: JSON without findings"),
        (
            b'{"findings": [{"kind": "late_leave"}]}',
            "audit.json: is not a baseline: its findings have no ids; audit those",
        ),
        (f"{A}\nerror: g: lost\n".encode(), "audit.json:2: 'error: g: lost' is not an id"),
        (f"{A.upper()}\n".encode(), "audit.json:1: '0123456789AB' is not an id"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    """With the file and the line, and what to give instead."""
    (tmp_path / "audit.json").write_bytes(data)
    with pytest.raises(InputError, match=said.replace("'", ".")):
        read_baseline(tmp_path / "audit.json")


def test_a_baseline_that_is_not_there(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(InputError, match=r"gone\.json: the baseline cannot be read: No such file"):
        read_baseline(tmp_path / "gone.json")


def test_known_findings_are_left_out(findings: list[Finding]) -> None:
    """One by one, or all of an incident; an unknown id leaves everything."""
    incidents = find_incidents(GroupAudit("g", {}, {}, GroupRows(), findings, (), (), (), ()))
    (both,) = (one for one in incidents if len(one.findings) == 2)
    assert find_unknown(findings, incidents, frozenset({A})) == findings
    assert len(find_unknown(findings, incidents, frozenset({findings[0].id}))) == 2
    assert [one.kind for one in find_unknown(findings, incidents, frozenset({both.id}))] == [FindingKind.LISTENER_ERROR]
