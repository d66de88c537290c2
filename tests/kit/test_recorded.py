"""The checks over recorded exchanges of real clients: what each is known to do wrong is found, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

from fsm.kit.check import Grade
from fsm.kit.checks import CHECKS, MODULES
from fsm.kit.client_history import CLASSIC, CONSUMER
from fsm.kit.judge import FAILED, NOT_SEEN, PASSED, Report, judge, merge
from fsm.wire import read_lines, to_line
from tests.kit.recorded import TRACES, load, traces

BROKEN: dict[str, dict[str, set[str]]] = {
    "java": {},
    "rdkafka": {
        # It commits what it gave up before, when it is closed.
        "C2": {
            "commit_before_ack", "lost_ack", "lost_revoking", "plain", "resubscribe", "slow_revoke", "topic_deleted",
            "very_slow_revoke",
        },
        "C5": {"too_slow_revoke"},
        # A heartbeat that timed out is followed by one without news.
        "E2": {"hung", "mute_revoking"},
        # It sends no heartbeats while it is closed, however long its callback takes: its goodbye is refused.
        "H3": {"too_slow_revoke", "very_slow_revoke"},
        "R4": {"too_slow_revoke"},
    },
    "franz": {
        "E11": {"fenced_instance"},
        "F3": {"too_slow_revoke", "very_slow_revoke"},
        # It does not send heartbeats while its callback runs, or while one is not answered.
        "H3": {"hung", "mute_revoking", "too_slow_revoke", "very_slow_revoke"},
        # The goodbye of a static member has no instance id.
        "L5": {"fenced_instance", "static", "unreleased_instance"},
        "L8": {"too_slow_revoke"},
        "R8": {"unknown_topic_id"},
        "R4": {"too_slow_revoke"},
    },
    "plat": {
        "E11": {"fenced_instance"},
        # It goes on with its old epoch for ever.
        "E5": {"real_expiry", "unknown_member"},
        "E6": {"not_coordinator", "real_expiry"},
        "F2": {"topic_deleted"},
        "F3": {"fenced_instance", "invalid_request", "real_expiry", "unknown_member"},
    },
}  # fmt: skip
"""The MUST checks that fail, by client and check, with the scenarios in which they do."""


@cache
def reports() -> dict[tuple[str, str], Report]:
    """By scenario and client."""
    return {(scenario, client): judge(load(lines)) for scenario, client, lines in traces(TRACES)}


def test_the_recordings_are_whole() -> None:
    """Thirty-nine scenarios, four clients."""
    assert len({scenario for scenario, _ in reports()}) == 39
    assert {client for _, client in reports()} == set(BROKEN)
    assert len(reports()) == 39 * len(BROKEN)


@pytest.mark.parametrize("client", BROKEN)
def test_each_client_breaks_what_it_is_known_to_break(client: str) -> None:
    """Every MUST that fails, in the scenarios that show it."""
    found: dict[str, set[str]] = defaultdict(set)
    for (scenario, name), report in reports().items():
        if name == client:
            for check in report.list_failed(Grade.MUST):
                found[check].add(scenario)
    assert dict(found) == BROKEN[client]


def test_what_differs_in_smaller_things() -> None:
    """SHOULD and NOTE: one scenario each that shows what is known of a client."""

    def fails(scenario: str, client: str, check: str) -> bool:
        return reports()[scenario, client].verdict(CHECKS[check]) == FAILED

    assert fails("throttled", "rdkafka", "H9")
    assert fails("throttled", "plat", "H9")
    assert not fails("throttled", "java", "H9")
    assert fails("static", "plat", "L4")  # it leaves for good
    assert fails("unknown_member", "franz", "J5")  # it takes another member id
    assert not fails("unknown_member", "rdkafka", "J5")
    assert fails("unsupported_assignor", "franz", "E10")  # it tries again until it is stopped
    assert not fails("unsupported_assignor", "java", "E10")
    assert fails("unknown_topic_id", "rdkafka", "R9")  # it acknowledges nothing of the rest
    assert not fails("unknown_topic_id", "java", "R9")
    assert fails("plain", "plat", "H6")  # every heartbeat says everything
    assert fails("plain", "franz", "H6")  # the second one does
    assert not fails("plain", "java", "H6")
    assert fails("plain", "rdkafka", "C6")  # it asks for offsets as nobody
    assert all(fails("stale_commit", client, "C4") for client in ("rdkafka", "java", "franz"))  # nobody repeats it


def test_most_rules_were_seen() -> None:
    """Without word of the applications, the recordings give most of the checks something to judge."""
    whole = merge(reports().values())
    seen = {check.id for check in CHECKS.values() if whole.verdict(check) != NOT_SEEN}
    silent = {check.id for check in CHECKS.values() if check.protocol == CONSUMER} - seen
    # These need words of the application, an unknown topic id, a rack, or a defect that none of the four has.
    assert silent == {
        "A1", "A2", "A3", "A4", "A5", "A6", "A7", "E15", "F5", "J8", "L1", "L3", "L6", "L7", "R5", "R6", "R7", "R11",
        "S1", "S2",
    }  # fmt: skip


def test_a_trace_as_lines_is_judged_alike() -> None:
    """Exchanges and notes survive as JSON lines, with all that the checks look at."""
    chosen = [(s, c, lines) for s, c, lines in traces(TRACES) if s in ("unknown_member", "mute_revoking", "no_848")]
    assert len(chosen) == 12
    for scenario, client, lines in chosen:
        seen = list(load(lines))
        again = judge(read_lines(map(to_line, seen), "trace"))
        first = reports()[scenario, client]
        assert [(f.check.id, f.at_ms, f.detail) for f in again.findings] == [
            (f.check.id, f.at_ms, f.detail) for f in first.findings
        ]
        assert again.kept == first.kept


def test_each_check_is_a_rule_with_a_place() -> None:
    """Enough of them, each with an id of its own, a sentence, a clause, and moments at which it looks."""
    checks = list(CHECKS.values())
    assert sum(check.protocol == CONSUMER for check in checks) >= 45
    assert sum(check.protocol == CLASSIC for check in checks) >= 20
    assert len({(check.protocol, check.rule) for check in checks}) == len(checks)
    assert all(check.rule.endswith(".") and check.clause and check.moments for check in checks)
    names = [check.id for check in checks]
    by_letter: dict[str, list[int]] = defaultdict(list)
    for name in names:
        by_letter[name[0]].append(int(name[1:]))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_letter.values())
    assert len({id(check.judge) for check in checks}) == len(checks)
    assert all(check.judge.__module__ in {module.__name__ for module in MODULES} for check in checks)


def test_a_report_knows_passed_failed_and_not_seen() -> None:
    """The three verdicts."""
    report = reports()["unknown_member", "plat"]
    assert report.verdict(CHECKS["E5"]) == FAILED
    assert report.verdict(CHECKS["J1"]) == PASSED
    assert report.verdict(CHECKS["K1"]) == NOT_SEEN
