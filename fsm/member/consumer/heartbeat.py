"""Effects of the consumer member on its heartbeats: what they carry, and what becomes of their requests.

Full while joining, else only what changed since the last one; a failure makes the next one say everything again.

Source: `ConsumerHeartbeatRequestManager.HeartbeatState`, `AbstractHeartbeatRequestManager`; KIP-848, section
ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from fsm.member.consumer.membership import Membership
from fsm.member.consumer.state import Forgets, Member, SentFields
from fsm.member.consumer.subscription import Subscription, SubscriptionType
from fsm.member.dialect.choices import Choice
from fsm.member.effects import CoordinatorForgotten, HeartbeatFailed, Purpose, UnsentRequest
from fsm.member.timers import backoff_ms
from fsm.protocol.assignment import NONE
from fsm.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fsm.tables.consumer_member import State

# What every heartbeat asks for: in Python 3.11 a member of an enum costs ten times a global.
_JOINING, _NUMBERED = State.JOINING, Choice.ANSWERS_NUMBERED


def build_heartbeat(member: Member) -> ConsumerGroupHeartbeatRequest:
    """The next heartbeat."""
    config, sent, subscription = member.settings.config, member.sent, member.subscription
    joining = member.state is State.JOINING
    if sent is None or joining:
        return ConsumerGroupHeartbeatRequest(
            config.group_id,
            member.member_id,
            member.epoch,
            config.group_instance_id,
            config.client_rack if joining and Choice.RACK in member.settings.choices else None,
            config.max_poll_interval_ms,
            subscription.topics,
            regex_of(subscription),
            config.group_remote_assignor,
            () if joining else member.current.partitions,
        )
    plain = ConsumerGroupHeartbeatRequest(config.group_id, member.member_id, member.epoch, config.group_instance_id)
    if sent.subscription is subscription and sent.assignment is member.current:
        return plain
    regex = regex_of(subscription)
    return replace(
        plain,
        subscribed_topic_names=subscription.topics if subscription.topics != sent.subscription.topics else None,
        # A pattern is taken back with an empty text.
        subscribed_topic_regex=(regex or "") if regex != regex_of(sent.subscription) else None,
        topic_partitions=member.current.partitions if member.current != sent.assignment else None,
    )


def regex_of(subscription: Subscription) -> str | None:
    """The pattern that the coordinator is to match; one that only stays registered is none."""
    return subscription.regex if subscription.kind is SubscriptionType.AUTO_PATTERN_RE2J else None


class Heartbeats(Membership):
    """The effects of this module."""

    def send_delta_heartbeat(self, purpose: Purpose = Purpose.HEARTBEAT) -> None:
        number = 0
        if _NUMBERED in self.settings.choices:
            self.abandon_heartbeat()
            number = self.heartbeat_number = self.free_number() if purpose is Purpose.HEARTBEAT else 0
        sent, assignment = self.sent, NONE if self.state is _JOINING else self.current
        if sent is None or sent.subscription is not self.subscription or sent.assignment is not assignment:
            request = UnsentRequest(build_heartbeat(self), purpose, 0, number)
            self.sent = SentFields(self.subscription, assignment)
        elif self.state is _JOINING:
            request = UnsentRequest(build_heartbeat(self), purpose, 0, number)
        elif (
            sent.repeat is not None
            and sent.repeat.body.member_epoch == self.epoch  # type: ignore[union-attr]  # a heartbeat
            and sent.repeat.purpose is purpose
            and sent.repeat.number == number
        ):
            request = sent.repeat
        else:
            request = UnsentRequest(build_heartbeat(self), purpose, 0, number)
            self.sent = SentFields(sent.subscription, assignment, request)
        self.effects.append(request)
        self.heartbeat_in_flight = True
        self.heartbeat_due_ms = self.now_ms + self.heartbeat_interval_ms

    send_full_heartbeat = send_ack_heartbeat = send_leave_heartbeat = send_delta_heartbeat

    def send_heartbeat_unwatched(self) -> None:
        self.send_delta_heartbeat(Purpose.UNWATCHED)

    send_leave_heartbeat_unwatched = send_heartbeat_unwatched

    def free_number(self) -> int:
        """The lowest number that no request in flight has."""
        taken = {self.heartbeat_number, *self.unanswered}
        if self.commit is not None:
            taken.add(self.commit.number)
        return next(number for number in count(1) if number not in taken)

    def abandon_heartbeat(self) -> None:
        """The answer to the heartbeat in flight, if there is one, will be passed over."""
        if self.heartbeat_number:
            self.unanswered = (*self.unanswered, self.heartbeat_number)
            self.heartbeat_number = 0

    def pass_over(self, number: int) -> None:
        """An answer came that nobody waits for: its number is free again."""
        if self.heartbeat_number == number:
            self.heartbeat_number = 0
        elif number in self.unanswered:
            self.unanswered = tuple(n for n in self.unanswered if n != number)

    def end_request(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Before the event of a good response: its request ended well; a changed interval restarts the timer."""
        self.heartbeat_in_flight, self.heartbeat_number, self.heartbeat_attempts = False, 0, 0
        self.heartbeat_ready_ms = self.now_ms + backoff_ms(self.settings.config, self.settings.choices, 0, self.jitter)
        if response.heartbeat_interval_ms != self.heartbeat_interval_ms:
            self.heartbeat_interval_ms = response.heartbeat_interval_ms
            self.heartbeat_due_ms = self.now_ms + response.heartbeat_interval_ms

    def wipe_sent(self) -> None:
        self.sent = None

    def fail_request(self) -> None:
        wait = backoff_ms(self.settings.config, self.settings.choices, self.heartbeat_attempts, self.jitter)
        self.heartbeat_in_flight, self.heartbeat_number, self.heartbeat_ready_ms = False, 0, self.now_ms + wait
        self.heartbeat_attempts += 1
        self.heartbeat_due_ms = self.now_ms
        self.effects.append(HeartbeatFailed(self.failure.error))

    def reset_request(self) -> None:
        self.abandon_heartbeat()
        self.heartbeat_in_flight, self.heartbeat_attempts, self.heartbeat_ready_ms = False, 0, 0

    def forget_coordinator(self) -> None:
        if self.failure.forgets is Forgets.NOTHING:
            return
        self.learn(coordinator_known=False)
        self.effects.append(CoordinatorForgotten())
        if self.failure.forgets is Forgets.COORDINATOR:
            self.reset_request()

    def run_failure_hook(self) -> None:
        if self.state is State.UNSUBSCRIBED:
            self.complete_leave()
