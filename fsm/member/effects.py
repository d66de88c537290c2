"""What a step orders from the code around the member, and what it tells about itself.

The embedding carries out the first group. The second group is what Kafka's members write into their logs and report
to their listeners: nothing depends on it, every test and every trace reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fsm.kafka.assignment import LocalAssignment, Partitions, TopicId
from fsm.kafka.events import BackgroundEvent, KafkaError
from fsm.kafka.messages import ConsumerRequest
from fsm.tables.consumer_member import Event, State


class Purpose(Enum):
    """Why a request is sent; it decides what its answer means."""

    HEARTBEAT = "the answer is an event of the member"
    UNWATCHED = "a heartbeat whose answer is logged and nothing more"
    RUN_COMMIT = "the commit before a reconciliation changes anything"
    INTERVAL_COMMIT = "the automatic commit; its answer changes nothing"
    CALL_COMMIT = "a commit that the application waits for"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class UnsentRequest:
    """Send `body` to the coordinator, and give the answer back together with this."""

    body: ConsumerRequest
    purpose: Purpose
    call: int = 0
    number: int = 0
    """Which attempt of its kind it is, where the dialect numbers them."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Add an event to the background queue."""

    event: BackgroundEvent


@dataclass(frozen=True, slots=True)
class CallCompleted:
    """The caller of an application event may go on; `error` is what it gets instead of a result."""

    call: int
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ReconciliationChecked:
    """A poll has made its attempt to reconcile: records may be handed out, commits have been generated."""

    call: int


@dataclass(frozen=True, slots=True)
class CoordinatorForgotten:
    """Find the coordinator again."""


@dataclass(frozen=True, slots=True)
class CoordinatorSearchStopped:
    """Do not look for a coordinator any more."""


@dataclass(frozen=True, slots=True)
class MetadataNeeded:
    """Update the metadata: these topic ids have no name."""

    topic_ids: tuple[TopicId, ...]


@dataclass(frozen=True, slots=True)
class Transition:
    """The member went from `source` to `target`; `epoch` is the one its log line shows."""

    source: State
    target: State
    epoch: int
    event: Event


@dataclass(frozen=True, slots=True)
class EpochUpdated:
    """For epoch listeners: the member epoch, or None where there is none."""

    epoch: int | None


@dataclass(frozen=True, slots=True)
class AssignmentUpdated:
    """For the application's own record of its assignment."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TargetUpdated:
    """The coordinator named another target."""

    source: LocalAssignment
    target: LocalAssignment


@dataclass(frozen=True, slots=True)
class Marked:
    """These partitions are pending revocation: their records and positions stand still."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A reconciliation began."""

    resolved: LocalAssignment
    added: Partitions
    revoked: Partitions


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """The commit before a run's changes is over, well (None) or not; the run goes on."""

    error: KafkaError | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run ended without being acknowledged: its callback failed, or it is of the past."""

    error: str | None


@dataclass(frozen=True, slots=True)
class RebalanceFailed:
    """For metrics: a heartbeat failed while a rebalance was open."""


Order = (
    UnsentRequest
    | Enqueued
    | CallCompleted
    | ReconciliationChecked
    | CoordinatorForgotten
    | CoordinatorSearchStopped
    | MetadataNeeded
)
Notice = (
    Transition
    | EpochUpdated
    | AssignmentUpdated
    | TargetUpdated
    | Marked
    | RunStarted
    | CommitEnded
    | RunEnded
    | RebalanceFailed
)
MemberEffect = Order | Notice
