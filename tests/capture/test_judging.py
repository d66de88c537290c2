"""What clients break is told once, as soon as it shows; what they left undone only in the end."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from fsm import kit
from fsm.capture import following, log
from fsm.capture.following import LATE_MS
from fsm.capture.log import SHOWN, Judging
from fsm.kit.checks import CHECKS
from fsm.kit.client_history import What
from fsm.kit.judge import judge
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from fsm.wire.exchange import Exchange, Note, read_lines


def beat(at_ms: float, epoch: int, **fields: object) -> Exchange:
    request = ConsumerGroupHeartbeatRequest("g", "m", epoch, **fields)  # type: ignore[arg-type]
    response = ConsumerGroupHeartbeatResponse(3, 1_000, member_id="m")
    return Exchange(at_ms, 1, "app", "ConsumerGroupHeartbeat", 1, request, at_ms + 1, response)


JOIN = beat(1_000, 0, rebalance_timeout_ms=9_000, subscribed_topic_names=("foo",), topic_partitions=())
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
EARLY = beat(1_010, 3)
"""Long before its interval is over."""


def test_a_finding_is_told_once() -> None:
    judging = Judging()
    judging.take(JOIN)
    assert judging.news(9_000) == []
    judging.take(EARLY)
    assert judging.news(EARLY.at_ms + LATE_MS - 1) == []
    (line,) = judging.news(EARLY.at_ms + LATE_MS)
    assert line.startswith("00:00:01.010 app violates ")
    judging.take(beat(2_020, 3))
    assert judging.news(60_000) == []
    judging.end()
    assert "passed: J1" in judging.summary()


def test_what_is_broken_again_and_again_is_told_a_few_times() -> None:
    judging = Judging()
    judging.take(JOIN)
    lines = []
    for number in range(10):
        judging.take(beat(1_010 + number, 3))
        lines += judging.news(20_000)
    assert len([line for line in lines if " H1: " in line]) == SHOWN
    assert len([one for one in judging.report().findings if one.check.id == "H1"]) > SHOWN


def both_own(judging: Judging, client: str, at_ms: float) -> None:
    owned = ((TOPIC, (0,)),)
    seen = beat(at_ms, 0 if at_ms == 1_000 else 3, topic_partitions=owned if at_ms > 1_000 else ())
    judging.take(seen._replace(client_id=client, request=replace(seen.request, member_id=client)))


def test_the_audit_tells_what_it_finds_once_and_in_the_end() -> None:
    """Two members that say at once that they own the same partition."""
    judging, lines = Judging(), []
    for at_ms in range(1_000, 60_000, 1_000):
        for client in ("one", "two"):
            both_own(judging, client, at_ms)
        lines += [line for line in judging.news(at_ms) if " double_ownership" in line]
    (line,) = lines
    expected = "error double_ownership: g: one@wire [one] and two@wire [two] both owned "
    assert line.startswith(f"00:00:02.000 {expected}")
    judging.end()
    (line,) = judging.audit()
    assert line.startswith(expected)
    assert judging.summary().startswith(line)
    nothing = Judging()
    nothing.end()
    assert nothing.audit() == []


def test_what_the_audit_has_found_is_told_in_the_end_however_much_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_AUDITED", 30)
    judging, lines = Judging(), []
    for at_ms in range(1_000, 200_000, 4_000):
        for client in ("one", "two")[: 1 + (at_ms < 40_000)]:
            both_own(judging, client, at_ms)
        lines += [line for line in judging.news(at_ms) if " double_ownership" in line]
    judging.end()
    assert len(lines) == len([line for line in judging.audit() if " double_ownership" in line]) == 1
    assert len(judging.auditing._lines) == 30


@pytest.mark.parametrize("name", ["capture", "kit"])
def test_a_long_run_is_judged_as_if_it_were_judged_at_once(name: str) -> None:
    """What was captured of real clients, with and without a scripted fault, in the order in which it ended."""
    if name == "capture":
        lines = lzma.decompress(Path(__file__).with_name("session.jsonl.xz").read_bytes()).decode().splitlines()
    else:
        lines = Path(kit.__file__).with_name("muted-heartbeat.jsonl").read_text(encoding="utf-8").splitlines()
    seen = [one for one in read_lines(lines, name) if isinstance(one, Exchange) or one.event != "application"]
    judging = Judging()
    for one in seen:
        judging.take(one)
        judging.news(one.at_ms)
    judging.end()
    found, wanted = judging.report(), judge(seen)
    assert (found.kept, found.start_ms) == (wanted.kept, wanted.start_ms)
    assert sorted(map(str, found.findings)) == sorted(map(str, wanted.findings))
    assert wanted.findings


@pytest.mark.parametrize(("searched_ms", "broken"), [(2_001, False), (2_006, True)])
def test_a_search_that_is_seen_just_behind_a_request_counts(searched_ms: float, broken: bool) -> None:
    """It goes over another connection, and may have been sent before."""
    refused = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    search = FindCoordinatorRequest(coordinator_keys=("g",)), searched_ms + 1, FindCoordinatorResponse()
    judging = Judging()
    for at_ms, answer in ((1_000, refused), (2_000, HeartbeatResponse())):
        judging.take(Exchange(at_ms, 1, "app", "Heartbeat", 4, HeartbeatRequest("g", 1, "m-1"), at_ms + 1, answer))
    judging.take(Exchange(searched_ms, 2, "app", "FindCoordinator", 6, *search))
    judging.end()
    assert [one.check.id for one in judging.report().findings] == ["K14"] * broken


def test_nobody_is_judged_by_what_may_still_come() -> None:
    judging = Judging()
    judging.take(JOIN)
    judging.news(1e9)
    before = judging.report()
    judging.end()
    after = judging.report()
    left_undone = {one.check.id for one in after.findings} | {*after.kept} - {*before.kept}
    assert left_undone
    assert all(What.END in CHECKS[one].moments for one in left_undone)


def test_what_is_kept_is_bounded_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_FINDINGS", 2)
    monkeypatch.setattr(following, "MOST_HELD", 6)
    monkeypatch.setattr(following, "MOST_CLIENTS", 4)
    monkeypatch.setattr(following, "MOST_CLOSED", 5)
    bounded = Judging()
    bounded.take(JOIN)
    for number in range(20):
        bounded.take(beat(1_010 + number, 3))
    bounded.news(0)
    assert len(bounded._following._waiting) == 6
    for number in range(50):
        bounded.take(beat(3_000 + number, 0)._replace(client_id=f"c-{number}", connection=number))
        bounded.take(Note(3_000 + number, "disconnected", {"connection": number}))
    bounded.news(60_000)
    kept = bounded._following
    assert (len(kept._clients.found), len(kept._lives), len(kept._last)) == (4, 4, 4)
    assert len(kept._clients.around.closed) <= 10
    bounded.end()
    assert len(bounded.report().findings) == 2
    assert bounded.summary().endswith(" further findings were left out\n")


def test_what_comes_faster_than_it_can_be_judged_is_not_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_WAITING", 3)
    busy = Judging()
    for at_ms in range(1_000, 6_000, 1_000):
        busy.take(JOIN if at_ms == 1_000 else beat(at_ms, 3))
    busy.news(0)
    busy.take(beat(6_000, 3))
    busy.end()
    assert busy.report().kept["J1"] == 1
    assert busy.summary().endswith("\n2 exchanges were not judged: they came too fast, and findings may rest on that\n")


def test_members_that_share_a_client_id_are_told_apart_as_soon_as_that_shows() -> None:
    judging = Judging()

    def take(member: str, seen: Exchange) -> None:
        response = replace(seen.response, member_id=member)
        judging.take(seen._replace(request=replace(seen.request, member_id=member), response=response))

    take("one", JOIN)
    for number in range(2, 13):
        take("one", beat(number * 1_000, 3))
        judging.news(number * 1_000)
    take("two", JOIN._replace(at_ms=12_100, answered_ms=12_101))
    for number in range(13, 24):
        take("one", beat(number * 1_000, 3))
        take("two", beat(number * 1_000 + 100, 3))
        judging.news(number * 1_000)
    judging.end()
    assert sorted(judging._following._clients.found) == ["app/one", "app/two"]
    assert judging.report().findings == ()
