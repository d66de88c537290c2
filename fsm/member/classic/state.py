"""The state of a classic member, `ClassicMember`, a frozen value; its inputs and its effects.

Source: fields of `AbstractCoordinator`, `ConsumerCoordinator`, `GroupRebalanceConfig` and `SubscriptionState`.
`ClassicStep` is the same value while a step changes it; a step that fails leaves the member as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from fsm.errors import InputError
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor, PartitionCounts
from fsm.member.classic.heartbeat import NO_HEARTBEATS, Heartbeats
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.events import ApplicationEvent, GroupMembershipOperation, KafkaError, ListenerMethod
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER, until_ms
from fsm.protocol import messages as m
from fsm.protocol.assignment import Partitions
from fsm.protocol.config import INT_MAX, ConsumerConfig, check_bounds
from fsm.step import Draft, frozen, value
from fsm.table import Symbol
from fsm.tables.classic_member import TABLE, Event, State

_ASSIGNORS = "give RANGE, COOPERATIVE_STICKY or your own ClientAssignor; fsm.member has them"


@dataclass(frozen=True, slots=True)
class ClassicConfig(ConsumerConfig):
    """The settings of a member of a classic group. Raises `InputError` naming the invalid setting."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    assignors: tuple[ClientAssignor, ...] = (RANGE, COOPERATIVE_STICKY)
    """Kafka's `partition.assignment.strategy`, the first one preferred."""
    leave_group_on_close: bool = True
    """Kafka's `internal.leave.group.on.close`; Streams sets it to false."""

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        if self.group_remote_assignor is not None:
            raise InputError("cannot be set under the classic protocol; see assignors", "group_remote_assignor")
        check_bounds("session_timeout_ms", self.session_timeout_ms, 1, INT_MAX)
        # Kafka lets 0 pass; a member with it would do nothing but send heartbeats.
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise InputError("must be positive and below session_timeout_ms", "heartbeat_interval_ms")
        for assignor in self.assignors:
            if not isinstance(assignor, ClientAssignor):
                raise InputError(f"must be assignors, not {assignor!r}", "assignors", _ASSIGNORS)
        if not self.assignors or len({a.name for a in self.assignors}) < len(self.assignors):
            raise InputError("must name at least one assignor, and none twice", "assignors")

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id."""
        return self.group_instance_id is not None

    @property
    def is_cooperative(self) -> bool:
        """Whether every assignor is cooperative; otherwise the member revokes everything before each join."""
        return all(assignor.cooperative for assignor in self.assignors)


class Generation(NamedTuple):
    """A member's place in a generation of its group."""

    generation_id: int = m.UNKNOWN_GENERATION_ID
    member_id: str = m.UNKNOWN_MEMBER_ID
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether it lacks a generation id or a member id."""
        return self.generation_id == m.UNKNOWN_GENERATION_ID or self.member_id == m.UNKNOWN_MEMBER_ID


NO_GENERATION = Generation()


class Purpose(Enum):
    """The purpose of a commit; it decides the consequences of a failure."""

    CALL = "commitSync()"
    INTERVAL = "auto-commit from time to time"
    PREPARE = "auto-commit before a join"
    CLOSE = "auto-commit of close()"

    __hash__ = object.__hash__


@value
class UnsentClassicRequest:
    """Send `body` to the coordinator, and give the answer back together with this."""

    body: m.ClassicRequest | m.OffsetCommitRequest
    generation: Generation
    """The generation when the request was sent; the answer is judged by it."""
    purpose: Purpose | None = None
    """Why a commit was sent; None for other requests."""
    call: int = 0


# Inputs, beside `AsyncPollEvent`, `TopicSubscriptionChangeEvent`, `TopicPatternSubscriptionChangeEvent`,
# `UnsubscribeEvent`, `SyncCommitEvent`, `ConsumerRebalanceListenerCallbackCompletedEvent` of `fsm.member.events`, and
# `CoordinatorFound`, `CoordinatorLost`, `Tick` of `fsm.member.inputs`.


@value
class EnforceRebalance(ApplicationEvent):
    """enforceRebalance(reason): the next poll joins again."""

    reason: str = "rebalance enforced by user"


class OpenCallback(Enum):
    """What close() does about a callback whose end has not been reported."""

    REFUSED = "close() is refused: the application is to report it first"
    BEGUN = "close() comes from inside it: it counts as over"
    NOT_BEGUN = "it has not begun, and will not"

    __hash__ = object.__hash__


@value
class Close(ApplicationEvent):
    """close(): commit, run the last callback, leave, and wait for open answers until `timeout_ms` have passed."""

    timeout_ms: int = 30_000
    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    consumed: m.Offsets = ()
    open_callback: OpenCallback = OpenCallback.REFUSED


@value
class PartitionCountsUpdated:
    """The partition count of each topic in the client's current metadata."""

    partitions: PartitionCounts


@value
class ClassicAnswered:
    """The answer to a request, or how it failed; every request gets one. `jitter` is the caller's, from -1 to 1."""

    request: UnsentClassicRequest
    answer: m.ClassicResponse | m.OffsetCommitResponse | m.TransportFailure
    jitter: float = 0.0


ClassicInput = ApplicationEvent | PartitionCountsUpdated | ClassicAnswered | CoordinatorFound | CoordinatorLost | Tick


# Effects.


@value
class Reported:
    """Log content beside the transitions: why the member rejoins, why its generation is reset."""

    effect: Symbol
    reason: str


@value
class Taken:
    """A row was taken, or an event ignored; the member's log lines follow from it."""

    source: State
    event: Event
    target: State


ClassicEffect = UnsentClassicRequest | Enqueued | CallCompleted | CoordinatorForgotten | Taken | Reported


# The member itself.


@value
class RemainingSteps:
    """The rest of a row, which waits for a poll or for the end of a callback."""

    steps: tuple[Symbol, ...]
    reason: str = ""


class Stage(Enum):
    """The progress of close()."""

    COMMITTING = "the last positions are to be committed"
    COMMIT_SENT = "the commit is out"
    LEAVING = "the last callback and the leave"
    DRAINING = "only answers are waited for"
    CLOSED = "over"

    __hash__ = object.__hash__


@value
class Awaited:
    """A callback whose end the application has not reported yet."""

    ticket: int
    """2 for a callback of close(), which may overtake an open one; else 1."""
    method: ListenerMethod
    partitions: Partitions
    remaining: RemainingSteps | None = None
    """The rest of the row that requested it."""


@value
class Closing:
    """close() has begun."""

    call: int
    due_ms: int
    operation: GroupMembershipOperation
    stage: Stage
    retry_due_ms: int = 0
    error: KafkaError | None = None
    """The error that the last callback ended with."""


@value
class Commit:
    """The commit before a join: its deadline, and the instant of the retry after a retriable failure."""

    due_ms: int
    retry_due_ms: int | None = None
    done: bool = False


@frozen
class ClassicMember:
    """A classic member between two steps."""

    heartbeats: Heartbeats
    in_flight: int
    """Requests without an answer."""
    config: ClassicConfig
    state: State = State.UNJOINED
    generation: Generation = NO_GENERATION
    coordinator_known: bool = False
    topics: tuple[str, ...] | None = None
    """Subscribed topics, sorted; None while not subscribed."""
    pattern: str | None = None
    """The pattern that `topics` are the matches of."""
    owned: Partitions = ()
    consumed: m.Offsets = ()
    """Positions of the application at its last poll, where they are committed automatically."""
    metadata: PartitionCounts = ()
    led_metadata: PartitionCounts | None = None
    """The metadata of the leader's assignment; a change makes the leader rejoin. None for a follower."""
    group_topics: tuple[str, ...] = ()
    """All topics of the group, which its leader watches."""
    assignor_generation: int = m.UNKNOWN_GENERATION_ID
    """The last generation that the assignor was notified of; survives resets."""
    # A rebalance
    rejoin_reason: str | None = ""
    """Why the next poll joins; None if it does not."""
    prepare_needed: bool = True
    commit: Commit | None = None
    commit_due_ms: int = NEVER
    """The instant from which a poll commits consumed positions."""
    join_out: bool = False
    """JoinGroup or SyncGroup is in flight."""
    joined_topics: tuple[str, ...] | None = None
    """The subscription that the last join carried."""
    unread: tuple[Generation, m.JoinGroupResponse] | None = None
    """The answer to the join, which only a poll reads, and the generation in which the join was sent."""
    retry_due_ms: int = 0
    """No join before this instant."""
    assigned: Partitions = ()
    """The assignment from the last sync."""
    completion: RemainingSteps | None = None
    """The steps of a poll after the sync; kept until all have succeeded."""
    awaited: Awaited | None = None
    callback_error: KafkaError | None = None
    """The first error of the callbacks of this rebalance, thrown at its end."""
    # What ends a membership
    failure: KafkaError | None = None
    """The error that ended the heartbeats; the next poll throws it."""
    commit_fenced: KafkaError | None = None
    """An automatic commit was fenced: every poll throws it, for good."""
    unsubscribing: int | None = None
    """The call of an unsubscribe() under way."""
    closing: Closing | None = None

    @property
    def rejoin_needed(self) -> bool:
        """Whether the next poll joins."""
        return self.rejoin_reason is not None

    @property
    def closed(self) -> bool:
        """Whether close() is over."""
        return self.closing is not None and self.closing.stage is Stage.CLOSED


def new_member(config: ClassicConfig) -> ClassicMember:
    """A member that is in no group and subscribed to nothing."""
    return ClassicMember(NO_HEARTBEATS, 0, config)


def canonicalize(member: ClassicMember, now_ms: int, ids: Mapping[str, str]) -> ClassicMember:
    """The member with its clock starting now, with other ids, and with its waiting calls numbered 1 and 2.

    Two members that differ only by these become equal, and equal ones behave alike: instants that have passed and
    failures beyond the longest backoff make no difference. `ids` maps member ids; what is not in it stays.
    """

    def rename(member_id: str) -> str:
        return ids.get(member_id, member_id)

    unread, commit, closing = member.unread, member.commit, member.closing
    if unread is not None:
        sent, answer = unread
        members = tuple(one._replace(member_id=rename(one.member_id)) for one in answer.members)
        answer = replace(answer, leader=rename(answer.leader), member_id=rename(answer.member_id), members=members)
        unread = sent._replace(member_id=rename(sent.member_id)), answer
    if commit is not None:
        again_ms = None if commit.retry_due_ms is None else until_ms(commit.retry_due_ms, now_ms)
        commit = Commit(until_ms(commit.due_ms, now_ms), again_ms, commit.done)
    if closing is not None:
        due_ms, again_ms = until_ms(closing.due_ms, now_ms), until_ms(closing.retry_due_ms, now_ms)
        closing = replace(closing, call=2 if closing.call else 0, due_ms=due_ms, retry_due_ms=again_ms)
    return replace(
        member,
        heartbeats=member.heartbeats.canonicalize(member.config, now_ms),
        generation=member.generation._replace(member_id=rename(member.generation.member_id)),
        commit_due_ms=until_ms(member.commit_due_ms, now_ms),
        retry_due_ms=until_ms(member.retry_due_ms, now_ms),
        unread=unread,
        commit=commit,
        unsubscribing=1 if member.unsubscribing else member.unsubscribing,
        closing=closing,
    )


class ClassicStep(Draft[ClassicMember], ClassicMember):
    """A member during a step, with the data of the step; subclasses have the effects."""

    effects: list[ClassicEffect]
    now_ms: int
    joined: m.JoinGroupResponse
    """The join's answer, while it is processed."""
    computed: tuple[m.SyncGroupRequestAssignment, ...] = ()
    """The result of the leader's assignor."""
    assignor_error: KafkaError | None = None
    """The leader's assignor failed."""
    throw: Callable[[], None]
    """Receives the error of the current row."""
    polling: bool = False
    """The application's thread is in poll() and may be asked for callbacks."""
    thrown: bool = False
    """poll() has thrown: nothing more is done in it."""

    def happen(self, event: Event, reason: str = "") -> None:
        """Takes the row of an event. Raises `IllegalTransition` where the table has none."""
        cell = TABLE.compiled.by_state[self.state][event]
        self.effects.append(Taken(self.state, event, cell.target))
        if cell.steps:
            self.go_on(cell.steps, reason)

    def go_on(self, steps: tuple[Symbol, ...], reason: str) -> None:
        """Runs the steps until one has to wait, and keeps the rest."""
        before = self.awaited
        left = self.perform(TABLE.compiled, steps, reason)
        if not left:
            return
        kept = RemainingSteps(left, reason)
        if self.awaited is before or self.awaited is None:
            self.completion = kept
        else:
            self.awaited = replace(self.awaited, remaining=kept)

    def send(
        self, body: m.ClassicRequest | m.OffsetCommitRequest, purpose: Purpose | None = None, call: int = 0
    ) -> None:
        """Sends a request; the answer comes back together with it."""
        self.in_flight += 1
        self.effects.append(UnsentClassicRequest(body, self.generation, purpose, call))
