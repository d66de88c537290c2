"""Heartbeats of a consumer member: what they carry, and what happens to the state of their requests.

Full while joining, else only what changed since the last one; a failure makes the next one say everything again.

Source: `ConsumerHeartbeatRequestManager.HeartbeatState`, `AbstractHeartbeatRequestManager`; KIP-848, section
ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.kafka.assignment import NONE, LocalAssignment
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.member.choices import Choice
from fsm.member.effects import CoordinatorForgotten, Purpose, RebalanceFailed, UnsentRequest
from fsm.member.membership import complete_leave
from fsm.member.state import Draft, Forgets, Seen
from fsm.member.subscription import Subscription, SubscriptionType
from fsm.member.timers import NUMBERS, backoff_ms
from fsm.tables.consumer_member import State


def told(member: Seen) -> LocalAssignment:
    """The assignment that a heartbeat tells of: one who joins has none."""
    return NONE if member.state is State.JOINING else member.current


def heartbeat(member: Seen) -> ConsumerGroupHeartbeatRequest:
    """The next heartbeat."""
    config, joining, assignment = member.settings.config, member.state is State.JOINING, told(member)
    rack = config.client_rack if joining and Choice.RACK in member.settings.dialect else None
    moved = joining or assignment != member.sent_assignment
    request = ConsumerGroupHeartbeatRequest(
        config.group_id,
        member.member_id,
        member.epoch,
        config.group_instance_id,
        rack,
        topic_partitions=assignment.partitions if moved else None,
    )
    if member.sent is None or joining:
        return _with_everything(request, member.subscription, config)
    return request if member.sent is member.subscription else _with_news(request, member.subscription, member.sent)


def _with_everything(
    request: ConsumerGroupHeartbeatRequest, subscription: Subscription, config: ConsumerConfig
) -> ConsumerGroupHeartbeatRequest:
    return replace(
        request,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        subscribed_topic_names=subscription.topics,
        subscribed_topic_regex=regex_of(subscription),
        server_assignor=config.group_remote_assignor,
    )


def _with_news(
    request: ConsumerGroupHeartbeatRequest, now: Subscription, before: Subscription
) -> ConsumerGroupHeartbeatRequest:
    """What is subscribed to, where that is not as it was said before; a pattern is taken back with an empty text."""
    regex = regex_of(now)
    return replace(
        request,
        subscribed_topic_names=now.topics if now.topics != before.topics else None,
        subscribed_topic_regex=(regex or "") if regex != regex_of(before) else None,
    )


def regex_of(subscription: Subscription) -> str | None:
    """The pattern that the coordinator is to match; one that only stays registered is none."""
    return subscription.regex if subscription.kind is SubscriptionType.AUTO_PATTERN_RE2J else None


def _generate(d: Draft, purpose: Purpose) -> None:
    request = heartbeat(d)
    d.sent, d.sent_assignment = d.subscription, told(d)
    d.heartbeat_in_flight = True
    if Choice.ANSWERS_NUMBERED in d.settings.dialect:
        d.heartbeat_number = d.heartbeat_number % NUMBERS + 1
    d.heartbeat_due_ms = d.now_ms + d.heartbeat_interval_ms
    d.effects.append(UnsentRequest(request, purpose, number=d.heartbeat_number))


def send(d: Draft) -> None:
    """A heartbeat whose answer is an event."""
    _generate(d, Purpose.HEARTBEAT)


def send_unwatched(d: Draft) -> None:
    """A heartbeat whose answer is only logged."""
    _generate(d, Purpose.UNWATCHED)


def adopt(d: Draft, response: ConsumerGroupHeartbeatResponse) -> None:
    """What every good response does before its event: the request ended well; a changed interval restarts its timer."""
    initial = backoff_ms(d.settings.config, d.settings.dialect, 0, d.jitter)
    d.heartbeat_in_flight, d.heartbeat_attempts, d.heartbeat_ready_ms = False, 0, d.now_ms + initial
    if response.heartbeat_interval_ms != d.heartbeat_interval_ms:
        d.heartbeat_interval_ms = response.heartbeat_interval_ms
        d.heartbeat_due_ms = d.now_ms + response.heartbeat_interval_ms


def wipe_sent(d: Draft) -> None:
    """The next heartbeat says everything again."""
    d.sent = d.sent_assignment = None


def fail_request(d: Draft) -> None:
    """A failed attempt: the next one is due as soon as the backoff is over."""
    wait = backoff_ms(d.settings.config, d.settings.dialect, d.heartbeat_attempts, d.jitter)
    d.heartbeat_in_flight, d.heartbeat_ready_ms = False, d.now_ms + wait
    d.heartbeat_attempts += 1
    d.heartbeat_due_ms = d.now_ms


def reset_request(d: Draft) -> None:
    """No attempt was ever made, but for its number."""
    d.heartbeat_in_flight, d.heartbeat_attempts, d.heartbeat_ready_ms = False, 0, 0


def forget_coordinator(d: Draft) -> None:
    """As the failure says: another coordinator, a lost connection, or neither."""
    if d.failure.forgets is Forgets.NOTHING:
        return
    d.coordinator_known = False
    d.effects.append(CoordinatorForgotten())
    if d.failure.forgets is Forgets.COORDINATOR:
        reset_request(d)


def run_failure_hook(d: Draft) -> None:
    """Counts a failed rebalance; ends the leave of one who is out already, whatever the answer to it was."""
    if not d.failure.passes and d.rebalance_open:
        d.rebalance_open = False
        d.effects.append(RebalanceFailed())
    if d.state is State.UNSUBSCRIBED:
        complete_leave(d)
