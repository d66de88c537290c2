"""Processes that were restarted in one file, with the lines of their start silenced."""

from __future__ import annotations

import pytest

from fsm.audit.findings import Finding
from fsm.audit.rows import Ended, Interval, Life, Subscription
from fsm.trace import Kind

T0 = (("t", 0),)
OLD, NEW = "c-1be7a8e0b-3b37-4368-a4e3-5bd2839be1a2", "c-1e73f4151-415d-4f86-89f0-7cc7802b09a5"


def joins(log, ts_ms, member_id):
    """What a classic member of Java says until it has partitions, without its settings."""
    log(ts_ms, Kind.SUBSCRIBED, topics=("t",))(ts_ms + 150, Kind.COORDINATOR_FOUND)
    log(ts_ms + 160, Kind.TRANSITION, machine="classic-member", next_state="PREPARING_REBALANCE")
    log(ts_ms + 200, Kind.MEMBER_ID, member_id=member_id)
    log(ts_ms + 200, Kind.TRANSITION, machine="classic-member", next_state="PREPARING_REBALANCE")
    for at_ms, state in ((500, "COMPLETING_REBALANCE"), (600, "STABLE")):
        log(ts_ms + at_ms, Kind.TRANSITION, machine="classic-member", next_state=state, member_id=member_id, epoch=1)
    return log(ts_ms + 601, Kind.ASSIGN_BEGIN, partitions=T0)


@pytest.fixture
def classic(log):
    """A classic member that owns t-0."""
    return joins(log(0, Kind.STARTED), 100, OLD)


def test_a_new_id_without_a_reset_is_a_new_process(classic):
    """The old one ends with its last line, the new one begins with its subscription, and owns nothing before."""
    joins(classic(5000, Kind.HEARTBEAT_SENT, member_id=OLD), 9000, NEW)(12_000, Kind.HEARTBEAT_SENT, member_id=NEW)
    assert [(x.start_ms, x.end_ms, x.whole_start, x.ended, x.member_id) for x in classic.rows(Life)] == [
        (0, 5000, True, Ended.RESTARTED, OLD),
        (9000, 12_000, True, Ended.LOG_ENDED, NEW),
    ]
    assert [(i.start_ms, i.end_ms, i.ended) for i in classic.rows(Interval)] == [
        (701, 5000, Ended.RESTARTED),
        (9601, 12_000, Ended.LOG_ENDED),
    ]
    assert [(w.start_ms, w.end_ms) for w in classic.rows(Subscription)] == [(100, 5000), (9000, 12_000)]
    assert classic.rows(Finding) == []


@pytest.mark.parametrize("kind", [Kind.GENERATION_RESET, Kind.FENCED, Kind.LEAVE_SENT, Kind.ERROR])
def test_a_member_that_gave_its_id_up_gets_another_one(classic, kind):
    """It is the same process."""
    joins(classic(5000, kind), 9000, NEW)
    assert len(classic.rows(Life)) == 1


def test_a_subscription_alone_starts_nothing(classic):
    """The member keeps its id."""
    classic(5000, Kind.SUBSCRIBED, topics=("t", "u"))(6000, Kind.JOINED, member_id=OLD, epoch=2)
    assert len(classic.rows(Life)) == 1


def test_a_static_member_gets_another_id_when_it_returns(classic):
    """It needs none to join; where even its subscription is silenced, it begins when it looks for its coordinator."""
    classic(9000, Kind.COORDINATOR_FOUND)(9500, Kind.JOINED, member_id=NEW, epoch=2, instance_id="i")
    assert [(x.start_ms, x.end_ms, x.whole_start) for x in classic.rows(Life)] == [(0, 701, True), (9000, 9500, False)]


def test_a_member_of_the_consumer_protocol_chooses_its_id_when_it_is_created(log):
    """A first step under another id is another process's."""
    for ts_ms, member_id in ((0, "NKts6OBZQjKVjVHJpeBwXA"), (9000, "zp6cqWMGTLaEMelrDt_FCw")):
        log(ts_ms, Kind.SUBSCRIBED, topics=("t",))
        log.step(ts_ms + 100, "UNSUBSCRIBED", "JOINING", member_id=member_id, epoch=0)
        log.step(ts_ms + 200, "JOINING", "RECONCILING", member_id=member_id, epoch=1)
    assert [(x.start_ms, x.end_ms, x.member_id) for x in log.rows(Life)] == [
        (0, 200, "NKts6OBZQjKVjVHJpeBwXA"),
        (9000, 9200, "zp6cqWMGTLaEMelrDt_FCw"),
    ]
    assert log.rows(Finding) == []
