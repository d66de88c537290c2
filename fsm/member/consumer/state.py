"""The state of a consumer member: `Member`, a frozen value, and `MemberStep`, the same while a step changes it.

Two members are equal only if they behave alike: instants are deadlines, and every field has an influence.

Source: fields of `AbstractMembershipManager`, `AbstractHeartbeatRequestManager`, `CommitRequestManager` and
`SubscriptionState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from functools import cache, lru_cache
from typing import Any

from fsm.member.consumer.subscription import NOT_SUBSCRIBED, OWNS_NOTHING, Ownership, Subscription
from fsm.member.dialect.dialect import Dialect
from fsm.member.effects import MemberEffect, Transition, UnsentRequest
from fsm.member.events import ApplyAssignmentEvent, GroupMembershipOperation, KafkaError
from fsm.member.timers import IDLE, NEVER, RequestState, count_of, until_ms
from fsm.protocol.assignment import NO_NAMES, NONE, LocalAssignment, Partitions, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import ConsumerGroupHeartbeatResponse, Offsets
from fsm.step import Draft, frozen
from fsm.table import Compiled, Symbol
from fsm.tables.consumer_member import Event, State


class Settings:
    """The constants of a member beside its id. Only `settings_of` creates them: equal settings are one object."""

    __slots__ = ("cells", "choices", "config", "dialect", "is_static")

    def __init__(self, config: ConsumerConfig, dialect: Dialect) -> None:
        self.config = config
        self.dialect = dialect
        self.choices = dialect.choices
        self.cells = dialect.cells
        self.is_static = config.group_instance_id is not None

    def __repr__(self) -> str:
        return f"Settings({self.config!r}, {self.dialect!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return settings_of, (self.config, self.dialect)


@cache
def settings_of(config: ConsumerConfig, dialect: Dialect) -> Settings:
    """The settings of a configuration and a dialect, the same object for the same ones."""
    return Settings(config, dialect)


class Origin(Enum):
    """Why a callback was requested; the event of its end depends on it."""

    RUN_REVOKED = "a run revokes"
    RUN_ASSIGNED = "a run assigns"
    LEAVE = "the member leaves"
    FENCE = "the member was fenced"
    FATAL = "the membership ended for good"
    STALE = "the application did not poll"
    CANCELLED = "of a run that was cancelled: its end means nothing"

    __hash__ = object.__hash__


RUN_STEPS = (Origin.RUN_REVOKED, Origin.RUN_ASSIGNED)


@frozen
class Awaited:
    """A callback whose end the application has not reported yet; `ticket` is the lowest number that was free."""

    ticket: int
    origin: Origin


@frozen
class Run:
    """A reconciliation in progress with its own target, which a later one does not change."""

    resolved: LocalAssignment
    """The part of the target whose topics have names, under the target's local epoch."""
    full: Partitions
    added: Partitions
    revoked: Partitions
    rejoined: bool = False
    """The member rejoined since the run began: the rest of the run is not applied."""


@frozen
class Commit:
    """The commit before a run's changes, tried again until its deadline."""

    deadline_ms: int
    request: RequestState = IDLE
    number: int = 0
    """The number of the request, where the dialect numbers requests."""


@frozen
class AutoCommit:
    """The commits of the auto-commit interval."""

    due_ms: int = NEVER
    in_flight: bool = False
    consumed: Offsets = ()
    """Positions of the application at its last poll."""


NO_AUTO_COMMIT = AutoCommit()
"""The auto-commit of a member whose application commits by itself."""


class StaleRelease(Enum):
    """The progress of a stale member's release."""

    NONE = "no release was ever begun"
    OPEN = "the lost callback is not back"
    REJOIN = "not back, and a late poll asked to rejoin when it is"
    DONE = "over"

    __hash__ = object.__hash__


@frozen
class Leaving:
    """The state of a leave by unsubscribe(), close() or an expired poll timer."""

    calls: tuple[int, ...] | None = None
    """Calls that wait for the open leave; None without one."""
    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    closing: bool = False
    """close() has begun: no automatic commit, no search for the coordinator."""
    stale_release: StaleRelease = StaleRelease.NONE


NOT_LEAVING = Leaving()


@frozen
class Client:
    """The client's knowledge of its cluster."""

    coordinator_known: bool = False
    coordinator_error: KafkaError | None = None
    """A fatal error of the coordinator lookup that the application has not received yet."""
    metadata: TopicNames = NO_NAMES
    metadata_moved: bool = False
    """The metadata changed since the client's pattern was matched against it."""
    metadata_error: KafkaError | None = None


KNOWS_NOTHING = Client()


@lru_cache(maxsize=1_024)
def share_client(client: Client) -> Client:
    """The first of equal objects, so that members of one process share it."""
    return client


@frozen
class SentFields:
    """The fields of the last heartbeat; Kafka's `HeartbeatState.SentFields`."""

    subscription: Subscription
    assignment: LocalAssignment
    repeat: UnsentRequest | None = field(default=None, compare=False, repr=False)
    """The last heartbeat, if it had no changes: the next one is equal as long as the epoch is."""


class Forgets(Enum):
    """Whether a failure means that the coordinator must be looked up again."""

    NOTHING = "the coordinator is where it was"
    COORDINATOR = "another one has to be found; the request may then be sent at once"
    CONNECTION = "the connection is gone; the backoff stays"


@frozen
class Failure:
    """A failed heartbeat, as its error class says."""

    error: KafkaError
    forgets: Forgets = Forgets.NOTHING


DOUBT = 2
"""A coordinator accepts a heartbeat with the member's epoch and, because answers get lost, with the previous one."""
DOUBT_OF_JOIN = 3
"""A coordinator accepts a join at any epoch: this doubt does not end."""


@frozen
class Member:
    """A member between two steps."""

    poll_due_ms: int
    """When the poll timer runs out; it runs from construction."""
    settings: Settings
    member_id: str
    """Made by the caller: 22 characters of base64 in Kafka. Constant for the life of the consumer."""
    auto_commit: AutoCommit
    heartbeat_in_flight: bool = False
    heartbeat_due_ms: int = 0
    heartbeat_ready_ms: int = 0
    """No attempt before this instant, unless one is due at once."""
    heartbeat_attempts: int = 0
    """Failures in a row."""
    heartbeat_interval_ms: int = 0
    """0 before the coordinator has sent one."""
    heartbeat_number: int = 0
    """The number of the heartbeat in flight, where the dialect numbers heartbeats."""
    unanswered: tuple[int, ...] = ()
    """Numbers of requests in flight whose answers will be passed over."""
    doubt: int = 0
    """How many epochs must pass until the coordinator refuses every abandoned request; see `DOUBT`."""
    state: State = State.UNSUBSCRIBED
    epoch: int = 0
    target: LocalAssignment = NONE
    """The target assignment received last."""
    current: LocalAssignment = NONE
    """The assignment reconciled last."""
    names: TopicNames = NO_NAMES
    """Names learnt of topics of the target."""
    sent: SentFields | None = None
    """None if the next heartbeat has to be full."""
    subscription: Subscription = NOT_SUBSCRIBED
    updated: bool = False
    """The subscription was updated, and no poll has seen it."""
    ownership: Ownership = OWNS_NOTHING
    run: Run | None = None
    commit: Commit | None = None
    awaited: tuple[Awaited, ...] = ()
    leaving: Leaving = NOT_LEAVING
    client: Client = KNOWS_NOTHING


def new_member(config: ConsumerConfig, member_id: str, dialect: Dialect, now_ms: int) -> Member:
    """A new member that is in no group; its poll timer begins to run."""
    due_ms = now_ms + config.auto_commit_interval_ms
    return Member(
        now_ms + config.max_poll_interval_ms,
        settings_of(config, dialect),
        member_id,
        AutoCommit(due_ms) if config.enable_auto_commit else NO_AUTO_COMMIT,
    )


SAME_IDS: Mapping[str, str] = {}


def canonicalize(member: Member, now_ms: int, ids: Mapping[str, str]) -> Member:
    """The member with its clock starting now, with another id, and with its waiting calls numbered from 1.

    Two members that differ only by these become equal, and equal ones behave alike: instants that have passed and
    failures beyond the longest backoff make no difference. `ids` maps member ids; what is not in it stays.
    """
    config = member.settings.config
    first_ms, cap_ms = config.retry_backoff_ms, config.retry_backoff_max_ms
    commit, calls = member.commit, member.leaving.calls
    if commit is not None:
        request = commit.request
        attempts = count_of(first_ms, cap_ms, request.attempts)
        request = request._replace(attempts=attempts, ready_ms=until_ms(request.ready_ms, now_ms))
        commit = replace(commit, deadline_ms=until_ms(commit.deadline_ms, now_ms), request=request)
    if calls is not None:
        calls = tuple(range(1, len(calls) + 1))
    return replace(
        member,
        member_id=ids.get(member.member_id, member.member_id),
        poll_due_ms=until_ms(member.poll_due_ms, now_ms),
        auto_commit=replace(member.auto_commit, due_ms=until_ms(member.auto_commit.due_ms, now_ms)),
        heartbeat_due_ms=until_ms(member.heartbeat_due_ms, now_ms),
        heartbeat_ready_ms=until_ms(member.heartbeat_ready_ms, now_ms),
        heartbeat_attempts=count_of(first_ms, cap_ms, member.heartbeat_attempts),
        sent=member.sent and SentFields(member.sent.subscription, member.sent.assignment),
        commit=commit,
        leaving=replace(member.leaving, calls=calls),
    )


class MemberStep(Draft[Member], Member):
    """A member during a step, with the data of the step; subclasses have the effects."""

    now_ms: int
    jitter: float = 0.0
    call: int = 0
    """The caller who waits for this application event."""
    effects: list[MemberEffect]
    event: Event | None = None
    """The event whose row is being carried out."""
    response: ConsumerGroupHeartbeatResponse
    failure: Failure
    """The failure of a failed heartbeat."""
    callback_error: str | None = None
    """The error of a callback."""
    applied: ApplyAssignmentEvent
    subscription_asked: Subscription
    operation_asked: GroupMembershipOperation
    run_in_hand: Run | None = None
    """The run that a step ends, which is needed after its end."""

    def happen(self, event: Event) -> None:
        """Takes the row of an event in the dialect's table: emits its transitions and carries out its effects."""
        around, cells = self.event, self.settings.cells
        self.event = event
        self.perform(cells, cells.by_state[self.state][event].steps)
        self.event = around

    def take(self, _: Compiled, event: Symbol, *__: object) -> tuple[Symbol, ...]:
        """The same for an event that falls due within a row."""
        self.happen(event)  # type: ignore[arg-type]  # an event of this table
        return ()

    def learn(self, **changes: Any) -> None:
        """Replaces fields of the client's knowledge of the cluster."""
        self.client = share_client(replace(self.client, **changes))

    def enter(self, state: Symbol) -> None:
        """Enters a state; the log line shows the current epoch."""
        assert isinstance(state, State) and self.event is not None  # noqa: S101, PT018  # in a row of this very table
        self.effects.append(Transition(self.state, state, self.epoch, self.event))
        self.state = state
