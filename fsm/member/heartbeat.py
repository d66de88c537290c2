"""Heartbeats of a consumer member: what they carry, and what happens to the state of their requests.

Full while joining, else only what changed since the last one; a failure makes the next one say everything again.

Source: `ConsumerHeartbeatRequestManager.HeartbeatState`, `AbstractHeartbeatRequestManager`; KIP-848, section
ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from fsm.kafka.assignment import NONE
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.member.dialect import Choice
from fsm.member.effects import CoordinatorForgotten, Purpose, RebalanceFailed, UnsentRequest
from fsm.member.membership import complete_leave
from fsm.member.state import NOTHING_SENT, Draft, Forgets, Seen, Sent
from fsm.member.subscription import SubscriptionType
from fsm.member.timers import backoff_ms
from fsm.tables.consumer_member import State


def contents(member: Seen) -> Sent:
    """Every field a heartbeat could carry, as it is now."""
    config, subscription = member.settings.config, member.subscription
    regex = subscription.regex if subscription.kind is SubscriptionType.AUTO_PATTERN_RE2J else None
    return Sent(
        rebalance_timeout_ms=config.max_poll_interval_ms,
        names=subscription.topics,
        regex=regex,
        assignor=config.group_remote_assignor,
        assignment=NONE if member.state is State.JOINING else member.current,
    )


def heartbeat(member: Seen) -> tuple[ConsumerGroupHeartbeatRequest, Sent]:
    """The next heartbeat, and what is remembered as sent."""
    now, before, settings = contents(member), member.sent, member.settings
    joining = member.state is State.JOINING
    full = NOTHING_SENT if joining else before
    timeout = now.rebalance_timeout_ms if now.rebalance_timeout_ms != full.rebalance_timeout_ms else None
    moved = joining or now.assignment != full.assignment
    request = ConsumerGroupHeartbeatRequest(
        group_id=settings.config.group_id,
        member_id=settings.member_id,
        member_epoch=member.epoch,
        instance_id=settings.config.group_instance_id,
        rack_id=settings.config.client_rack if joining and Choice.RACK in settings.dialect else None,
        rebalance_timeout_ms=-1 if timeout is None else timeout,
        subscribed_topic_names=now.names if now.names != full.names else None,
        subscribed_topic_regex=(now.regex or "") if now.regex != full.regex else None,
        server_assignor=now.assignor if now.assignor != full.assignor else None,
        topic_partitions=now.assignment.partitions if moved and now.assignment is not None else None,
    )
    return request, now


def _generate(d: Draft, purpose: Purpose) -> None:
    request, d.sent = heartbeat(d)
    d.request = d.request.numbered() if Choice.ANSWERS_NUMBERED in d.settings.dialect else d.request.sent()
    d.heartbeat_due_ms = d.now_ms + d.heartbeat_interval_ms
    d.effects.append(UnsentRequest(request, purpose, number=d.request.number))


def send(d: Draft) -> None:
    """A heartbeat whose answer is an event."""
    _generate(d, Purpose.HEARTBEAT)


def send_unwatched(d: Draft) -> None:
    """A heartbeat whose answer is only logged."""
    _generate(d, Purpose.UNWATCHED)


def adopt(d: Draft, response: ConsumerGroupHeartbeatResponse) -> None:
    """What every good response does before its event: the request ended well; a changed interval restarts its timer."""
    initial = backoff_ms(d.settings.config, d.settings.dialect, 0, d.jitter)
    d.request = d.request.succeeded(d.now_ms, initial)
    if response.heartbeat_interval_ms != d.heartbeat_interval_ms:
        d.heartbeat_interval_ms = response.heartbeat_interval_ms
        d.heartbeat_due_ms = d.now_ms + response.heartbeat_interval_ms


def wipe_sent(d: Draft) -> None:
    """The next heartbeat says everything again."""
    d.sent = NOTHING_SENT


def fail_request(d: Draft) -> None:
    """A failed attempt: the next one is due as soon as the backoff is over."""
    wait = backoff_ms(d.settings.config, d.settings.dialect, d.request.attempts, d.jitter)
    d.request = d.request.failed(d.now_ms, wait)
    d.heartbeat_due_ms = d.now_ms


def reset_request(d: Draft) -> None:
    """No attempt was ever made."""
    d.request = d.request.reset()


def forget_coordinator(d: Draft) -> None:
    """As the failure says: another coordinator, a lost connection, or neither."""
    if d.failure.forgets is Forgets.NOTHING:
        return
    d.coordinator_known = False
    d.effects.append(CoordinatorForgotten())
    if d.failure.forgets is Forgets.COORDINATOR:
        d.request = d.request.reset()


def run_failure_hook(d: Draft) -> None:
    """Counts a failed rebalance; ends the leave of one who is out already, whatever the answer to it was."""
    if not d.failure.passes and d.rebalance_open:
        d.rebalance_open = False
        d.effects.append(RebalanceFailed())
    if d.state is State.UNSUBSCRIBED:
        complete_leave(d)
