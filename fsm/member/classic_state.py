"""The data of a classic member: `ClassicMember`, a frozen and hashable value, what goes in, and what comes out.

Source: fields of `AbstractCoordinator`, `ConsumerCoordinator`, `GroupRebalanceConfig` and `SubscriptionState`.
`Draft` is the same value while a step is under way; a step that fails leaves the member as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from fsm.errors import InputError
from fsm.kafka.assignment import Partitions
from fsm.kafka.classic_messages import (
    UNKNOWN_GENERATION_ID,
    UNKNOWN_MEMBER_ID,
    ClassicRequest,
    ClassicResponse,
    JoinGroupResponse,
    SyncGroupRequestAssignment,
)
from fsm.kafka.config import INT_MAX, ConsumerConfig, check_bounds
from fsm.kafka.events import (
    ApplicationEvent,
    GroupMembershipOperation,
    KafkaError,
    ListenerMethod,
)
from fsm.kafka.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets, TransportFailure
from fsm.member.classic_heartbeat import Heartbeats
from fsm.member.client_assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor, PartitionCounts
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.table import Symbol
from fsm.tables.classic_member import Event, State


@dataclass(frozen=True, slots=True)
class ClassicConfig(ConsumerConfig):
    """What rules a member of a classic group. Raises `InputError` naming the setting that cannot be used."""

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
                raise InputError(f"must be assignors such as RANGE, not {assignor!r}", "assignors")
        if not self.assignors or len({a.name for a in self.assignors}) < len(self.assignors):
            raise InputError("must name at least one assignor, and none twice", "assignors")

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id."""
        return self.group_instance_id is not None

    @property
    def is_cooperative(self) -> bool:
        """Whether every assignor is: one that is not makes the member revoke everything before each join."""
        return all(assignor.cooperative for assignor in self.assignors)


class Generation(NamedTuple):
    """A member's place in a generation of its group."""

    generation_id: int = UNKNOWN_GENERATION_ID
    member_id: str = UNKNOWN_MEMBER_ID
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether there is none, or no name to be in it under."""
        return self.generation_id == UNKNOWN_GENERATION_ID or self.member_id == UNKNOWN_MEMBER_ID


NO_GENERATION = Generation()


class Purpose(Enum):
    """What a commit is for; its failure has other consequences for each."""

    CALL = "commitSync()"
    PREPARE = "auto-commit before a join"
    CLOSE = "auto-commit of close()"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class UnsentClassicRequest:
    """Send `body` to the coordinator, and give the answer back together with this."""

    body: ClassicRequest | OffsetCommitRequest
    generation: Generation
    """The member's when it sent the request: the answer is judged by it."""
    purpose: Purpose | None = None
    """Of a commit."""
    call: int = 0


# What goes in, beside `AsyncPollEvent`, `TopicSubscriptionChangeEvent`, `TopicPatternSubscriptionChangeEvent`,
# `UnsubscribeEvent`, `SyncCommitEvent`, `ConsumerRebalanceListenerCallbackCompletedEvent` of `fsm.kafka.events`, and
# `CoordinatorFound`, `CoordinatorLost`, `Tick` of `fsm.member.inputs`.


@dataclass(frozen=True, slots=True)
class EnforceRebalance(ApplicationEvent):
    """enforceRebalance(reason): the next poll joins again."""

    reason: str = "rebalance enforced by user"


class OpenCallback(Enum):
    """What close() does about a callback whose end has not been reported."""

    REFUSED = "close() is refused: the application is to report it first"
    HEARD = "close() comes from inside it: it counts as over"
    UNHEARD = "it has not begun, and will not"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Close(ApplicationEvent):
    """close(): commit, run the last callback, leave, and wait for open answers until `timeout_ms` have passed."""

    timeout_ms: int = 30_000
    operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    consumed: Offsets = ()
    open_callback: OpenCallback = OpenCallback.REFUSED


@dataclass(frozen=True, slots=True)
class PartitionCountsUpdated:
    """How many partitions each topic has, as the client's metadata says now."""

    partitions: PartitionCounts


@dataclass(frozen=True, slots=True)
class ClassicAnswered:
    """The answer to a request, or how it failed; every request gets one. `jitter` is the caller's, from -1 to 1."""

    request: UnsentClassicRequest
    answer: ClassicResponse | OffsetCommitResponse | TransportFailure
    jitter: float = 0.0


ClassicInput = ApplicationEvent | PartitionCountsUpdated | ClassicAnswered | CoordinatorFound | CoordinatorLost | Tick


# What comes out.


@dataclass(frozen=True, slots=True)
class Reported:
    """What a log of the member says beside its table: why it rejoins, why its generation is reset."""

    effect: Symbol
    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A row was taken, or an event ignored: what the member's log lines follow from."""

    source: State
    event: Event
    target: State


ClassicEffect = UnsentClassicRequest | Enqueued | CallCompleted | CoordinatorForgotten | Taken | Reported


# The member itself.


class Work(NamedTuple):
    """The rest of a row, which waits for a poll or for the end of a callback."""

    steps: tuple[Symbol, ...]
    reason: str = ""


class Stage(Enum):
    """How far close() is."""

    COMMITTING = "the last positions are to be committed"
    COMMIT_SENT = "the commit is out"
    LEAVING = "the last callback and the leave"
    DRAINING = "only answers are waited for"

    __hash__ = object.__hash__


class Awaited(NamedTuple):
    """A callback whose end the application has not reported yet."""

    ticket: int
    method: ListenerMethod
    partitions: Partitions


class Closing(NamedTuple):
    """close() has begun."""

    call: int
    due_ms: int
    operation: GroupMembershipOperation
    stage: Stage
    retry_due_ms: int = 0
    error: KafkaError | None = None
    """Of the last callback."""


class Commit(NamedTuple):
    """The commit before a join: until when it may take, and when it is tried again after a failure that passes."""

    due_ms: int
    retry_due_ms: int | None = None
    done: bool = False


class ClassicMember(NamedTuple):
    """A classic member between two steps."""

    config: ClassicConfig
    state: State = State.UNJOINED
    generation: Generation = NO_GENERATION
    topics: tuple[str, ...] | None = None
    """Subscribed topics, sorted; None while not subscribed."""
    pattern: str | None = None
    """The pattern that `topics` are the matches of."""
    joined_topics: tuple[str, ...] | None = None
    """The subscription that the last join carried."""
    owned: Partitions = ()
    assigned: Partitions = ()
    """What the last sync brought."""
    consumed: Offsets = ()
    """Positions of the application at its last poll."""
    metadata: PartitionCounts = ()
    led_metadata: PartitionCounts | None = None
    """What the leader's assignment was computed from; a change makes it rejoin. None for a follower."""
    group_topics: tuple[str, ...] = ()
    """All topics of the group, which its leader watches."""
    assignor_generation: int = UNKNOWN_GENERATION_ID
    """The generation that the assignor was last told about; survives resets."""
    rejoin_needed: bool = True
    rejoin_reason: str = ""
    prepare_needed: bool = True
    join_out: bool = False
    """JoinGroup or SyncGroup is out."""
    unread: ClassicAnswered | None = None
    """The answer to the join, which only a poll reads."""
    completion: Work | None = None
    """What a poll has to do after the sync; stays until all of it succeeded."""
    retry_due_ms: int = 0
    """No join before this instant."""
    work: Work | None = None
    awaited: Awaited | None = None
    callback_error: KafkaError | None = None
    """The first error of the callbacks of this rebalance, thrown at its end."""
    commit: Commit | None = None
    heartbeats: Heartbeats = Heartbeats()
    failure: KafkaError | None = None
    """The heartbeats ended with it; the next poll throws it."""
    commit_fenced: KafkaError | None = None
    """An automatic commit was fenced: every poll throws it, for good."""
    coordinator_known: bool = False
    in_flight: int = 0
    """Requests without an answer."""
    next_ticket: int = 1
    unsubscribing: int | None = None
    """The call of an unsubscribe() under way."""
    closing: Closing | None = None
    closed: bool = False


class Draft:
    """A member within a step: the fields of `ClassicMember` to be changed, and what the step has brought so far."""

    __slots__ = (
        *ClassicMember._fields,
        "assignor_error",
        "computed",
        "effects",
        "joined",
        "now_ms",
        "polling",
        "throw",
        "thrown",
    )

    config: ClassicConfig
    state: State
    generation: Generation
    topics: tuple[str, ...] | None
    pattern: str | None
    joined_topics: tuple[str, ...] | None
    owned: Partitions
    assigned: Partitions
    consumed: Offsets
    metadata: PartitionCounts
    led_metadata: PartitionCounts | None
    group_topics: tuple[str, ...]
    assignor_generation: int
    rejoin_needed: bool
    rejoin_reason: str
    prepare_needed: bool
    join_out: bool
    unread: ClassicAnswered | None
    completion: Work | None
    retry_due_ms: int
    work: Work | None
    awaited: Awaited | None
    callback_error: KafkaError | None
    commit: Commit | None
    heartbeats: Heartbeats
    failure: KafkaError | None
    commit_fenced: KafkaError | None
    coordinator_known: bool
    in_flight: int
    next_ticket: int
    unsubscribing: int | None
    closing: Closing | None
    closed: bool

    effects: list[ClassicEffect]
    now_ms: int
    joined: JoinGroupResponse
    """The join's answer, while it is worked on."""
    computed: tuple[SyncGroupRequestAssignment, ...]
    """What the leader's assignor gave."""
    assignor_error: KafkaError | None
    """The leader's assignor failed."""
    throw: Callable[[Draft], None]
    """Where the error of the row at hand goes."""
    polling: bool
    """The application's thread is in poll() and may be asked for callbacks."""
    thrown: bool
    """poll() has thrown: nothing more is done in it."""

    def __init__(self, member: ClassicMember, now_ms: int) -> None:
        (
            self.config,
            self.state,
            self.generation,
            self.topics,
            self.pattern,
            self.joined_topics,
            self.owned,
            self.assigned,
            self.consumed,
            self.metadata,
            self.led_metadata,
            self.group_topics,
            self.assignor_generation,
            self.rejoin_needed,
            self.rejoin_reason,
            self.prepare_needed,
            self.join_out,
            self.unread,
            self.completion,
            self.retry_due_ms,
            self.work,
            self.awaited,
            self.callback_error,
            self.commit,
            self.heartbeats,
            self.failure,
            self.commit_fenced,
            self.coordinator_known,
            self.in_flight,
            self.next_ticket,
            self.unsubscribing,
            self.closing,
            self.closed,
        ) = member
        self.effects = []
        self.computed = ()
        self.assignor_error = None
        self.now_ms = now_ms
        self.polling = self.thrown = False

    def frozen(self) -> ClassicMember:
        """The member as the step leaves it."""
        return ClassicMember._make(_ALL_FIELDS(self))


_ALL_FIELDS = attrgetter(*ClassicMember._fields)
