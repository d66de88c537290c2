"""How long those around a consumer member may wait, as far as the member is concerned: its background, and poll().

Source: `maximumTimeToWait` of the request managers, `AsyncKafkaConsumer.pollForFetches`, `.collectFetch`.
"""

from __future__ import annotations

from fsm.member.choices import Choice
from fsm.member.decisions import IN_GROUP, SILENT, may_send_now, remains_silent
from fsm.member.state import Member
from fsm.member.timers import NEVER
from fsm.tables.consumer_member import State


def next_tick_ms(member: Member, now_ms: int) -> int:
    """The instant of the next tick that would do something, if nothing happens before; `now_ms` for at once."""
    candidates = [NEVER]
    if member.commit is not None and not member.commit.request.in_flight:
        candidates.append(member.commit.deadline_ms)
        if member.coordinator_known:
            candidates.append(max(now_ms, member.commit.request.ready_ms))
    if member.state is State.LEAVING and (remains_silent(member) or not member.coordinator_known):
        return now_ms
    if member.coordinator_known and member.state not in SILENT:
        candidates.append(heartbeat_at_ms(member, now_ms))
        if member.state in IN_GROUP and Choice.POLL_TIMER in member.settings.dialect:
            candidates.append(member.poll_due_ms)
    return min(candidates)


def heartbeat_at_ms(member: Member, now_ms: int) -> int:
    """The instant of the next heartbeat of a member that sends heartbeats."""
    if may_send_now(member, now_ms):
        return now_ms
    return NEVER if member.heartbeat_in_flight else max(member.heartbeat_due_ms, member.heartbeat_ready_ms)


def maximum_time_to_wait_ms(member: Member, now_ms: int) -> int:
    """How long an application's poll() may wait before it looks again, as far as heartbeats are concerned."""
    knows = member.settings.dialect
    if member.state is State.UNSUBSCRIBED and Choice.UNSUBSCRIBED_WAITS in knows:
        return NEVER
    if now_ms >= member.poll_due_ms and Choice.POLL_TIMER in knows:
        return 0
    silent = member.state in SILENT
    if silent or (not member.coordinator_known and Choice.WAIT_GUARD in knows):
        return member.heartbeat_interval_ms
    if may_send_now(member, now_ms):
        return 0
    # Kafka looks at the interval, then at the backoff, never at a heartbeat that is in flight: an overdue one spins.
    due_ms = member.heartbeat_due_ms if now_ms < member.heartbeat_due_ms else member.heartbeat_ready_ms
    return max(0, min((member.poll_due_ms - now_ms) // 2, due_ms - now_ms))


def may_collect(member: Member, *, checked: bool) -> bool:
    """Whether poll() may hand out records; `checked` where this poll has made its attempt to reconcile.

    Since 4.3.1 it may not while a reconciliation is about to decide which partitions go away.
    """
    gated = Choice.COLLECT_GATE in member.settings.dialect and member.state is State.RECONCILING
    return checked or not gated
