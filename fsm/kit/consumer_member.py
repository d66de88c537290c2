"""The state of a member of a consumer group according to its heartbeats and the responses.

Source: KIP-848, section "ConsumerGroupHeartbeat API"; `ConsumerGroupHeartbeatRequest.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.kit.application import NEVER_MS
from fsm.protocol.assignment import TopicPartition, TopicPartitions
from fsm.protocol.error_codes import ErrorCode
from fsm.wire.exchange import Exchange

Owned = frozenset[TopicPartition]
"""Partitions by topic id."""
NOTHING: Owned = frozenset()

FENCING = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
MOVED = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
RETRIABLE = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
FATAL = frozenset(
    (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    )
)
"""Errors that a member cannot influence: `AbstractHeartbeatRequestManager.onErrorResponse`."""
DELTA = ("rebalance_timeout_ms", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
"""Fields that a heartbeat has only if they changed."""


class Refusal(NamedTuple):
    """An error in an answer."""

    code: ErrorCode
    at_ms: float
    request: Any


NO_REFUSAL = Refusal(ErrorCode.NONE, NEVER_MS, None)


@dataclass(slots=True)
class ConsumerMember:
    """One member, across its incarnations."""

    member_id: str = ""
    instance_id: str | None = None
    connections: set[int] = field(default_factory=set)
    """The connections that carried requests with this member id."""
    is_known: bool = False
    """Whether its join was seen; otherwise the trace begins later."""
    epoch: int | None = None
    """Its last member epoch; None while it is no member."""
    earlier_epoch: int | None = None
    epoch_ms: float = NEVER_MS
    """When it received this epoch."""
    interval_ms: float = 0
    first_interval_ms: float = 0
    interval_since_ms: float = NEVER_MS
    """When it received another interval."""
    rebalance_timeout_ms: float = 0
    target: Owned | None = None
    """Its last assignment."""
    target_ms: float = NEVER_MS
    """When this assignment was new."""
    offered: Owned = NOTHING
    """All partitions that it was assigned since its last report."""
    owned: Owned = NOTHING
    """The owned partitions of its last report."""
    owned_ms: float = NEVER_MS
    """When its report changed."""
    reported_ms: float = NEVER_MS
    given_up: dict[TopicPartition, float] = field(default_factory=dict)
    """Partitions that it reported before and no longer, with the time."""
    sent: Exchange | None = None
    """Its last heartbeat."""
    refusal: Refusal = NO_REFUSAL
    """The error in the answer to its last heartbeat."""
    refused_ms: list[float] = field(default_factory=list)
    """The times of consecutive refused heartbeats."""
    loading_ms: list[float] = field(default_factory=list)
    """The times of refused heartbeats while the coordinator loads."""
    searched: bool = False
    """Whether it looked for the coordinator since its last heartbeat."""
    fatal: Refusal = NO_REFUSAL
    fenced_ms: float | None = None
    """When it was fenced, until it is a member again."""
    out_ms: float = NEVER_MS
    """When it ceased to be a member: left, fenced, or refused for good."""
    left: Exchange | None = None
    """Its leave request, until it rejoins."""
    accepted: dict[str, Any] = field(default_factory=dict)
    """The fields that were last accepted."""
    throttled_until_ms: float = NEVER_MS

    # Requests

    def send(self, exchange: Exchange) -> None:
        """A heartbeat."""
        request = exchange.request
        if request.member_id != self.member_id:
            self.connections = set()
        self.connections.add(exchange.connection)
        self.member_id = request.member_id
        self.instance_id = request.instance_id or (self.instance_id if request.member_epoch else None)
        if request.rebalance_timeout_ms > 0:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms
        if request.member_epoch == 0:
            self._begin(exchange.at_ms)
        elif request.member_epoch < 0:
            self.left = exchange
            self._end(exchange.at_ms)
        else:
            self._stay(exchange)
        self.sent, self.searched, self.refusal = exchange, False, NO_REFUSAL

    def _begin(self, at_ms: float) -> None:
        self.is_known = True
        if self.epoch is not None:
            self.out_ms = at_ms
        self.epoch, self.left, self.fatal = None, None, NO_REFUSAL
        self.target, self.offered, self.owned = None, NOTHING, NOTHING
        self.given_up, self.accepted = {}, {}

    def _stay(self, exchange: Exchange) -> None:
        if self.epoch is None:  # the trace begins later, or it continues though it is no member any more
            self.is_known = False
            if self.sent is None:
                self.epoch = exchange.request.member_epoch
        if exchange.request.topic_partitions is None:
            return
        now = flat(exchange.request.topic_partitions)
        self.given_up = {p: at for p, at in self.given_up.items() if p not in now}
        self.given_up.update(dict.fromkeys(self.owned - now, exchange.at_ms))
        if now != self.owned:
            self.owned_ms = exchange.at_ms
        self.owned, self.offered, self.reported_ms = now, self.target or NOTHING, exchange.at_ms

    def _end(self, at_ms: float) -> None:
        if self.epoch is not None:
            self.out_ms = at_ms
        self.epoch, self.target, self.offered, self.owned = None, None, NOTHING, NOTHING

    # Answers

    def take(self, exchange: Exchange) -> None:
        """The answer to one of its heartbeats."""
        request, response, at_ms = exchange.request, exchange.response, exchange.ended_ms
        if response is None or request.member_id != self.member_id:
            return
        if response.throttle_time_ms:
            self.throttled_until_ms = at_ms + response.throttle_time_ms
        if response.error_code is not ErrorCode.NONE:
            self._refuse(Refusal(response.error_code, at_ms, request))
        elif request.member_epoch >= 0 and self.left is None:
            self._accept(request, response, at_ms)

    def _refuse(self, refusal: Refusal) -> None:
        self.refusal, self.accepted = refusal, {}
        self.refused_ms.append(refusal.at_ms)
        is_loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.loading_ms = [*self.loading_ms, refusal.at_ms] if is_loading else []
        if refusal.request.member_epoch < 0:
            return
        if refusal.code in FENCING:
            self.fenced_ms = refusal.at_ms
            self._end(refusal.at_ms)
        elif refusal.code in FATAL:
            self.fatal = refusal
            self._end(refusal.at_ms)

    def _accept(self, request: Any, response: Any, at_ms: float) -> None:
        self.refusal, self.refused_ms, self.loading_ms, self.fenced_ms = NO_REFUSAL, [], [], None
        if response.member_epoch != self.epoch:
            self.earlier_epoch, self.epoch, self.epoch_ms = self.epoch, response.member_epoch, at_ms
        if response.heartbeat_interval_ms != self.interval_ms:
            self.interval_ms, self.interval_since_ms = response.heartbeat_interval_ms, at_ms
        self.first_interval_ms = self.first_interval_ms or self.interval_ms
        for name in (*DELTA, "topic_partitions"):
            value = getattr(request, name)
            if value not in (None, -1):
                self.accepted[name] = value
        if response.assignment is not None:
            now = flat(response.assignment)
            if now != self.target:
                self.target, self.target_ms = now, at_ms
            self.offered |= now
            self.given_up = {p: at for p, at in self.given_up.items() if p not in now}

    # Queries

    @property
    def is_member(self) -> bool:
        """Whether it has an epoch, as far as it can know."""
        return self.epoch is not None

    @property
    def is_settled(self) -> bool:
        """Whether its last heartbeat was accepted."""
        return self.sent is not None and self.sent.is_answered and not self.refusal.code

    @property
    def answered_ms(self) -> float:
        """When it received the last response, or sent a request without one."""
        return NEVER_MS if self.sent is None else self.sent.ended_ms


def flat(given: TopicPartitions | None) -> Owned:
    """The single partitions."""
    return frozenset((topic_id, number) for topic_id, numbers in given or () for number in numbers)
