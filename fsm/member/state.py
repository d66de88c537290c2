"""The data of a consumer member: `Member`, a frozen and hashable value, and `Draft`, the same within a step.

A step works on a draft and freezes it at the end; a step that fails leaves the member as it was. The table decides
what happens; here stands only what there is to change.

Source: fields of `AbstractMembershipManager`, `AbstractHeartbeatRequestManager` and `SubscriptionState`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from fsm.kafka.assignment import NO_NAMES, NONE, LocalAssignment, Partitions, TopicNames
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.events import GroupMembershipOperation, KafkaError
from fsm.kafka.messages import ConsumerGroupHeartbeatResponse, Offsets
from fsm.member.dialect import Dialect
from fsm.member.effects import MemberEffect
from fsm.member.subscription import NOT_SUBSCRIBED, OWNS_NOTHING, Ownership, Subscription
from fsm.member.timers import IDLE, RequestState
from fsm.tables.consumer_member import Event, State


@dataclass(frozen=True, slots=True)
class Settings:
    """What never changes in the life of a member beside its id; members of one process share it."""

    config: ConsumerConfig
    dialect: Dialect

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id."""
        return self.config.group_instance_id is not None


settings_of = lru_cache(maxsize=1_024)(Settings)
"""The settings of a configuration and a dialect, the same for the same ones."""


class Origin(Enum):
    """Why a callback was asked for; its end is another event for each."""

    RUN_REVOKED = "a run revokes"
    RUN_ASSIGNED = "a run assigns"
    LEAVE = "the member leaves"
    FENCE = "the member was fenced"
    FATAL = "the membership ended for good"
    STALE = "the application did not poll"
    CANCELLED = "of a run that was cancelled: its end means nothing"

    __hash__ = object.__hash__


class Awaited(NamedTuple):
    """A callback whose end the application has not reported yet."""

    ticket: int
    origin: Origin


class Run(NamedTuple):
    """A reconciliation under way: what it was begun with, which a later target does not change."""

    resolved: LocalAssignment
    """The part of the target whose topics have names, under the target's local epoch."""
    full: Partitions
    added: Partitions
    revoked: Partitions
    rejoined: bool = False
    """The member rejoined since the run began: nothing more of it is to be applied."""


class Commit(NamedTuple):
    """The commit before a run's changes, tried again until its deadline."""

    deadline_ms: int
    request: RequestState = IDLE


class StaleRelease(Enum):
    """How far the release of a stale member is."""

    NONE = "no release was ever begun"
    OPEN = "the lost callback is not back"
    REJOIN = "not back, and a late poll asked to rejoin when it is"
    DONE = "over"

    __hash__ = object.__hash__


class Forgets(Enum):
    """What a failure means for the knowledge of the coordinator."""

    NOTHING = "the coordinator is where it was"
    COORDINATOR = "another one has to be found; the request may then be sent at once"
    CONNECTION = "the connection is gone; the backoff stays"


class Failure(NamedTuple):
    """A failed heartbeat, as its error class says."""

    error: KafkaError
    forgets: Forgets = Forgets.NOTHING
    passes: bool = False
    """The failure counts as one that passes by itself: no failed rebalance."""


class Member(NamedTuple):
    """A member between two steps."""

    settings: Settings
    member_id: str
    """Made by the caller: 22 characters of base64 in Kafka. Constant for the life of the consumer."""
    poll_due_ms: int
    """When the poll timer runs out; it runs from construction."""
    auto_commit_due_ms: int
    state: State = State.UNSUBSCRIBED
    epoch: int = 0
    target: LocalAssignment = NONE
    """Last received."""
    current: LocalAssignment = NONE
    """Last reconciled."""
    names: TopicNames = NO_NAMES
    """Names learnt of topics of the target."""
    metadata: TopicNames = NO_NAMES
    """Names that the client's metadata has now."""
    metadata_moved: bool = False
    """The metadata changed since the client's pattern was matched against it."""
    metadata_error: KafkaError | None = None
    subscription: Subscription = NOT_SUBSCRIBED
    ownership: Ownership = OWNS_NOTHING
    updated: bool = False
    """The subscription was updated, and no poll has seen it."""
    run: Run | None = None
    commit: Commit | None = None
    awaited: tuple[Awaited, ...] = ()
    leave: tuple[int, ...] | None = None
    """Calls that wait for the open leave; None where none is open."""
    stale_release: StaleRelease = StaleRelease.NONE
    poll_expired: bool = False
    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    sent: Subscription | None = None
    """What the coordinator was told last is subscribed to; None where everything has to be said, or said anew."""
    sent_assignment: LocalAssignment | None = None
    """What it was told last is held."""
    heartbeat_interval_ms: int = 0
    """0 before the coordinator has named one."""
    heartbeat_due_ms: int = 0
    heartbeat_in_flight: bool = False
    heartbeat_attempts: int = 0
    """Failures in a row."""
    heartbeat_ready_ms: int = 0
    """No attempt before this instant, unless one is due at once."""
    heartbeat_number: int = 0
    """Of the last attempt, where the dialect numbers them; it goes round, and never to 0."""
    consumed: Offsets = ()
    """Positions of the application at its last poll."""
    commit_in_flight: bool = False
    """A commit of the auto-commit interval is under way."""
    closing: bool = False
    """close() has begun: no automatic commit, no search for the coordinator."""
    coordinator_known: bool = False
    coordinator_error: KafkaError | None = None
    """A fatal error of the search for the coordinator, not passed on yet."""
    rebalance_open: bool = False
    """For metrics: a reconciliation began and did not end."""


def new_member(config: ConsumerConfig, member_id: str, dialect: Dialect, now_ms: int) -> Member:
    """A new member that is in no group; its poll timer begins to run."""
    return Member(
        settings_of(config, dialect),
        member_id,
        poll_due_ms=now_ms + config.max_poll_interval_ms,
        auto_commit_due_ms=now_ms + config.auto_commit_interval_ms,
    )


class Draft:
    """A member within a step: the fields of `Member` to be changed, and below them what the step is about."""

    __slots__ = (
        *Member._fields,
        "added",
        "call",
        "callback_error",
        "effects",
        "event",
        "failure",
        "full",
        "jitter",
        "now_ms",
        "operation_asked",
        "response",
        "run_in_hand",
        "subscription_asked",
    )

    settings: Settings
    member_id: str
    poll_due_ms: int
    auto_commit_due_ms: int
    state: State
    epoch: int
    target: LocalAssignment
    current: LocalAssignment
    names: TopicNames
    metadata: TopicNames
    metadata_moved: bool
    metadata_error: KafkaError | None
    subscription: Subscription
    ownership: Ownership
    updated: bool
    run: Run | None
    commit: Commit | None
    awaited: tuple[Awaited, ...]
    leave: tuple[int, ...] | None
    stale_release: StaleRelease
    poll_expired: bool
    operation: GroupMembershipOperation
    sent: Subscription | None
    sent_assignment: LocalAssignment | None
    heartbeat_interval_ms: int
    heartbeat_due_ms: int
    heartbeat_in_flight: bool
    heartbeat_attempts: int
    heartbeat_ready_ms: int
    heartbeat_number: int
    consumed: Offsets
    commit_in_flight: bool
    closing: bool
    coordinator_known: bool
    coordinator_error: KafkaError | None
    rebalance_open: bool

    now_ms: int
    jitter: float
    effects: list[MemberEffect]
    event: Event
    """The event whose row is being carried out."""
    call: int
    """The caller who waits for this application event."""
    response: ConsumerGroupHeartbeatResponse
    failure: Failure
    """What a failed heartbeat failed with."""
    callback_error: str | None
    """What a callback raised."""
    subscription_asked: Subscription
    operation_asked: GroupMembershipOperation
    run_in_hand: Run | None
    """The run that a step ends: still needed after it is closed."""
    full: Partitions
    added: Partitions

    def __init__(self, member: Member, now_ms: int, jitter: float = 0.0) -> None:
        (
            self.settings,
            self.member_id,
            self.poll_due_ms,
            self.auto_commit_due_ms,
            self.state,
            self.epoch,
            self.target,
            self.current,
            self.names,
            self.metadata,
            self.metadata_moved,
            self.metadata_error,
            self.subscription,
            self.ownership,
            self.updated,
            self.run,
            self.commit,
            self.awaited,
            self.leave,
            self.stale_release,
            self.poll_expired,
            self.operation,
            self.sent,
            self.sent_assignment,
            self.heartbeat_interval_ms,
            self.heartbeat_due_ms,
            self.heartbeat_in_flight,
            self.heartbeat_attempts,
            self.heartbeat_ready_ms,
            self.heartbeat_number,
            self.consumed,
            self.commit_in_flight,
            self.closing,
            self.coordinator_known,
            self.coordinator_error,
            self.rebalance_open,
        ) = member
        self.now_ms = now_ms
        self.jitter = jitter
        self.effects = []
        self.call = 0
        self.callback_error = None
        self.run_in_hand = None

    def frozen(self) -> Member:
        """The member as it is now."""
        return Member(
            self.settings,
            self.member_id,
            self.poll_due_ms,
            self.auto_commit_due_ms,
            self.state,
            self.epoch,
            self.target,
            self.current,
            self.names,
            self.metadata,
            self.metadata_moved,
            self.metadata_error,
            self.subscription,
            self.ownership,
            self.updated,
            self.run,
            self.commit,
            self.awaited,
            self.leave,
            self.stale_release,
            self.poll_expired,
            self.operation,
            self.sent,
            self.sent_assignment,
            self.heartbeat_interval_ms,
            self.heartbeat_due_ms,
            self.heartbeat_in_flight,
            self.heartbeat_attempts,
            self.heartbeat_ready_ms,
            self.heartbeat_number,
            self.consumed,
            self.commit_in_flight,
            self.closing,
            self.coordinator_known,
            self.coordinator_error,
            self.rebalance_open,
        )


Seen = Member | Draft
"""What decisions look at: a member, before or within a step."""
