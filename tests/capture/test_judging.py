"""What clients break is told once, as soon as it shows; what they left undone only in the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.capture import judging
from fsm.capture.judging import MEANWHILE, SHOWN, Judging
from fsm.kit.check import What
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.wire.exchange import Exchange


def beat(at_ms: float, epoch: int, **told: object) -> Exchange:
    request = ConsumerGroupHeartbeatRequest("g", "m", epoch, **told)  # type: ignore[arg-type]
    response = ConsumerGroupHeartbeatResponse(3, 1_000, member_id="m")
    return Exchange(at_ms, 1, "app", "ConsumerGroupHeartbeat", 1, request, at_ms + 1, response)


JOIN = beat(1_000, 0, rebalance_timeout_ms=9_000, subscribed_topic_names=("foo",), topic_partitions=())
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
EARLY = beat(1_010, 3)
"""Long before its interval is over."""


def test_a_finding_is_told_once() -> None:
    told = Judging()
    told.take(JOIN)
    assert told.news() == []
    told.take(EARLY)
    (line,) = told.news()
    assert line.startswith("00:00:01.010 app breaks ")
    told.take(beat(2_020, 3))
    assert told.news() == []
    assert "passed: J1" in told.summary()


def test_what_is_broken_again_and_again_is_told_a_few_times() -> None:
    told = Judging()
    told.take(JOIN)
    lines = []
    for number in range(10):
        told.take(beat(1_010 + number, 3))
        lines += told.news()
    assert len([line for line in lines if " H1: " in line]) == SHOWN
    assert len([one for one in told.report().findings if one.check.id == "H1"]) > SHOWN


def test_an_audit_is_told_in_the_end() -> None:
    """Two members that say at once that they own the same partition."""
    told = Judging()
    for at_ms in range(1_000, 9_000, 1_000):
        for client in ("one", "two"):
            owned = ((TOPIC, (0,)),)
            seen = beat(at_ms, 0 if at_ms == 1_000 else 3, topic_partitions=owned if at_ms > 1_000 else ())
            told.take(seen._replace(client_id=client, request=replace(seen.request, member_id=client)))
    (line,) = told.audit()
    assert line.startswith("error double_ownership: g: one@wire [one] and two@wire [two] both owned ")
    assert told.summary().startswith(line)
    assert Judging().audit() == []


def test_nobody_is_judged_by_what_may_still_come() -> None:
    assert MEANWHILE
    assert not any(What.END in check.moments for check in MEANWHILE)


def test_a_judgement_is_due_when_there_is_enough_that_is_new() -> None:
    told = Judging()
    assert not told.is_due(10_000)
    told.take(JOIN)
    assert told.is_due(10_000)
    told.news()
    assert not told.is_due(20_000)
    told.take(EARLY)
    assert [told.is_due(at_ms) for at_ms in (11_000, 12_000, 13_000)] == [False, True, False]


def test_what_is_kept_is_bounded_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_JUDGED", 2)
    told = Judging()
    for seen in (JOIN, beat(2_010, 3), beat(2_020, 3)):
        told.take(seen)
    assert told.news() == []
    assert told.summary().endswith("only the first 2 exchanges and notes were judged\n")
