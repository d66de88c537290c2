"""Exchanges audited as logs are: what real clients did under scripted faults, as the wire shows it."""

from __future__ import annotations

import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from fsm.audit.findings import FindingKind, Severity
from fsm.audit.local import Audit, audit_files
from fsm.wire.exchange import Exchange, read_lines, to_line

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "kit"))

import recorded  # noqa: E402  # a module of other tests

SESSION = TESTS / "capture" / "session.jsonl.xz"
"""librdkafka and kafka-python behind the proxy before Apache Kafka 4.4, without a fault."""


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Audit]:
    """The audit of each recording, by scenario and client."""
    folder = tmp_path_factory.mktemp("wire")
    found = {}
    for scenario, client, lines in recorded.traces(recorded.TRACES):
        trace = folder / f"{scenario}-{client}.jsonl"
        trace.write_text("".join(f"{to_line(one)}\n" for one in recorded.load(lines)))
        found[scenario, client] = audit_files([trace])
    return found


def having(audits: dict[tuple[str, str], Audit], kind: FindingKind) -> set[tuple[str, str]]:
    return {
        which
        for which, audit in audits.items()
        if any(one.kind is kind and one.severity is not Severity.INFO for one in audit.findings)
    }


@pytest.mark.deep
def test_who_is_expelled_while_it_revokes_owned_what_others_had(audits: dict[tuple[str, str], Audit]) -> None:
    """franz-go does not heartbeat while its revoked callback runs; librdkafka gives up later than it was given up on.
    Nobody else owns what is another's."""
    assert having(audits, FindingKind.DOUBLE_OWNERSHIP) == {
        ("mute_revoking", "franz"),
        ("too_slow_revoke", "franz"),
        ("too_slow_revoke", "rdkafka"),
        ("very_slow_revoke", "franz"),
    }
    (found,) = [one for one in audits["too_slow_revoke", "franz"].findings if one.severity is Severity.ERROR]
    assert "A@wire and B@wire both owned bar-[0, 1, 2, 3], foo-[0, 1, 2, 3] for 3.8 s" in found.summary


@pytest.mark.deep
def test_who_is_refused_for_good_is_out(audits: dict[tuple[str, str], Audit]) -> None:
    fatal = {"fenced_instance", "invalid_request", "max_size", "unauthorized", "unreleased_instance"}
    out = having(audits, FindingKind.MEMBER_OUT_FOR_GOOD)
    assert {scenario for scenario, _ in out} == fatal | {"static", "switched_off", "unsupported_assignor"}
    assert {client for scenario, client in out if scenario == "static"} == {"franz"}  # its leave is refused
    lives_on = {which for which in out if any(one.severity is Severity.ERROR for one in audits[which].findings)}
    assert lives_on == {
        *((scenario, "franz") for scenario in ("fenced_instance", "max_size", "unauthorized", "unsupported_assignor")),
        ("fenced_instance", "plat"),
        ("invalid_request", "plat"),
    }  # fmt: skip


def test_nothing_else_is_found(audits: dict[tuple[str, str], Audit]) -> None:
    """No client is blamed for what the wire does not show: callbacks, ends of processes."""
    kinds = {one.kind for audit in audits.values() for one in audit.findings if one.severity is not Severity.INFO}
    assert kinds == {FindingKind.DOUBLE_OWNERSHIP, FindingKind.MEMBER_OUT_FOR_GOOD, FindingKind.COMMIT_REFUSED}


def test_a_session_without_a_fault_has_no_findings(tmp_path: Path) -> None:
    """Consumer and classic protocol; topics have their names, which answers to Metadata tell."""
    trace = tmp_path / "session.jsonl"
    trace.write_bytes(lzma.decompress(SESSION.read_bytes()))
    command = [sys.executable, "-m", "fsm", "audit", str(trace), "-o", str(tmp_path / "out"), "--master", "none"]
    assert "nothing found" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    audit = audit_files([trace])
    owned = {(one.member, one.topic, one.partition) for one in audit.rows["g-consumer"].intervals}
    assert {("consumer0@wire", "foo", 0), ("consumer1@wire", "foo", 3)} <= owned
    assert {topic for _, topic, _ in owned} == {"foo"}
    assert {one.member for one in audit.rows["g-kpy"].intervals} == {"k0@wire", "k1@wire"}


def test_a_member_that_is_given_what_another_still_has_is_seen(tmp_path: Path) -> None:
    """The session with the leave of the first member three seconds later, when the second one has all partitions."""
    lines = lzma.decompress(SESSION.read_bytes()).decode().splitlines()
    seen = [_late(one) if isinstance(one, Exchange) and _leaves(one) else one for one in read_lines(lines, "session")]
    trace = tmp_path / "session.jsonl"
    trace.write_text("".join(f"{to_line(one)}\n" for one in sorted(seen, key=lambda one: one.at_ms)))
    (found,) = [one for one in audit_files([trace]).findings if one.severity is not Severity.INFO]
    assert (found.kind, found.group) == (FindingKind.DOUBLE_OWNERSHIP, "g-consumer")
    assert "consumer0@wire and consumer1@wire both owned foo-[0, 1] for" in found.summary


def _leaves(one: Exchange) -> bool:
    return one.api == "ConsumerGroupHeartbeat" and one.client_id == "consumer0" and one.request.member_epoch == -1


def _late(one: Exchange) -> Exchange:
    return one._replace(at_ms=one.at_ms + 3_000, answered_ms=(one.answered_ms or one.at_ms) + 3_000)
